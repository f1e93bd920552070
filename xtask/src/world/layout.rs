//! Where the files of one run lie: all in its run directory, or spread over the published folders.
//!
//! A file's *name* is always its path below the run directory, as the manifest has it; only this file turns names into paths.

use super::files::{self, Odd};
use crate::paths::Paths;
use anyhow::Result;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// The manifest's name.
pub const MANIFEST: &str = "manifest.json";
/// Its signature's name.
pub const SIGNATURE: &str = "manifest.json.sig";
/// The verdict's name.
pub const VERDICT: &str = "verdict.json";
/// The name of the SLSA statement of what the run was built from; written when it is published.
pub const PROVENANCE: &str = "provenance.json";
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
    /// Published: folders of the repository, and detached files wherever a run directory is at hand.
    Published {
        /// The repository.
        paths: Paths,
        /// The run's id.
        run: String,
    },
}

impl Layout {
    /// The run's id.
    #[must_use]
    pub fn run(&self) -> String {
        match self {
            Self::Raw(dir) => dir.file_name().unwrap_or_default().to_string_lossy().into_owned(),
            Self::Published { run, .. } => run.clone(),
        }
    }

    /// The path of a file that is sealed, or about the manifest, and committed when published.
    #[must_use]
    pub fn path(&self, name: &str) -> PathBuf {
        match self {
            Self::Raw(dir) => dir.join(name),
            Self::Published { paths, run } => paths.root().join(published_name(run, name)),
        }
    }

    /// The path of a detached file, at hand or not.
    #[must_use]
    pub fn detached_path(&self, name: &str) -> PathBuf {
        match self {
            Self::Raw(dir) => dir.join(name),
            Self::Published { paths, run } => paths.run(run).join(name),
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

    /// Every file that lies where this run's files lie, by name, and everything odd there.
    ///
    /// # Errors
    /// When a folder cannot be read.
    pub fn listing(&self) -> Result<(BTreeMap<String, u64>, Vec<Odd>)> {
        match self {
            Self::Raw(dir) => {
                let (mut found, mut odd) = (BTreeMap::new(), Vec::new());
                gather(dir, "", &mut found, &mut odd)?;
                Ok((found, odd))
            }
            Self::Published { paths, run } => {
                let (mut found, mut odd) = (BTreeMap::new(), Vec::new());
                gather(&paths.events().join(run), "", &mut found, &mut odd)?;
                gather(&paths.summary().join(run), "summary/", &mut found, &mut odd)?;
                for name in UNSEALED {
                    about(&self.path(name), name, &mut found, &mut odd)?;
                }
                Ok((found, odd))
            }
        }
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
            None => format!("results/events/{run}/{name}"),
        },
    }
}

/// The run whose manifest has this file name below `manifests/`; absent for any other file.
#[must_use]
pub fn run_of_manifest(file_name: &str) -> Option<&str> {
    let run = file_name.strip_suffix(".json")?;
    (!run.ends_with(".verdict") && !run.ends_with(".provenance")).then_some(run)
}

/// Whether a file stays out of what `publish` commits: cubins and tables too large to travel.
#[must_use]
pub fn is_detached(name: &str) -> bool {
    let cubin = name.starts_with("build/") && name.ends_with(".cubin");
    let matrix = name.starts_with("cells/") && (name.ends_with(".blocks.parquet") || name.ends_with(".clock.parquet"));
    cubin || matrix
}

fn gather(dir: &Path, prefix: &str, found: &mut BTreeMap<String, u64>, odd: &mut Vec<Odd>) -> Result<()> {
    if !files::exists(dir) {
        return Ok(());
    }
    if !fs_err::symlink_metadata(dir)?.is_dir() {
        let detail = format!("{} is no folder of its own", dir.display());
        odd.push(Odd { name: format!("{prefix}."), kind: "symlink", detail });
        return Ok(());
    }
    let scan = files::scan(dir)?;
    found.extend(scan.files.into_iter().map(|(name, bytes)| (format!("{prefix}{name}"), bytes)));
    odd.extend(scan.odd.into_iter().map(|o| Odd { name: format!("{prefix}{}", o.name), ..o }));
    Ok(())
}

fn about(path: &Path, name: &str, found: &mut BTreeMap<String, u64>, odd: &mut Vec<Odd>) -> Result<()> {
    if !files::exists(path) {
        return Ok(());
    }
    let meta = fs_err::symlink_metadata(path)?;
    if meta.is_file() {
        found.insert(name.to_owned(), meta.len());
    } else {
        odd.push(Odd { name: name.to_owned(), kind: "symlink", detail: "not a plain file".to_owned() });
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
        for other in ["r.verdict.json", "r.provenance.json", "r.json.sig", "r.SHA256SUMS", "README.md"] {
            assert_eq!(run_of_manifest(other), None, "{other}");
        }
        assert_eq!(published_name("r", "summary/metrics.csv"), "results/summary/r/metrics.csv");
        assert_eq!(published_name("r", "cells/a.json"), "results/events/r/cells/a.json");
    }
}
