//! A device without a GPU: OS threads stand in for blocks, with real atomics and real tiles, so that the whole path
//! runs anywhere.
//!
//! Its numbers say nothing about a GPU and are never published. A cycle is a nanosecond; blocks are spread over the
//! SMs round robin.

mod baseline;
mod events;
mod grid;
mod tiles;

use crate::launch::{
    BaselineLaunch, BaselineRaw, CalibrateLaunch, CalibrateRaw, Device, DrainLaunch, Drainer, LaunchRaw, PreemptLaunch,
    PreemptRaw,
};
use crate::oracle::Pair;
use crate::plan::POLL_PERIODS;
use crate::{site, slot};
use grid::{BlockReport, Grid, launch_raw, on_blocks};
use harness_core::emulated::{self, Clock, config, narrow};
use harness_core::failure::fail;
use harness_core::gpu::Gpu;
use harness_core::launch::TimerTrace;
use harness_core::target::{EMULATED_PER_SM, emulated_facts};
use schema::ExitCode;
use schema::cell::DeviceFacts;
use schema::progress::Sites;
use std::collections::BTreeMap;
use std::sync::Barrier;
use std::sync::atomic::{AtomicU32, Ordering::Acquire};
use tiles::{Outputs, Problem};

/// Its in-band clock: a cycle is a nanosecond.
const CLOCK_MHZ: f64 = 1000.0;

/// The emulated device.
#[derive(Debug)]
pub struct Emulated {
    facts: DeviceFacts,
    clock: Clock,
    problems: BTreeMap<u32, Problem>,
    outputs: Outputs,
    urgent_outputs: Outputs,
    sites: Sites,
}

impl Emulated {
    /// Opens the device; it is always there.
    #[must_use]
    pub fn open() -> Self {
        Self::new(emulated_facts(), Clock::start())
    }

    /// The device with these facts, to which the slots of its kernels are added.
    pub(crate) fn new(mut facts: DeviceFacts, clock: Clock) -> Self {
        for kernel in [slot::CALIBRATE, slot::DRAIN, slot::YIELD] {
            facts.slots = facts.slots.with(kernel, EMULATED_PER_SM);
        }
        Self {
            facts,
            clock,
            problems: BTreeMap::new(),
            outputs: Outputs::default(),
            urgent_outputs: Outputs::default(),
            sites: crate::no_sites(),
        }
    }

    /// Blocks that it holds at once.
    fn slots(&self) -> u32 {
        self.facts.slots.sms() * EMULATED_PER_SM
    }

    fn check_fits(&self, blocks: u32) -> anyhow::Result<()> {
        let slots = self.slots();
        if blocks > slots || blocks == 0 {
            let message = format!("a grid of {blocks} blocks does not fit the emulated device; from 1 to {slots} do");
            return Err(fail(ExitCode::Config, message));
        }
        Ok(())
    }

    fn problem(&mut self, k: u32) -> &Problem {
        self.problems.entry(k).or_insert_with(|| Problem::new(k))
    }

    /// Makes inputs and outputs ready for a launch.
    fn prepare(&mut self, k: u32, tasks: u32, urgent_tiles: u32) {
        self.problem(k);
        self.outputs.reset(tasks as usize);
        self.urgent_outputs.reset(urgent_tiles as usize);
    }

    fn count(&mut self, k: u32, reports: &[BlockReport]) {
        let chunks = self.problems[&k].chunks();
        for report in reports {
            let copies = (report.tiles + report.claims) * chunks;
            for (site, times) in [(site::YIELD, report.yields), (site::CLAIM, report.claims), (site::COPY, copies)] {
                *self.sites.entry(site.to_owned()).or_default() += times;
            }
        }
    }
}

impl Device for Emulated {
    fn facts(&self) -> &DeviceFacts {
        &self.facts
    }

    fn timer(&mut self, rounds: u32) -> anyhow::Result<TimerTrace> {
        Ok(emulated::timer(self.clock, self.facts.slots.sms(), rounds))
    }

    fn calibrate(&mut self, launch: &CalibrateLaunch) -> anyhow::Result<CalibrateRaw> {
        self.check_fits(launch.blocks)?;
        let tasks = launch.tasks().ok_or_else(|| anyhow::anyhow!("too many tiles in one launch"))?;
        self.prepare(launch.k, tasks, 0);
        let host_start = self.clock.now();
        let grid = Grid::new(self.clock, &self.problems[&launch.k], &self.outputs, tasks);
        let together = Barrier::new(launch.blocks as usize);
        let reports = on_blocks(launch.blocks, |_| calibrate_block(&grid, &together, launch));
        if launch.poison {
            self.outputs.poison(tasks as usize / 2);
        }
        let checked = self.outputs.check(&self.problems[&launch.k], task_pair);
        self.count(launch.k, &reports);
        let config = config("preempt_calibrate", "calibrate", launch.blocks, false);
        Ok(CalibrateRaw {
            boundary_ns: reports.iter().flat_map(|report| report.boundary_ns.iter().copied()).collect(),
            launch: launch_raw(config, self.facts.slots.sms(), host_start, tasks, &reports, checked),
            max_relative_error: checked.relative_error,
        })
    }

