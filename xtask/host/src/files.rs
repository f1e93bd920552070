//! Files on disk as evidence: a listing of untrusted folders, digests of many files at once, and writes that appear
//! whole.
//!
//! A listing never follows a symlink. What is not a plain file with a plain name is reported as [`Odd`], never
//! skipped.

pub mod beneath;

use anyhow::{Context, Result, ensure};
use beneath::{Beneath, Plain, is_plain, length, plain_at};
use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, openat, statat};
use schema::Digest;
use std::collections::BTreeMap;
use std::io::Write as _;
use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::channel;
pub use words::names::check_name;
use words::names::collisions;

/// What lies below a directory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Scan {
    /// Plain files by their name below the directory, with `/`, and their length.
    pub files: BTreeMap<String, u64>,
    /// Everything that has no place in a run directory.
    pub odd: Vec<Odd>,
    /// Files that have a second name somewhere, through which they can be changed unseen.
    pub linked: Vec<String>,
}

/// Something that has no place in a run directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Odd {
    /// Its name below the directory.
    pub name: String,
    /// `symlink`, `special`, `name`, `unreadable` or `case-collision`.
    pub kind: &'static str,
    /// What is wrong with it.
    pub detail: String,
}

/// The most files that a listing holds: more are not listed but refused.
const MOST_FILES: usize = 1 << 20;

/// Lists a directory to all depths, sorted by name.
///
/// # Errors
/// When the directory is a symlink, cannot be opened, or holds more than about a million files.
pub fn scan(dir: &Path) -> Result<Scan> {
    let mut scan = Scan::default();
    scan_into(Beneath::open_itself(dir)?.fd(), "", &mut scan).with_context(|| dir.display().to_string())?;
    for (name, other) in collisions(scan.files.keys().map(String::as_str)) {
        let detail = format!("differs from {other} only in case");
        scan.odd.push(Odd { name: name.to_owned(), kind: "case-collision", detail });
    }
    Ok(scan)
}

fn scan_into(dir: BorrowedFd<'_>, prefix: &str, scan: &mut Scan) -> Result<()> {
    for entry in Dir::read_from(dir)? {
        let entry = entry?;
        let raw = entry.file_name();
        if [c".", c".."].contains(&raw) {
            continue;
        }
        let name = format!("{prefix}{}", raw.to_string_lossy());
        let mut odd = |kind, detail: String| scan.odd.push(Odd { name: name.clone(), kind, detail });
        let stat = statat(dir, raw, AtFlags::SYMLINK_NOFOLLOW)?;
        let kind = FileType::from_raw_mode(stat.st_mode);
        if kind == FileType::Symlink {
            odd("symlink", "a symlink, which a run never holds".to_owned());
        } else if raw.to_str().is_err() || check_name(&name).is_err() {
            odd("name", "not a plain name".to_owned());
        } else if kind == FileType::Directory {
            let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            match openat(dir, raw, flags, Mode::empty()) {
                Ok(below) => scan_into(std::os::fd::AsFd::as_fd(&below), &format!("{name}/"), scan)?,
                Err(error) => odd("unreadable", format!("a folder that cannot be opened: {error}")),
            }
        } else if is_plain(&stat) {
            ensure!(scan.files.len() < MOST_FILES, "it holds more than {MOST_FILES} files, and no run does");
            if stat.st_nlink > 1 {
                scan.linked.push(name.clone());
            }
            scan.files.insert(name, length(&stat));
        } else {
            odd("special", "neither a file nor a folder".to_owned());
        }
    }
    Ok(())
}

/// The digests and lengths of many files at once, in the order given. An unreadable file gives its error in its place.
pub fn digest_all(files: &[PathBuf]) -> Vec<Result<(Digest, u64)>> {
    digest_each(files, |(), path| plain(path))
}

/// As [`digest_all`], for files by their names below a folder that nobody vouches for.
pub fn digest_below(folder: &Beneath, names: &[&str]) -> Vec<Result<(Digest, u64)>> {
    digest_each(names, |last, name| folder.file_in(last, name)?.with_context(|| format!("{name} is absent")))
}

