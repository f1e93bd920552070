//! Which exit code an error ends with, and what to type next; a fault of this machine is told apart from a fault of
//! the data that was read.

use rustix::io::Errno;
use schema::ExitCode;
use std::io::ErrorKind;

pub use words::failure::{Failure, fail};

/// Why a way is not taken.
#[derive(Debug)]
pub enum Denied {
    /// It cannot be had here; another may do.
    Cannot(anyhow::Error),
    /// Something is wrong that no other way makes right.
    Refused(anyhow::Error),
}

impl Denied {
    /// The error, for a caller who asked for this way and no other.
    pub fn into_error(self) -> anyhow::Error {
        match self {
            Self::Cannot(error) | Self::Refused(error) => error,
        }
    }

    /// A failure of the environment leaves other ways open; a bug or an interruption does not.
    pub fn of(error: anyhow::Error) -> Self {
        match code_of(&error) {
            ExitCode::Environment => Self::Cannot(error),
            _ => Self::Refused(error),
        }
    }

    /// It cannot be had here, for this reason.
    pub fn cannot(message: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self::Cannot(fail(ExitCode::Environment, message, remedy))
    }
}

impl From<anyhow::Error> for Denied {
    fn from(error: anyhow::Error) -> Self {
        Self::Refused(error)
    }
}

/// What an error says, to be said again.
#[must_use]
pub fn failure_of(error: &anyhow::Error) -> Failure {
    let remedy = remedy_of(error).unwrap_or_default().to_owned();
    Failure { code: code_of(error), message: format!("{error:#}"), remedy }
}

/// The exit code an error ends with: its own where it has one, [`ExitCode::Environment`] where the machine is at fault,
/// otherwise [`ExitCode::Bug`].
pub fn code_of(error: &anyhow::Error) -> ExitCode {
    match Failure::in_chain(error) {
        Some(failure) => failure.code,
        None if of_the_machine(error) => ExitCode::Environment,
        None => ExitCode::Bug,
    }
}

/// What to type next, where the error says so.
pub fn remedy_of(error: &anyhow::Error) -> Option<&str> {
    match Failure::in_chain(error) {
        Some(failure) => Some(failure.remedy.as_str()).filter(|remedy| !remedy.is_empty()),
        None => machine_remedy(error),
    }
}

/// Whether the machine, and not what was looked at, is the cause: then nothing was found out about what was looked at.
pub fn of_the_machine(error: &anyhow::Error) -> bool {
    match Failure::in_chain(error) {
        Some(failure) => failure.code == ExitCode::Environment,
        None => machine_remedy(error).is_some(),
    }
}

/// What was looked at does not hold, for the reason that an error gives; unless the machine kept us from looking, which says
/// nothing of it and is [`ExitCode::Environment`].
pub fn does_not_hold(what: &str, error: &anyhow::Error, remedy: impl Into<String>) -> anyhow::Error {
    let message = format!("{what}: {error:#}");
    match of_the_machine(error) {
        true => fail(ExitCode::Environment, message, remedy_of(error).unwrap_or_default()),
        false => fail(ExitCode::Integrity, message, remedy),
    }
}

/// What to type where the machine is the cause: a disk, a right, a limit or a shortage.
fn machine_remedy(error: &anyhow::Error) -> Option<&'static str> {
    let of_cause = |cause: &(dyn std::error::Error + 'static)| match cause.downcast_ref::<std::io::Error>() {
        Some(error) => of_kind(error.kind()).or_else(|| of_errno(errno(error)?)),
        None => of_errno(*cause.downcast_ref::<Errno>()?),
    };
    error.chain().find_map(of_cause)
}

/// The system's number of an error. The file library that is used everywhere keeps it in its words alone.
fn errno(error: &std::io::Error) -> Option<Errno> {
    let told = |text: String| text.rsplit_once("(os error ")?.1.trim_end_matches(')').parse().ok();
    error.raw_os_error().or_else(|| told(error.to_string())).map(Errno::from_raw_os_error)
}

fn of_kind(kind: ErrorKind) -> Option<&'static str> {
    match kind {
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => of_errno(Errno::NOSPC),
        ErrorKind::PermissionDenied => of_errno(Errno::ACCESS),
        ErrorKind::ReadOnlyFilesystem => of_errno(Errno::ROFS),
        _ => None,
    }
}

