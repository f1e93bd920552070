//! The one error that callers distinguish: a message, the documented exit code, and the next thing to type.

use schema::ExitCode;

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
    /// The failure that an error was made of; absent where none was.
    #[must_use]
    pub fn in_chain(error: &anyhow::Error) -> Option<&Self> {
        error.chain().find_map(|cause| cause.downcast_ref())
    }
}

/// An error that ends the command with `code`.
pub fn fail(code: ExitCode, message: impl Into<String>, remedy: impl Into<String>) -> anyhow::Error {
    Failure { code, message: message.into(), remedy: remedy.into() }.into()
}
