//! The yield kernels with a schedule of events: device-set, host-set through a relay, or set by a kernel beside the grid.

use super::PreemptGpu;
use super::abi::{EventArgs, WorkArgs};
use super::compare::UrgentOutputs;
use super::host::HostTimes;
use super::work::{Prepared, TILE_BYTES, WorkPlan, word};
use crate::launch::{LaunchRaw, PreemptLaunch, PreemptRaw};
use crate::plan::Setter;
use anyhow::Context as _;
use harness_core::gpu::clock::SmClock;
use harness_core::gpu::memory::{Buffer, Layout, Mapped};
use harness_core::gpu::{Arg, Kernel, Shape};
use harness_core::oracle::UNWRITTEN;
use schema::cell::LaunchConfig;
use std::time::Instant;

/// Without a clock a poll is said to be this old, which puts it before any set instant.
const LONG_AGO_NS: u32 = 1 << 30;

/// Memory of the last schedule, reused by the next.
#[derive(Default)]
pub(super) struct EventMemory {
    evidence: Buffer,
    pub(super) host_done: Option<Mapped>,
}

/// Where a schedule and its evidence lie in `EventMemory::evidence`.
struct EventPlaces {
    gaps_ns: usize,
    set_ns: usize,
    ready_count: usize,
    urgent_finished: usize,
    urgent_start_ns: usize,
    urgent_done_ns: usize,
    urgent_executions: usize,
    observed_ns: usize,
    ready_ns: usize,
    old_cycles: usize,
    delay_spent_ns: usize,
    seen: usize,
    claimer: usize,
    bytes: usize,
}

impl EventPlaces {
    fn new(events: usize, urgent: usize, cells: usize) -> Self {
        let mut layout = Layout::default();
        Self {
            gaps_ns: layout.add::<u32>(events),
            set_ns: layout.add::<u64>(events),
            ready_count: layout.add::<u32>(events),
            urgent_finished: layout.add::<u32>(events),
            urgent_start_ns: layout.add::<u64>(urgent),
            urgent_done_ns: layout.add::<u64>(urgent),
            urgent_executions: layout.add::<u32>(urgent),
            observed_ns: layout.add::<u32>(cells),
            ready_ns: layout.add::<u32>(cells),
            old_cycles: layout.add::<u32>(cells),
            delay_spent_ns: layout.add::<u32>(events),
            seen: layout.add::<u8>(cells),
            claimer: layout.add::<u32>(urgent),
            bytes: layout.bytes(),
        }
    }
}

/// Sizes of a schedule.
#[derive(Clone, Copy)]
struct Sizes {
    events: usize,
    urgent: usize,
    cells: usize,
}

impl Sizes {
    fn new(launch: &PreemptLaunch) -> anyhow::Result<Self> {
        let events = launch.gaps_ns.len();
        anyhow::ensure!(events > 0, "a launch with events needs at least one; use a drain for none");
        anyhow::ensure!(launch.urgent_tiles > 0, "an event needs at least one urgent tile");
        anyhow::ensure!(launch.blocks >= 2, "blocks={} leave nobody to preempt beside the setter", launch.blocks);
        let per_event = launch.urgent_tiles as usize;
        let urgent = events.checked_mul(per_event).filter(|n| u32::try_from(*n).is_ok());
        let urgent = urgent.context("too many urgent tiles in one launch")?;
        Ok(Self { events, urgent, cells: events * launch.blocks as usize })
    }
}

