//! Takes the events of superseded runs out of the tree, oldest first, so that a publication fits. They stay in git
//! history, in the commit that is checked out, which is checked to hold every byte of them before anything is
//! removed.

#[cfg(test)]
mod tests;

use crate::ask::verify::sealed_bytes;
use crate::runs::layout::Layout;
use crate::runs::past::{Past, folder_name, record_name};
use crate::runs::published;
use crate::steps::gate::Passed;
use anyhow::Result;
use host::failure::fail;
use host::files;
use host::git::Git;
use host::paths::Paths;
use pure::book::render::PublishedRun;
use pure::records::json::to_bytes;
use schema::events::EventsRecord;
use schema::{Digest, ExitCode, FORMAT};
use std::collections::BTreeMap;

/// Bytes reserved for the notebook's entries and the rendered Markdown that follow a publication.
const HEADROOM_BYTES: u64 = 64 << 10;

/// The events of a run, which leave the tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leaving {
    /// The run.
    pub run: String,
    /// Where they stay.
    pub record: EventsRecord,
}

/// Chooses what must leave for `staged`, paths and bytes of a publication, to fit into `limit`. Nothing is removed yet.
///
/// # Errors
/// Exit 15 when it does not fit even without these events, or the commit that is checked out does not hold them.
pub(super) fn choose(paths: &Paths, passed: &Passed, staged: (&[String], u64), limit: u64) -> Result<Vec<Leaving>> {
    let Some(git) = Git::at(paths.root())? else {
        let message = "there is no git repository here, which would hold what is published".to_owned();
        return Err(fail(ExitCode::Refused, message, "publish in the repository that the run was made in"));
    };
    let mut tree = git.tree_with(&["manifests", "results"])?;
    for path in staged.0 {
        tree.remove(path);
    }
    let mut bytes = tree.values().sum::<u64>() + staged.1 + HEADROOM_BYTES;
    let mut leaving = Vec::new();
    for (run, superseded_by) in superseded(paths, passed)? {
        if bytes <= limit {
            break;
        }
        let commit = git.head()?;
        refuse_unless_held(paths, &git, &commit, &run)?;
        let below = format!("{}/", folder_name(&run));
        bytes -= tree.iter().filter(|(name, _)| name.starts_with(&below)).map(|(_, bytes)| bytes).sum::<u64>();
        tree.retain(|name, _| !name.starts_with(&below));
        leaving.push(Leaving { run, record: EventsRecord { format: FORMAT, commit, superseded_by } });
    }
    if bytes > limit {
        let left = match leaving.len() {
            0 => "it holds no events of superseded runs".to_owned(),
            n => format!("without the events of {n} superseded runs"),
        };
        let message = format!(
            "with this run the tracked tree would have {bytes} bytes, of which {HEADROOM_BYTES} are reserved for what is committed next; {limit} are allowed ({left}); the largest files: {}",
            largest(&tree)
        );
        return Err(fail(
            ExitCode::Refused,
            message,
            "git rm files that a GPU box does not need, or measure fewer cells: --phase",
        ));
    }
    Ok(leaving)
}

/// Writes each record, then removes the events: all of a run's at once, so that an interruption leaves no part of
/// them.
pub(super) fn carry_out(paths: &Paths, leaving: &[Leaving]) -> Result<()> {
    let away = tempfile::Builder::new().prefix("left-").tempdir_in(paths.state())?;
    for Leaving { run, record } in leaving {
        files::write_whole(&paths.root().join(record_name(run)), &to_bytes(record)?)?;
        fs_err::rename(paths.events().join(run), away.path().join(run))?;
    }
    Ok(())
}

/// Published runs whose events are in the tree, oldest first, and the newest run of the same experiment, GPU model and profile
/// that came after each, the one being published included.
fn superseded(paths: &Paths, passed: &Passed) -> Result<Vec<(String, String)>> {
    let key = |run: &PublishedRun| (run.experiment.clone(), run.gpu.clone(), run.profile);
    let published = published::runs(paths)?;
    let evidence = passed.judged().evidence();
    let predicate = &evidence.manifest.predicate;
    let this = (predicate.experiment.clone(), evidence.environment.device.name.clone(), predicate.profile);
    let mut newest = BTreeMap::from([(this, predicate.run.clone())]);
    for run in &published {
        let newest = newest.entry(key(run)).or_default();
        *newest = run.run.clone().max(std::mem::take(newest));
    }
    let by = |run: &PublishedRun| (run.run.clone(), newest[&key(run)].clone());
    let pairs = published.iter().map(by).filter(|(run, by)| by > run && files::exists(&paths.events().join(run)));
    let mut pairs: Vec<(String, String)> = pairs.collect();
    pairs.sort();
    Ok(pairs)
}

/// The commit must hold the events as they were sealed, and the tree must hold no events that the commit lacks.
fn refuse_unless_held(paths: &Paths, git: &Git, commit: &str, run: &str) -> Result<()> {
    let folder = folder_name(run);
    let refuse = |why: String| {
        let message =
            format!("{folder} must leave the tree to make room, and commit {commit} does not hold all of it: {why}");
        fail(ExitCode::Refused, message, format!("git status {folder} ; commit what is published, then publish again"))
    };
    let Some(past) = Past::at(git, commit, run)? else { return Err(refuse("there is no such folder".to_owned())) };
    let scan = files::scan(&paths.events().join(run))?;
    let here: Vec<_> = scan.files.keys().map(|name| paths.events().join(run).join(name)).collect();
    for (name, digest) in scan.files.keys().zip(files::digest_all(&here)) {
        if past.files().get(name).map(Digest::of) != Some(digest?.0) {
            return Err(refuse(format!("{folder}/{name} is not as committed")));
        }
    }
    if let Some(odd) = scan.odd.first() {
        return Err(refuse(format!("{folder}/{}: {}", odd.name, odd.detail)));
    }
    sealed_bytes(&Layout::published_with(paths, run, past)).map_err(|error| refuse(format!("{error:#}")))?;
    Ok(())
}

/// The three largest parts of the tree: a run's files below `results/`, otherwise what lies at the root.
fn largest(tree: &BTreeMap<String, u64>) -> String {
    let mut parts: BTreeMap<String, u64> = BTreeMap::new();
    for (name, bytes) in tree {
        let depth = if name.starts_with("results/") { 3 } else { 1 };
        let part: Vec<&str> = name.split('/').take(depth).collect();
        *parts.entry(part.join("/")).or_default() += bytes;
    }
    let mut parts: Vec<(String, u64)> = parts.into_iter().collect();
    parts.sort_by_key(|(name, bytes)| (std::cmp::Reverse(*bytes), name.clone()));
    let told = parts.into_iter().take(3).map(|(name, bytes)| format!("{name} ({bytes} bytes)"));
    told.collect::<Vec<_>>().join(", ")
}
