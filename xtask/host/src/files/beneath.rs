//! Opens the plain files below a folder whose content is untrusted, without ever leaving it.
//!
//! The folder is opened once. From there on each part of a name is opened in the folder before it and no link is
//! followed, so neither a name nor a link, not even one that is put there between a check and its use, leads
//! elsewhere. Nothing but a plain file is opened: reading a pipe would wait for ever, and opening a device may
//! already do something.

use anyhow::{Context, Result, bail, ensure};
use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, Stat, fstat, openat, statat};
use rustix::io::Errno;
use std::ffi::OsStr;
use std::fs::File;
use std::io::Read;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use words::names::check_name;

const FOLDER: OFlags = OFlags::DIRECTORY.union(OFlags::CLOEXEC).union(OFlags::RDONLY);
const PLAIN: OFlags =
    OFlags::RDONLY.union(OFlags::NOFOLLOW).union(OFlags::NONBLOCK).union(OFlags::NOCTTY).union(OFlags::CLOEXEC);

/// An open folder.
#[derive(Debug)]
pub struct Beneath {
    dir: OwnedFd,
    shown: PathBuf,
}

/// The folder that the last file was opened in.
#[derive(Debug, Default)]
pub struct Folder {
    path: String,
    open: Option<OwnedFd>,
}

/// An open plain file.
#[derive(Debug)]
pub struct Plain {
    /// The file.
    pub file: File,
    /// Its length in bytes when it was opened.
    pub bytes: u64,
}

impl Beneath {
    /// Opens a folder that may be reached through links: the caller vouches for the path to it.
    ///
    /// # Errors
    /// When it cannot be opened.
    pub fn open(dir: &Path) -> Result<Self> {
        let fd =
            openat(CWD, dir, FOLDER, Mode::empty()).with_context(|| format!("failed to open {}", dir.display()))?;
        Ok(Self { dir: fd, shown: dir.to_owned() })
    }

    /// Opens a folder that must not be a link itself.
    ///
    /// # Errors
    /// When it is a link or cannot be opened.
    pub fn open_itself(dir: &Path) -> Result<Self> {
        let fd = openat(CWD, dir, FOLDER | OFlags::NOFOLLOW, Mode::empty());
        let fd = fd.with_context(|| format!("{} is no folder of its own", dir.display()))?;
        Ok(Self { dir: fd, shown: dir.to_owned() })
    }

    /// Opens a plain file; absent when nothing lies there.
    ///
    /// # Errors
    /// When the name is not one below the folder, goes through a link or is one, or is anything but a plain file.
    pub fn file(&self, name: &str) -> Result<Option<Plain>> {
        self.file_in(&mut Folder::default(), name)
    }

    /// As [`Beneath::file`], for many names in order: the folder of the last one stays open.
    ///
    /// # Errors
    /// As [`Beneath::file`].
    pub fn file_in(&self, last: &mut Folder, name: &str) -> Result<Option<Plain>> {
        check_name(name)?;
        let (path, leaf) = name.rsplit_once('/').unwrap_or(("", name));
        let mut opened = || -> Result<Option<Plain>> {
            if path.is_empty() {
                return plain_in(self.dir.as_fd(), OsStr::new(leaf));
            }
            if last.open.is_none() || last.path != path {
                last.open = self.folder(path)?;
                path.clone_into(&mut last.path);
            }
            last.open.as_ref().map_or(Ok(None), |folder| plain_in(folder.as_fd(), OsStr::new(leaf)))
        };
        opened().with_context(|| format!("failed to open {}", self.shown.join(name).display()))
    }

    /// Opens a folder below, part by part; absent when nothing lies there.
    fn folder(&self, path: &str) -> Result<Option<OwnedFd>> {
        let mut folder: Option<OwnedFd> = None;
        for part in path.split('/') {
            let at = folder.as_ref().map_or(self.dir.as_fd(), AsFd::as_fd);
            match openat(at, part, FOLDER | OFlags::NOFOLLOW, Mode::empty()) {
                Ok(fd) => folder = Some(fd),
                Err(Errno::NOENT) => return Ok(None),
                Err(Errno::LOOP | Errno::NOTDIR) => bail!("it does not lie below a folder of its own"),
                Err(error) => return Err(error.into()),
            }
        }
        Ok(folder)
    }

    /// Reads a plain file of at most `most` bytes; absent when nothing lies there.
    ///
    /// # Errors
    /// As [`Beneath::file`], or when it is longer or cannot be read.
    pub fn read(&self, name: &str, most: u64) -> Result<Option<Vec<u8>>> {
        let Some(plain) = self.file(name)? else { return Ok(None) };
        plain.read(most).with_context(|| self.shown.join(name).display().to_string()).map(Some)
    }

    /// The open folder.
    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.dir.as_fd()
    }

    /// The folder's path, for messages.
    #[must_use]
    pub fn shown(&self) -> &Path {
        &self.shown
    }
}

impl Plain {
    /// Reads the whole file.
    ///
    /// # Errors
    /// When it is longer than `most` bytes, now or by the time its end is reached, or cannot be read.
    pub fn read(mut self, most: u64) -> Result<Vec<u8>> {
        let bytes = self.bytes;
        ensure!(bytes <= most, "{bytes} bytes are more than such a file may have ({most})");
        let mut read = Vec::with_capacity(usize::try_from(bytes)?);
        Read::by_ref(&mut self.file).take(most + 1).read_to_end(&mut read)?;
        ensure!(read.len() as u64 <= most, "it grew while it was read");
        Ok(read)
    }
}

