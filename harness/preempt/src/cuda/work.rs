//! The background queue of every launch: its inputs, outputs and evidence.

use super::PreemptGpu;
use super::abi::{CheckCounts, SiteCounters, WorkArgs};
use super::compare::UrgentOutputs;
use crate::launch::LaunchRaw;
use crate::oracle::{Inputs, MOST_K, TILE, TILE_ELEMENTS};
use crate::plan::K_CHUNK;
use crate::site;
use harness_core::gpu::abi::{BlockRecord, ClockSample};
use harness_core::gpu::clock::{self, Expected, Sampling};
use harness_core::gpu::memory::{Buffer, Layout, Mapped};
use harness_core::launch::LaunchTrace;
use harness_core::oracle::UNWRITTEN;
use schema::cell::LaunchConfig;
use std::collections::BTreeMap;

/// Bytes of an output tile.
pub(super) const TILE_BYTES: usize = TILE_ELEMENTS * size_of::<f32>();
/// The loop copies a tile's first chunk while it multiplies the last one of the tile before, so there are two at least.
const LEAST_CHUNKS: u32 = 2;
/// What a lane does at its peak at 2 GHz. No tile is shorter than this says, so that no window is shorter than asked for.
const EXPECTED_FLOP_PER_LANE_NS: f64 = 2.0 * 2.0;
/// What a poisoned element holds: no integer, so never right.
const POISON: f32 = 0.5;
/// Which element of its tile is poisoned.
const POISONED_ELEMENT: usize = 1234;
/// Host words that the device writes or reads.
pub(super) mod word {
    /// The first block of the drain has started.
    pub(in super::super) const STARTED: usize = 0;
    /// The last block of the drain has ended.
    pub(in super::super) const DONE: usize = 1;
    /// The urgent kernel has started.
    pub(in super::super) const URGENT_STARTED: usize = 2;
    /// The urgent kernel has ended.
    pub(in super::super) const URGENT_DONE: usize = 3;
    /// How many events the host has issued.
    pub(in super::super) const ISSUED: usize = 4;
    /// 1 once the relay listens, one more for each event served.
    pub(in super::super) const COMPLETED: usize = 5;
    /// How many there are.
    pub(in super::super) const COUNT: usize = 6;
}

/// Where the evidence of a launch lies in `Work::evidence`.
#[derive(Clone, Copy)]
pub(super) struct Places {
    queue: usize,
    arrivals: usize,
    departures: usize,
    pub(super) flag: usize,
    pub(super) checked_in: usize,
    pub(super) claimed: usize,
    pub(super) counts: usize,
    pub(super) urgent_counts: usize,
    pub(super) sites: usize,
    pub(super) urgent_times: usize,
    pub(super) urgent_executions: usize,
    blocks: usize,
    bytes: usize,
}

impl Places {
    fn new(columns: u32) -> Self {
        let mut layout = Layout::default();
        Self {
            queue: layout.add::<u32>(1),
            arrivals: layout.add::<u32>(1),
            departures: layout.add::<u32>(1),
            flag: layout.add::<u32>(1),
            checked_in: layout.add::<u32>(1),
            claimed: layout.add::<u32>(1),
            counts: layout.add::<CheckCounts>(1),
            urgent_counts: layout.add::<CheckCounts>(1),
            sites: layout.add::<SiteCounters>(1),
            urgent_times: layout.add::<u64>(2),
            urgent_executions: layout.add::<u32>(1),
            blocks: layout.add::<BlockRecord>(columns as usize),
            bytes: layout.bytes(),
        }
    }
}

/// Memory that launches share.
pub(super) struct Work {
    pub(super) inputs: BTreeMap<u32, DeviceInputs>,
    pub(super) c: Buffer,
    pub(super) executions: Buffer,
    pub(super) evidence: Buffer,
    clock: Buffer,
    pub(super) urgent_c: Buffer,
    pub(super) words: Mapped,
}

/// The pools and reference of one inner dimension on the device.
pub(super) struct DeviceInputs {
    a: Buffer,
    b: Buffer,
    pub(super) reference: Buffer,
}

/// A launch's background work.
#[derive(Clone, Copy)]
pub(super) struct WorkPlan {
    pub(super) k: u32,
    pub(super) tasks: u32,
    /// Blocks that pop tasks.
    pub(super) workers: u32,
    /// Block records: the grid, and a setter kernel beside it.
    pub(super) columns: u32,
    /// Column of the grid's block 0.
    pub(super) first_column: u32,
    /// Whether the host watches the start and the end through mapped words.
    pub(super) watched: bool,
}

/// A launch's background work, ready to run.
pub(super) struct Prepared {
    pub(super) args: WorkArgs,
    pub(super) places: Places,
    pub(super) plan: WorkPlan,
    sampling: Sampling,
}

