//! `sanitize/<tool>-<program>.json`: what a sanitizer run showed.

use crate::Digest;
use crate::cell::LaunchConfig;
use crate::progress::Sites;
use serde::{Deserialize, Serialize};

/// The version of a verdict. Since 2 it names the file with what the harness printed; before, only the log was kept.
pub const VERDICT_FORMAT: u32 = 2;

/// A compute-sanitizer tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Tool {
    /// Out-of-bounds and misaligned accesses.
    Memcheck,
    /// Shared-memory races.
    Racecheck,
    /// Reads of uninitialised memory.
    Initcheck,
    /// Invalid synchronisation.
    Synccheck,
}

impl Tool {
    /// Every tool, in the order they run.
    pub const ALL: [Self; 4] = [Self::Memcheck, Self::Racecheck, Self::Initcheck, Self::Synccheck];

    /// The name on compute-sanitizer's command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Memcheck => "memcheck",
            Self::Racecheck => "racecheck",
            Self::Initcheck => "initcheck",
            Self::Synccheck => "synccheck",
        }
    }

    /// The planted fault that this tool must catch: a symbol of `kernels/controls/`.
    #[must_use]
    pub fn control(self) -> &'static str {
        match self {
            Self::Memcheck => "control_out_of_bounds",
            Self::Racecheck => "control_shared_race",
            Self::Initcheck => "control_uninitialised",
            Self::Synccheck => "control_divergent_barrier",
        }
    }
}

/// What a sanitizer run amounts to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// Positive evidence of a complete, clean run.
    Clean,
    /// The tool reported something.
    Finding,
    /// Anything else; counts as failed.
    Inconclusive,
}

/// A file beside the verdict.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Printed {
    /// Its name.
    pub file: String,
    /// Digest of its bytes.
    pub sha256: Digest,
}

/// The verdict over one tool and one program.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SanitizerVerdict {
    /// Format version.
    pub format: u32,
    /// The tool.
    pub tool: Tool,
    /// The program: a configuration of the harness, or a control's symbol.
    pub program: String,
    /// The state.
    pub state: State,
    /// Why it is not clean; empty when it is.
    pub why: String,
    /// Findings in the tool's summary; absent without a summary.
    pub findings: Option<u64>,
    /// For a control: whether the planted fault was caught. Absent for programs.
    pub control_caught: Option<bool>,
    /// The nonce asked for.
    pub nonce: String,
    /// Exit code; absent when killed at the deadline.
    pub exit_code: Option<i32>,
    /// Launches in the end marker.
    pub launches: u64,
    /// Site counters in the end marker.
    pub sites: Sites,
    /// Launch configurations in the end marker.
    pub configs: Vec<LaunchConfig>,
    /// SASS digests of the kernels that ran, by symbol.
    pub sass: Vec<(String, Digest)>,
    /// The tool's version line.
    pub tool_version: String,
    /// Digest of the tool's program file.
    pub tool_digest: Digest,
    /// Log file beside this one.
    pub log: String,
    /// Digest of the log.
    pub log_digest: Digest,
    /// What the harness printed, its end marker last; absent in format 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub printed: Option<Printed>,
    /// Seconds it took.
    pub seconds: f64,
}
