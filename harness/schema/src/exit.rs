//! The documented exit codes: one per way a step can end.

use serde::{Deserialize, Serialize};

/// What a command's exit status means.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ExitCode {
    /// Done; for `publish`, published; for `verify`, everything holds.
    Done = 0,
    /// A bug in Assay.
    Bug = 1,
    /// The command line is wrong.
    Usage = 2,
    /// A plan, budget or claim file is invalid.
    Config = 10,
    /// Docker, toolkit, disk or driver cannot be provisioned.
    Environment = 11,
    /// The build failed, or a resource budget is exceeded.
    Build = 12,
    /// A sanitizer finding, or a check that did not really happen.
    Sanitizer = 13,
    /// A numerical or structural oracle disagrees.
    Oracle = 14,
    /// The gate refused publication.
    Refused = 15,
    /// A digest, signature, chain or recomputation does not hold.
    Integrity = 16,
    /// The measurement is incomplete or invalid.
    Measurement = 17,
    /// Interrupted by SIGINT; resumable.
    Interrupted = 130,
    /// Interrupted by SIGTERM; resumable.
    Terminated = 143,
}

impl ExitCode {
    /// The process status.
    #[must_use]
    pub fn status(self) -> i32 {
        self as i32
    }
}
