//! The levels of a reproduction: how far this machine confirmed what is published.

use crate::ask::verify::{RunReport, verify};
use crate::path::context::Context;
use crate::path::device::Device;
use crate::path::judge::Judged;
use crate::path::source;
use crate::runs::layout::Layout;
use crate::runs::published::{documents, ids};
use anyhow::Result;
use host::cache;
use host::failure::{code_of, remedy_of};
use host::files::{digest_all, digest_plain, scan};
use host::git::Git;
use host::paths::Paths;
use pure::book::standing::compare;
use pure::identity::measured::measured_sass;
use schema::build::BuildRecord;
use schema::manifest::Step;
use schema::verdict::{ClaimResult, Verdict};
use schema::{Digest, ExitCode};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// How far one level got.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Level {
    /// `holds`, `fails`, `stale`, `not run` or `nothing published yet`.
    pub state: String,
    /// Why, in words.
    pub why: String,
}

impl Level {
    /// A level in this state.
    pub fn new(state: &str, why: impl Into<String>) -> Self {
        Self { state: state.to_owned(), why: why.into() }
    }

    fn holds(&self) -> bool {
        self.state == "holds"
    }
}

/// The four levels by name, L0 to L3.
pub type Levels = BTreeMap<String, Level>;

/// The highest level up to which all hold; `L0` when not even that one does.
pub fn reached(levels: &Levels) -> String {
    let held = levels.iter().take_while(|(_, level)| level.holds());
    held.last().map_or_else(|| "L0".to_owned(), |(name, _)| name.clone())
}

/// What the published runs were built from.
#[derive(Clone, Debug, Default)]
pub struct PublishedBuilds {
    /// Each run's record of what was built.
    pub records: Vec<(String, BuildRecord)>,
    /// Why the records of the other runs cannot be read here: their events left the tree, and there is no history.
    pub out_of_reach: Vec<String>,
}

/// Architectures of what is published, and each run's record of what was built.
///
/// # Errors
/// When a published record cannot be read.
pub fn published_builds(paths: &Paths) -> Result<PublishedBuilds> {
    let mut builds = PublishedBuilds::default();
    for run in ids(paths)? {
        match Layout::published(paths, run.clone()).read("build/resources.json") {
            Ok(None) => {}
            Ok(Some(bytes)) => builds.records.push((run, serde_json::from_slice(&bytes)?)),
            Err(error) if code_of(&error) == ExitCode::Environment => {
                builds.out_of_reach.push(format!("{error:#}: {}", remedy_of(&error).unwrap_or_default()));
            }
            Err(error) => return Err(error),
        }
    }
    Ok(builds)
}

/// L1: whether this tree builds the SASS that was published.
pub fn rebuilt(published: &PublishedBuilds, built: &BuildRecord) -> Level {
    if published.records.is_empty() && published.out_of_reach.is_empty() {
        return Level::new("nothing published yet", "no published run names any kernel");
    }
    let (mut equal, mut changed) = (0, Vec::new());
    // Another experiment's kernels were not built here and are not judged.
    let ours = folders(built);
    let of_ours = |(_, record): &&(String, BuildRecord)| folders(record).is_subset(&ours);
    for (run, record) in published.records.iter().filter(of_ours) {
        let archs: BTreeSet<&String> = record.kernels.iter().map(|kernel| &kernel.arch).collect();
        for arch in archs {
            let measured = measured_sass(record, arch);
            let differ = compare(&measured, &measured_sass(built, arch));
            equal += measured.len() - differ.len();
            changed.extend(differ.into_iter().map(|kernel| format!("{} of {run}", kernel.symbol)));
        }
    }
    if changed.is_empty() && !published.out_of_reach.is_empty() {
        return Level::new("not run", published.out_of_reach.join("; "));
    }
    if changed.is_empty() {
        return Level::new("holds", format!("{equal} published kernels rebuild to the same SASS"));
    }
    changed.dedup();
    Level::new("stale", format!("this tree builds other SASS for {}", changed.join(", ")))
}

/// The folders whose kernels are measured.
fn folders(record: &BuildRecord) -> BTreeSet<&str> {
    let measured = record.kernels.iter().filter_map(|kernel| kernel.file.split_once('/')).map(|(folder, _)| folder);
    measured.filter(|folder| !["common", "controls"].contains(folder)).collect()
}

