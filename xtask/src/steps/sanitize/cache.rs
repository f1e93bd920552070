//! Verdicts kept between calls: `target/assay/sanitize/<key>/`, complete once `done.json` names every file by digest.
//!
//! A finding is kept like a clean verdict: running the step again until the finding goes away must not work.

use super::tool::Identity;
use super::{Program, Sanitized, changed, holds, verdict_name, write_json};
use anyhow::{Context, Result, bail, ensure};
use host::failure::does_not_hold;
use host::files::{read_plain, remove};
use pure::records::sanitizer::faults;
use schema::sanitize::{SanitizerVerdict, State, Tool, VERDICT_FORMAT};
use schema::{Digest, FORMAT, check_format, check_format_up_to};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

const DONE: &str = "done.json";

/// All that a verdict depends on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Inputs {
    /// Version of how the tool is called and its log judged: to be raised when either changes.
    method: u32,
    harness: Digest,
    plan: Digest,
    device: String,
    tool_version: String,
    tool: Digest,
    collection: Digest,
    /// SASS digests by kernel file and symbol.
    sass: BTreeMap<String, Digest>,
    /// Digests of the cubins with line information, by kernel file.
    cubins: BTreeMap<String, Digest>,
}

impl Inputs {
    pub(super) fn of(program: &Program, tool: &Identity) -> Result<Self> {
        Ok(Self {
            method: 3,
            harness: program.harness_digest,
            plan: Digest::of_file(&program.plan)?,
            device: Digest::of(&program.device).to_string(),
            tool_version: tool.version.clone(),
            tool: tool.digest,
            collection: tool.collection,
            sass: program.kernels.iter().map(|k| (format!("{} {}", k.file, k.symbol), k.sass_digest)).collect(),
            cubins: program.flavor("lineinfo").map(|cubin| (cubin.file.clone(), cubin.sha256)).collect(),
        })
    }

    fn key(&self) -> Result<Digest> {
        Ok(Digest::of(serde_json_canonicalizer::to_vec(self)?))
    }
}

/// `done.json`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Done {
    format: u32,
    inputs: Inputs,
    programs: Vec<String>,
    files: BTreeMap<String, Digest>,
}

/// The folder of one key.
pub(super) struct Store {
    pub(super) dir: PathBuf,
    inputs: Inputs,
    key: Digest,
}

impl Store {
    pub(super) fn at(scratch: &Path, inputs: &Inputs) -> Result<Self> {
        let key = inputs.key()?;
        let dir = scratch.join(&key.to_string()[..16]);
        fs_err::create_dir_all(&dir)?;
        Ok(Self { dir, inputs: inputs.clone(), key })
    }

    /// What was kept, when it is complete.
    pub(super) fn done(&self) -> Result<Option<Sanitized>> {
        if !self.dir.join(DONE).exists() {
            return Ok(None);
        }
        let found = load(&self.dir)?;
        ensure!(found.key == self.key, "{} belongs to another key", self.dir.display());
        Ok(Some(found))
    }

    pub(super) fn verdict_path(&self, tool: Tool, program: &str) -> PathBuf {
        self.dir.join(verdict_name(tool, program))
    }

    /// A verdict that an interrupted call left, when running again could not better it.
    pub(super) fn settled(&self, tool: Tool, program: &str) -> Option<SanitizerVerdict> {
        read_verdict(&self.dir, tool, program).ok().filter(is_settled)
    }

    /// Removes a log, its verdict and the harness's output before they are made anew.
    pub(super) fn forget(&self, log: &Path) -> Result<()> {
        for file in [log.with_extension("json"), log.with_extension("out"), log.to_owned()] {
            remove(&file)?;
        }
        Ok(())
    }