/// How much of a file is read at once. Two threads of this need little memory, and larger pieces are not faster.
const PIECE_BYTES: usize = 256 << 10;

/// Hashes on all cores, file by file, each thread with one buffer and what it keeps from one file to the next.
fn digest_each<T: Sync, S: Default>(
    files: &[T],
    open: impl Fn(&mut S, &T) -> Result<Plain> + Sync,
) -> Vec<Result<(Digest, u64)>> {
    let next = AtomicUsize::new(0);
    let (send, receive) = channel();
    rayon::broadcast(|_| {
        let (mut buffer, mut kept) = (vec![0; PIECE_BYTES], S::default());
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            let Some(file) = files.get(at) else { return };
            let digest =
                open(&mut kept, file).and_then(|plain| Ok(Digest::of_reader_through(plain.file, &mut buffer)?));
            // The receiver outlives every thread here.
            let _ = send.clone().send((at, digest));
        }
    });
    drop(send);
    let mut found: Vec<(usize, Result<(Digest, u64)>)> = receive.into_iter().collect();
    found.sort_unstable_by_key(|(at, _)| *at);
    found.into_iter().map(|(_, digest)| digest).collect()
}

/// The digest and length of a plain file; a symlink is an error.
///
/// # Errors
/// When it is not a plain file or cannot be read.
pub fn digest_plain(path: &Path) -> Result<(Digest, u64)> {
    let plain = plain(path)?;
    Digest::of_reader(plain.file).with_context(|| format!("failed to read {}", path.display()))
}

/// The most bytes of a file that is read whole, whatever it is. Nothing Assay writes and reads whole comes near it.
const MOST_BYTES: u64 = 64 << 20;

/// The most bytes of a file of this name that is read whole: generous beside what Assay writes, and little beside memory.
#[must_use]
pub fn most_bytes(name: &str) -> u64 {
    let (_, ending) = name.rsplit_once('.').unwrap_or((name, ""));
    match ending {
        // One line or object for each file: enough for more than a hundred thousand files.
        _ if name.ends_with("manifest.json") || name.ends_with(".pack.json") || name.contains("SHA256SUMS") => 32 << 20,
        "json" | "svg" => 4 << 20,
        "toml" => 1 << 20,
        "sig" => 64 << 10,
        "csv" | "jsonl" | "log" | "md" | "out" | "txt" => 16 << 20,
        _ => MOST_BYTES,
    }
}

/// Reads a plain file; a symlink is an error.
///
/// # Errors
/// When it is not a plain file, is larger than [`most_bytes`] allows, or cannot be read.
pub fn read_plain(path: &Path) -> Result<Vec<u8>> {
    let most = most_bytes(&path.file_name().unwrap_or_default().to_string_lossy());
    plain(path)?.read(most).with_context(|| path.display().to_string())
}

fn plain(path: &Path) -> Result<Plain> {
    plain_at(path)?.with_context(|| format!("{} is absent", path.display()))
}

/// Reads a plain file of UTF-8 text.
///
/// # Errors
/// When it is not a plain file, cannot be read or is not UTF-8.
pub fn read_text(path: &Path) -> Result<String> {
    String::from_utf8(read_plain(path)?).with_context(|| format!("{} is not UTF-8", path.display()))
}

/// Whether anything lies at `path`, a dangling symlink included. What may not be looked at is not absent: opening it tells why.
#[must_use]
pub fn exists(path: &Path) -> bool {
    use std::io::ErrorKind::{NotADirectory, NotFound};
    !path.symlink_metadata().is_err_and(|error| matches!(error.kind(), NotFound | NotADirectory))
}

/// The names of what lies directly in a folder, sorted; none when there is no such folder.
///
/// # Errors
/// When it cannot be read.
pub fn entries(dir: &Path) -> Result<Vec<String>> {
    if !exists(dir) {
        return Ok(Vec::new());
    }
    let mut names = Vec::new();
    for entry in fs_err::read_dir(dir)? {
        names.push(entry?.file_name().to_string_lossy().into_owned());
    }
    names.sort_unstable();
    Ok(names)
}

