//! What `clean` removes of ours: toolkits, wheels, images that this checkout's files made, and containers that killed runs left.

use super::choose::Machine;
use super::image::KEY_LABEL;
use anyhow::Result;
use host::container::{EngineState, sweep};
use host::paths::Paths;
use std::time::Duration;

/// Removes them and says what was removed. The local base stays: it is made on purpose, and by root.
///
/// # Errors
/// When something is there and cannot be removed.
pub fn clean(paths: &Paths) -> Result<Vec<String>> {
    let mut removed = Vec::new();
    let kept = ["wheels", "bases", "as-published"].map(|folder| paths.state().join(folder));
    for dir in [paths.root().join("target/toolkit")].into_iter().chain(kept) {
        if dir.exists() {
            fs_err::remove_dir_all(&dir)?;
            removed.push(dir.display().to_string());
        }
    }
    let machine = Machine::look();
    if let (Some(engine), EngineState::Ready(_)) = (&machine.engine, &machine.state) {
        removed.extend(sweep(engine)?.into_iter().map(|name| format!("container {name}")));
        let filter = format!("label={KEY_LABEL}");
        let listed = engine.answer(&["images", "--quiet", "--filter", &filter], Duration::from_secs(20))?;
        let ids: std::collections::BTreeSet<&str> = listed.lines().collect();
        for id in ids {
            engine.answer(&["rmi", "--force", id], Duration::from_secs(60))?;
            removed.push(format!("image {id}"));
        }
    }
    Ok(removed)
}