fn of_errno(errno: Errno) -> Option<&'static str> {
    match errno {
        Errno::NOSPC | Errno::DQUOT => {
            Some("df -h . and df -i . ; free some, then the same command again: no incomplete file is used")
        }
        Errno::ACCESS | Errno::PERM | Errno::ROFS => Some(
            "ls -l the file; what another user left (a container run as root, sudo) is not read past: \
             sudo chown it to yourself, or remove it",
        ),
        Errno::FBIG => Some("ulimit -f unlimited, then the same command again: no incomplete file is used"),
        Errno::MFILE | Errno::NFILE => Some("ulimit -n 1024, then the same command again"),
        Errno::NOMEM | Errno::AGAIN => Some("free -m; ulimit -u; end other programs, then the same command again"),
        Errno::IO | Errno::STALE | Errno::TIMEDOUT => Some("dmesg | tail; the disk or its network does not respond"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use anyhow::Context;

    #[test]
    fn context_keeps_code_and_remedy() {
        let error =
            Err::<(), _>(fail(ExitCode::Build, "nvcc failed", "cargo xtask build")).context("outer").unwrap_err();
        assert_eq!(code_of(&error), ExitCode::Build);
        assert_eq!(remedy_of(&error), Some("cargo xtask build"));
        assert_eq!(code_of(&anyhow::anyhow!("bare")), ExitCode::Bug);
    }

    #[test]
    fn what_could_not_be_looked_at_is_not_said_to_be_broken() {
        let of = |error: anyhow::Error| does_not_hold("cell 3", &error.context("failed to read"), "--fresh");
        let changed = of(anyhow::anyhow!("it has changed"));
        assert_eq!((code_of(&changed), remedy_of(&changed)), (ExitCode::Integrity, Some("--fresh")));
        for errno in [Errno::MFILE, Errno::IO, Errno::ACCESS, Errno::NOSPC] {
            let error = of(errno.into());
            assert_eq!(code_of(&error), ExitCode::Environment);
            assert!(error.to_string().starts_with("cell 3: failed to read: "), "{error}");
            assert!(!remedy_of(&error).unwrap().contains("--fresh"));
        }
    }

    #[test]
    fn a_full_disk_and_somebody_elses_file_are_no_bugs_of_ours() {
        let check = |error: anyhow::Error, remedy: &str| {
            let error = error.context("failed to write");
            assert_eq!(code_of(&error), ExitCode::Environment);
            assert!(remedy_of(&error).unwrap().contains(remedy), "{error:#}");
        };
        for (kind, remedy) in [
            (ErrorKind::StorageFull, "df -i"),
            (ErrorKind::QuotaExceeded, "df -i"),
            (ErrorKind::PermissionDenied, "chown"),
            (ErrorKind::ReadOnlyFilesystem, "chown"),
        ] {
            check(std::io::Error::new(kind, "x").into(), remedy);
        }
        // As either library for system calls gives them.
        for (errno, remedy) in [
            (Errno::NOSPC, "df -i"),
            (Errno::DQUOT, "df -i"),
            (Errno::ACCESS, "chown"),
            (Errno::PERM, "chown"),
            (Errno::FBIG, "ulimit -f"),
            (Errno::MFILE, "ulimit -n"),
            (Errno::AGAIN, "ulimit -u"),
            (Errno::IO, "dmesg"),
        ] {
            check(errno.into(), remedy);
            let plain = std::io::Error::from(errno);
            check(std::io::Error::other(format!("failed to write to file `a`: {plain}")).into(), remedy);
            check(plain.into(), remedy);
        }
        let absent = anyhow::Error::from(std::io::Error::new(ErrorKind::NotFound, "x"));
        assert_eq!((code_of(&absent), remedy_of(&absent)), (ExitCode::Bug, None));
        // As the file library that is used everywhere wraps it.
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("old");
        std::fs::write(&file, "of an earlier run").unwrap();
        std::fs::set_permissions(&file, std::os::unix::fs::PermissionsExt::from_mode(0o0)).unwrap();
        match fs_err::read(&file) {
            Err(error) => assert_eq!(code_of(&error.into()), ExitCode::Environment),
            Ok(_) => eprintln!("skipped: a file that may not be read (root reads every one)"),
        }
    }
}
