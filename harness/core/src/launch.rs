//! What every launch records, whatever its kernel does.

use crate::gpu::abi::BlockRecord;
use schema::cell::LaunchConfig;

/// How and when a kernel was launched, where its blocks ran, and how fast their SMs' clocks went.
#[derive(Clone, Debug)]
pub struct LaunchTrace {
    /// How it was launched.
    pub config: LaunchConfig,
    /// Host monotonic clock just before the launch call, in nanoseconds since the device was opened.
    pub host_start_ns: i64,
    /// First block's start to last block's end on the device timer, in nanoseconds.
    pub wall_ns: u32,
    /// SM of each block.
    pub block_sm: Vec<u32>,
    /// Clock windows: SM, cycles, nanoseconds.
    pub clock: Vec<(u32, u32, u32)>,
}

impl LaunchTrace {
    /// The trace of a finished launch, from the records that its blocks left and the clock windows they sampled.
    #[must_use]
    pub fn of_blocks(
        config: LaunchConfig,
        host_start_ns: i64,
        blocks: &[BlockRecord],
        clock: Vec<(u32, u32, u32)>,
    ) -> Self {
        // A block that never began has zero here.
        let start_ns = blocks.iter().map(|block| block.start_ns).filter(|ns| *ns != 0).min().unwrap_or(0);
        let end_ns = blocks.iter().map(|block| block.end_ns).max().unwrap_or(0);
        Self {
            config,
            host_start_ns,
            wall_ns: u32::try_from(end_ns.saturating_sub(start_ns)).unwrap_or(u32::MAX),
            block_sm: blocks.iter().map(|block| block.sm).collect(),
            clock,
        }
    }
}

/// The timer's properties.
#[derive(Clone, Debug)]
pub struct TimerTrace {
    /// Smallest non-zero step seen, in nanoseconds.
    pub quantum_ns: u32,
    /// Per SM: SM id, offset to the SM of block 0 in nanoseconds, best round trip in nanoseconds, rounds.
    pub sms: Vec<(u32, i64, u32, u32)>,
    /// The launch itself.
    pub launch: LaunchTrace,
}
