//! Files on disk as evidence: a listing that trusts nothing, digests of many files at once, and writes that appear whole.
//!
//! A listing never follows a symlink. What is not a plain file with a plain name is reported as [`Odd`], never skipped.

use anyhow::{Context, Result, ensure};
use rayon::prelude::*;
use schema::Digest;
use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::{Path, PathBuf};

/// What lies below a directory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Scan {
    /// Plain files by their name below the directory, with `/`, and their length.
    pub files: BTreeMap<String, u64>,
    /// Everything that has no place in a run directory.
    pub odd: Vec<Odd>,
}

/// Something that has no place in a run directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Odd {
    /// Its name below the directory.
    pub name: String,
    /// `symlink`, `special`, `name` or `case-collision`.
    pub kind: &'static str,
    /// What is wrong with it.
    pub detail: String,
}

/// Lists a directory to all depths, sorted by name.
///
/// # Errors
/// When a folder cannot be read.
pub fn scan(dir: &Path) -> Result<Scan> {
    let mut scan = Scan::default();
    ensure!(!fs_err::symlink_metadata(dir)?.is_symlink(), "{} is a symlink", dir.display());
    scan_into(dir, "", &mut scan)?;
    let mut folded: BTreeMap<String, &String> = BTreeMap::new();
    for name in scan.files.keys() {
        if let Some(other) = folded.insert(name.to_lowercase(), name) {
            let detail = format!("differs from {other} only in case");
            scan.odd.push(Odd { name: name.clone(), kind: "case-collision", detail });
        }
    }
    Ok(scan)
}

fn scan_into(dir: &Path, prefix: &str, scan: &mut Scan) -> Result<()> {
    for entry in fs_err::read_dir(dir)? {
        let entry = entry?;
        let raw = entry.file_name();
        let name = format!("{prefix}{}", raw.to_string_lossy());
        let kind = entry.file_type()?;
        let mut odd = |kind, detail: &str| scan.odd.push(Odd { name: name.clone(), kind, detail: detail.to_owned() });
        if kind.is_symlink() {
            odd("symlink", "a symlink, which a run never holds");
        } else if raw.to_str().is_none_or(|plain| check_name(plain).is_err()) {
            odd("name", "not a plain name");
        } else if kind.is_dir() {
            scan_into(&entry.path(), &format!("{name}/"), scan)?;
        } else if kind.is_file() {
            scan.files.insert(name, entry.metadata()?.len());
        } else {
            odd("special", "neither a file nor a folder");
        }
    }
    Ok(())
}

/// Refuses a name that could lead out of its directory or is hard to write down.
///
/// # Errors
/// When it is absolute, has an empty, `.` or `..` part, a backslash or a control character.
pub fn check_name(name: &str) -> Result<()> {
    let plain = name.split('/').all(|part| !part.is_empty() && part != "." && part != "..");
    ensure!(plain, "{name:?} is not a path below a run directory");
    ensure!(!name.chars().any(|c| c.is_control() || c == '\\'), "{name:?} holds a character no run uses");
    Ok(())
}

/// The digests of many files at once, in the order given. An unreadable file gives its error in its place.
pub fn digest_all(files: &[PathBuf]) -> Vec<Result<(Digest, u64)>> {
    files.par_iter().map(|path| digest_plain(path)).collect()
}

/// The digest and length of a plain file; a symlink is an error.
///
/// # Errors
/// When it is not a plain file or cannot be read.
pub fn digest_plain(path: &Path) -> Result<(Digest, u64)> {
    let meta = fs_err::symlink_metadata(path)?;
    ensure!(meta.is_file(), "{} is not a plain file", path.display());
    Digest::of_reader(fs_err::File::open(path)?).with_context(|| format!("failed to read {}", path.display()))
}

/// The most bytes of a file that is read whole. Nothing Assay writes and reads whole comes near it.
const MOST_BYTES: u64 = 64 << 20;

/// Reads a plain file; a symlink is an error.
///
/// # Errors
/// When it is not a plain file, is larger than 64 MiB, or cannot be read.
pub fn read_plain(path: &Path) -> Result<Vec<u8>> {
    let meta = fs_err::symlink_metadata(path)?;
    ensure!(meta.is_file(), "{} is not a plain file", path.display());
    ensure!(meta.len() <= MOST_BYTES, "{} holds {} bytes, more than is read whole", path.display(), meta.len());
    Ok(fs_err::read(path)?)
}

/// Reads a plain file of UTF-8 text.
///
/// # Errors
/// When it is not a plain file, cannot be read or is not UTF-8.
pub fn read_text(path: &Path) -> Result<String> {
    String::from_utf8(read_plain(path)?).with_context(|| format!("{} is not UTF-8", path.display()))
}

/// Whether anything lies at `path`, a dangling symlink included.
#[must_use]
pub fn exists(path: &Path) -> bool {
    path.symlink_metadata().is_ok()
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
    fn names_that_lead_elsewhere_are_refused() {
        for bad in ["", "/etc/passwd", "../x", "a/../b", "a//b", "./a", "a\nb", "a\\b", "a/"] {
            assert!(check_name(bad).is_err(), "{bad:?}");
        }
        check_name("cells/yield/k=64,blocks=528.parquet").unwrap();
    }

    #[test]
    fn a_file_too_large_to_be_ours_is_not_read() {
        let dir = tempfile::tempdir().unwrap();
        let file = fs_err::File::create(dir.path().join("manifest.json")).unwrap();
        file.file().set_len(MOST_BYTES + 1).unwrap();
        assert!(read_plain(file.path()).unwrap_err().to_string().contains("more than is read whole"));
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
