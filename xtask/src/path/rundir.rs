//! Run directories: found again by what a run depends on, resumed after an interruption, begun anew otherwise.
//!
//! The record of what a run depends on lies outside its directory, so that it adds nothing to what is sealed.

use crate::path::freeze::Frozen;
use crate::path::source::Seen;
use crate::runs::layout::{MANIFEST, REOPENED};
use anyhow::Result;
use host::failure::fail;
use host::files::{exists, write_whole};
use host::paths::Paths;
use jiff::Timestamp;
use schema::{Digest, ExitCode};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// The last file that is written when a run directory is begun.
const LAST: &str = "plan.toml";

/// What a measurement depends on, by name.
pub type Inputs = BTreeMap<String, String>;

/// A run and what it was begun from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Run {
    /// Its id.
    pub id: String,
    /// What it depends on.
    pub inputs: Inputs,
    /// The source when it began.
    pub source: Seen,
    /// Head of the notebook's chain when it began.
    pub notebook_head: Digest,
    /// UTC time when its measurement first began; absent before.
    pub measured_since: Option<String>,
    /// Why what it holds may not be resumed, such as a GPU that was lost under it; absent when it may.
    #[serde(default)]
    pub spoiled: Option<String>,
}

/// Which run is wanted.
#[derive(Clone, Copy, Debug)]
pub enum Wanted<'a> {
    /// The latest with these inputs, or a new one.
    Latest,
    /// A new one.
    Fresh,
    /// This one.
    Named(&'a str),
}

impl Run {
    /// Its directory.
    pub fn dir(&self, paths: &Paths) -> PathBuf {
        paths.run(&self.id)
    }

    /// Whether it is sealed.
    pub fn is_sealed(&self, paths: &Paths) -> bool {
        exists(&self.dir(paths).join(MANIFEST))
    }

    /// Digest of its inputs.
    pub fn key(&self) -> Digest {
        key(&self.inputs)
    }

    /// Keeps the record.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn keep(&self, paths: &Paths) -> Result<()> {
        write_whole(&record_path(paths, &self.key()), &serde_json::to_vec_pretty(self)?)
    }
}

/// Finds or begins the run, with its directory and frozen plan on disk.
///
/// # Errors
/// Exit 17 when the named run does not exist or was begun from other inputs, which are named.
pub fn find(
    paths: &Paths,
    wanted: Wanted<'_>,
    slug: &str,
    inputs: Inputs,
    frozen: &Frozen,
    begin: impl FnOnce() -> Result<(Seen, Digest)>,
) -> Result<Run> {
    let known = known(paths, &inputs);
    match (wanted, known) {
        (Wanted::Named(name), Some(Run { id, spoiled: Some(why), .. })) if id == name => Err(spoiled(name, &why)),
        (Wanted::Named(name), Some(run)) if run.id == name => Ok(run),
        (Wanted::Named(name), _) => Err(other_inputs(paths, name, &inputs)?),
        (Wanted::Latest, Some(run)) if run.spoiled.is_none() => Ok(run),
        _ => {
            let (source, notebook_head) = begin()?;
            remove_unbegun(paths, &inputs)?;
            let id = fresh_id(paths, slug, &source.digest);
            let run = Run { id, inputs, source, notebook_head, measured_since: None, spoiled: None };
            run.keep(paths)?;
            let dir = run.dir(paths);
            fs_err::create_dir_all(paths.raw()).map_err(|error| unwritable(&error))?;
            // Never an existing folder, which would hold old files.
            fs_err::create_dir(&dir).map_err(|error| unwritable(&error))?;
            write_whole(&dir.join("claims.toml"), frozen.claims_toml.as_bytes())?;
            if let Some(reopened) = &frozen.reopened_toml {
                write_whole(&dir.join(REOPENED), reopened.as_bytes())?;
            }
            // Written last: with this file the directory counts as begun.
            write_whole(&dir.join(LAST), frozen.plan_toml.as_bytes())?;
            Ok(run)
        }
    }
}

fn spoiled(name: &str, why: &str) -> anyhow::Error {
    let message = format!("run {name} cannot be resumed: {why}");
    fail(ExitCode::Measurement, message, "cargo xtask reproduce --fresh, on a GPU that is whole")
}

