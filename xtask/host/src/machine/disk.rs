//! Free space on the file systems that a run writes to: bytes and inodes, either of which may run out first.

use crate::failure::fail;
use anyhow::Result;
use schema::ExitCode;
use std::path::{Path, PathBuf};
use words::docker_says::Kind;

/// What is free on a file system for who asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Free {
    /// Bytes.
    pub bytes: u64,
    /// Files that may still be made; absent where the file system sets no such bound.
    pub inodes: Option<u64>,
}

/// Something that knows what is free.
pub trait DiskProbe {
    /// What is free where `path` lies.
    ///
    /// # Errors
    /// When there is no such path, or it cannot be asked.
    fn free(&self, path: &Path) -> std::io::Result<Free>;
}

/// This machine's file systems.
#[derive(Clone, Copy, Debug)]
pub struct Disks;

impl DiskProbe for Disks {
    fn free(&self, path: &Path) -> std::io::Result<Free> {
        let stat = rustix::fs::statvfs(path)?;
        let inodes = (stat.f_files > 0).then_some(stat.f_favail);
        Ok(Free { bytes: stat.f_bavail * stat.f_frsize, inodes })
    }
}

/// A place that is written to, and what it needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// What it is for people, e.g. `docker's root folder`.
    pub what: &'static str,
    /// Where it is.
    pub path: PathBuf,
    /// Less than this ends a step half-way.
    pub least: Free,
    /// Less than this may.
    pub good: Free,
}

/// How much room a place has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Room {
    /// As much as is good; in words.
    Good(String),
    /// Less; in words.
    Little(String),
    /// Too little to begin; in words.
    TooLittle(String),
    /// It cannot be asked, or is not on this machine; in words.
    Unknown(String),
}

impl Place {
    /// The checkout: toolkit and wheels take 0.5 GB, a build tree 3 GB, a run well below 1 GB.
    pub fn checkout(path: &Path) -> Self {
        Self::new("the checkout", path, [2_000, 8_000], [10_000, 200_000])
    }

    /// Where the engine keeps images: the base takes 2 GB and is unpacked beside its packed form.
    pub fn docker(path: &Path) -> Self {
        Self::new("docker's root folder", path, [2_000, 8_000], [10_000, 200_000])
    }

    /// Where programs put what they need for a moment: compilers and a build's context.
    pub fn temporary(path: &Path) -> Self {
        Self::new("the folder for temporary files", path, [100, 1_000], [1_000, 10_000])
    }

    fn new(what: &'static str, path: &Path, [least, good]: [u64; 2], [least_inodes, good_inodes]: [u64; 2]) -> Self {
        let free = |megabytes: u64, inodes| Free { bytes: megabytes * 1_000_000, inodes: Some(inodes) };
        Self { what, path: path.to_owned(), least: free(least, least_inodes), good: free(good, good_inodes) }
    }

    /// Judges the room by what is free.
    pub fn room(&self, probe: &dyn DiskProbe) -> Room {
        let free = match probe.free(&self.path) {
            Ok(free) => free,
            Err(error) => return Room::Unknown(format!("{} ({}): {error}", self.what, self.path.display())),
        };
        let found = format!("{} in {} ({})", free.words(), self.path.display(), self.what);
        match () {
            () if free.is_below(&self.least) => Room::TooLittle(format!("{found}; {} needed", self.least.words())),
            () if free.is_below(&self.good) => Room::Little(format!("{found}; {} would be good", self.good.words())),
            () => Room::Good(found),
        }
    }

    /// Refuses to begin where there is too little room. What cannot be asked, such as the disk of a daemon elsewhere, is left.
    ///
    /// # Errors
    /// [`ExitCode::Environment`], with what is free and where.
    pub fn require(&self, probe: &dyn DiskProbe) -> Result<()> {
        match self.room(probe) {
            Room::TooLittle(found) => {
                Err(fail(ExitCode::Environment, format!("too little disk: {found}"), Kind::DiskFull.remedy()))
            }
            Room::Good(_) | Room::Little(_) | Room::Unknown(_) => Ok(()),
        }
    }
}

impl Free {
    fn is_below(self, least: &Self) -> bool {
        self.bytes < least.bytes || matches!((self.inodes, least.inodes), (Some(free), Some(least)) if free < least)
    }

    fn words(self) -> String {
        let tenths = self.bytes / 100_000_000;
        let inodes = self.inodes.map_or(String::new(), |inodes| format!(" and {inodes} inodes"));
        format!("{}.{} GB{inodes} free", tenths / 10, tenths % 10)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::failure::code_of;

    /// A disk with so many megabytes and inodes.
    struct Fake(u64, Option<u64>);

    impl DiskProbe for Fake {
        fn free(&self, _: &Path) -> std::io::Result<Free> {
            Ok(Free { bytes: self.0 * 1_000_000, inodes: self.1 })
        }
    }

    fn room(probe: &dyn DiskProbe) -> Room {
        Place::docker(Path::new("/var/lib/docker")).room(probe)
    }

    #[test]
    fn bytes_and_inodes_run_out_apart() {
        assert!(matches!(room(&Fake(50_000, Some(1_000_000))), Room::Good(_)));
        assert!(matches!(room(&Fake(50_000, None)), Room::Good(_)));
        assert!(matches!(room(&Fake(7_999, Some(1_000_000))), Room::Little(_)));
        assert!(matches!(room(&Fake(50_000, Some(199_999))), Room::Little(_)));
        assert!(matches!(room(&Fake(1_999, None)), Room::TooLittle(_)));
        let full = room(&Fake(50_000, Some(3)));
        assert!(
            matches!(&full, Room::TooLittle(found) if found.contains("3 inodes") && found.contains("/var/lib/docker"))
        );
    }

    #[test]
    fn too_little_is_refused_with_where_and_what_to_type() {
        let place = Place::temporary(Path::new("/tmp"));
        place.require(&Fake(100, Some(1_000))).unwrap();
        let error = place.require(&Fake(99, Some(1_000))).unwrap_err();
        assert_eq!(code_of(&error), ExitCode::Environment);
        assert!(error.to_string().contains("0.0 GB and 1000 inodes free in /tmp"), "{error}");
        assert!(crate::failure::remedy_of(&error).unwrap().contains("df -i"));
    }

    #[test]
    fn a_real_file_system_is_asked_and_an_absent_one_is_not_full() {
        // The kernel's own file system has no room at all.
        assert!(matches!(Place::docker(Path::new("/proc")).room(&Disks), Room::TooLittle(_)));
        assert!(Disks.free(Path::new("/")).unwrap().bytes > 0);
        let absent = Place::docker(Path::new("/no/such/folder"));
        assert!(matches!(absent.room(&Disks), Room::Unknown(_)));
        absent.require(&Disks).unwrap();
    }
}
