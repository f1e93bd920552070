//! The events of a superseded run, which were taken out of the tree and stay in git history.
//!
//! `manifests/RUN.events.json` says in which commit. The record is not trusted: its commit must be an ancestor of the
//! work tree's, and what the commit holds is hashed like every other file of the run. Nothing of it is written into
//! the tree.

use anyhow::{Context, Result};
use host::failure::fail;
use host::files::beneath::{Beneath, Plain};
use host::files::{Odd, Scan, check_name};
use host::git::{Git, is_commit_id};
use host::paths::Paths;
use pure::records::json::to_bytes;
use rustix::fs::{MemfdFlags, memfd_create};
use schema::events::EventsRecord;
use schema::{Digest, ExitCode, check_format_of_json};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read as _, Seek as _, Write as _};
use words::names::{collisions, is_id};

/// The most bytes of a record.
const MOST_RECORD_BYTES: u64 = 4 << 10;
/// The most that the events of one run may be, many times what `publish` commits of one; they are in memory at once.
const MOST_BYTES: u64 = 64 << 20;

/// What a commit holds of a run's events.
#[derive(Debug)]
pub struct Past {
    files: BTreeMap<String, Vec<u8>>,
    odd: Vec<Odd>,
}

/// The path of a run's record, below the repository's root.
#[must_use]
pub fn record_name(run: &str) -> String {
    format!("manifests/{run}.events.json")
}

/// The path of a run's events, below the repository's root.
#[must_use]
pub fn folder_name(run: &str) -> String {
    format!("results/events/{run}")
}

/// A run's record; absent while its events are in the tree.
///
/// # Errors
/// Exit 16 when it is not one that `publish` could have written.
pub fn record(paths: &Paths, run: &str) -> Result<Option<EventsRecord>> {
    let name = record_name(run);
    let wrong = |why: String| {
        let remedy = format!("git log -- {name} shows who changed it, git checkout restores it");
        fail(ExitCode::Integrity, format!("{name}: {why}"), remedy)
    };
    let read = Beneath::open(paths.root())?.read(&name, MOST_RECORD_BYTES);
    let Some(bytes) = read.map_err(|error| wrong(format!("{error:#}")))? else { return Ok(None) };
    let parsed = check_format_of_json(&name, &bytes).and_then(|()| Ok(serde_json::from_slice::<EventsRecord>(&bytes)?));
    let record = parsed.map_err(|error| wrong(format!("{error:#}")))?;
    let newer = &record.superseded_by;
    for (holds, why) in [
        (to_bytes(&record)? == bytes, "not the bytes that Assay writes for this content".to_owned()),
        (is_commit_id(&record.commit), format!("{:?} is no commit's id", record.commit)),
        (
            is_id(newer) && newer.as_str() > run && paths.manifests().join(format!("{newer}.json")).is_file(),
            format!("{newer:?} is no newer published run"),
        ),
    ] {
        if !holds {
            return Err(wrong(why));
        }
    }
    Ok(Some(record))
}

/// The events of a published run as history has them; absent when they are in the tree, or nothing says where they are.
///
/// # Errors
/// Exit 16 when the record is not one of ours or what it names holds no events of the run; 11 when there is no history here
/// to take them from.
pub fn of_run(paths: &Paths, run: &str) -> Result<Option<Past>> {
    if host::files::exists(&paths.events().join(run)) {
        return Ok(None);
    }
    let Some(EventsRecord { commit, .. }) = record(paths, run)? else { return Ok(None) };
    let (name, folder) = (record_name(run), folder_name(run));
    let left = format!("{name}: {folder} left the tree and lies in commit {commit}");
    let Some(git) = Git::at(paths.root())? else {
        let message = format!("{left}, and there is no git repository here");
        return Err(fail(ExitCode::Environment, message, "git clone the repository, with its history"));
    };
    if !git.knows(&commit)? || !git.is_ancestor(&commit, &git.head()?)? {
        if git.is_shallow()? {
            let message = format!("{left}, which this shallow clone does not reach");
            return Err(fail(ExitCode::Environment, message, "git fetch --unshallow"));
        }
        let message = format!("{left}, which is not an ancestor of this work tree's commit");
        return Err(fail(ExitCode::Integrity, message, format!("git log -- {name} shows who named it")));
    }
    let past = Past::at(&git, &commit, run).with_context(|| left.clone())?;
    past.map(Some).ok_or_else(|| {
        fail(ExitCode::Integrity, format!("{left}, which has no such folder"), format!("git log --stat -- {folder}"))
    })
}