/// The recorded run with these inputs, if its directory is still there.
fn known(paths: &Paths, inputs: &Inputs) -> Option<Run> {
    recorded(paths, inputs).filter(|run| run.dir(paths).join(LAST).is_file())
}

fn recorded(paths: &Paths, inputs: &Inputs) -> Option<Run> {
    let bytes = fs_err::read(record_path(paths, &key(inputs))).ok()?;
    serde_json::from_slice(&bytes).ok()
}

/// Removes the directory of a run that was killed before its frozen plan was written, let alone its first launch.
fn remove_unbegun(paths: &Paths, inputs: &Inputs) -> Result<()> {
    let Some(run) = recorded(paths, inputs).filter(|run| run.measured_since.is_none()) else { return Ok(()) };
    let dir = run.dir(paths);
    if exists(&dir) && !exists(&dir.join(LAST)) {
        fs_err::remove_dir_all(&dir)?;
    }
    Ok(())
}

fn other_inputs(paths: &Paths, name: &str, inputs: &Inputs) -> Result<anyhow::Error> {
    let folder = records(paths);
    let records = if folder.is_dir() { fs_err::read_dir(&folder)?.collect::<Result<Vec<_>, _>>()? } else { Vec::new() };
    let runs = records.iter().filter_map(|entry| serde_json::from_slice::<Run>(&fs_err::read(entry.path()).ok()?).ok());
    let fresh = "cargo xtask reproduce --fresh begins a new run";
    let Some(run) = runs.into_iter().find(|run| run.id == name) else {
        let message = format!("there is no run {name:?} to resume in {}", paths.raw().display());
        return Ok(fail(ExitCode::Measurement, message, fresh));
    };
    let differing = inputs.iter().filter(|(input, value)| run.inputs.get(*input) != Some(value));
    let names: Vec<&str> = differing.map(|(input, _)| input.as_str()).collect();
    let message = match names.contains(&"device") {
        true => format!("run {name} was begun on another GPU, and events of two GPUs are never mixed"),
        false => format!("run {name} was begun with another {}", names.join(", another ")),
    };
    Ok(fail(ExitCode::Measurement, message, fresh))
}

fn fresh_id(paths: &Paths, slug: &str, source: &Digest) -> String {
    let time = Timestamp::now().strftime("%Y%m%dT%H%M%SZ").to_string();
    let id = format!("{time}-{slug}-{}", source.short());
    // Two runs within one second are told apart by waiting out that second.
    if paths.run(&id).exists() {
        std::thread::sleep(std::time::Duration::from_secs(1));
        return fresh_id(paths, slug, source);
    }
    id
}

fn key(inputs: &Inputs) -> Digest {
    Digest::of(serde_json::to_vec(inputs).expect("text serialises"))
}

fn records(paths: &Paths) -> PathBuf {
    paths.state().join("runs")
}

fn record_path(paths: &Paths, key: &Digest) -> PathBuf {
    records(paths).join(format!("{}.json", &key.to_string()[..16]))
}

fn unwritable(error: &std::io::Error) -> anyhow::Error {
    let message = format!("failed to begin a run: {error}");
    fail(ExitCode::Environment, message, "make results/raw/ writable, or free some disk")
}

#[cfg(test)]
mod tests {
    use super::*;
    use host::failure::code_of;
    use schema::plan::ProfileName;

    fn frozen() -> Frozen {
        let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        crate::path::freeze::freeze(&Paths::new(root), "preempt", ProfileName::Smoke, &[]).unwrap()
    }

    fn inputs(device: &str, plan: &str) -> Inputs {
        [("device", device), ("plan", plan)].map(|(k, v)| (k.to_owned(), v.to_owned())).into()
    }

    fn begin() -> Result<(Seen, Digest)> {
        let seen = Seen { kind: "git".into(), commit: None, digest: Digest::of("source"), clean: true };
        Ok((seen, Digest::of("notebook")))
    }

    fn ask(paths: &Paths, wanted: Wanted<'_>, inputs: Inputs) -> Result<Run> {
        find(paths, wanted, "emulated", inputs, &frozen(), begin)
    }

