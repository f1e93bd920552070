//! Unpacking wheels into one folder, and telling later, fast, that it is still what was unpacked.

use super::fetch::{check, files_below};
use super::{Lock, Wheel};
use crate::container::last;
use crate::failure::fail;
use crate::files::remove;
use crate::process::Child;
use anyhow::{Context, Result};
use rayon::prelude::*;
use schema::{Digest, ExitCode};
use serde::{Deserialize, Serialize};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Unpacks wheels with Python's own zip reader.
#[derive(Clone, Debug)]
pub struct Unpacker {
    /// All that Python sees.
    pub env: Vec<(String, String)>,
}

/// The file that says a folder is whole.
const MARKER: &str = ".installed.json";

/// What a folder held when it was unpacked.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Installed {
    format: u32,
    lock: Digest,
    files: Vec<Entry>,
}

/// One file; size and time tell a change fast, the digest says what it was.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    path: PathBuf,
    bytes: u64,
    mtime_ns: i128,
    sha256: Digest,
}

impl Unpacker {
    /// Unpacks checked wheels so that `into` appears whole.
    ///
    /// # Errors
    /// When a wheel is not what the lock says, or cannot be unpacked.
    pub fn unpack(&self, lock: &Lock, files: &[PathBuf], into: &Path) -> Result<()> {
        let partial = into.with_extension("partial");
        remove(&partial)?;
        fs_err::create_dir_all(&partial)?;
        for (wheel, file) in lock.wheels.iter().zip(files) {
            check(wheel, file)?;
            self.unpack_one(wheel, file, &partial)?;
        }
        set_modes(&partial)?;
        let marker = Installed { format: schema::FORMAT, lock: lock.digest, files: entries(&partial)? };
        fs_err::write(partial.join(MARKER), serde_json::to_vec(&marker)?)?;
        remove(into)?;
        fs_err::rename(&partial, into)?;
        Ok(())
    }

    fn unpack_one(&self, wheel: &Wheel, file: &Path, into: &Path) -> Result<()> {
        let child = Child {
            program: "python3".into(),
            args: vec![
                "-m".into(),
                "zipfile".into(),
                "-e".into(),
                file.display().to_string(),
                into.display().to_string(),
            ],
            env: self.env.clone(),
            dir: into.to_owned(),
            deadline: Duration::from_secs(300),
            hold_stdin: false,
        };
        let before = files_below(into).len();
        let ended = child.run(&mut |_| {})?;
        let said = match ended.code {
            Some(0) if files_below(into).len() > before => return Ok(()),
            Some(0) => "python3 succeeded but left no file".to_owned(),
            _ => last(&ended.stderr),
        };
        let message = format!("failed to unpack {} {}: {said}", wheel.name, wheel.version);
        Err(fail(ExitCode::Environment, message, "df -h target; then run the same command again"))
    }
}

/// Whether `dir` holds what this lock was unpacked to: every file with the size and time it had then.
pub fn is_installed(lock: &Digest, dir: &Path) -> bool {
    let marker =
        std::fs::read(dir.join(MARKER)).ok().and_then(|bytes| serde_json::from_slice::<Installed>(&bytes).ok());
    marker.is_some_and(|marker| {
        let unchanged = |entry: &Entry| {
            std::fs::metadata(dir.join(&entry.path))
                .is_ok_and(|m| m.len() == entry.bytes && mtime_ns(&m) == entry.mtime_ns)
        };
        marker.lock == *lock && marker.files.iter().all(unchanged)
    })
}

fn entries(dir: &Path) -> Result<Vec<Entry>> {
    let mut files = files_below(dir);
    files.sort();
    let entry = |file: PathBuf| {
        let metadata = fs_err::metadata(&file)?;
        let path = file.strip_prefix(dir).context("a file below its folder")?.to_owned();
        Ok(Entry { path, bytes: metadata.len(), mtime_ns: mtime_ns(&metadata), sha256: Digest::of_file(&file)? })
    };
    files.into_par_iter().map(entry).collect()
}