impl WorkPlan {
    /// Work in which every block of the grid takes part.
    pub(super) fn plain(k: u32, tasks: u32, blocks: u32) -> Self {
        Self { k, tasks, workers: blocks, columns: blocks, first_column: 0, watched: false }
    }
}

impl Work {
    /// Memory that nothing was asked of yet.
    ///
    /// # Errors
    /// When the mapped words cannot be had.
    pub(super) fn new() -> anyhow::Result<Self> {
        Ok(Self {
            inputs: BTreeMap::new(),
            c: Buffer::default(),
            executions: Buffer::default(),
            evidence: Buffer::default(),
            clock: Buffer::default(),
            urgent_c: Buffer::default(),
            words: Mapped::new(word::COUNT)?,
        })
    }

    /// Puts the inputs and the reference of `k` on the device, once.
    fn load_inputs(&mut self, k: u32) -> anyhow::Result<()> {
        if self.inputs.contains_key(&k) {
            return Ok(());
        }
        let host = Inputs::new(k);
        let upload = |values: &[f32]| {
            let mut buffer = Buffer::default();
            buffer.ensure(size_of_val(values), "the inputs")?;
            buffer.upload(0, values)?;
            anyhow::Ok(buffer)
        };
        let inputs = DeviceInputs { a: upload(&host.a)?, b: upload(&host.b)?, reference: upload(&host.reference())? };
        self.inputs.insert(k, inputs);
        Ok(())
    }

    /// Makes room, fills outputs with what nobody writes, and zeroes the evidence.
    fn prepare(&mut self, plan: &WorkPlan, sampling: Sampling) -> anyhow::Result<Prepared> {
        check_k(plan.k)?;
        self.load_inputs(plan.k)?;
        let (tasks, columns) = (plan.tasks as usize, plan.columns as usize);
        let places = Places::new(plan.columns);
        let samples = columns * sampling.capacity as usize;
        self.c.ensure(tasks * TILE_BYTES, "the output tiles")?;
        self.executions.ensure(tasks * size_of::<u32>(), "the execution counters")?;
        self.evidence.ensure(places.bytes, "the evidence")?;
        self.clock.ensure(samples * size_of::<ClockSample>(), "the clock readings")?;
        self.c.fill(0, tasks * TILE_BYTES, UNWRITTEN as u8)?;
        self.executions.fill(0, tasks * size_of::<u32>(), 0)?;
        self.evidence.fill(0, places.bytes, 0)?;
        self.clock.fill(0, samples * size_of::<ClockSample>(), 0)?;
        self.words.clear();
        let inputs = &self.inputs[&plan.k];
        let word = |line| if plan.watched { self.words.at(line) } else { 0 };
        let args = WorkArgs {
            a: inputs.a.at(0),
            b: inputs.b.at(0),
            c: self.c.at(0),
            executions: self.executions.at(0),
            queue: self.evidence.at(places.queue),
            arrivals: self.evidence.at(places.arrivals),
            departures: self.evidence.at(places.departures),
            blocks: self.evidence.at(places.blocks),
            clock: self.clock.at(0),
            sites: self.evidence.at(places.sites),
            host_started: word(word::STARTED),
            host_done: word(word::DONE),
            tasks: plan.tasks,
            k_chunks: plan.k / K_CHUNK,
            clock_shift: sampling.shift,
            clock_capacity: sampling.capacity,
            first_column: plan.first_column,
            reserved: 0,
        };
        Ok(Prepared { args, places, plan: *plan, sampling })
    }

    /// Lets the same work be launched again; outputs and counters keep what they hold.
    pub(super) fn reset_queue(&self, prepared: &Prepared) -> anyhow::Result<()> {
        self.evidence.fill(prepared.places.queue, size_of::<u32>(), 0)
    }

    /// Spoils one element of a tile in the middle.
    fn poison(&self, tasks: u32) -> anyhow::Result<()> {
        let element = (tasks / 2) as usize * TILE_ELEMENTS + POISONED_ELEMENT;
        self.c.upload(element * size_of::<f32>(), &[POISON])
    }
}

impl PreemptGpu {
    /// Prepares the background work of a launch.
    pub(super) fn prepare(&mut self, plan: &WorkPlan) -> anyhow::Result<Prepared> {
        anyhow::ensure!(plan.tasks > 0, "a launch needs at least one tile in its queue");
        let expected = expected(plan, self.gpu.sms(), self.facts.fp32_lanes_per_sm);
        let prepared = self.work.prepare(plan, expected.sampling(self.gpu.quantum_ns()))?;
        self.gpu.finish("filling buffers")?;
        Ok(prepared)
    }

