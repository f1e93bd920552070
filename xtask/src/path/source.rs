//! The source a command works from: a git checkout, or an unpacked bundle. Taken before and after a run.

use crate::steps::build::open_bundle;
use anyhow::Result;
use host::failure::fail;
use host::git::Git;
use host::paths::Paths;
use schema::manifest::Source;
use schema::{Digest, ExitCode};
use serde::{Deserialize, Serialize};

/// The source at one moment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Seen {
    /// `git`, `bundle` or `none`.
    pub kind: String,
    /// The commit; absent without one.
    pub commit: Option<String>,
    /// Digest over the source.
    pub digest: Digest,
    /// Whether it is as committed.
    pub clean: bool,
}

/// Reads the state of the source.
///
/// # Errors
/// When git or a file fails, or a bundle is not what it was; exit 11 when Git LFS left a pointer in a source file's place.
pub fn look(paths: &Paths) -> Result<Seen> {
    if paths.bundle_record().is_file() {
        let record = open_bundle(paths)?;
        let (commit, digest) = (Some(record.commit), record.source);
        return Ok(Seen { kind: "bundle".to_owned(), commit, digest, clean: true });
    }
    match Git::at(paths.root())? {
        Some(git) => {
            if let Some(name) = git.first_pointer()? {
                let message = format!("{name} is a Git LFS pointer, not the file it stands for");
                return Err(fail(ExitCode::Environment, message, "git lfs pull"));
            }
            let state = git.source_state()?;
            let commit = Some(state.commit);
            Ok(Seen { kind: "git".to_owned(), commit, digest: state.digest, clean: state.clean })
        }
        None => Ok(Seen { kind: "none".to_owned(), commit: None, digest: Digest::of(b""), clean: false }),
    }
}

/// What the manifest says of the source, from its state before the run and after it.
pub fn over_run(before: &Seen, after: &Seen) -> Source {
    Source {
        kind: before.kind.clone(),
        commit: before.commit.clone(),
        digest: before.digest,
        digest_after: after.digest,
        clean_before: before.clean,
        clean_after: after.clean && after.commit == before.commit,
    }
}
