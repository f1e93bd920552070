//! Builds on disk: made in a folder of their own, whole or not there, and hashed again before every reuse.

use super::{Built, read_record};
use anyhow::{Context, Result};
use host::failure::fail;
use host::files;
use host::paths::Paths;
use schema::{Digest, ExitCode, FORMAT};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};

const DONE: &str = "done.json";
const UNFINISHED: &str = ".unfinished-";

/// Names every file of a complete build.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Done {
    format: u32,
    key: Digest,
    /// Digest of the sources it was built from, so that a tree finds its builds whatever the environment was.
    sources: Digest,
    files: BTreeMap<String, Digest>,
}

/// The folder of builds. One process at a time holds it.
pub(super) struct Store {
    root: PathBuf,
    _lock: File,
}

/// A build being made; what is not committed is removed.
pub(super) struct Fresh {
    dir: tempfile::TempDir,
    root: PathBuf,
    key: Digest,
    sources: Digest,
}

impl Store {
    /// Opens the folder of builds below the state folder; waits while another process builds.
    pub(super) fn open(paths: &Paths) -> Result<Self> {
        let root = paths.state().join("build");
        fs_err::create_dir_all(&root)?;
        let lock =
            File::create(root.join("lock")).with_context(|| format!("failed to write below {}", root.display()))?;
        lock.lock().context("failed to lock the folder of builds")?;
        Ok(Self { root, _lock: lock })
    }

    /// A complete build of that key; a damaged one is removed and counts as absent.
    pub(super) fn find(&self, key: &Digest) -> Result<Option<Built>> {
        let dir = self.root.join(folder(key));
        if !files::exists(&dir) {
            return Ok(None);
        }
        match load(&dir) {
            Ok(built) if built.key == *key => Ok(Some(built)),
            _ => {
                fs_err::remove_dir_all(&dir)?;
                Ok(None)
            }
        }
    }

    /// Every complete build of these sources, the newest first.
    pub(super) fn of_sources(&self, sources: &Digest) -> Result<Vec<Built>> {
        let mut found = Vec::new();
        for entry in fs_err::read_dir(&self.root)? {
            let entry = entry?;
            let done = fs_err::read(entry.path().join(DONE)).ok();
            let done = done.and_then(|bytes| serde_json::from_slice::<Done>(&bytes).ok());
            if done.is_some_and(|done| done.sources == *sources) {
                found.push((entry.metadata()?.modified()?, entry.path()));
            }
        }
        found.sort_unstable();
        found.iter().rev().map(|(_, dir)| load(dir)).collect()
    }

    /// An empty folder for a build of that key. What killed builds left is removed.
    pub(super) fn begin(&self, key: &Digest, sources: Digest) -> Result<Fresh> {
        for entry in fs_err::read_dir(&self.root)? {
            let entry = entry?;
            if entry.file_name().to_string_lossy().starts_with(UNFINISHED) {
                fs_err::remove_dir_all(entry.path())?;
            }
        }
        let dir = tempfile::Builder::new().prefix(UNFINISHED).tempdir_in(&self.root)?;
        Ok(Fresh { dir, root: self.root.clone(), key: *key, sources })
    }
}

impl Fresh {
    /// Where to build.
    pub(super) fn path(&self) -> &Path {
        self.dir.path()
    }

    /// Names every file, and puts the build in its place.
    pub(super) fn commit(self) -> Result<Built> {
        let done = Done { format: FORMAT, key: self.key, sources: self.sources, files: digests(self.path())? };
        files::write_whole(&self.path().join(DONE), &serde_json::to_vec_pretty(&done)?)?;
        let dir = self.root.join(folder(&self.key));
        fs_err::rename(self.dir.keep(), &dir)?;
        Ok(Built { cached: false, ..load(&dir)? })
    }

    /// Keeps the folder of a failed build for its logs, in place of the one before it.
    pub(super) fn keep_failed(self) -> Result<PathBuf> {
        let kept = self.root.join("failed");
        if files::exists(&kept) {
            fs_err::remove_dir_all(&kept)?;
        }
        fs_err::rename(self.dir.keep(), &kept)?;
        Ok(kept)
    }
}

/// Loads a build directory after hashing every file of it.
pub(super) fn load(dir: &Path) -> Result<Built> {
    let problem = |what: String| {
        fail(ExitCode::Integrity, format!("build {}: {what}", dir.display()), "cargo xtask build makes it anew")
    };
    let done = files::read_plain(&dir.join(DONE)).map_err(|error| problem(format!("{error:#}")))?;
    let done: Done = serde_json::from_slice(&done).map_err(|error| problem(format!("{DONE} is malformed: {error}")))?;
    schema::check_format(DONE, done.format)?;
    let mut found = digests(dir)?;
    found.remove(DONE);
    for (name, digest) in &done.files {
        match found.remove(name) {
            Some(now) if now == *digest => {}
            Some(_) => return Err(problem(format!("{name} was changed"))),
            None => return Err(problem(format!("{name} is missing"))),
        }
    }
    if let Some(extra) = found.keys().next() {
        return Err(problem(format!("{extra} does not belong to it")));
    }
    Ok(Built { dir: dir.to_owned(), record: read_record(dir)?, key: done.key, cached: true })
}

fn folder(key: &Digest) -> String {
    key.to_string()[..16].to_owned()
}

fn digests(dir: &Path) -> Result<BTreeMap<String, Digest>> {
    let scan = files::scan(dir)?;
    if let Some(odd) = scan.odd.first() {
        anyhow::bail!("{}: {} is {}", dir.display(), odd.name, odd.detail);
    }
    let names: Vec<String> = scan.files.into_keys().collect();
    let paths: Vec<PathBuf> = names.iter().map(|name| dir.join(name)).collect();
    names.into_iter().zip(files::digest_all(&paths)).map(|(name, digest)| Ok((name, digest?.0))).collect()
}
