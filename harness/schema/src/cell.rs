//! Cells on disk: a JSON header and tables of raw numbers beside it.
//!
//! `cells/<phase>/<cell>.json` is written last and whole; a cell without it is incomplete.
//! Beside it lie `<cell>.parquet` (events), `<cell>.launches.parquet`, and the detached `<cell>.blocks.parquet` and
//! `<cell>.clock.parquet`. The columns of each table are listed at its constant.

use crate::Digest;
pub use crate::facts::Facts;
use crate::plan::Slots;
use serde::{Deserialize, Serialize};

/// The header of a cell.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CellRecord {
    /// Format version.
    pub format: u32,
    /// The experiment's name.
    pub experiment: String,
    /// The phase.
    pub phase: String,
    /// The cell's name.
    pub cell: String,
    /// Digest of the run's frozen plan.
    pub plan: Digest,
    /// Which device ran it: `emulated` or the hashed UUID of the GPU.
    pub device: String,
    /// The launch configurations used; launches refer to them by index.
    pub configs: Vec<LaunchConfig>,
    /// The seed of the cell's schedule, see [`seed`].
    pub seed: String,
    /// Launches discarded as warm-up (their rows are kept and marked).
    pub warmup_launches: u32,
    /// Rows of the event table.
    pub events: u64,
    /// The files beside this header, by suffix, with digest and size.
    pub files: Vec<CellFile>,
    /// Facts of the cell that are neither events nor launches, such as the timer quantum.
    pub facts: Facts,
}

/// The seed of a cell's schedule, as 16 hex digits. It follows from run, phase and cell alone, so a resumed cell repeats its
/// schedule, two runs of one plan have two, and nobody chooses one.
#[must_use]
pub fn seed(run: &str, phase: &str, cell: &str) -> String {
    Digest::of(format!("{run}\n{phase}\n{cell}")).to_string()[..16].to_owned()
}

/// A table beside a cell's header.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CellFile {
    /// What follows the cell's name in the file's: `.parquet`, `.launches.parquet`, `.blocks.parquet`, `.clock.parquet`.
    pub suffix: String,
    /// Digest of its bytes.
    pub sha256: Digest,
    /// Its length.
    pub bytes: u64,
}

/// One way a kernel was launched.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LaunchConfig {
    /// The kernel's symbol.
    pub symbol: String,
    /// The mode, as the experiment names it; `poison` for a launch whose output is spoiled on purpose.
    pub mode: String,
    /// Blocks in the grid.
    pub grid: u32,
    /// Threads in a block.
    pub block: u32,
    /// Dynamic shared memory in bytes.
    pub shared_bytes: u32,
    /// Whether the launch was cooperative.
    pub cooperative: bool,
    /// Digest of the very bytes handed to the driver; absent on the emulated device.
    pub cubin: Option<Digest>,
}

/// The timer cell's events: one row an SM: `sm` u32, `offset_ns` i64 (its timer minus SM of block 0's), `rtt_ns` u32
/// (round trip of the best exchange), `rounds` u32.
pub const TIMER_EVENTS: &[&str] = &["sm", "offset_ns", "rtt_ns", "rounds"];

/// Detached `<cell>.clock.parquet`: one row a window: `launch`, `sm`, `cycles`, `ns` u32.
pub const CLOCK_ROWS: &[&str] = &["launch", "sm", "cycles", "ns"];

/// What the harness found, as it goes into `environment.json` and the grid.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DeviceFacts {
    /// `emulated` or the SHA-256 of the GPU's UUID, first 16 hex digits.
    pub id: String,
    /// Product name, e.g. `NVIDIA H200`, or `emulated`.
    pub name: String,
    /// Lower-case name for run ids, e.g. `h200`.
    pub slug: String,
    /// Compute capability as `9.0`; `0.0` on the emulated device.
    pub compute_capability: String,
    /// The architecture whose cubins it runs, e.g. `sm_90`; `emulated` otherwise.
    pub arch: String,
    /// Slots per kernel.
    pub slots: Slots,
    /// Threads that can be resident on an SM.
    pub max_threads_per_sm: u32,
    /// fp32 lanes per SM (an architecture's constant), or 0 where unknown.
    pub fp32_lanes_per_sm: u32,
    /// Device memory in bytes.
    pub memory_bytes: u64,
    /// L2 in bytes.
    pub l2_bytes: u64,
    /// The driver's CUDA version as the driver reports it, e.g. `13000`; 0 on the emulated device.
    pub driver_cuda: u32,
    /// Whether kernels have an execution timeout.
    pub kernel_timeout: bool,
    /// Whether the GPU is a MIG slice; absent when it cannot be known.
    pub mig: Option<bool>,
    /// SHA-256 of the loaded libcuda; absent on the emulated device.
    pub libcuda: Option<Digest>,
    /// PCI address as CUDA writes it, e.g. `0000:3B:00.0`; absent on the emulated device.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pci: Option<String>,
}

impl DeviceFacts {
    /// Whether this is the emulated device, whose runs are never published.
    #[must_use]
    pub fn is_emulated(&self) -> bool {
        self.id == "emulated" || self.arch == "emulated"
    }
}