/// Opens a plain file at a path that the caller vouches for, but for its last part; absent when nothing lies there.
///
/// # Errors
/// When the path does not end in a name, or that is a link or anything but a plain file.
pub(super) fn plain_at(path: &Path) -> Result<Option<Plain>> {
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let leaf = path.file_name().with_context(|| format!("{} does not end in a name", path.display()))?;
    let open = || plain_in(openat(CWD, parent, FOLDER, Mode::empty())?.as_fd(), leaf);
    open().with_context(|| format!("failed to open {}", path.display()))
}

/// Looks before it opens, and again at what was opened.
fn plain_in(folder: BorrowedFd<'_>, leaf: &OsStr) -> Result<Option<Plain>> {
    match statat(folder, leaf, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) => ensure!(is_plain(&stat), "it is not a plain file"),
        Err(Errno::NOENT) => return Ok(None),
        Err(error) => return Err(error.into()),
    }
    let fd = openat(folder, leaf, PLAIN, Mode::empty())?;
    let stat = fstat(&fd)?;
    ensure!(is_plain(&stat), "it is not a plain file");
    Ok(Some(Plain { file: File::from(fd), bytes: length(&stat) }))
}

pub(super) fn is_plain(stat: &Stat) -> bool {
    FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile
}

/// A file's length; what stat gives is never negative.
pub(super) fn length(stat: &Stat) -> u64 {
    u64::try_from(stat.st_size).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    /// `run/` with a file in it and one beside it, which no name may reach.
    fn folder() -> (tempfile::TempDir, Beneath) {
        let dir = tempfile::tempdir().unwrap();
        fs_err::create_dir_all(dir.path().join("run/cells")).unwrap();
        fs_err::write(dir.path().join("run/cells/a.json"), "inside").unwrap();
        fs_err::create_dir(dir.path().join("away")).unwrap();
        fs_err::write(dir.path().join("away/a.json"), "outside").unwrap();
        let beneath = Beneath::open_itself(&dir.path().join("run")).unwrap();
        (dir, beneath)
    }

    #[test]
    fn a_file_below_is_read_and_an_absent_one_is_absent() {
        let (_dir, run) = folder();
        assert_eq!(run.read("cells/a.json", 6).unwrap().unwrap(), b"inside");
        assert!(run.read("cells/b.json", 6).unwrap().is_none() && run.read("none/b.json", 6).unwrap().is_none());
        assert!(format!("{:#}", run.read("cells/a.json", 5).unwrap_err()).contains("more than such a file may have"));
    }

    #[test]
    fn no_name_and_no_link_leads_out() {
        let (dir, run) = folder();
        let secret = dir.path().join("away/a.json");
        symlink(&secret, dir.path().join("run/link.json")).unwrap();
        symlink(dir.path().join("away"), dir.path().join("run/folder")).unwrap();
        symlink("../away", dir.path().join("run/cells/up")).unwrap();
        let absolute = secret.display().to_string();
        let names = [
            "../away/a.json",
            &absolute,
            "cells/../../away/a.json",
            "link.json",
            "folder/a.json",
            "cells/up/a.json",
            "cells",
        ];
        for name in names.into_iter().chain(["cells\\a.json", "cells/a.json\0", "cells//a.json", "./cells/a.json"]) {
            assert!(run.file(name).is_err(), "{name}");
        }
        symlink(dir.path().join("run"), dir.path().join("linked")).unwrap();
        assert!(Beneath::open_itself(&dir.path().join("linked")).is_err());
        Beneath::open(&dir.path().join("linked")).unwrap();
    }

    #[test]
    fn a_folder_that_becomes_a_link_later_is_not_followed() {
        let (dir, run) = folder();
        assert!(run.file("cells/a.json").unwrap().is_some());
        fs_err::rename(dir.path().join("run/cells"), dir.path().join("run/old")).unwrap();
        symlink("../away", dir.path().join("run/cells")).unwrap();
        assert!(run.file("cells/a.json").is_err());
        // What was opened stays the same, even when the folder itself is replaced.
        fs_err::rename(dir.path().join("run"), dir.path().join("moved")).unwrap();
        symlink("away", dir.path().join("run")).unwrap();
        assert!(run.file("a.json").unwrap().is_none() && run.file("old/a.json").unwrap().is_some());
    }

    #[test]
    fn pipes_sockets_and_devices_are_not_opened() {
        let (dir, run) = folder();
        let at = |name: &str| dir.path().join("run").join(name);
        let _socket = std::os::unix::net::UnixListener::bind(at("socket")).unwrap();
        rustix::fs::mknodat(CWD, at("pipe"), FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        for name in ["socket", "pipe"] {
            assert!(format!("{:#}", run.file(name).unwrap_err()).contains("not a plain file"), "{name}");
        }
        // Only root makes devices: 1, 3 is the null device.
        match rustix::fs::mknodat(CWD, at("device"), FileType::CharacterDevice, Mode::RUSR, rustix::fs::makedev(1, 3)) {
            Ok(()) => assert!(format!("{:#}", run.file("device").unwrap_err()).contains("not a plain file")),
            Err(error) => eprintln!("skipped: a device ({error})"),
        }
    }
}
