//! What lies in the published folders without belonging to a published run.

use super::Report;
use crate::paths::Paths;
use crate::world::files;
use crate::world::layout::{UNSEALED, published_name};
use anyhow::Result;
use std::collections::BTreeSet;
use std::path::Path;

/// The ids of the published runs, sorted: one for each manifest.
pub(super) fn manifests(paths: &Paths) -> Result<Vec<String>> {
    let names = entries(&paths.manifests())?;
    let run = |name: &String| name.strip_suffix(".json").filter(|run| !run.ends_with(".verdict")).map(str::to_owned);
    Ok(names.iter().filter_map(run).collect())
}

/// Reports files and folders that no manifest accounts for.
pub(super) fn check(paths: &Paths, report: &mut Report) -> Result<()> {
    let runs = manifests(paths)?;
    let expected: BTreeSet<String> =
        runs.iter().flat_map(|run| UNSEALED.iter().map(|name| published_name(run, name))).collect();
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

fn entries(dir: &Path) -> Result<Vec<String>> {
    if !files::exists(dir) {
        return Ok(Vec::new());
    }
    let mut names = Vec::new();
    for entry in fs_err::read_dir(dir)? {
        names.push(entry?.file_name().to_string_lossy().into_owned());
    }
    names.sort_unstable();
    Ok(names)
}
