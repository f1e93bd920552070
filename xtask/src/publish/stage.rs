//! Everything that a publication commits, copied into a folder of its own, each file compared with the manifest on the way.

use crate::runs::layout::{
    Layout, MANIFEST, PROVENANCE, SIGNATURE, SUMS, SUMS_DETACHED, VERDICT, is_detached, published_name,
};
use crate::runs::provenance;
use crate::runs::signature::{self, SigningKey};
use crate::steps::gate::Passed;
use anyhow::{Context, Result};
use host::failure::fail;
use host::files;
use host::paths::Paths;
use pure::numbers::sample;
use pure::records::json::to_bytes;
use pure::records::sums;
use schema::{Digest, ExitCode};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use tables::Table;

/// The most that one run may add to the repository.
const MOST_BYTES: u64 = 8 << 20;

/// A staged publication.
pub(super) struct Staged {
    /// The folder, which holds paths as below the repository's root.
    pub(super) dir: tempfile::TempDir,
    /// Those paths, sorted.
    pub(super) paths: Vec<String>,
    /// Their bytes.
    pub(super) bytes: u64,
}

pub(super) fn stage(paths: &Paths, passed: &Passed, key: Option<&SigningKey>) -> Result<Staged> {
    fs_err::create_dir_all(paths.state())?;
    let dir = tempfile::Builder::new().prefix("publish-").tempdir_in(paths.state())?;
    let mut stage = Stage { dir: dir.path(), sums: BTreeMap::new(), bytes: 0 };
    let sealed = passed.judged().sealed();
    let layout = sealed.layout();
    let run = &sealed.manifest().predicate.run;
    for subject in sealed.manifest().subject.iter().filter(|subject| !is_detached(&subject.name)) {
        let bytes = layout.read(&subject.name)?.with_context(|| format!("{} is gone", subject.name))?;
        if Digest::of(&bytes) != subject.digest.sha256 {
            let message = format!("{} changed since it was sealed", layout.path(&subject.name).display());
            return Err(fail(ExitCode::Integrity, message, "cargo xtask verify lists everything that changed"));
        }
        stage.add(published_name(run, &subject.name), &bytes)?;
    }
    for (name, bytes) in samples(passed, &layout)? {
        stage.add(published_name(run, &name), &bytes)?;
    }
    // Both as they were judged, since the files on disk may have been edited meanwhile.
    stage.add(published_name(run, MANIFEST), &to_bytes(sealed.manifest())?)?;
    stage.add(published_name(run, VERDICT), &to_bytes(passed.judged().verdict())?)?;
    stage.add(published_name(run, PROVENANCE), &built_from(paths, passed)?)?;
    if let Some(key) = key {
        signature::sign(key, &dir.path().join(published_name(run, MANIFEST)))?;
        let name = published_name(run, SIGNATURE);
        let bytes = files::read_plain(&dir.path().join(&name))?;
        stage.add(name, &bytes)?;
    }
    stage.add_sums(passed)?;
    let (bytes, paths) = (stage.bytes, stage.sums.into_keys().collect());
    if bytes > MOST_BYTES {
        let message = format!("run {run} would add {bytes} bytes, and at most {MOST_BYTES} are committed for a run");
        return Err(fail(ExitCode::Refused, message, "measure fewer cells: --phase"));
    }
    Ok(Staged { dir, paths, bytes })
}

struct Stage<'a> {
    dir: &'a Path,
    sums: BTreeMap<String, Digest>,
    bytes: u64,
}

impl Stage<'_> {
    fn add(&mut self, name: String, bytes: &[u8]) -> Result<()> {
        files::write_whole(&self.dir.join(&name), bytes)?;
        self.bytes += bytes.len() as u64;
        self.sums.insert(name, Digest::of(bytes));
        Ok(())
    }

    /// The sums list everything staged so far, but not the files of sums themselves.
    fn add_sums(&mut self, passed: &Passed) -> Result<()> {
        let manifest = passed.judged().sealed().manifest();
        let run = &manifest.predicate.run;
        let detached = manifest.subject.iter().filter(|subject| is_detached(&subject.name));
        let detached = detached.map(|subject| (format!("results/raw/{run}/{}", subject.name), subject.digest.sha256));
        let detached = sums::to_text(&detached.collect());
        let committed = sums::to_text(&self.sums);
        self.add(published_name(run, SUMS), committed.as_bytes())?;
        self.add(published_name(run, SUMS_DETACHED), detached.as_bytes())
    }
}

/// What the run was built from, as a statement of its own.
fn built_from(paths: &Paths, passed: &Passed) -> Result<Vec<u8>> {
    provenance::statement(paths, passed.judged().evidence().origin())?.ok_or_else(|| {
        fail(
            ExitCode::Refused,
            "the toolkit lock that the run was built with is neither in this tree nor in its history",
            "publish in the repository that the run was made in",
        )
    })
}

/// The block rows of the chosen events, one table a cell that has any.
fn samples(passed: &Passed, layout: &Layout) -> Result<Vec<(String, Vec<u8>)>> {
    let judged = passed.judged();
    let chosen = judged.evidence().sampled_events(judged.sealed().digest())?;
    let cells: BTreeSet<&String> = chosen.iter().map(|(cell, _, _)| cell).collect();
    let table = |cell: &&String| -> Result<(String, Vec<u8>)> {
        let name = format!("cells/{cell}.blocks.parquet");
        let mut blocks = layout.table(&name).with_context(|| name.clone())?;
        let mut rows = Table::new();
        while let Some(piece) = blocks.piece().with_context(|| name.clone())? {
            rows.append(sample::rows_of(&piece, cell, &chosen)?)?;
        }
        Ok((format!("cells/{cell}{}", sample::SUFFIX), rows.to_bytes()?))
    };
    cells.iter().map(table).collect()
}