    fn drain(&mut self, launch: &DrainLaunch) -> anyhow::Result<LaunchRaw> {
        self.check_fits(launch.blocks)?;
        let (symbol, period) = match launch.drainer {
            Drainer::PollFree => ("preempt_drain".to_owned(), None),
            Drainer::Polling(poll) => (yield_symbol(poll)?, Some(poll)),
        };
        self.prepare(launch.k, launch.tasks, 0);
        let host_start = self.clock.now();
        let grid = Grid::new(self.clock, &self.problems[&launch.k], &self.outputs, launch.tasks);
        let flag = AtomicU32::new(0);
        let reports = on_blocks(launch.blocks, |_| match period {
            None => grid.drain(u32::MAX, |_| ()),
            Some(period) => grid.drain(period, |_| assert_eq!(flag.load(Acquire), 0, "nobody sets a drain's flag")),
        });
        if launch.poison {
            self.outputs.poison(launch.tasks as usize / 2);
        }
        let checked = self.outputs.check(&self.problems[&launch.k], task_pair);
        self.count(launch.k, &reports);
        let config = config(&symbol, "drain", launch.blocks, false);
        Ok(launch_raw(config, self.facts.slots.sms(), host_start, launch.tasks, &reports, checked))
    }

    fn baseline(&mut self, launch: &BaselineLaunch) -> anyhow::Result<BaselineRaw> {
        self.check_fits(launch.blocks)?;
        self.prepare(launch.k, launch.tasks, 1);
        let (raw, reports) = baseline::run(self, launch);
        self.count(launch.k, &reports);
        Ok(raw)
    }

    fn preempt(&mut self, launch: &PreemptLaunch) -> anyhow::Result<PreemptRaw> {
        self.check_fits(launch.blocks)?;
        yield_symbol(launch.poll)?;
        if launch.blocks < 2 {
            return Err(fail(ExitCode::Config, "an event launch needs 2 blocks or more, since one of them only sets"));
        }
        let events = u32::try_from(launch.gaps_ns.len())?;
        self.prepare(launch.k, launch.tasks, events * launch.urgent_tiles);
        let (raw, reports) = events::run(self, launch);
        self.count(launch.k, &reports);
        Ok(raw)
    }

    fn burn(&mut self, seconds: f64) -> anyhow::Result<f64> {
        let launch = DrainLaunch { drainer: Drainer::PollFree, k: 64, blocks: self.slots(), tasks: 64, poison: false };
        let begin = std::time::Instant::now();
        while begin.elapsed().as_secs_f64() < seconds {
            self.drain(&launch)?;
        }
        Ok(CLOCK_MHZ)
    }

    fn sites(&self) -> Sites {
        self.sites.clone()
    }

    fn gpu(&mut self) -> Option<&mut Gpu> {
        None
    }
}

/// One block of the calibrate kernel: ends of tiles are recorded from the task on with which warm-up is over.
fn calibrate_block(grid: &Grid, together: &Barrier, launch: &CalibrateLaunch) -> BlockReport {
    let boundaries = launch.tiles as usize + 1;
    together.wait();
    let mut report = BlockReport { start_ns: grid.clock.now(), ..BlockReport::default() };
    let mut task = grid.pop();
    while task < grid.tasks {
        let next = grid.pop();
        grid.run(task, &mut report);
        if next >= launch.blocks * launch.warmup_tiles && report.boundary_ns.len() < boundaries {
            report.boundary_ns.push(grid.clock.now() as u32 | 1);
        }
        task = next;
    }
    report.boundary_ns.resize(boundaries, 0);
    report.end_ns = grid.clock.now();
    report
}

fn task_pair(task: usize) -> Pair {
    Pair::of_task(u32::try_from(task).expect("a queue holds fewer than 2^32 tasks"))
}

fn yield_symbol(poll: u32) -> anyhow::Result<String> {
    if POLL_PERIODS.contains(&poll) {
        return Ok(format!("preempt_yield_p{poll}"));
    }
    Err(fail(
        ExitCode::Config,
        format!("poll period {poll} is not built; the yield kernel exists for {POLL_PERIODS:?}"),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drain(drainer: Drainer, poison: bool) -> LaunchRaw {
        let launch = DrainLaunch { drainer, k: 32, blocks: 4, tasks: 50, poison };
        Emulated::open().drain(&launch).unwrap()
    }

    #[test]
    fn drains_do_every_task_once() {
        for drainer in [Drainer::PollFree, Drainer::Polling(1), Drainer::Polling(4)] {
            let raw = drain(drainer, false);
            assert_eq!((raw.tasks, raw.executed, raw.wrong_tiles, raw.not_once), (50, 50, 0, 0));
            assert!(raw.trace.wall_ns > 0 && raw.trace.clock.len() == 2 && raw.trace.block_sm == [0, 1, 0, 1]);
        }
    }

    #[test]
    fn a_poisoned_element_is_one_wrong_tile() {
        assert_eq!(drain(Drainer::PollFree, true).wrong_tiles, 1);
        let mut device = Emulated::open();
        let launch = CalibrateLaunch { k: 32, blocks: 2, warmup_tiles: 1, tiles: 3, tail_tiles: 1, poison: true };
        let raw = device.calibrate(&launch).unwrap();
        assert_eq!((raw.launch.wrong_tiles, raw.boundary_ns.len(), raw.launch.tasks), (1, 8, 10));
        assert!(raw.max_relative_error > 0.0 && device.sites()[site::COPY] == 10 * 2);
    }

    #[test]
    fn what_does_not_fit_or_is_not_built_is_refused() {
        let mut device = Emulated::open();
        let launch = DrainLaunch { drainer: Drainer::PollFree, k: 32, blocks: 5, tasks: 1, poison: false };
        assert!(device.drain(&launch).unwrap_err().to_string().contains("from 1 to 4"));
        let unbuilt = DrainLaunch { drainer: Drainer::Polling(3), blocks: 1, ..launch };
        assert!(device.drain(&unbuilt).unwrap_err().to_string().contains("poll period 3 is not built"));
    }
}
