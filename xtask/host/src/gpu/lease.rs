//! The lease file: who holds the clocks of which GPU, written before the first setter call and removed after the
//! last.
//!
//! A holder that was killed leaves it behind, and the next start finds it. A process id alone does not identify the
//! holder, since ids are reused; the file records id, start time and boot.

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use std::io::Write;
use std::path::{Path, PathBuf};

/// A lease.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Lease {
    /// Format version.
    pub format: u32,
    /// The GPU's UUID. This file never leaves the machine.
    pub gpu: String,
    /// Who holds it.
    pub holder: Process,
    /// What was read before the lock.
    pub before: Before,
}

/// A process, named so that it cannot be mistaken for a later one of the same id.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Process {
    /// Its id.
    pub pid: u32,
    /// Its start, in clock ticks since boot.
    pub start_ticks: u64,
    /// The boot it ran in.
    pub boot_id: String,
}

/// The state before the lock. The library cannot say which locks were set, so this is what it can say.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Before {
    /// SM clock in MHz; absent when it could not be read.
    pub sm_mhz: Option<u32>,
    /// Memory clock in MHz; absent when it could not be read.
    pub memory_mhz: Option<u32>,
    /// Reason bits; absent when they could not be read.
    pub throttle: Option<u64>,
}

/// What a lease on disk means now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Standing {
    /// Its holder lives.
    Held,
    /// Its holder is gone; the clocks may still be locked.
    Stale,
    /// The machine has booted since, which undoes every lock.
    Rebooted,
}

impl Process {
    /// This process.
    ///
    /// # Errors
    /// When `/proc` cannot be read.
    pub fn this() -> Result<Self> {
        let pid = std::process::id();
        let start_ticks = start_ticks(pid).context("failed to read this process's start time from /proc")?;
        Ok(Self { pid, start_ticks, boot_id: boot_id()? })
    }

    fn standing(&self) -> Result<Standing> {
        Ok(match (boot_id()? == self.boot_id, start_ticks(self.pid) == Some(self.start_ticks)) {
            (false, _) => Standing::Rebooted,
            (true, true) => Standing::Held,
            (true, false) => Standing::Stale,
        })
    }
}

impl Lease {
    /// The lease at `path`; `None` when there is none.
    ///
    /// # Errors
    /// When it cannot be read or is no lease of a known format.
    pub fn read(path: &Path) -> Result<Option<Self>> {
        let text = match fs_err::read_to_string(path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            other => other?,
        };
        let lease: Self =
            serde_json::from_str(&text).with_context(|| format!("{} is not a clock lease", path.display()))?;
        schema::check_format(&path.display().to_string(), lease.format)?;
        Ok(Some(lease))
    }

    /// What it means now.
    ///
    /// # Errors
    /// When `/proc` cannot be read.
    pub fn standing(&self) -> Result<Standing> {
        self.holder.standing()
    }

    /// Writes the lease; fails when there is one already.
    ///
    /// The writer may be root and the directory a user's, so it links a finished file into place: a link is never followed
    /// and never replaces anything.
    ///
    /// # Errors
    /// When there is a file of that name, or writing fails.
    pub fn create(&self, path: &Path) -> Result<()> {
        let dir = path.parent().context("a lease needs a directory")?;
        fs_err::create_dir_all(dir)?;
        let mut file = tempfile::NamedTempFile::new_in(dir)?;
        file.write_all(&serde_json::to_vec(self)?)?;
        file.as_file().sync_all()?;
        // A user must be able to read what root wrote.
        let readable = std::os::unix::fs::PermissionsExt::from_mode(0o644);
        file.as_file().set_permissions(readable)?;
        file.persist_noclobber(path).with_context(|| format!("failed to create the lease {}", path.display()))?;
        Ok(())
    }
}

/// Where the lease lies below the state directory.
#[must_use]
pub fn path(paths: &crate::paths::Paths) -> PathBuf {
    paths.state().join("clocks.lease")
}

fn boot_id() -> Result<String> {
    Ok(fs_err::read_to_string("/proc/sys/kernel/random/boot_id")?.trim().to_owned())
}

/// Field 22 of `/proc/<pid>/stat` (proc(5)); a zombie counts as gone, since it restores nothing any more.
fn start_ticks(pid: u32) -> Option<u64> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The second field is a name in brackets, which may hold spaces and brackets itself.
    let mut fields = stat[stat.rfind(')')? + 1..].split_whitespace();
    let state = fields.next()?;
    if matches!(state, "Z" | "X") { None } else { fields.nth(18)?.parse().ok() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lease(holder: Process) -> Lease {
        let before = Before { sm_mhz: Some(345), memory_mhz: None, throttle: Some(1) };
        Lease { format: schema::FORMAT, gpu: "GPU-1".to_owned(), holder, before }
    }

    #[test]
    fn a_lease_comes_back_and_is_never_overwritten() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("state/clocks.lease");
        assert_eq!(Lease::read(&path).unwrap(), None);
        let mine = lease(Process::this().unwrap());
        mine.create(&path).unwrap();
        assert_eq!(Lease::read(&path).unwrap().unwrap(), mine);
        assert!(mine.create(&path).is_err());
        crate::files::remove(&path).unwrap();
        crate::files::remove(&path).unwrap();
        assert_eq!(Lease::read(&path).unwrap(), None);
    }

    #[test]
    fn a_link_in_the_lease_s_place_is_not_followed() {
        let dir = tempfile::tempdir().unwrap();
        let (target, path) = (dir.path().join("precious"), dir.path().join("clocks.lease"));
        std::os::unix::fs::symlink(&target, &path).unwrap();
        assert!(lease(Process::this().unwrap()).create(&path).is_err());
        assert!(!target.exists());
    }

    #[test]
    fn a_holder_is_alive_only_as_itself() {
        let this = Process::this().unwrap();
        assert_eq!(lease(this.clone()).standing().unwrap(), Standing::Held);
        let reused = Process { start_ticks: this.start_ticks + 1, ..this.clone() };
        assert_eq!(lease(reused).standing().unwrap(), Standing::Stale);
        let rebooted = Process { boot_id: "another".to_owned(), ..this };
        assert_eq!(lease(rebooted).standing().unwrap(), Standing::Rebooted);
    }

    #[test]
    fn a_torn_or_newer_lease_is_an_error() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("clocks.lease");
        std::fs::write(&path, "{").unwrap();
        assert!(Lease::read(&path).is_err());
        let newer = Lease { format: schema::FORMAT + 1, ..lease(Process::this().unwrap()) };
        newer.create(&dir.path().join("newer")).unwrap();
        assert!(Lease::read(&dir.path().join("newer")).is_err());
    }
}
