//! The provenance statement of a run with the toolkit lock it names, which this tree or its history holds.

use super::files;
use super::git::Git;
use super::wheels::Lock;
use crate::paths::Paths;
use crate::pure::gate::Evidence;
use crate::pure::provenance::{Wheel, made_from_wheels, provenance};
use anyhow::Result;
use schema::Digest;

/// The statement's bytes; absent when the lock whose wheels it must name is not at hand.
///
/// # Errors
/// When git fails, the lock does not parse, or the run has no build.
pub fn statement(paths: &Paths, run: &Evidence) -> Result<Option<Vec<u8>>> {
    if !made_from_wheels(run) {
        return provenance(run, &[]).map(Some);
    }
    let Some(text) = lock_text(paths, run)? else { return Ok(None) };
    let wheels = Lock::of(&text)?.wheels.into_iter();
    let wheels = wheels.map(|wheel| Wheel { name: wheel.name, version: wheel.version, sha256: wheel.sha256 });
    provenance(run, &wheels.collect::<Vec<_>>()).map(Some)
}

/// The lock with the digest that the run names: this tree's, or that of the measured commit.
fn lock_text(paths: &Paths, run: &Evidence) -> Result<Option<String>> {
    let named = |text: &String| Digest::of(text) == run.environment.toolkit_lock;
    if let Some(text) = files::read_text(&paths.toolkit_lock()).ok().filter(named) {
        return Ok(Some(text));
    }
    let (Some(git), Some(commit)) = (Git::at(paths.root())?, &run.manifest.predicate.source.commit) else {
        return Ok(None);
    };
    if !git.knows(commit)? {
        return Ok(None);
    }
    Ok(git.file_at(commit, "docker/toolkit.lock")?.filter(named))
}
