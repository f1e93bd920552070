//! The background queue of every launch: inputs, outputs, evidence, and the comparison with the oracle.

use super::CudaDevice;
use super::abi::{Address, BlockRecord, CheckArgs, CheckCounts, ClockSample, SiteCounters, WorkArgs};
use super::clock::{self, Expected, Sampling};
use super::driver::Shape;
use super::memory::{Buffer, Layout, Mapped};
use crate::device::LaunchRaw;
use crate::oracle::{Inputs, MOST_K, TILE_ELEMENTS, UNWRITTEN};
use anyhow::Context as _;
use schema::cell::LaunchConfig;
use schema::plan::K_CHUNK;
use std::collections::BTreeMap;

/// Bytes of an output tile.
pub(super) const TILE_BYTES: usize = TILE_ELEMENTS * size_of::<f32>();
/// The loop copies a tile's first chunk while it multiplies the last one of the tile before, so there are two at least.
const LEAST_CHUNKS: u32 = 2;
/// What a poisoned element holds: no integer, so never right.
const POISON: f32 = 0.5;
/// Which element of its tile is poisoned.
const POISONED_ELEMENT: usize = 1234;
/// Blocks of the comparison per SM.
const CHECK_BLOCKS_PER_SM: u32 = 8;

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
    counts: usize,
    urgent_counts: usize,
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
    inputs: BTreeMap<u32, DeviceInputs>,
    c: Buffer,
    executions: Buffer,
    pub(super) evidence: Buffer,
    clock: Buffer,
    pub(super) urgent_c: Buffer,
    pub(super) words: Mapped,
}

/// The pools and reference of one inner dimension on the device.
struct DeviceInputs {
    a: Buffer,
    b: Buffer,
    reference: Buffer,
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
    plan: WorkPlan,
    sampling: Sampling,
}

/// The urgent outputs to compare.
#[derive(Clone, Copy)]
pub(super) struct UrgentOutputs {
    pub(super) executions: Address,
    pub(super) tiles: u32,
    /// Tiles per event.
    pub(super) per_event: u32,
    pub(super) first_event_id: u32,
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

impl CudaDevice {
    /// Prepares the background work of a launch.
    pub(super) fn prepare(&mut self, plan: &WorkPlan) -> anyhow::Result<Prepared> {
        anyhow::ensure!(plan.tasks > 0, "a launch needs at least one tile in its queue");
        let facts = &self.facts;
        let expected = Expected::new(plan.k, plan.tasks, plan.workers, facts.slots.sms, facts.fp32_lanes_per_sm);
        let prepared = self.work.prepare(plan, expected.sampling(self.quantum_ns))?;
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
        self.sites.yields += sites.yields;
        self.sites.claim += sites.claims;
        self.sites.copy += sites.copies;
        let capacity = prepared.sampling.capacity;
        let samples: Vec<ClockSample> = self.work.clock.download(0, (plan.columns * capacity) as usize)?;
        let start_ns = blocks.iter().map(|block| block.start_ns).filter(|ns| *ns != 0).min().unwrap_or(0);
        let end_ns = blocks.iter().map(|block| block.end_ns).max().unwrap_or(0);
        let launch = LaunchRaw {
            config,
            host_start_ns,
            wall_ns: u32::try_from(end_ns.saturating_sub(start_ns)).unwrap_or(u32::MAX),
            block_sm: blocks.iter().map(|block| block.sm).collect(),
            clock: clock::windows(&blocks, &samples, capacity),
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

    /// The median over SMs of the last launch's clock, in MHz.
    pub(super) fn clock_mhz(&self, prepared: &Prepared) -> anyhow::Result<f64> {
        let columns = prepared.plan.columns;
        let blocks: Vec<BlockRecord> = self.work.evidence.download(prepared.places.blocks, columns as usize)?;
        let capacity = prepared.sampling.capacity;
        let samples: Vec<ClockSample> = self.work.clock.download(0, (columns * capacity) as usize)?;
        let windows = clock::windows(&blocks, &samples, capacity);
        let mut mhz: Vec<f64> =
            windows.iter().map(|(_, cycles, ns)| f64::from(*cycles) * 1e3 / f64::from(*ns)).collect();
        mhz.sort_by(f64::total_cmp);
        mhz.get(mhz.len() / 2).copied().context("no SM sampled its clock")
    }

    /// Compares background and urgent outputs with the reference, on the device.
    fn compare(&self, prepared: &Prepared, urgent: Option<&UrgentOutputs>) -> anyhow::Result<()> {
        let work = &self.work;
        let reference = work.inputs[&prepared.plan.k].reference.at(0);
        let background = CheckArgs {
            c: work.c.at(0),
            reference,
            executions: work.executions.at(0),
            counts: work.evidence.at(prepared.places.counts),
            tiles: prepared.plan.tasks,
            ..CheckArgs::default()
        };
        let grid = self.facts.slots.sms * CHECK_BLOCKS_PER_SM;
        let shape = Shape { mode: "check", grid, shared_bytes: 0, cooperative: false };
        self.kernels.check.launch(self.gpu.background, &shape, &background)?;
        if let Some(urgent) = urgent {
            let args = CheckArgs {
                c: work.urgent_c.at(0),
                reference,
                executions: urgent.executions,
                counts: work.evidence.at(prepared.places.urgent_counts),
                tiles: urgent.tiles,
                urgent_tiles: urgent.per_event,
                first_event_id: urgent.first_event_id,
                reserved: 0,
            };
            self.kernels.check.launch(self.gpu.background, &shape, &args)?;
        }
        self.gpu.finish("preempt_check")
    }
}

/// What a launch left behind.
pub(super) struct Collected {
    pub(super) launch: LaunchRaw,
    /// The device timer when the first block started.
    pub(super) start_ns: u64,
    pub(super) max_relative_error: f64,
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
    fn evidence_has_a_line_for_each_counter_and_room_for_each_block() {
        let places = Places::new(660);
        assert_eq!(places.flag - places.departures, 128);
        assert!(places.bytes >= places.blocks + 660 * size_of::<BlockRecord>());
    }
}
