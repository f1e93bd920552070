//! Finds files in the published folders that belong to no published run.

use super::Report;
use crate::runs::layout::{UNSEALED, published_name};
use crate::runs::past::record_name;
use crate::runs::published;
use anyhow::Result;
use host::files::entries;
use host::paths::Paths;
use std::collections::BTreeSet;

/// Reports files and folders that no manifest accounts for.
pub(super) fn check(paths: &Paths, report: &mut Report) -> Result<()> {
    let runs = published::ids(paths)?;
    let mut expected: BTreeSet<String> =
        runs.iter().flat_map(|run| UNSEALED.iter().map(|name| published_name(run, name))).collect();
    expected.extend(runs.iter().map(|run| record_name(run)));
    for name in entries(&paths.manifests())? {
        let shown = format!("manifests/{name}");
        if !expected.contains(&shown) && !is_keeper(&name) {
            report.problem(shown, "extra", "belongs to no manifest");
        }
    }
    for (folder, dir) in [("results/summary", paths.summary()), ("results/events", paths.events())] {
        for name in entries(&dir)?.into_iter().filter(|name| !runs.contains(name) && !is_keeper(name)) {
            report.problem(format!("{folder}/{name}"), "extra", "belongs to no published run");
        }
    }
    Ok(())
}

/// Files that only keep an otherwise empty folder in git, or explain it.
fn is_keeper(name: &str) -> bool {
    name == ".gitkeep" || name == "README.md"
}
