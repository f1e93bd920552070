//! The one error a caller branches on: a message, the documented exit code, and the next thing to type.

use schema::ExitCode;
use std::io::ErrorKind;

/// An operating failure with its exit code.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{message}")]
pub struct Failure {
    /// The exit code.
    pub code: ExitCode,
    /// What is wrong, and where.
    pub message: String,
    /// The next thing to type; empty when the message says it.
    pub remedy: String,
}

impl Failure {
    /// What an error says, to be said again.
    #[must_use]
    pub fn of(error: &anyhow::Error) -> Self {
        let remedy = remedy_of(error).unwrap_or_default().to_owned();
        Self { code: code_of(error), message: format!("{error:#}"), remedy }
    }
}

/// An error that ends the command with `code`.
pub fn fail(code: ExitCode, message: impl Into<String>, remedy: impl Into<String>) -> anyhow::Error {
    Failure { code, message: message.into(), remedy: remedy.into() }.into()
}

/// The exit code an error ends with: its own where it has one, [`ExitCode::Environment`] where a disk is full or a file may
/// not be touched, otherwise [`ExitCode::Bug`].
pub fn code_of(error: &anyhow::Error) -> ExitCode {
    match failure_in(error) {
        Some(failure) => failure.code,
        None if disk_remedy(error).is_some() => ExitCode::Environment,
        None => ExitCode::Bug,
    }
}

/// What to type next, where the error says so.
pub fn remedy_of(error: &anyhow::Error) -> Option<&str> {
    match failure_in(error) {
        Some(failure) => Some(failure.remedy.as_str()).filter(|remedy| !remedy.is_empty()),
        None => disk_remedy(error),
    }
}

/// What to type where the disk, and not what was asked, is the cause.
fn disk_remedy(error: &anyhow::Error) -> Option<&'static str> {
    let kind = error.chain().find_map(|cause| cause.downcast_ref::<std::io::Error>())?.kind();
    match kind {
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => {
            Some("df -h . and df -i . ; free some, then the same command again: nothing that was cut off is used")
        }
        ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => Some(
            "ls -l the file; what another user left (a container run as root, sudo) is not read past: \
             sudo chown it to yourself, or remove it",
        ),
        _ => None,
    }
}

fn failure_in(error: &anyhow::Error) -> Option<&Failure> {
    error.chain().find_map(|cause| cause.downcast_ref())
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
    fn a_full_disk_and_somebody_elses_file_are_no_bugs_of_ours() {
        for (kind, remedy) in [
            (ErrorKind::StorageFull, "df -i"),
            (ErrorKind::QuotaExceeded, "df -i"),
            (ErrorKind::PermissionDenied, "chown"),
            (ErrorKind::ReadOnlyFilesystem, "chown"),
        ] {
            let error = anyhow::Error::from(std::io::Error::new(kind, "x")).context("failed to write");
            assert_eq!(code_of(&error), ExitCode::Environment);
            assert!(remedy_of(&error).unwrap().contains(remedy));
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
