//! `reopened.toml`: the closed work that a run takes up again, each with the condition that has changed.

use serde::{Deserialize, Serialize};

/// The file; a run that takes up nothing closed has none.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReopenedFile {
    /// Format version.
    pub format: u32,
    /// What is taken up again.
    pub reopened: Vec<Reopened>,
}

/// One piece of closed work, taken up again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Reopened {
    /// The notebook entry that closed it.
    pub entry: String,
    /// The condition that has changed since, in words.
    pub changed: String,
}
