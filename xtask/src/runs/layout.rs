//! Where the files of one run lie: all in its run directory, or spread over the published folders.
//!
//! A file's *name* is always its path below the run directory, as the manifest has it; only this module turns names
//! into paths.

use super::past::{self, Past, folder_name};
use anyhow::{Context, Result, anyhow, ensure};
use host::failure::{Failure, failure_of};
use host::files::beneath::{Beneath, Plain};
use host::files::{self, Odd, Scan as Listing, most_bytes};
use host::paths::Paths;
use schema::Digest;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use tables::Reader;

/// The manifest's name.
pub const MANIFEST: &str = "manifest.json";
/// Its signature's name.
pub const SIGNATURE: &str = "manifest.json.sig";
/// The verdict's name.
pub const VERDICT: &str = "verdict.json";
/// The name of the SLSA statement of what the run was built from; written when it is published.
pub const PROVENANCE: &str = "provenance.json";
/// The name of what hardware counters said; absent unless they were asked.
pub const COUNTERS: &str = "counters/counters.json";
/// The name of the sums of what is committed.
pub const SUMS: &str = "SHA256SUMS";
/// The name of the sums of the rest.
pub const SUMS_DETACHED: &str = "SHA256SUMS.detached";
/// The name of the record of closed work taken up again.
pub const REOPENED: &str = "reopened.toml";
/// Files that are about the manifest, and therefore not in it.
pub const UNSEALED: [&str; 6] = [MANIFEST, SIGNATURE, VERDICT, PROVENANCE, SUMS, SUMS_DETACHED];

/// Where a run's files lie.
#[derive(Clone, Debug)]
pub enum Layout {
    /// Everything in one directory.
    Raw(PathBuf),
    /// Published: folders of the repository, detached files wherever a run directory is at hand, and the events of a
    /// superseded run in git history.
    Published {
        /// The repository.
        paths: Paths,
        /// The run's id.
        run: String,
        /// Its events, where they left the tree.
        past: Once,
    },
}

/// What history holds of a run, read when it is first asked for.
#[derive(Clone, Debug, Default)]
pub struct Once(Arc<OnceLock<Result<Option<Past>, Failure>>>);

impl Layout {
    /// A published run.
    #[must_use]
    pub fn published(paths: &Paths, run: impl Into<String>) -> Self {
        Self::Published { paths: paths.clone(), run: run.into(), past: Once::default() }
    }

    /// A published run with events that were read from history, whatever the tree holds.
    #[must_use]
    pub fn published_with(paths: &Paths, run: &str, past: Past) -> Self {
        let once = Once(Arc::new(OnceLock::from(Ok(Some(past)))));
        Self::Published { paths: paths.clone(), run: run.to_owned(), past: once }
    }

    /// What history holds of a published run whose events left the tree; absent for every other run.
    ///
    /// # Errors
    /// As [`past::of_run`].
    pub fn past(&self) -> Result<Option<&Past>> {
        let Self::Published { paths, run, past } = self else { return Ok(None) };
        let found = past.0.get_or_init(|| past::of_run(paths, run).map_err(|error| failure_of(&error)));
        found.as_ref().map(Option::as_ref).map_err(|failure| failure.clone().into())
    }

    fn past_of(&self, name: &str) -> Result<Option<&Past>> {
        if is_event(name) { self.past() } else { Ok(None) }
    }

    /// The run's id.
    #[must_use]
    pub fn run(&self) -> String {
        match self {
            Self::Raw(dir) => dir.file_name().unwrap_or_default().to_string_lossy().into_owned(),
            Self::Published { run, .. } => run.clone(),
        }
    }

    /// The path of a file that is sealed, or about the manifest, and committed when published; events may have left it.
    #[must_use]
    pub fn path(&self, name: &str) -> PathBuf {
        match self {
            Self::Raw(dir) => dir.join(name),
            Self::Published { paths, run, .. } => paths.root().join(published_name(run, name)),
        }
    }

    /// The path of a detached file, whether or not it is there.
    #[must_use]
    pub fn detached_path(&self, name: &str) -> PathBuf {
        match self {
            Self::Raw(dir) => dir.join(name),
            Self::Published { paths, run, .. } => paths.run(run).join(name),
        }
    }

    /// How a path is written in sums and problems: below the run directory, or below the repository's root.
    #[must_use]
    pub fn shown(&self, name: &str) -> String {
        match self {
            Self::Raw(_) => name.to_owned(),
            Self::Published { run, .. } => published_name(run, name),
        }
    }

