//! Step seal: computes the summary from the cells, hashes every file of the run, and writes the manifest once.
//!
//! A sealed run is never edited. Sealing it again gives the same value when nothing differs, and an error otherwise.

use crate::runs::layout::{Layout, MANIFEST, UNSEALED, is_detached};
use anyhow::{Context, Result, ensure};
use host::failure::fail;
use host::files::{self, Scan};
use pure::numbers::derive::derive;
use pure::numbers::summary::CellData;
use pure::records::json::to_bytes;
use schema::cell::CellRecord;
use schema::manifest::{
    Attempt, Detached, Manifest, PREDICATE_TYPE, Predicate, STATEMENT_TYPE, Source, Step, Subject, SubjectDigest,
};
use schema::plan::Plan;
use schema::{Digest, ExitCode, FORMAT, check_format_of_json};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use tables::Table;
use words::altered::{MOST_POINTER_BYTES, lfs_pointer};

/// What a manifest says beyond the files themselves.
#[derive(Clone, Debug)]
pub struct SealInputs {
    /// The source, before and after.
    pub source: Source,
    /// Every attempt with this plan, this one last.
    pub attempts: Vec<Attempt>,
    /// The whole chain of attempts as text, kept in the run so that the list can be checked against it.
    pub attempts_log: String,
    /// The steps.
    pub steps: Vec<Step>,
    /// The head of the notebook's chain when the run began.
    pub notebook_head: Digest,
}

/// A sealed run: its files are what its manifest says.
#[derive(Clone, Debug)]
pub struct Sealed {
    dir: PathBuf,
    manifest: Manifest,
    digest: Digest,
}

impl Sealed {
    /// Loads a sealed run and hashes every file again.
    ///
    /// # Errors
    /// When it is not sealed, or any file differs, is missing or is one too many; ends with the exit code of integrity.
    pub fn load(dir: &Path) -> Result<Self> {
        let path = dir.join(MANIFEST);
        let bytes =
            files::read_plain(&path).map_err(|error| broken(format!("{} is not sealed: {error:#}", dir.display())))?;
        check_format_of_json(&path.display().to_string(), &bytes).map_err(|error| broken(error.to_string()))?;
        let manifest: Manifest = serde_json::from_slice(&bytes)
            .map_err(|error| broken(format!("{} does not parse: {error}", path.display())))?;
        if let Some(what) = not_ours(dir, &manifest, &bytes) {
            return Err(broken(format!("{} {what}", path.display())));
        }
        let found = subjects(dir)?;
        if let Some(name) = first_difference(&manifest.subject, &found) {
            return Err(broken(format!("{} is not as it was sealed", dir.join(name).display())));
        }
        if manifest.subject != found {
            return Err(broken(format!("{} names a file twice, or out of order", path.display())));
        }
        Ok(Self { dir: dir.to_owned(), digest: Digest::of(&bytes), manifest })
    }

    /// The run directory.
    #[must_use]
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Where its files lie.
    #[must_use]
    pub fn layout(&self) -> Layout {
        Layout::Raw(self.dir.clone())
    }

    /// The manifest.
    #[must_use]
    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// Digest of the manifest's bytes.
    #[must_use]
    pub fn digest(&self) -> Digest {
        self.digest
    }
}

/// Every reason why a manifest was not sealed in this directory; its run's name becomes a path when it is published.
fn not_ours(dir: &Path, manifest: &Manifest, bytes: &[u8]) -> Option<&'static str> {
    let detached = manifest.predicate.detached.iter().map(|file| file.name.as_str());
    let expected = manifest.subject.iter().map(|subject| subject.name.as_str()).filter(|name| is_detached(name));
    let checks = [
        (manifest.predicate.run == Layout::Raw(dir.to_owned()).run(), "is the manifest of another run"),
        (manifest.statement_type == STATEMENT_TYPE, "is no in-toto Statement"),
        (manifest.predicate_type == PREDICATE_TYPE, "is no Statement of a run"),
        (detached.eq(expected), "lists other detached files than its subjects"),
        (to_bytes(manifest).is_ok_and(|ours| ours == bytes), "is not the bytes that Assay writes for this content"),
    ];
    checks.into_iter().find(|(holds, _)| !holds).map(|(_, what)| what)
}

/// Seals a run directory whose cells are complete.
///
/// # Errors
/// When the directory holds anything but plain files, a file of it does not parse, or it was sealed as something else.
pub fn seal(dir: &Path, inputs: SealInputs) -> Result<Sealed> {
    let sealed_before = files::exists(&dir.join(MANIFEST));
    let plan = plan_of(dir)?;
    if !sealed_before {
        files::write_whole(&dir.join("attempts.jsonl"), inputs.attempts_log.as_bytes())?;
        write_summary(dir)?;
    }
    let subject = subjects(dir)?;
    let manifest = Manifest {
        statement_type: STATEMENT_TYPE.to_owned(),
        predicate_type: PREDICATE_TYPE.to_owned(),
        predicate: predicate(dir, &plan, &subject, inputs)?,
        subject,
    };
    let bytes = to_bytes(&manifest)?;
    let path = dir.join(MANIFEST);
    if sealed_before {
        if files::read_plain(&path)? != bytes {
            return Err(broken(format!(
                "{} is already sealed with other content; a sealed run is never edited",
                dir.display()
            )));
        }
    } else {
        files::write_whole(&path, &bytes)?;
    }
    Sealed::load(dir)
}