impl PreemptGpu {
    /// See [`crate::launch::Device::preempt`].
    pub(super) fn run_preempt(&mut self, launch: &PreemptLaunch) -> anyhow::Result<PreemptRaw> {
        let kernel = self.kernels.polling(launch.poll)?;
        self.gpu.check_residency(&kernel, launch.blocks)?;
        let sizes = Sizes::new(launch)?;
        let places = EventPlaces::new(sizes.events, sizes.urgent, sizes.cells);
        self.prepare_events(launch, &sizes, &places)?;
        let prepared = self.prepare(&work_plan(launch))?;
        let args = self.event_args(launch, &places, &prepared);
        self.work.evidence.upload(prepared.places.flag, &[launch.first_generation])?;
        self.gpu.finish("preparing events")?;
        let (host_start_ns, begun) = (self.gpu.host_ns(), Instant::now());
        let (shape, setter) = self.launch_events(&kernel, launch, &prepared, &args)?;
        let host = match launch.set {
            Setter::Host => self.issue_from_host(launch, begun),
            Setter::Device | Setter::Kernel => HostTimes::default(),
        };
        self.gpu.finish(kernel.symbol)?;
        let outputs = UrgentOutputs {
            executions: args.urgent_executions,
            tiles: u32::try_from(sizes.urgent)?,
            per_event: launch.urgent_tiles,
            first_event_id: launch.first_event_id,
        };
        let collected = self.collect(&prepared, kernel.config(&shape), host_start_ns, false, Some(&outputs))?;
        let evidence = &self.events.evidence;
        let observed_ns: Vec<u32> = evidence.download(places.observed_ns, sizes.cells)?;
        let old_cycles: Vec<u32> = evidence.download(places.old_cycles, sizes.cells)?;
        Ok(PreemptRaw {
            setter,
            start_ns: collected.start_ns,
            set_ns: evidence.download(places.set_ns, sizes.events)?,
            claimer: evidence.download(places.claimer, sizes.urgent)?,
            urgent_start_ns: evidence.download(places.urgent_start_ns, sizes.urgent)?,
            urgent_done_ns: evidence.download(places.urgent_done_ns, sizes.urgent)?,
            urgent_executed: evidence.download(places.urgent_executions, sizes.urgent)?,
            delay_ns: evidence.download(places.delay_spent_ns, sizes.events)?,
            ready_ns: evidence.download(places.ready_ns, sizes.cells)?,
            last_old_ns: last_old_ns(&observed_ns, &old_cycles, &collected.launch),
            observed_ns,
            seen: evidence.download(places.seen, sizes.cells)?,
            host_issue_ns: host.issue_ns,
            host_done_ns: host.done_ns,
            launch: collected.launch,
        })
    }

    fn prepare_events(&mut self, launch: &PreemptLaunch, sizes: &Sizes, places: &EventPlaces) -> anyhow::Result<()> {
        let memory = &mut self.events;
        memory.evidence.ensure(places.bytes, "the event matrices")?;
        memory.evidence.fill(0, places.bytes, 0)?;
        memory.evidence.fill(places.claimer, sizes.urgent * size_of::<u32>(), 0xFF)?;
        memory.evidence.upload(places.gaps_ns, &launch.gaps_ns)?;
        match &memory.host_done {
            Some(words) if words.lines() >= sizes.events => words.clear(),
            _ => memory.host_done = Some(Mapped::new(sizes.events)?),
        }
        let bytes = sizes.urgent * TILE_BYTES;
        self.work.urgent_c.ensure(bytes, "the urgent outputs")?;
        self.work.urgent_c.fill(0, bytes, UNWRITTEN as u8)
    }

    fn event_args(&self, launch: &PreemptLaunch, places: &EventPlaces, prepared: &Prepared) -> EventArgs {
        let (work, at) = (&self.work, |offset| self.events.evidence.at(offset));
        let (delay_leg, delay_ns) = launch.delay.map_or((0, 0), |(leg, ns)| (leg as u32, ns));
        EventArgs {
            flag: work.evidence.at(prepared.places.flag),
            checked_in: work.evidence.at(prepared.places.checked_in),
            claimed: work.evidence.at(prepared.places.claimed),
            gaps_ns: at(places.gaps_ns),
            set_ns: at(places.set_ns),
            ready_count: at(places.ready_count),
            urgent_finished: at(places.urgent_finished),
            claimer: at(places.claimer),
            urgent_start_ns: at(places.urgent_start_ns),
            urgent_done_ns: at(places.urgent_done_ns),
            urgent_executions: at(places.urgent_executions),
            urgent_c: work.urgent_c.at(0),
            observed_ns: at(places.observed_ns),
            ready_ns: at(places.ready_ns),
            old_cycles: at(places.old_cycles),
            seen: at(places.seen),
            host_issued: work.words.at(word::ISSUED),
            host_urgent_done: self.events.host_done.as_ref().map_or(0, |words| words.at(0)),
            host_completed: work.words.at(word::COMPLETED),
            delay_spent_ns: at(places.delay_spent_ns),
            deadline_ns: launch.deadline_ns,
            n_events: u32::try_from(launch.gaps_ns.len()).unwrap_or(u32::MAX),
            urgent_tiles: launch.urgent_tiles,
            first_generation: launch.first_generation,
            first_event_id: launch.first_event_id,
            set_mode: set_mode(launch.set),
            storm: u32::from(launch.storm),
            delay_leg,
            delay_ns,
            columns: launch.blocks,
            observers: launch.blocks - 1,
        }
    }

