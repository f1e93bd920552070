//! What the harness reports while it runs: one JSON object a line on stdout. Its stderr is for people.

use crate::Digest;
use crate::cell::DeviceFacts;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// One progress line.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Progress {
    /// The device was opened; always the first line.
    Device(DeviceFacts),
    /// A cell begins.
    CellBegin {
        /// Its phase's name.
        phase: String,
        /// Its name.
        cell: String,
        /// Which one it is, from 1.
        index: u32,
        /// How many there are.
        total: u32,
        /// Events it will record.
        events: u64,
        /// Seconds the harness expects it to take.
        estimate_s: f64,
    },
    /// Events recorded so far in the current cell.
    Events {
        /// How many.
        done: u64,
    },
    /// A cell is complete on disk.
    CellEnd {
        /// Its phase's name.
        phase: String,
        /// Its name.
        cell: String,
        /// Seconds it took.
        seconds: f64,
        /// Whether it was already there.
        resumed: bool,
    },
    /// The clocks are burning: xtask may sample NVML under load.
    Burn {
        /// Seconds of load so far.
        seconds: f64,
        /// In-band clock of the last window, in MHz.
        clock_mhz: f64,
    },
    /// The end marker; without it nothing counts as finished.
    End {
        /// The nonce given on the command line.
        nonce: String,
        /// Launches made.
        launches: u64,
        /// How often each site was passed.
        sites: Sites,
        /// Digests of the cubins handed to the driver, by file stem.
        cubins: Vec<(String, Digest)>,
        /// Launch configurations used.
        configs: Vec<crate::cell::LaunchConfig>,
        /// Outputs that disagreed with the oracle, or were unwritten.
        wrong: u64,
    },
}

/// How often a program passed each site that its kernels count, by the site's name.
pub type Sites = BTreeMap<String, u64>;
