//! What the blocks of a launch leave behind that read their clocks at begin and end only, as `block_begins` and `block_ends` of
//! `kernels/common/timer.cuh` write it.

use super::abi::{Address, BlockRecord, ClockSample};
use super::clock;
use super::memory::{Buffer, Layout};
use crate::launch::LaunchTrace;
use schema::cell::LaunchConfig;

/// Clock readings of a block (`kReadings` in `timer.cuh`).
const READINGS: u32 = 2;

/// A record and two clock readings for each block.
pub struct Records {
    memory: Buffer,
    blocks: usize,
    samples: usize,
    grid: u32,
}

impl Records {
    /// Zeroed room for a grid; call [`super::Gpu::finish`] before the launch.
    ///
    /// # Errors
    /// When memory cannot be had.
    pub fn new(grid: u32) -> anyhow::Result<Self> {
        let mut layout = Layout::default();
        let (blocks, samples) =
            (layout.add::<BlockRecord>(grid as usize), layout.add::<ClockSample>((grid * READINGS) as usize));
        let mut memory = Buffer::default();
        memory.ensure(layout.bytes(), "the blocks' records")?;
        memory.fill(0, layout.bytes(), 0)?;
        Ok(Self { memory, blocks, samples, grid })
    }

    /// Where the kernel finds the records and the clock readings.
    #[must_use]
    pub fn places(&self) -> [Address; 2] {
        [self.memory.at(self.blocks), self.memory.at(self.samples)]
    }

    /// The trace of the finished launch, and how much work its blocks say they did.
    ///
    /// # Errors
    /// When the device cannot be read.
    pub fn read(&self, config: LaunchConfig, host_start_ns: i64) -> anyhow::Result<(LaunchTrace, u32)> {
        let blocks: Vec<BlockRecord> = self.memory.download(self.blocks, self.grid as usize)?;
        let samples: Vec<ClockSample> = self.memory.download(self.samples, (self.grid * READINGS) as usize)?;
        let windows = clock::windows(&blocks, &samples, READINGS);
        let executed = blocks.iter().map(|block| block.executed).sum();
        Ok((LaunchTrace::of_blocks(config, host_start_ns, &blocks, windows), executed))
    }
}
