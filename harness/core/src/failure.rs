//! The one error that `main` looks at: a message and the documented exit code.

use schema::ExitCode;
use std::io::ErrorKind;

/// An operating failure with its exit code.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct Failure {
    /// The exit code.
    pub code: ExitCode,
    /// What is wrong, where, and what to do.
    pub message: String,
}

/// An error that ends the program with `code`.
pub fn fail(code: ExitCode, message: impl Into<String>) -> anyhow::Error {
    Failure { code, message: message.into() }.into()
}

/// The exit code an error ends with: its own where it has one, [`ExitCode::Environment`] where the disk is full or may not
/// be written, otherwise [`ExitCode::Measurement`], since a device that fails is the usual reason and a panic (a bug)
/// never comes through here.
#[must_use]
pub fn code_of(error: &anyhow::Error) -> ExitCode {
    if let Some(failure) = error.chain().find_map(|cause| cause.downcast_ref::<Failure>()) {
        return failure.code;
    }
    let is_disk = |cause: &(dyn std::error::Error + 'static)| {
        let kind = cause.downcast_ref::<std::io::Error>().map(std::io::Error::kind);
        matches!(kind, Some(ErrorKind::StorageFull | ErrorKind::ReadOnlyFilesystem | ErrorKind::PermissionDenied))
    };
    if error.chain().any(is_disk) { ExitCode::Environment } else { ExitCode::Measurement }
}

#[cfg(test)]
mod tests {
    use super::*;
    use anyhow::Context;

    #[test]
    fn context_keeps_the_code() {
        let error = Err::<(), _>(fail(ExitCode::Config, "no such K")).context("outer").unwrap_err();
        assert_eq!(code_of(&error), ExitCode::Config);
        assert_eq!(code_of(&anyhow::anyhow!("launch failed")), ExitCode::Measurement);
        let full = std::io::Error::new(ErrorKind::StorageFull, "no space");
        assert_eq!(code_of(&anyhow::Error::from(full).context("failed to write")), ExitCode::Environment);
    }
}