    /// Launches the grid, behind its setter kernel if it has one.
    fn launch_events(
        &self,
        kernel: &Kernel,
        launch: &PreemptLaunch,
        prepared: &Prepared,
        args: &EventArgs,
    ) -> anyhow::Result<(Shape, Option<LaunchConfig>)> {
        let (mode, grid) = match launch.set {
            Setter::Device => ("event_device", launch.blocks),
            Setter::Host => ("event_host", launch.blocks),
            Setter::Kernel => ("event_kernel", launch.blocks - 1),
        };
        // Beside a setter kernel the grid is an ordinary one, launched first: on an H200 with driver 580 a cooperative grid does
        // not run beside another kernel, and a grid launched behind the running setter starts when the setter has ended. The
        // setter and the grid together stay within the slots, so the slot it starts in is always open.
        let cooperative = launch.set != Setter::Kernel;
        let shape = Shape { mode, grid, shared_bytes: 0, cooperative };
        kernel.launch(self.gpu.background(), &shape, &[Arg::of(&prepared.args), Arg::of(args)])?;
        let mut setter = None;
        if launch.set == Setter::Kernel {
            let setter_shape = Shape { mode: "setter", grid: 1, shared_bytes: 0, cooperative: false };
            let work = WorkArgs { first_column: 0, ..prepared.args };
            self.kernels.setter.launch(self.gpu.priority(), &setter_shape, &[Arg::of(&work), Arg::of(args)])?;
            setter = Some(self.kernels.setter.config(&setter_shape));
        }
        Ok((shape, setter))
    }
}

/// When each cell's last poll began that returned an older generation: by the cycles of its block's SM before the observation,
/// at the clock that this SM ran at in this launch.
fn last_old_ns(observed_ns: &[u32], old_cycles: &[u32], launch: &LaunchRaw) -> Vec<u32> {
    let columns = launch.trace.block_sm.len().max(1);
    let clock = SmClock::new(&launch.trace.clock);
    let cell = |(cell, (observed, cycles)): (usize, (&u32, &u32))| {
        let sm = launch.trace.block_sm.get(cell % columns).copied().unwrap_or(u32::MAX);
        observed.wrapping_sub(clock.ns(sm, *cycles).unwrap_or(LONG_AGO_NS))
    };
    observed_ns.iter().zip(old_cycles).enumerate().map(cell).collect()
}

/// The background work beside a schedule: column 0 is the setter's, whoever it is.
fn work_plan(launch: &PreemptLaunch) -> WorkPlan {
    WorkPlan {
        k: launch.k,
        tasks: launch.tasks,
        workers: launch.blocks - 1,
        columns: launch.blocks,
        first_column: u32::from(launch.set == Setter::Kernel),
        watched: false,
    }
}

/// The number `kernels/preempt/abi.cuh` gives a setter.
fn set_mode(set: Setter) -> u32 {
    match set {
        Setter::Device => 0,
        Setter::Host => 1,
        Setter::Kernel => 2,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn launch() -> PreemptLaunch {
        PreemptLaunch {
            k: 64,
            blocks: 8,
            poll: 1,
            set: Setter::Device,
            tasks: 100,
            gaps_ns: vec![1000; 3],
            urgent_tiles: 2,
            first_generation: 0,
            first_event_id: 0,
            delay: None,
            storm: false,
            deadline_ns: 1_000_000,
        }
    }

    #[test]
    fn a_schedule_has_a_cell_for_each_event_and_block() {
        let sizes = Sizes::new(&launch()).unwrap();
        assert_eq!((sizes.events, sizes.urgent, sizes.cells), (3, 6, 24));
        let places = EventPlaces::new(sizes.events, sizes.urgent, sizes.cells);
        assert!(places.bytes >= 24 * (3 * 4 + 1) + 6 * (8 + 8 + 4 + 4) + 3 * (4 + 8 + 4 + 4));
    }

    #[test]
    fn schedules_that_cannot_be_are_refused() {
        let check = |change: &dyn Fn(&mut PreemptLaunch), why: &str| {
            let mut bad = launch();
            change(&mut bad);
            assert!(Sizes::new(&bad).err().unwrap().to_string().contains(why), "{why}");
        };
        check(&|launch| launch.gaps_ns.clear(), "at least one");
        check(&|launch| launch.urgent_tiles = 0, "urgent tile");
        check(&|launch| launch.blocks = 1, "nobody to preempt");
    }

    #[test]
    fn a_setter_kernel_takes_column_0() {
        let plan = work_plan(&PreemptLaunch { set: Setter::Kernel, ..launch() });
        assert_eq!((plan.first_column, plan.columns, plan.workers), (1, 8, 7));
        assert_eq!(work_plan(&launch()).first_column, 0);
    }
}
