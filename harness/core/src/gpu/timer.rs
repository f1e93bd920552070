//! Measures the global timer's step, and each SM's offset to the SM of block 0.

use super::Gpu;
use super::abi::{BlockRecord, OffsetArgs, QuantumArgs};
use super::memory::{Buffer, Layout};
use super::module::{Arg, Shape};
use crate::launch::{LaunchTrace, TimerTrace};
use cudarc::driver::sys::CUdevice_attribute;
use std::collections::BTreeMap;

/// Readings in the search for the step: many steps of any timer.
const QUANTUM_READS: u32 = 200_000;
/// The device gives up a search that takes longer, also under a sanitizer.
const DEADLINE_NS: u64 = 60_000_000_000;
/// Words between the mailboxes of two blocks.
const STRIDE: u32 = 32;

/// An entry of `TimerTrace::sms`.
type SmOffset = (u32, i64, u32, u32);

impl Gpu {
    /// Measures the global timer: its step and each SM's offset to the SM of block 0.
    ///
    /// # Errors
    /// When a launch fails or hits its deadline.
    pub fn timer(&mut self, rounds: u32) -> anyhow::Result<TimerTrace> {
        self.bind()?;
        anyhow::ensure!(rounds > 0, "the timer needs at least one round");
        let quantum_ns = self.quantum()?;
        self.quantum_ns = quantum_ns;
        let (sms, launch) = self.offsets(rounds)?;
        Ok(TimerTrace { quantum_ns, sms, launch })
    }

    fn quantum(&self) -> anyhow::Result<u32> {
        let mut layout = Layout::default();
        let (quantum, blocks) = (layout.add::<u32>(1), layout.add::<BlockRecord>(1));
        let mut buffer = Buffer::default();
        buffer.ensure(layout.bytes(), "the timer's step")?;
        buffer.fill(0, layout.bytes(), 0)?;
        let args = QuantumArgs {
            quantum_ns: buffer.at(quantum),
            blocks: buffer.at(blocks),
            reads: QUANTUM_READS,
            reserved: 0,
        };
        let shape = Shape { mode: "timer", grid: 1, shared_bytes: 0, cooperative: false };
        self.finish("the fill of the timer's words")?;
        self.quantum.launch(self.background(), &shape, &[Arg::of(&args)])?;
        self.finish(self.quantum.symbol)?;
        let step = buffer.download_one(quantum)?;
        anyhow::ensure!(step != u32::MAX, "the global timer never moved in {QUANTUM_READS} readings");
        Ok(step)
    }

    fn offsets(&self, rounds: u32) -> anyhow::Result<(Vec<SmOffset>, LaunchTrace)> {
        let grid = self.sms();
        let n = grid as usize;
        let mut layout = Layout::default();
        let (checked_in, calls) = (layout.add::<u32>(1), layout.add::<u32>(n * STRIDE as usize));
        let (replies, reply_ns) = (layout.add::<u32>(n * STRIDE as usize), layout.add::<u64>(n));
        let (offset_ns, rtt_ns) = (layout.add::<i64>(n), layout.add::<u32>(n));
        let blocks = layout.add::<BlockRecord>(n);
        let mut buffer = Buffer::default();
        buffer.ensure(layout.bytes(), "the timer's mailboxes")?;
        buffer.fill(0, layout.bytes(), 0)?;
        let args = OffsetArgs {
            checked_in: buffer.at(checked_in),
            calls: buffer.at(calls),
            replies: buffer.at(replies),
            reply_ns: buffer.at(reply_ns),
            offset_ns: buffer.at(offset_ns),
            rtt_ns: buffer.at(rtt_ns),
            blocks: buffer.at(blocks),
            deadline_ns: DEADLINE_NS,
            rounds,
            stride: STRIDE,
        };
        let kernel = self.offset;
        let shape = Shape { mode: "timer", grid, shared_bytes: self.one_per_sm()?, cooperative: true };
        kernel.allow_shared(shape.shared_bytes)?;
        self.finish("the fill of the timer's mailboxes")?;
        let host_start_ns = self.host_ns();
        kernel.launch(self.background(), &shape, &[Arg::of(&args)])?;
        self.finish(kernel.symbol)?;
        let blocks: Vec<BlockRecord> = buffer.download(blocks, n)?;
        let late: u32 = blocks.iter().map(|block| block.deadline_hits).sum();
        anyhow::ensure!(late == 0, "{late} of {grid} blocks hit the timer's deadline");
        // The timer's blocks do not sample their clocks.
        let launch = LaunchTrace::of_blocks(kernel.config(&shape), host_start_ns, &blocks, Vec::new());
        let best = best_per_sm(&blocks, &buffer.download(offset_ns, n)?, &buffer.download(rtt_ns, n)?);
        Ok((best.into_iter().map(|(sm, (offset, rtt))| (sm, offset, rtt, rounds)).collect(), launch))
    }

    /// Shared memory of which an SM holds only one block's.
    fn one_per_sm(&self) -> anyhow::Result<u32> {
        let per_sm =
            self.driver.attribute(CUdevice_attribute::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR)?;
        Ok((per_sm / 2).next_multiple_of(1024))
    }
}

/// Each SM's offset and round trip, from the block with the shortest one; block 0's own SM is 0 by definition.
fn best_per_sm(blocks: &[BlockRecord], offset_ns: &[i64], rtt_ns: &[u32]) -> BTreeMap<u32, (i64, u32)> {
    let mut best = BTreeMap::from([(blocks[0].sm, (0, 0))]);
    for ((block, offset), rtt) in blocks.iter().zip(offset_ns).zip(rtt_ns).skip(1) {
        let entry = best.entry(block.sm).or_insert((*offset, *rtt));
        if *rtt < entry.1 {
            *entry = (*offset, *rtt);
        }
    }
    best
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shortest_exchange_of_an_sm_counts() {
        let sms = [4, 7, 7, 9];
        let blocks = sms.map(|sm| BlockRecord { sm, ..BlockRecord::default() });
        let best = best_per_sm(&blocks, &[0, 100, 20, -5], &[0, 900, 700, 800]);
        assert_eq!(best, BTreeMap::from([(4, (0, 0)), (7, (20, 700)), (9, (-5, 800))]));
    }
}