impl Past {
    /// The events of a run as of a commit; absent when it has none.
    ///
    /// # Errors
    /// When git fails, or the folder is larger than any run's.
    pub fn at(git: &Git, commit: &str, run: &str) -> Result<Option<Self>> {
        let folder = folder_name(run);
        let Some(entries) = git.folder_at(commit, &folder)? else { return Ok(None) };
        let bytes: u64 = entries.iter().map(|entry| entry.bytes).fold(0, u64::saturating_add);
        if bytes > MOST_BYTES {
            let message = format!("{folder} has {bytes} bytes in {commit}, and no run has more than {MOST_BYTES}");
            return Err(fail(ExitCode::Integrity, message, format!("git log --stat -- {folder}")));
        }
        let mut past = Self { files: BTreeMap::new(), odd: Vec::new() };
        for entry in entries {
            let mut odd = |kind, detail: &str| {
                past.odd.push(Odd { name: entry.name.clone(), kind, detail: detail.to_owned() });
            };
            match entry.mode.as_str() {
                _ if check_name(&entry.name).is_err() => odd("name", "not a plain name"),
                "100644" | "100755" => drop(past.files.insert(entry.name, Vec::new())),
                "120000" => odd("symlink", "a symlink, which a run never holds"),
                _ => odd("special", "neither a file nor a folder"),
            }
        }
        let twins = collisions(past.files.keys().map(String::as_str)).into_iter();
        let twin = |(name, other): (&str, &str)| {
            let detail = format!("differs from {other} only in case");
            Odd { name: name.to_owned(), kind: "case-collision", detail }
        };
        let twins: Vec<Odd> = twins.map(twin).collect();
        past.odd.extend(twins);
        past.fill(git, commit, &folder)?;
        Ok(Some(past))
    }

    /// Takes the listed files out of the archive that git makes; what else it holds is passed over.
    fn fill(&mut self, git: &Git, commit: &str, folder: &str) -> Result<()> {
        let dir = tempfile::tempdir()?;
        let path = dir.path().join("events.tar");
        git.archive(commit, folder, &path)?;
        let mut left = MOST_BYTES;
        for entry in tar::Archive::new(File::open(&path)?).entries()? {
            let mut entry = entry?;
            let name = String::from_utf8_lossy(&entry.path_bytes()).into_owned();
            let Some(bytes) = self.files.get_mut(&name).filter(|_| entry.header().entry_type().is_file()) else {
                continue;
            };
            bytes.clear();
            let read = entry.by_ref().take(left + 1).read_to_end(bytes)? as u64;
            left = left.checked_sub(read).with_context(|| format!("more than {MOST_BYTES} bytes"))?;
        }
        Ok(())
    }

    /// Its files by name, as the manifest has them.
    #[must_use]
    pub fn files(&self) -> &BTreeMap<String, Vec<u8>> {
        &self.files
    }

    /// Adds what it holds to a listing.
    pub(super) fn list(&self, listing: &mut Scan) {
        listing.files.extend(self.files.iter().map(|(name, bytes)| (name.clone(), bytes.len() as u64)));
        listing.odd.extend(self.odd.iter().cloned());
    }

    /// A file, in memory; absent when there is none of that name.
    pub(super) fn open(&self, name: &str) -> Result<Option<Plain>> {
        let Some(bytes) = self.files.get(name) else { return Ok(None) };
        let mut file = File::from(memfd_create("events", MemfdFlags::CLOEXEC)?);
        file.write_all(bytes)?;
        file.rewind()?;
        Ok(Some(Plain { file, bytes: bytes.len() as u64 }))
    }

    /// A file's digest and length.
    pub(super) fn digest(&self, name: &str) -> Result<(Digest, u64)> {
        let bytes = self.files.get(name).with_context(|| format!("{name} is absent"))?;
        Ok((Digest::of(bytes), bytes.len() as u64))
    }
}
