//! Checks that no two published runs hold the same table of events or launches. Tables are full of instants, so two
//! measurements never give the same one; a run published again under another name would look like a replication.

use super::Report;
use crate::runs::layout::{Layout, MANIFEST, is_detached};
use crate::runs::published;
use anyhow::Result;
use host::paths::Paths;
use schema::Digest;
use schema::manifest::Manifest;
use std::collections::BTreeMap;

/// Compares the tables of these runs with those of everything published.
pub(super) fn check(paths: &Paths, layouts: &[Layout], report: &mut Report) -> Result<()> {
    let mut known: BTreeMap<Digest, String> = BTreeMap::new();
    for run in published::ids(paths)? {
        let layout = Layout::published(paths, run);
        let asked = layouts.iter().any(|asked| asked.run() == layout.run());
        // An unreadable table is reported by the check of its bytes.
        let Some(manifest) = layout.read(MANIFEST).ok().flatten() else { continue };
        let Ok(Manifest { subject, .. }) = serde_json::from_slice(&manifest) else { continue };
        for subject in subject.into_iter().filter(|subject| is_table(&subject.name)) {
            let other = known.entry(subject.digest.sha256).or_insert_with(|| layout.run());
            if asked && *other != layout.run() {
                let detail =
                    format!("run {other} holds the same table, and no two measurements give the same instants");
                report.problem(layout.shown(&subject.name), "copied", detail);
            }
        }
    }
    Ok(())
}

fn is_table(name: &str) -> bool {
    name.starts_with("cells/") && name.ends_with(".parquet") && !is_detached(name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ask::verify::tests::published_trial;
    use crate::trial::RUN;

    #[test]
    fn only_committed_tables_of_cells_are_full_of_instants() {
        assert!(is_table("cells/yield/k=64.parquet") && is_table("cells/yield/k=64.launches.parquet"));
        for other in ["cells/yield/k=64.blocks.parquet", "cells/yield/k=64.json", "telemetry.parquet", "claims.toml"] {
            assert!(!is_table(other), "{other}");
        }
    }

    #[test]
    fn a_run_published_again_under_another_name_is_found() {
        let disk = published_trial();
        let found = |run: &str| {
            let mut report = Report::default();
            check(&disk.paths, &[Layout::published(&disk.paths, run.to_owned())], &mut report).unwrap();
            report.problems
        };
        assert_eq!(found(RUN), []);
        let other = "20260102T000000Z-test-00000000";
        let manifest = disk.paths.manifests().join(format!("{RUN}.json"));
        fs_err::copy(&manifest, disk.paths.manifests().join(format!("{other}.json"))).unwrap();
        let problems = found(other);
        let events = format!("results/events/{other}/cells/yield/k=64,blocks=8,poll=1,set=device.parquet");
        assert!(
            problems.iter().any(|p| p.path == events && p.kind == "copied" && p.detail.contains(RUN)),
            "{problems:?}"
        );
        assert_eq!(found(RUN), []);
    }
}