    #[test]
    fn equal_inputs_find_the_run_again_and_others_begin_a_new_one() {
        let dir = tempfile::tempdir().unwrap();
        let paths = Paths::new(dir.path());
        let first = ask(&paths, Wanted::Latest, inputs("a", "p")).unwrap();
        assert_eq!(ask(&paths, Wanted::Latest, inputs("a", "p")).unwrap(), first);
        assert_eq!(ask(&paths, Wanted::Named(&first.id), inputs("a", "p")).unwrap(), first);
        assert_ne!(ask(&paths, Wanted::Latest, inputs("a", "q")).unwrap().id, first.id);
        assert_ne!(ask(&paths, Wanted::Fresh, inputs("a", "p")).unwrap().id, first.id);
    }

    #[test]
    fn a_run_whose_gpu_was_lost_is_not_gone_on_with() {
        let dir = tempfile::tempdir().unwrap();
        let paths = Paths::new(dir.path());
        let mut first = ask(&paths, Wanted::Latest, inputs("a", "p")).unwrap();
        first.measured_since = Some("2026-01-01T00:00:00Z".to_owned());
        first.spoiled = Some("the GPU is lost".to_owned());
        first.keep(&paths).unwrap();
        let error = ask(&paths, Wanted::Named(&first.id), inputs("a", "p")).unwrap_err();
        assert_eq!(code_of(&error), ExitCode::Measurement);
        assert!(error.to_string().contains("the GPU is lost"), "{error}");
        let next = ask(&paths, Wanted::Latest, inputs("a", "p")).unwrap();
        assert_ne!(next.id, first.id);
        assert!(first.dir(&paths).is_dir(), "what was measured is kept");
    }

    #[test]
    fn a_run_killed_before_it_began_leaves_no_directory() {
        let dir = tempfile::tempdir().unwrap();
        let paths = Paths::new(dir.path());
        let first = ask(&paths, Wanted::Latest, inputs("a", "p")).unwrap();
        fs_err::remove_file(first.dir(&paths).join(LAST)).unwrap();
        let second = ask(&paths, Wanted::Latest, inputs("a", "p")).unwrap();
        let left: Vec<_> = fs_err::read_dir(paths.raw()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(left, [second.id.as_str()]);
        assert!(second.dir(&paths).join("claims.toml").is_file());
    }

    #[test]
    fn a_directory_that_is_there_already_is_never_taken() {
        let dir = tempfile::tempdir().unwrap();
        let paths = Paths::new(dir.path());
        let now = Timestamp::now();
        let olds: Vec<PathBuf> = (0..2)
            .map(|seconds| now + jiff::SignedDuration::from_secs(seconds))
            .map(|time| time.strftime("%Y%m%dT%H%M%SZ").to_string())
            .map(|time| paths.run(&format!("{time}-emulated-{}", Digest::of("source").short())))
            .collect();
        for old in &olds {
            fs_err::create_dir_all(old).unwrap();
            fs_err::write(old.join("claims.toml"), "of somebody else").unwrap();
        }
        let run = ask(&paths, Wanted::Latest, inputs("a", "p")).unwrap();
        assert!(!olds.contains(&run.dir(&paths)));
        assert!(olds.iter().all(|old| fs_err::read_to_string(old.join("claims.toml")).unwrap() == "of somebody else"));
    }

    #[test]
    fn a_run_is_not_resumed_on_another_gpu_or_with_another_plan() {
        let dir = tempfile::tempdir().unwrap();
        let paths = Paths::new(dir.path());
        let run = ask(&paths, Wanted::Latest, inputs("a", "p")).unwrap();
        let refused = |inputs| ask(&paths, Wanted::Named(&run.id), inputs).unwrap_err();
        assert!(refused(inputs("b", "p")).to_string().contains("another GPU"));
        assert!(refused(inputs("a", "q")).to_string().contains("another plan"));
        let nobody = ask(&paths, Wanted::Named("nobody"), inputs("a", "p")).unwrap_err();
        assert_eq!(code_of(&nobody), ExitCode::Measurement);
    }
}
