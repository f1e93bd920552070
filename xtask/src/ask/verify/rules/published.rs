//! Judges a run exactly as it was published: by `cargo xtask verify` in a worktree of the commit that published it,
//! which has the run's rules. It builds that commit's program, so it needs what building needs, and takes over what
//! the program reports.

use crate::ask::verify::Problem;
use anyhow::{Context, Result};
use host::failure::fail;
use host::git::Git;
use host::paths::Paths;
use host::process::{Child, own_environment};
use schema::ExitCode;
use serde::Deserialize;
use std::time::Duration;
use words::text::plain;

/// The commit whose tree judges a run exactly: the one that published it, or the measured one while none did.
pub(super) struct Judge {
    pub(super) git: Git,
    pub(super) commit: String,
    /// The run as `verify` takes it there.
    pub(super) target: String,
}

/// What that tree's program reports, in the words that never change.
#[derive(Debug, Deserialize)]
pub(super) struct Told {
    pub(super) ok: bool,
    pub(super) problems: Vec<Problem>,
    pub(super) runs: Vec<Passed>,
}

/// Of one run.
#[derive(Debug, Deserialize)]
pub(super) struct Passed {
    pub(super) passed: Option<bool>,
}

/// Longer than any build of Assay takes.
const PATIENCE: Duration = Duration::from_secs(3600);

impl Judge {
    /// Verifies the run in a worktree of the commit, which is gone afterwards, whatever happened.
    ///
    /// # Errors
    /// Exit 11 when the tree cannot be checked out or built, or its program gives no report.
    pub(super) fn verify(&self, paths: &Paths) -> Result<Told> {
        let Self { git, commit, target } = self;
        host::tell!("{target}: building the program of commit {commit}, which judges it by the run's own rules");
        let folder = paths.state().join("as-published");
        fs_err::create_dir_all(&folder)?;
        let tree = git.worktree(commit, &folder)?;
        let child = Child {
            program: "cargo".into(),
            args: ["xtask", "verify", target, "--json"].map(str::to_owned).to_vec(),
            env: environment(&folder.join("build").display().to_string()),
            dir: tree.path().to_owned(),
            deadline: PATIENCE,
            hold_stdin: false,
        };
        let ended = child.run(&mut |_| {}).context("failed to verify in a worktree")?;
        let told = serde_json::from_str::<Told>(ended.stdout.trim());
        told.map_err(|error| {
            let code = ended.code.map_or("no exit code".to_owned(), |code| format!("exit code {code}"));
            let last: Vec<&str> = ended.stderr.lines().rev().take(5).collect();
            let last = plain(&last.into_iter().rev().collect::<Vec<_>>().join(" | "));
            let message = format!("the program of commit {commit} gave no report ({error}; {code}): {last}");
            let by_hand = format!("git worktree add ../older {commit} && cd ../older && cargo xtask verify {target}");
            fail(ExitCode::Environment, message, by_hand)
        })
    }
}

/// This process's environment without the toolchain that rustup chose for this tree: the older one names its own.
fn environment(target: &str) -> Vec<(String, String)> {
    let kept = own_environment().into_iter().filter(|(key, _)| key != "RUSTUP_TOOLCHAIN" && key != "CARGO_TARGET_DIR");
    kept.chain([("CARGO_TARGET_DIR".to_owned(), target.to_owned())]).collect()
}