/// The frozen plan of a run directory.
///
/// # Errors
/// When it is absent or no plan.
pub fn plan_of(dir: &Path) -> Result<Plan> {
    let path = dir.join("plan.toml");
    toml::from_str(&files::read_text(&path)?).with_context(|| format!("failed to read {}", path.display()))
}

fn predicate(dir: &Path, plan: &Plan, subject: &[Subject], inputs: SealInputs) -> Result<Predicate> {
    let digest_of = |name: &str| {
        let found = subject.iter().find(|subject| subject.name == name).map(|subject| subject.digest.sha256);
        found.with_context(|| format!("{} is absent", dir.join(name).display()))
    };
    let detached = subject.iter().filter(|subject| is_detached(&subject.name));
    let detached = detached.map(|subject| {
        let bytes = fs_err::metadata(dir.join(&subject.name))?.len();
        Ok(Detached { name: subject.name.clone(), bytes })
    });
    Ok(Predicate {
        format: FORMAT,
        run: Layout::Raw(dir.to_owned()).run(),
        experiment: plan.experiment.clone(),
        profile: plan.profile_name,
        source: inputs.source,
        plan: digest_of("plan.toml")?,
        claims: digest_of("claims.toml")?,
        detached: detached.collect::<Result<Vec<_>>>()?,
        attempts: inputs.attempts,
        steps: inputs.steps,
        notebook_head: inputs.notebook_head,
    })
}

/// Every file of the run but those about the manifest, sorted by name.
fn subjects(dir: &Path) -> Result<Vec<Subject>> {
    let scan = files::scan(dir)?;
    if let Some(odd) = scan.odd.first() {
        return Err(broken(format!("{}: {}", dir.join(&odd.name).display(), odd.detail)));
    }
    let layout = Layout::Raw(dir.to_owned());
    if let Some(pointer) = first_pointer(&layout, &scan)? {
        let message = format!("{} is a Git LFS pointer, not the file it stands for", dir.join(pointer).display());
        return Err(fail(ExitCode::Integrity, message, "git lfs pull"));
    }
    let names: Vec<String> = scan.files.into_keys().filter(|name| !UNSEALED.contains(&name.as_str())).collect();
    if let Some(left) = names.iter().find(|name| name.ends_with(".partial")) {
        return Err(broken(format!("{} was left half-written", dir.join(left).display())));
    }
    let digests = layout.digests(&names.iter().map(String::as_str).collect::<Vec<_>>())?;
    let subject = |(name, digest): (String, Result<(Digest, u64)>)| {
        Ok(Subject { name, digest: SubjectDigest { sha256: digest?.0 } })
    };
    names.into_iter().zip(digests).map(subject).collect()
}

/// The first file in whose place Git LFS left a pointer.
fn first_pointer(layout: &Layout, scan: &Scan) -> Result<Option<String>> {
    for (name, _) in scan.files.iter().filter(|(_, bytes)| **bytes <= MOST_POINTER_BYTES) {
        let plain = layout.open(name)?.with_context(|| format!("{name} is gone"))?;
        if lfs_pointer(&plain.read(MOST_POINTER_BYTES)?).is_some() {
            return Ok(Some(name.clone()));
        }
    }
    Ok(None)
}

/// The first file that one list has and the other has not, or has with other bytes.
fn first_difference(sealed: &[Subject], found: &[Subject]) -> Option<String> {
    let all = |list: &[Subject]| -> BTreeSet<(String, Digest)> {
        list.iter().map(|subject| (subject.name.clone(), subject.digest.sha256)).collect()
    };
    let (sealed, found) = (all(sealed), all(found));
    let missing = sealed.difference(&found).next();
    missing.or_else(|| found.difference(&sealed).next()).map(|(name, _)| name.clone())
}

fn write_summary(dir: &Path) -> Result<()> {
    let contract = super::describe::load(dir)?;
    let cells = cells(dir)?;
    let run = Layout::Raw(dir.to_owned()).run();
    let derived = derive(&contract, &run, &cells);
    if !derived.fault.is_empty() {
        return Err(fail(
            ExitCode::Measurement,
            format!("no summary follows from the cells of {}: {}", dir.display(), derived.fault),
            "cargo xtask run --fresh",
        ));
    }
    files::write_whole(&dir.join("summary/metrics.csv"), derived.metrics_csv.as_bytes())?;
    for (name, figure) in derived.figures {
        files::write_whole(&dir.join("summary").join(name), figure.as_bytes())?;
    }
    Ok(())
}

fn cells(dir: &Path) -> Result<Vec<CellData>> {
    let names = files::scan(dir)?.files.into_keys();
    let headers = names.filter(|name| name.starts_with("cells/") && name.ends_with(".json"));
    headers.map(|name| cell(&dir.join(name))).collect()
}

fn cell(header: &Path) -> Result<CellData> {
    let record: CellRecord = serde_json::from_slice(&files::read_plain(header)?)
        .with_context(|| format!("failed to read {}", header.display()))?;
    let text = header.to_string_lossy();
    let stem = text.strip_suffix(".json").expect("headers end so");
    let events = Table::read(Path::new(&format!("{stem}.parquet")))?;
    let launches = PathBuf::from(format!("{stem}.launches.parquet"));
    let launches = files::exists(&launches).then(|| Table::read(&launches)).transpose()?;
    ensure!(
        record.events == events.rows() as u64,
        "{} counts a different number of events than its table has",
        header.display()
    );
    Ok(CellData { record, events, launches })
}

fn broken(message: String) -> anyhow::Error {
    fail(
        ExitCode::Integrity,
        message,
        "keep this directory as evidence and measure again: cargo xtask reproduce --fresh",
    )
}

#[cfg(test)]
mod tests;
