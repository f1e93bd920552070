//! `counters/counters.json`: what the GPU's hardware counters showed of each kernel, as evidence beside the static
//! budgets.

use crate::Digest;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What was counted, or why nothing could be.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CounterReport {
    /// Format version.
    pub format: u32,
    /// The profiler's version line; absent when there was none.
    pub profiler: Option<String>,
    /// Why no counter could be read; absent when some were.
    pub unreadable: Option<String>,
    /// The programs that the profiler was asked about, in order.
    pub programs: Vec<CountedProgram>,
}

/// One program of the harness under the profiler.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CountedProgram {
    /// The harness's name for it.
    pub program: String,
    /// Why its kernels were not counted; absent when they were.
    pub not_counted: Option<String>,
    /// What the profiler wrote; absent when it was not started.
    pub log: Option<CounterLog>,
    /// Its launches in order; empty when they were not counted.
    pub launches: Vec<CountedLaunch>,
}

/// A file of the profiler.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CounterLog {
    /// Its name beside the report.
    pub file: String,
    /// Its digest.
    pub sha256: Digest,
}

/// The counters of one launch that are compared with its cubin. The profiler runs it several times, alone, with memory put back
/// in between. Reports of older runs hold further counters, which follow from the log too and are passed over.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CountedLaunch {
    /// The kernel.
    pub symbol: String,
    /// Blocks.
    pub grid: u64,
    /// Threads of a block.
    pub block: u64,
    /// Registers of a thread.
    pub registers: u64,
    /// Blocks that fit on an SM by each of its resources: `barriers`, `blocks`, `registers`, `shared_mem`, `warps`.
    pub fits: BTreeMap<String, u64>,
    /// Warp instructions that load from local memory.
    pub local_loads: u64,
    /// Warp instructions that store to local memory.
    pub local_stores: u64,
}