/// L0 and L2: whether the digests of what is published hold, and whether its summaries recompute.
///
/// # Errors
/// When what is published cannot be read.
pub fn verify_published(ctx: &Context<'_>) -> Result<(Level, Level)> {
    let paths = ctx.paths;
    if paths.bundle_record().is_file() {
        let home = Level::new("not run", "a bundle holds nothing that is published: judged at home");
        return Ok((home.clone(), home));
    }
    let mut parts = vec![("program", cache::own_digest()?.to_string())];
    for folder in [paths.manifests(), paths.summary(), paths.events()] {
        parts.push(("published", folder_digest(&folder)?));
    }
    for file in documents(paths)?.into_iter().chain([paths.notebook()]) {
        let text = digest_plain(&file).map_or_else(|_| String::new(), |(digest, _)| digest.to_string());
        parts.push(("markdown", format!("{} {text}", file.display())));
    }
    parts.push(("source", format!("{:?}", source::look(paths)?.commit)));
    // Claims are read from the work tree, and detached files of published runs from results/raw.
    let experiments = paths.root().join("harness/experiments");
    for name in scan(&experiments)?.files.into_keys().filter(|name| name.ends_with("/claims.toml")) {
        parts.push(("claims", digest_plain(&experiments.join(name))?.0.to_string()));
    }
    let raw = ids(paths)?.into_iter().map(|run| paths.run(&run)).filter(|dir| dir.is_dir());
    for dir in raw {
        parts.push(("detached", folder_digest(&dir)?));
    }
    // Whether events that left the tree can be read depends on how much history was fetched.
    let shallow = Git::at(paths.root())?.map(|git| git.is_shallow()).transpose()?;
    parts.push(("shallow", format!("{shallow:?}")));
    ctx.computed("verify", "published", cache::key(&parts), || published_levels(paths))
}

fn folder_digest(folder: &Path) -> Result<String> {
    if !folder.is_dir() {
        return Ok("absent".to_owned());
    }
    let names: Vec<String> = scan(folder)?.files.into_keys().collect();
    let files: Vec<PathBuf> = names.iter().map(|name| folder.join(name)).collect();
    let mut parts = Vec::new();
    for (name, found) in names.iter().zip(digest_all(&files)) {
        parts.push((name.clone(), found?.0.to_string()));
    }
    Ok(Digest::of(serde_json::to_vec(&parts)?).to_string())
}

fn published_levels(paths: &Paths) -> Result<(Level, Level)> {
    let report = verify(paths, &[])?;
    if report.runs.is_empty() && report.ok {
        let none = Level::new("nothing published yet", "manifests/ holds no run");
        return Ok((none.clone(), none));
    }
    let first = report.problems.first().map(|problem| format!("{}: {}", problem.path, problem.detail));
    Ok(match first {
        None => (
            Level::new("holds", format!("{} files of {} published runs hold", report.checked_files, report.runs.len())),
            recomputed(&report.runs),
        ),
        Some(problem) => (Level::new("fails", problem.clone()), Level::new("fails", problem)),
    })
}

/// L2, of the runs that this tree's rules recompute.
fn recomputed(runs: &[RunReport]) -> Level {
    let ours = runs.iter().filter(|run| run.recomputed).count();
    let older = runs.len() - ours;
    let same = format!("summaries, figures and verdicts of {ours} published runs recompute to the same bytes");
    let checked = format!(
        "{older} published under older rules: their digests, chains, logs and history hold, and cargo xtask verify --as-published \
         recomputes them by the trees that published them"
    );
    match (ours, older) {
        (_, 0) => Level::new("holds", same),
        (0, _) => Level::new("not run", checked),
        _ => Level::new("holds", format!("{same}; {checked}")),
    }
}

/// L3: whether this GPU measured again, and the gate let it pass.
pub fn remeasured(device: &Device, passed: bool) -> Level {
    match (device.is_emulated(), passed) {
        (true, _) => Level::new(
            "not run",
            "NOT RE-MEASURED: the emulated device exercises the path and says nothing about a GPU",
        ),
        (false, true) => Level::new("holds", format!("re-measured on {}", device.slug)),
        (false, false) => Level::new("fails", "measured, and the gate refused it"),
    }
}