fn mtime_ns(metadata: &std::fs::Metadata) -> i128 {
    i128::from(metadata.mtime()) * 1_000_000_000 + i128::from(metadata.mtime_nsec())
}

/// A zip reader that keeps no modes leaves programs that cannot run, and a strict umask files that a container cannot read.
fn set_modes(dir: &Path) -> Result<()> {
    for entry in fs_err::read_dir(dir)? {
        let path = entry?.path();
        let folder = path.is_dir();
        if folder {
            set_modes(&path)?;
        }
        let mode = if folder || is_program(&path) { 0o755 } else { 0o644 };
        fs_err::set_permissions(&path, std::fs::Permissions::from_mode(mode))?;
    }
    Ok(())
}

fn is_program(path: &Path) -> bool {
    let programs = |dir: &Path| dir.ends_with("bin") || dir.ends_with("compute-sanitizer");
    path.parent().is_some_and(programs)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn python(args: &[&str]) {
        let done = std::process::Command::new("python3").args(args).status().unwrap();
        assert!(done.success());
    }

    /// A wheel with one program and one header.
    fn made(dir: &Path) -> (Lock, PathBuf) {
        let file = dir.join("one.whl");
        let script = "import sys,zipfile\nz=zipfile.ZipFile(sys.argv[1],'w')\nz.writestr('nvidia/cu13/bin/nvcc','#!/bin/sh\\n')\n\
                      z.writestr('nvidia/cu13/include/a.h','//')";
        python(&["-c", script, &file.display().to_string()]);
        let sha256 = Digest::of_file(&file).unwrap();
        let wheel = Wheel { name: "one".into(), version: "1".into(), sha256, bytes: 1 };
        (Lock { digest: Digest::of("lock"), wheels: vec![wheel] }, file)
    }

    fn unpacker() -> Unpacker {
        Unpacker { env: vec![("PATH".into(), std::env::var("PATH").unwrap()), ("HOME".into(), "/tmp".into())] }
    }

    #[test]
    fn what_was_unpacked_is_known_until_it_changes() {
        let dir = tempfile::tempdir().unwrap();
        let (lock, file) = made(dir.path());
        let into = dir.path().join("toolkit");
        assert!(!is_installed(&lock.digest, &into));
        unpacker().unpack(&lock, &[file], &into).unwrap();
        assert!(is_installed(&lock.digest, &into));
        assert!(!is_installed(&Digest::of("another lock"), &into));
        let mode = |path: &str| std::fs::metadata(into.join(path)).unwrap().mode() & 0o777;
        assert_eq!((mode("nvidia/cu13/bin/nvcc"), mode("nvidia/cu13/include/a.h")), (0o755, 0o644));
        std::fs::write(into.join("nvidia/cu13/include/a.h"), "///").unwrap();
        assert!(!is_installed(&lock.digest, &into));
    }

    #[test]
    fn a_reader_that_ends_well_and_leaves_nothing_has_unpacked_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let (lock, file) = made(dir.path());
        let fake = concat!(env!("CARGO_MANIFEST_DIR"), "/../fixtures/fake:/usr/bin:/bin");
        let env = [("PATH", fake), ("FAKE_LOG", "/dev/null"), ("FAKE_DO", "exit 0")];
        let idle = Unpacker { env: env.map(|(key, value)| (key.to_owned(), value.to_owned())).to_vec() };
        let into = dir.path().join("toolkit");
        let error = idle.unpack(&lock, &[file], &into).unwrap_err();
        assert!(error.to_string().contains("left no file"), "{error}");
        assert!(!into.exists());
    }

    #[test]
    fn a_wheel_that_changed_after_the_fetch_is_not_unpacked() {
        let dir = tempfile::tempdir().unwrap();
        let (lock, file) = made(dir.path());
        std::fs::write(&file, "other").unwrap();
        let into = dir.path().join("toolkit");
        assert!(unpacker().unpack(&lock, &[file], &into).is_err());
        assert!(!into.exists());
    }
}
