//! Step publish: a run that passed every gate goes into `manifests/` and `results/`, all of it or nothing.
//!
//! Everything is staged first and checked against the manifest while it is copied; then it is moved, the manifest
//! last. A publication interrupted before that is undone by the next one. If the tree would grow too large, the
//! events of superseded runs are taken out of it.

mod leave;
mod stage;

#[cfg(test)]
mod refusals;
#[cfg(test)]
mod strangers;
#[cfg(test)]
mod tests;

use crate::repo::tidy::TREE_LIMIT_BYTES;
use crate::runs::layout::{MANIFEST, PROVENANCE, SIGNATURE, SUMS, SUMS_DETACHED, VERDICT, published_name};
use crate::runs::past::record_name;
use crate::runs::published;
use crate::runs::signature::{NAMESPACE, Signer, SigningKey, signer};
use crate::steps::gate::Passed;
use anyhow::Result;
use host::failure::fail;
use host::files::{self, remove};
use host::paths::Paths;
use leave::Leaving;
use pure::book::notebook::parse;
use pure::records::json::to_bytes;
use schema::ExitCode;
use std::path::{Path, PathBuf};

/// What was published.
#[derive(Clone, Debug)]
pub struct Written {
    /// The run.
    pub run: String,
    /// Paths below the repository's root.
    pub paths: Vec<String>,
    /// Bytes now to be committed.
    pub bytes: u64,
    /// What left the tree to make room for it.
    pub left: Vec<Leaving>,
    /// Whether it had been published before, and nothing was written.
    pub already: bool,
    /// What to type next.
    pub next: Vec<String>,
    /// The commands with which a stranger checks it, without Assay.
    pub check: Vec<String>,
    /// The key that signed it; absent when none did.
    pub signer: Option<Signer>,
}

/// Publishes a run, signed with an SSH key when one is given.
///
/// # Errors
/// Exit 15 when it is too large to commit, the notebook bars it or another run has its id, or the commit checked out does not
/// hold what must leave the tree to make room; 16 when a file differs from the manifest by now; 11 when the key does not sign.
pub fn publish(paths: &Paths, passed: &Passed, key: Option<&SigningKey>) -> Result<Written> {
    publish_within(paths, passed, key, TREE_LIMIT_BYTES)
}

/// As [`publish`], into a tracked tree of at most so many bytes.
fn publish_within(paths: &Paths, passed: &Passed, key: Option<&SigningKey>, limit: u64) -> Result<Written> {
    let sealed = passed.judged().sealed();
    let run = sealed.manifest().predicate.run.clone();
    let manifest = to_bytes(sealed.manifest())?;
    let place = paths.root().join(published_name(&run, MANIFEST));
    let already = files::exists(&place);
    if already && files::read_plain(&place)? != manifest {
        let message = format!("{} holds another manifest of run {run}", place.display());
        return Err(fail(
            ExitCode::Refused,
            message,
            "a published run is never replaced: measure again under a new id",
        ));
    }
    if !already {
        refuse_barred(paths, passed)?;
    }
    // What is published keeps the signature it has, or has none.
    let staged = stage::stage(paths, passed, key.filter(|_| !already))?;
    // A Markdown file without its region must be found before anything is moved.
    published::rendered(paths, &published::runs(paths)?)?;
    let adds = if already { (&[][..], 0) } else { (&staged.paths[..], staged.bytes) };
    let left = leave::choose(paths, passed, adds, limit)?;
    if !already {
        move_into_place(paths, &run, staged.dir.path())?;
    }
    leave::carry_out(paths, &left)?;
    let mut written = staged.paths;
    written.extend(left.iter().map(|leaving| record_name(&leaving.run)));
    written.extend(render(paths)?);
    let next = next_commands(&run);
    let signature = paths.root().join(published_name(&run, SIGNATURE));
    let signer = files::exists(&signature).then(|| signer(&place, &signature)).transpose().map_err(|error| {
        fail(ExitCode::Integrity, format!("{}: {error:#}", signature.display()), format!("cargo xtask verify {run}"))
    })?;
    let check = stranger_commands(&run, signer.is_some());
    Ok(Written { run, paths: written, bytes: staged.bytes, left, already, next, check, signer })
}

/// Reasons not to publish that the notebook gained since the run was measured: withdrawals, or provenance recorded as
/// missing.
fn refuse_barred(paths: &Paths, passed: &Passed) -> Result<()> {
    let notebook = parse(&files::read_text(&paths.notebook())?)?;
    let evidence = passed.judged().evidence();
    let run = &evidence.manifest.predicate.run;
    let reasons = notebook.bars(run, &evidence.plan, &evidence.claims);
    if reasons.is_empty() {
        return Ok(());
    }
    let message = format!("the notebook forbids publishing run {run}:\n  {}", reasons.join("\n  "));
    Err(fail(ExitCode::Refused, message, "retract the entry if what it says no longer holds"))
}

/// Renders the regions of the Markdown files anew; gives the files that changed, below the repository's root.
///
/// # Errors
/// When a published run does not read, or a file has not its region.
pub fn render(paths: &Paths) -> Result<Vec<String>> {
    let mut changed = Vec::new();
    for (path, text) in published::rendered(paths, &published::runs(paths)?)? {
        if files::read_text(&path)? != text {
            files::write_whole(&path, text.as_bytes())?;
            changed.push(path.strip_prefix(paths.root())?.display().to_string());
        }
    }
    Ok(changed)
}

fn next_commands(run: &str) -> Vec<String> {
    vec![
        format!("cargo xtask verify {run}"),
        format!("cargo xtask notebook outcome --run {run} --title TITLE --text TEXT"),
        "git add manifests results RESULTS.md README.md NOTEBOOK.md".to_owned(),
        format!("git commit --message \"results: publish {run}\""),
    ]
}

/// Two lines for a shell in the repository's root. The list of allowed signers is the stranger's own.
fn stranger_commands(run: &str, signed: bool) -> Vec<String> {
    let (sums, manifest, signature) =
        (published_name(run, SUMS), published_name(run, MANIFEST), published_name(run, SIGNATURE));
    let mut lines = vec![format!("sha256sum --check --strict {sums}")];
    let verify =
        format!("ssh-keygen -Y verify -n {NAMESPACE} -f allowed_signers -I author -s {signature} < {manifest}");
    lines.extend(signed.then_some(verify));
    lines
}

/// Moves folders, then the files about the manifest, then the manifest; on a failure what was moved is removed again.
fn move_into_place(paths: &Paths, run: &str, stage: &Path) -> Result<()> {
    let folders = [format!("results/events/{run}"), format!("results/summary/{run}")];
    let about = [SUMS_DETACHED, SUMS, PROVENANCE, VERDICT, SIGNATURE, MANIFEST].map(|name| published_name(run, name));
    let mut moved: Vec<PathBuf> = Vec::new();
    for name in folders.iter().chain(&about) {
        let (from, to) = (stage.join(name), paths.root().join(name));
        if !files::exists(&from) {
            continue;
        }
        if let Err(error) = replace(&from, &to) {
            moved.iter().for_each(|path| drop(remove(path)));
            return Err(error.context(format!("failed to publish {run}; nothing was left behind")));
        }
        moved.push(to);
    }
    Ok(())
}

/// Moves a file or folder. Files at the destination without a manifest were left by an interrupted publication and
/// are replaced.
fn replace(from: &Path, to: &Path) -> Result<()> {
    remove(to)?;
    if let Some(parent) = to.parent() {
        fs_err::create_dir_all(parent)?;
    }
    Ok(fs_err::rename(from, to)?)
}