/// Writes a file whole or not at all, folders above it included.
///
/// # Errors
/// When writing fails.
pub fn write_whole(path: &Path, bytes: &[u8]) -> Result<()> {
    let parent = path.parent().context("a file needs a folder")?;
    fs_err::create_dir_all(parent)?;
    let mut name = path.file_name().context("a file needs a name")?.to_owned();
    name.push(".partial");
    let partial = path.with_file_name(name);
    let mut file = fs_err::File::create(&partial)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    fs_err::rename(&partial, path)?;
    Ok(())
}

/// Removes a file, or a folder with all that is in it, if there is one.
///
/// # Errors
/// When it is there and cannot be removed.
pub fn remove(path: &Path) -> Result<()> {
    match path.symlink_metadata() {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        Ok(found) if found.is_dir() => Ok(fs_err::remove_dir_all(path)?),
        _ => Ok(fs_err::remove_file(path)?),
    }
}

/// Removes what killed writers left half-written directly in a folder and in folders below it that are named.
///
/// # Errors
/// When a folder cannot be read or a file not removed.
pub fn remove_partials(dir: &Path, below: &[&str]) -> Result<()> {
    let mut folders = vec![dir.to_owned()];
    folders.extend(below.iter().map(|name| dir.join(name)));
    for folder in folders {
        for name in entries(&folder)?.iter().filter(|name| name.ends_with(".partial")) {
            fs_err::remove_file(folder.join(name))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_listing_names_everything_that_is_not_a_plain_file() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        write_whole(&at("cells/yield/a.json"), b"{}").unwrap();
        write_whole(&at("A.txt"), b"1").unwrap();
        write_whole(&at("a.txt"), b"2").unwrap();
        std::os::unix::fs::symlink("A.txt", at("link")).unwrap();
        std::os::unix::fs::symlink("cells", at("folder-link")).unwrap();
        let _socket = std::os::unix::net::UnixListener::bind(at("socket")).unwrap();
        let scan = scan(dir.path()).unwrap();
        let names: Vec<_> = scan.files.keys().map(String::as_str).collect();
        assert_eq!(names, ["A.txt", "a.txt", "cells/yield/a.json"]);
        let mut odd: Vec<_> = scan.odd.iter().map(|o| (o.name.as_str(), o.kind)).collect();
        odd.sort_unstable();
        let expected =
            [("a.txt", "case-collision"), ("folder-link", "symlink"), ("link", "symlink"), ("socket", "special")];
        assert_eq!(odd, expected);
    }

    #[test]
    fn only_half_written_files_where_we_write_are_removed() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        for name in ["manifest.json", "manifest.json.partial", "summary/a.svg.partial", "cells/yield/a.json.partial"] {
            write_whole(&at(name), b"{}").unwrap();
        }
        remove_partials(dir.path(), &["summary", "absent"]).unwrap();
        let left: Vec<_> = scan(dir.path()).unwrap().files.into_keys().collect();
        assert_eq!(left, ["cells/yield/a.json.partial", "manifest.json"]);
    }

    #[test]
    fn a_file_too_large_to_be_ours_is_not_read() {
        let dir = tempfile::tempdir().unwrap();
        let file = fs_err::File::create(dir.path().join("manifest.json")).unwrap();
        file.file().set_len(most_bytes("manifest.json") + 1).unwrap();
        assert!(format!("{:#}", read_plain(file.path()).unwrap_err()).contains("more than such a file may have"));
    }

    #[test]
    fn a_symlink_is_never_read() {
        let dir = tempfile::tempdir().unwrap();
        let link = dir.path().join("link");
        write_whole(&dir.path().join("real"), b"x").unwrap();
        std::os::unix::fs::symlink("real", &link).unwrap();
        assert!(digest_plain(&link).is_err() && read_plain(&link).is_err());
    }
}
