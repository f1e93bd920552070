//! `manifests/RUN.events.json`: where the events of a superseded run are.

use serde::{Deserialize, Serialize};

/// Where the events of a superseded run are, which left the tree.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EventsRecord {
    /// Format version.
    pub format: u32,
    /// The commit that holds them: the one checked out when they left the tree.
    pub commit: String,
    /// The newer run.
    pub superseded_by: String,
}
