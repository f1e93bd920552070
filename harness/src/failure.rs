//! The one error `main` branches on: a message and the documented exit code.

use schema::ExitCode;

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

/// The exit code an error ends with: its own where it has one, otherwise [`ExitCode::Measurement`], since a device that
/// fails is the usual reason and a panic (a bug) never comes through here.
#[must_use]
pub fn code_of(error: &anyhow::Error) -> ExitCode {
    let known = error.chain().find_map(|cause| cause.downcast_ref::<Failure>());
    known.map_or(ExitCode::Measurement, |failure| failure.code)
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
    }
}
