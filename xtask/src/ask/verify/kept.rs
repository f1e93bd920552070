//! Checks that nothing published was removed or changed: every file beside a manifest that any commit of git's
//! history added must still be there, unchanged.
//!
//! A manifest names the digests of all else that is published of a run, so its own files are enough to look at. Only
//! this check finds a forger who computed every digest anew, or a run that was dropped because its numbers were
//! unwelcome.

use super::Report;
use crate::runs::layout::{Layout, UNSEALED, published_name};
use anyhow::Result;
use host::files::{digest_plain, exists};
use host::git::{Addition, Git};
use host::paths::Paths;
use std::collections::BTreeSet;

/// Where the files about manifests lie.
const FOLDER: &str = "manifests";

/// Compares with what was committed first: of these runs, or of all that was ever published.
pub(super) fn check(paths: &Paths, layouts: &[Layout], all: bool, report: &mut Report) -> Result<()> {
    let Some(git) = Git::at(paths.root())?.filter(|git| git.head().is_ok()) else { return Ok(()) };
    let published = layouts.iter().filter(|layout| matches!(layout, Layout::Published { .. }));
    let about: BTreeSet<String> = published
        .flat_map(|layout| UNSEALED.iter().map(|name| published_name(&layout.run(), name)).collect::<Vec<_>>())
        .collect();
    let mut told = BTreeSet::new();
    for Addition { name, commit, digest } in git.additions_below(FOLDER)? {
        let is_about = about.contains(&name) || (all && is_of_a_run(&name));
        if !is_about || told.contains(&name) {
            continue;
        }
        let path = paths.root().join(&name);
        let now = digest_plain(&path).map(|(digest, _)| digest).ok();
        if !exists(&path) {
            report.problem(
                &name,
                "missing",
                format!("commit {commit} published it: git restores it, and a retraction withdraws it"),
            );
        } else if now != Some(digest) {
            report.problem(
                &name,
                "changed",
                format!("commit {commit} published it as {digest}; what is published is never replaced"),
            );
        } else {
            continue;
        }
        told.insert(name);
    }
    Ok(())
}

/// Whether a file says something of a run; others only explain or keep the folder, or say where events lie that the manifest
/// binds.
fn is_of_a_run(name: &str) -> bool {
    (name.ends_with(".json") && !name.ends_with(".events.json"))
        || name.ends_with(".json.sig")
        || name.contains(".SHA256SUMS")
}

#[cfg(test)]
mod tests {
    use super::is_of_a_run;
    use crate::ask::verify::tests::{names, published_trial};
    use crate::ask::verify::verify;
    use crate::publish::render;
    use crate::trial::RUN;

    #[test]
    fn what_says_something_of_a_run_is_told_from_the_rest() {
        for name in ["a.json", "a.verdict.json", "a.json.sig", "a.SHA256SUMS", "a.SHA256SUMS.detached"] {
            assert!(is_of_a_run(name), "{name}");
        }
        for name in ["README.md", ".gitkeep", "a.events.json", "a.txt"] {
            assert!(!is_of_a_run(name), "{name}");
        }
    }

    /// What a forger makes anew holds by itself; what was committed before does not change with it.
    #[test]
    fn what_was_committed_is_never_replaced() {
        let disk = published_trial();
        let [provenance, sums] = ["provenance.json", "SHA256SUMS"].map(|ending| format!("manifests/{RUN}.{ending}"));
        disk.commit();
        assert_eq!(verify(&disk.paths, &[]).unwrap().problems, []);
        let before = fs_err::read_to_string(disk.root.path().join(&sums)).unwrap();
        let without: String = before.lines().filter(|l| !l.contains("provenance")).map(|l| format!("{l}\n")).collect();
        fs_err::remove_file(disk.root.path().join(&provenance)).unwrap();
        disk.put(&sums, &without);
        for committed in [false, true] {
            if committed {
                disk.commit();
            }
            for targets in [vec![], vec![RUN.to_owned()]] {
                let report = verify(&disk.paths, &targets).unwrap();
                names(&report, &provenance);
                names(&report, &sums);
                // The judgement misses the statement as well.
                assert_eq!(report.problems.len(), 3, "{report}");
            }
        }
        disk.put(&sums, &before);
        let report = verify(&disk.paths, &[]).unwrap();
        assert!(!report.problems.iter().any(|problem| problem.kind == "changed"), "{report}");
    }

    #[test]
    fn a_published_run_is_not_dropped() {
        let disk = published_trial();
        let manifest = format!("manifests/{RUN}.json");
        let drop_it = || {
            for folder in [disk.paths.manifests(), disk.paths.summary(), disk.paths.events()] {
                fs_err::remove_dir_all(folder).unwrap();
            }
            render(&disk.paths).unwrap();
        };
        disk.commit();
        drop_it();
        names(&verify(&disk.paths, &[]).unwrap(), &manifest);
        disk.commit();
        names(&verify(&disk.paths, &[]).unwrap(), &manifest);
        // A manifest that was never committed was never published.
        let disk = published_trial();
        fs_err::remove_dir_all(disk.paths.manifests()).unwrap();
        fs_err::remove_dir_all(disk.root.path().join("results")).unwrap();
        render(&disk.paths).unwrap();
        assert_eq!(verify(&disk.paths, &[]).unwrap().problems, []);
    }
}