/// Prints the level that was reached; the last line says whether anything was measured.
pub fn say(ctx: &Context<'_>, levels: &Levels, judged: &Judged, emulated: bool) {
    let ui = ctx.ui;
    ui.done();
    for Step { name, seconds, cached, .. } in ctx.steps() {
        ui.line(&format!("{name:<9} {seconds:>7.1} s{}", if cached { "  cached" } else { "" }));
    }
    let Verdict { gates, claims, .. } = &judged.verdict;
    if emulated {
        let held = gates.iter().filter(|gate| gate.passed).count();
        ui.line(&format!(
            "gates: {held} of {} hold; the others need a GPU, and an emulated run is never published",
            gates.len()
        ));
    } else {
        let (home, here): (Vec<_>, Vec<_>) =
            gates.iter().cloned().partition(|gate| judged.at_home.contains(&gate.name));
        pure::gate::lines(&here).iter().for_each(|line| ui.line(line));
        home.iter().for_each(|gate| {
            ui.line(&format!("at home {}: judged when the run is unpacked in the repository", gate.name))
        });
        for ClaimResult { id, outcome, value, unit, threshold, why } in claims {
            ui.line(&format!("claim {id}: {outcome:?}, {value} {unit} against {threshold} ({why})"));
        }
    }
    for (name, level) in levels {
        ui.line(&format!("{name} {}: {}", level.state, level.why));
    }
    let last = if emulated { "NOT RE-MEASURED" } else { "measured" };
    ui.line(&format!("run {}, level {}, {last}", judged.run, reached(levels)));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn levels(states: [&str; 4]) -> Levels {
        states.iter().enumerate().map(|(i, state)| (format!("L{i}"), Level::new(state, ""))).collect()
    }

    #[test]
    fn kernels_that_rebuild_hold_and_others_are_named() {
        let published = crate::trial::shared().0.build.clone();
        let mut runs = PublishedBuilds::default();
        assert_eq!(rebuilt(&runs, &published).state, "nothing published yet");
        runs.records.push(("r".to_owned(), published.clone()));
        let same = rebuilt(&runs, &published);
        assert_eq!((same.state.as_str(), same.why.as_str()), ("holds", "5 published kernels rebuild to the same SASS"));
        let far = PublishedBuilds { out_of_reach: vec!["s: git fetch --unshallow".to_owned()], ..runs.clone() };
        assert_eq!(rebuilt(&far, &published), Level::new("not run", "s: git fetch --unshallow"));
        let mut other = published;
        other.kernels[0].sass_digest = schema::Digest::of("changed");
        let changed = rebuilt(&runs, &other);
        assert_eq!((changed.state.as_str(), other.kernels.len()), ("stale", 5));
        assert!(changed.why.ends_with(&format!("for {} of r", other.kernels[0].symbol)), "{}", changed.why);
        assert_eq!(rebuilt(&far, &other).state, "stale");
        other.kernels.retain(|kernel| kernel.symbol != "preempt_drain");
        assert!(rebuilt(&runs, &other).why.contains("preempt_drain of r"));
    }

    #[test]
    fn summaries_under_older_rules_are_told_apart() {
        let run = |recomputed| RunReport {
            run: "r".to_owned(),
            state: "published".to_owned(),
            rules: Some(1),
            passed: None,
            recomputed,
            authorship: "unproven".to_owned(),
            signer: None,
        };
        for (runs, state, words) in [
            (vec![run(true), run(true)], "holds", "of 2 published runs recompute"),
            (
                vec![run(false), run(true)],
                "holds",
                "of 1 published runs recompute to the same bytes; 1 published under older",
            ),
            (vec![run(false)], "not run", "1 published under older rules"),
        ] {
            let level = recomputed(&runs);
            assert!(level.state == state && level.why.contains(words), "{level:?}");
        }
    }

    #[test]
    fn a_level_counts_only_on_top_of_those_below() {
        for (states, expected) in [
            (["holds", "holds", "holds", "not run"], "L2"),
            (["holds", "stale", "holds", "holds"], "L0"),
            (["nothing published yet", "holds", "holds", "holds"], "L0"),
            (["holds", "holds", "holds", "holds"], "L3"),
        ] {
            assert_eq!(reached(&levels(states)), expected);
        }
    }
}