    /// Seals the folder when every verdict is settled, and gives what is in it.
    pub(super) fn keep(&self, verdicts: Vec<SanitizerVerdict>, programs: Vec<String>) -> Result<Sanitized> {
        let dir = Some(self.dir.clone());
        let complete = verdicts.len() == Tool::ALL.len() * (1 + programs.len());
        if complete && verdicts.iter().all(is_settled) {
            let mut files = BTreeMap::new();
            for name in names(&self.dir)? {
                // Left by a call that was killed while it wrote.
                if name.ends_with(".partial") {
                    fs_err::remove_file(self.dir.join(name))?;
                    continue;
                }
                files.insert(name.clone(), Digest::of_file(self.dir.join(name))?);
            }
            let done = Done { format: FORMAT, inputs: self.inputs.clone(), programs, files };
            write_json(&self.dir.join(DONE), &done)?;
        }
        Ok(Sanitized { dir, verdicts, key: self.key, cached: false, not_applicable: None })
    }
}

/// Whether running again could not better a verdict. Only inconclusive ones are tried again.
fn is_settled(verdict: &SanitizerVerdict) -> bool {
    holds(verdict) || (verdict.control_caught.is_none() && verdict.state == State::Finding)
}

/// Reads a complete folder: every file hashed, every log read again.
pub(super) fn load(dir: &Path) -> Result<Sanitized> {
    read_all(dir).map_err(|error| {
        let remedy = format!("remove {} and run cargo xtask sanitize", dir.display());
        does_not_hold("kept sanitizer verdicts do not hold", &error, remedy)
    })
}

fn read_all(dir: &Path) -> Result<Sanitized> {
    let done: Done = read_json(&dir.join(DONE))?;
    check_format(DONE, done.format)?;
    let recorded: BTreeSet<String> = done.files.keys().cloned().collect();
    if let Some(odd) = names(dir)?.symmetric_difference(&recorded).next() {
        bail!("{} was added or removed", dir.join(odd).display());
    }
    for (name, digest) in &done.files {
        ensure!(Digest::of_file(dir.join(name))? == *digest, changed(&dir.join(name)));
    }
    let mut verdicts = Vec::new();
    for tool in Tool::ALL {
        for program in std::iter::once(tool.control()).chain(done.programs.iter().map(String::as_str)) {
            verdicts.push(read_verdict(dir, tool, program)?);
        }
    }
    let key = done.inputs.key()?;
    Ok(Sanitized { dir: Some(dir.to_owned()), verdicts, key, cached: true, not_applicable: None })
}

fn read_verdict(dir: &Path, tool: Tool, program: &str) -> Result<SanitizerVerdict> {
    let path = dir.join(verdict_name(tool, program));
    let verdict: SanitizerVerdict = read_json(&path)?;
    check_format_up_to(&path.display().to_string(), verdict.format, VERDICT_FORMAT)?;
    ensure!((verdict.tool, verdict.program.as_str()) == (tool, program), "{} is about something else", path.display());
    let beside = |file: &str, suffix: &str, sha256: Digest| -> Result<String> {
        ensure!(file == format!("{}-{program}.{suffix}", tool.name()), "{} names another file", path.display());
        let bytes = read_plain(&dir.join(file))?;
        ensure!(Digest::of(&bytes) == sha256, changed(&dir.join(file)));
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    };
    let log = beside(&verdict.log, "log", verdict.log_digest)?;
    let printed = verdict.printed.as_ref().map(|printed| beside(&printed.file, "out", printed.sha256)).transpose()?;
    if let Some(fault) = faults(&verdict, &log, printed.as_deref()).first() {
        bail!("{}: {fault}", path.display());
    }
    Ok(verdict)
}

fn read_json<T: serde::de::DeserializeOwned>(path: &Path) -> Result<T> {
    serde_json::from_slice(&read_plain(path)?).with_context(|| format!("failed to read {}", path.display()))
}

/// The names of the files in a folder but `done.json`.
fn names(dir: &Path) -> Result<BTreeSet<String>> {
    let mut names = BTreeSet::new();
    for entry in fs_err::read_dir(dir)? {
        let entry = entry?;
        ensure!(entry.file_type()?.is_file(), "{} is not a file", entry.path().display());
        let name = entry.file_name().into_string().ok().context("a file name is not UTF-8")?;
        if name != DONE {
            names.insert(name);
        }
    }
    Ok(names)
}