    /// The trusted folder; everything below it is untrusted. A run directory itself is not a link.
    ///
    /// # Errors
    /// When it cannot be opened.
    pub fn folder(&self) -> Result<Beneath> {
        match self {
            Self::Raw(dir) => Beneath::open_itself(dir),
            Self::Published { paths, .. } => Beneath::open(paths.root()),
        }
    }

    /// Detached files of a published run lie elsewhere: wherever run directories are, which may be on another disk.
    fn is_elsewhere(&self, name: &str) -> bool {
        matches!(self, Self::Published { .. }) && is_detached(name)
    }

    fn folder_elsewhere(&self) -> Result<Option<(Beneath, String)>> {
        match self {
            Self::Published { paths, run, .. } if files::exists(&paths.raw()) => {
                Ok(Some((Beneath::open(&paths.raw())?, run.clone())))
            }
            _ => Ok(None),
        }
    }

    /// Opens a file, detached or not; absent when nothing lies there.
    ///
    /// # Errors
    /// When the name leads out of where the run's files lie, or anything but a plain file lies there.
    pub fn open(&self, name: &str) -> Result<Option<Plain>> {
        if self.is_elsewhere(name) {
            let Some((folder, run)) = self.folder_elsewhere()? else { return Ok(None) };
            return folder.file(&format!("{run}/{name}"));
        }
        if let Some(past) = self.past_of(name)? {
            return past.open(name);
        }
        self.folder()?.file(&self.shown(name))
    }

    /// Reads a file that is not detached, whole; absent when nothing lies there.
    ///
    /// # Errors
    /// As [`Layout::open`], or when it is larger than a file of its kind may be.
    pub fn read(&self, name: &str) -> Result<Option<Vec<u8>>> {
        let most = most_bytes(name);
        let Some(past) = self.past_of(name)? else { return self.folder()?.read(&self.shown(name), most) };
        let Some(bytes) = past.files().get(name) else { return Ok(None) };
        let n = bytes.len() as u64;
        ensure!(n <= most, "{}: {n} bytes are more than such a file may have ({most})", self.shown(name));
        Ok(Some(bytes.clone()))
    }

    /// Begins to read a table, detached or not.
    ///
    /// # Errors
    /// As [`Layout::open`], or when it is absent or no table of plain columns.
    pub fn table(&self, name: &str) -> Result<Reader> {
        Reader::open(self.open(name)?.with_context(|| format!("{name} is absent"))?.file)
    }

    /// The digests and lengths of many files, detached or not, in the order given. One that cannot be read gives its error.
    ///
    /// # Errors
    /// When the folder that holds them cannot be opened.
    pub fn digests(&self, names: &[&str]) -> Result<Vec<Result<(Digest, u64)>>> {
        let past = self.past()?;
        let in_past = |name: &str| past.filter(|_| is_event(name));
        let (elsewhere, here): (Vec<&str>, Vec<&str>) =
            names.iter().filter(|name| in_past(name).is_none()).partition(|name| self.is_elsewhere(name));
        let mut here = digests_in(&self.folder()?, here.iter().map(|name| self.shown(name)).collect()).into_iter();
        let mut elsewhere = match self.folder_elsewhere()? {
            Some((folder, run)) => digests_in(&folder, elsewhere.iter().map(|name| format!("{run}/{name}")).collect()),
            None => elsewhere.iter().map(|name| Err(anyhow!("{name} is absent"))).collect(),
        }
        .into_iter();
        let one = |name: &&str| match in_past(name) {
            Some(past) => Some(past.digest(name)),
            None if self.is_elsewhere(name) => elsewhere.next(),
            None => here.next(),
        };
        Ok(names.iter().map(one).map(|found| found.expect("one digest a name")).collect())
    }

    /// What lies where this run's files lie: every file by name, and everything odd.
    ///
    /// # Errors
    /// When a folder cannot be read, or holds more files than any run.
    pub fn listing(&self) -> Result<Listing> {
        let mut listing = Listing::default();
        match self {
            Self::Raw(dir) => gather(dir, "", &mut listing)?,
            Self::Published { paths, run, .. } => {
                match self.past()? {
                    Some(past) => past.list(&mut listing),
                    None => gather(&paths.events().join(run), "", &mut listing)?,
                }
                gather(&paths.summary().join(run), "summary/", &mut listing)?;
                for name in UNSEALED {
                    about(&self.path(name), name, &mut listing)?;
                }
            }
        }
        Ok(listing)
    }
}

