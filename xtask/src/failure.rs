//! The one error a caller branches on: a message, the documented exit code, and the next thing to type.

use schema::ExitCode;

/// An operating failure with its exit code.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct Failure {
    /// The exit code.
    pub code: ExitCode,
    /// What is wrong, and where.
    pub message: String,
    /// The next thing to type; empty when the message says it.
    pub remedy: String,
}

/// An error that ends the command with `code`.
pub fn fail(code: ExitCode, message: impl Into<String>, remedy: impl Into<String>) -> anyhow::Error {
    Failure { code, message: message.into(), remedy: remedy.into() }.into()
}

/// The exit code an error ends with: its own where it has one, otherwise [`ExitCode::Bug`].
pub fn code_of(error: &anyhow::Error) -> ExitCode {
    failure_in(error).map_or(ExitCode::Bug, |failure| failure.code)
}

/// What to type next, where the error says so.
pub fn remedy_of(error: &anyhow::Error) -> Option<&str> {
    failure_in(error).map(|failure| failure.remedy.as_str()).filter(|remedy| !remedy.is_empty())
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
}