    /// Reads what a finished launch left behind and compares every output with the oracle.
    pub(super) fn collect(
        &mut self,
        prepared: &Prepared,
        config: LaunchConfig,
        host_start_ns: i64,
        poison: bool,
        urgent: Option<&UrgentOutputs>,
    ) -> anyhow::Result<Collected> {
        let (plan, places) = (&prepared.plan, &prepared.places);
        if poison {
            self.work.poison(plan.tasks)?;
        }
        self.compare(prepared, urgent)?;
        let evidence = &self.work.evidence;
        let blocks: Vec<BlockRecord> = evidence.download(places.blocks, plan.columns as usize)?;
        let counts: CheckCounts = evidence.download_one(places.counts)?;
        let urgent_counts: CheckCounts = evidence.download_one(places.urgent_counts)?;
        let sites: SiteCounters = evidence.download_one(places.sites)?;
        for (site, times) in [(site::YIELD, sites.yields), (site::CLAIM, sites.claims), (site::COPY, sites.copies)] {
            *self.sites.entry(site.to_owned()).or_default() += times;
        }
        let capacity = prepared.sampling.capacity;
        let samples: Vec<ClockSample> = self.work.clock.download(0, (plan.columns * capacity) as usize)?;
        let start_ns = blocks.iter().map(|block| block.start_ns).filter(|ns| *ns != 0).min().unwrap_or(0);
        let trace = LaunchTrace::of_blocks(config, host_start_ns, &blocks, clock::windows(&blocks, &samples, capacity));
        let launch = LaunchRaw {
            trace,
            tasks: plan.tasks,
            executed: blocks.iter().map(|block| block.executed).sum(),
            wrong_tiles: counts.wrong_tiles,
            unwritten_tiles: counts.unwritten_tiles,
            not_once: counts.not_once,
            urgent_requested: urgent.map_or(0, |urgent| urgent.tiles),
            urgent_executed: u32::try_from(sites.claims)?,
            urgent_wrong: urgent_counts.wrong_tiles,
            urgent_not_once: urgent_counts.not_once,
            deadline_hits: blocks.iter().map(|block| block.deadline_hits).sum(),
        };
        Ok(Collected { launch, start_ns, max_relative_error: f64::from(f32::from_bits(counts.error_bits)) })
    }

    /// The median over SMs of the last launch's clock, in MHz; absent when none was sampled.
    pub(super) fn clock_mhz(&self, prepared: &Prepared) -> anyhow::Result<Option<f64>> {
        let columns = prepared.plan.columns;
        let blocks: Vec<BlockRecord> = self.work.evidence.download(prepared.places.blocks, columns as usize)?;
        let capacity = prepared.sampling.capacity;
        let samples: Vec<ClockSample> = self.work.clock.download(0, (columns * capacity) as usize)?;
        Ok(clock::median_mhz(&clock::windows(&blocks, &samples, capacity)))
    }
}

/// What a launch left behind.
pub(super) struct Collected {
    pub(super) launch: LaunchRaw,
    /// The device timer when the first block started.
    pub(super) start_ns: u64,
    pub(super) max_relative_error: f64,
}

/// What a launch is expected to take, from the amount of work and the width of the GPU.
fn expected(plan: &WorkPlan, sms: u32, lanes: u32) -> Expected {
    let flop = 2.0 * (TILE * TILE) as f64 * f64::from(plan.k);
    let rate = f64::from(lanes.max(64)) * EXPECTED_FLOP_PER_LANE_NS;
    let tile_ns = flop * f64::from(plan.workers.div_ceil(sms.max(1))) / rate;
    Expected { step_ns: (tile_ns as u64).max(1), steps: u64::from(plan.tasks.div_ceil(plan.workers.max(1))) }
}

/// Refuses an inner dimension the tile loop cannot do.
fn check_k(k: u32) -> anyhow::Result<()> {
    let least = LEAST_CHUNKS * K_CHUNK;
    anyhow::ensure!(k.is_multiple_of(K_CHUNK), "K={k} is not a multiple of the kernel's chunk of {K_CHUNK}");
    anyhow::ensure!((least..=MOST_K).contains(&k), "K={k} is outside {least} to {MOST_K}, which the tile loop can do");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inner_dimensions_the_loop_cannot_do_are_refused() {
        for k in [32, 48, 64, 256] {
            assert!(check_k(k).is_ok(), "{k}");
        }
        for (k, why) in [(0, "outside 32"), (16, "outside 32"), (40, "multiple"), (1 << 21, "outside")] {
            assert!(check_k(k).unwrap_err().to_string().contains(why), "{k}");
        }
    }

    #[test]
    fn a_short_launch_keeps_one_window() {
        let sampling = expected(&WorkPlan::plain(64, 107_000, 660), 132, 128).sampling(32);
        assert_eq!(sampling, Sampling { shift: 31, capacity: 2 });
    }

    #[test]
    fn evidence_has_a_line_for_each_counter_and_room_for_each_block() {
        let places = Places::new(660);
        assert_eq!(places.flag - places.departures, 128);
        assert!(places.bytes >= places.blocks + 660 * size_of::<BlockRecord>());
    }
}