/// A file's path below the repository's root once published.
#[must_use]
pub fn published_name(run: &str, name: &str) -> String {
    match name {
        MANIFEST => format!("manifests/{run}.json"),
        SIGNATURE => format!("manifests/{run}.json.sig"),
        VERDICT => format!("manifests/{run}.verdict.json"),
        PROVENANCE => format!("manifests/{run}.provenance.json"),
        SUMS => format!("manifests/{run}.SHA256SUMS"),
        SUMS_DETACHED => format!("manifests/{run}.SHA256SUMS.detached"),
        _ => match name.strip_prefix("summary/") {
            Some(rest) => format!("results/summary/{run}/{rest}"),
            None => format!("{}/{name}", folder_name(run)),
        },
    }
}

/// The run whose manifest has this file name below `manifests/`; absent for any other file.
#[must_use]
pub fn run_of_manifest(file_name: &str) -> Option<&str> {
    let run = file_name.strip_suffix(".json")?;
    (![".verdict", ".provenance", ".events"].iter().any(|other| run.ends_with(other))).then_some(run)
}

/// Whether a file is among the events of a published run, which leave the tree together.
fn is_event(name: &str) -> bool {
    !(UNSEALED.contains(&name) || name.starts_with("summary/") || is_detached(name))
}

/// Whether a file stays out of what `publish` commits: cubins and tables too large to travel.
#[must_use]
pub fn is_detached(name: &str) -> bool {
    let cubin = name.starts_with("build/") && name.ends_with(".cubin");
    let matrix = name.starts_with("cells/") && (name.ends_with(".blocks.parquet") || name.ends_with(".clock.parquet"));
    cubin || matrix
}

fn digests_in(folder: &Beneath, names: Vec<String>) -> Vec<Result<(Digest, u64)>> {
    files::digest_below(folder, &names.iter().map(String::as_str).collect::<Vec<_>>())
}

fn gather(dir: &Path, prefix: &str, listing: &mut Listing) -> Result<()> {
    if !files::exists(dir) {
        return Ok(());
    }
    if !fs_err::symlink_metadata(dir)?.is_dir() {
        let detail = format!("{} is no folder of its own", dir.display());
        listing.odd.push(Odd { name: format!("{prefix}."), kind: "symlink", detail });
        return Ok(());
    }
    let scan = files::scan(dir)?;
    listing.files.extend(scan.files.into_iter().map(|(name, bytes)| (format!("{prefix}{name}"), bytes)));
    listing.odd.extend(scan.odd.into_iter().map(|o| Odd { name: format!("{prefix}{}", o.name), ..o }));
    listing.linked.extend(scan.linked.into_iter().map(|name| format!("{prefix}{name}")));
    Ok(())
}

fn about(path: &Path, name: &str, listing: &mut Listing) -> Result<()> {
    if !files::exists(path) {
        return Ok(());
    }
    let meta = fs_err::symlink_metadata(path)?;
    if meta.is_file() {
        listing.files.insert(name.to_owned(), meta.len());
    } else {
        listing.odd.push(Odd { name: name.to_owned(), kind: "symlink", detail: "not a plain file".to_owned() });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_detached_is_cubins_and_matrices_only() {
        for (name, expected) in [
            ("build/preempt/yield.sm_90.cubin", true),
            ("build/resources.json", false),
            ("cells/yield/k=64.blocks.parquet", true),
            ("cells/yield/k=64.clock.parquet", true),
            ("cells/yield/k=64.parquet", false),
            ("cells/yield/k=64.launches.parquet", false),
            ("sanitize/x.cubin", false),
        ] {
            assert_eq!(is_detached(name), expected, "{name}");
        }
    }

    #[test]
    fn every_name_has_one_published_place() {
        assert_eq!(published_name("r", "manifest.json"), "manifests/r.json");
        assert_eq!(published_name("r", "provenance.json"), "manifests/r.provenance.json");
        assert_eq!(run_of_manifest("r.json"), Some("r"));
        for other in ["r.verdict.json", "r.provenance.json", "r.events.json", "r.json.sig", "r.SHA256SUMS", "README.md"]
        {
            assert_eq!(run_of_manifest(other), None, "{other}");
        }
        assert_eq!(published_name("r", "summary/metrics.csv"), "results/summary/r/metrics.csv");
        assert_eq!(published_name("r", "cells/a.json"), "results/events/r/cells/a.json");
    }
}
