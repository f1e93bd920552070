//! What every emulated launch shares: the task queue, one thread a block, and the record of the launch.

use super::tiles::{Checked, Outputs, Problem};
use crate::launch::LaunchRaw;
use crate::oracle::Pair;
use harness_core::emulated::{self, Clock};
use harness_core::launch::LaunchTrace;
use schema::cell::LaunchConfig;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// The background work of one launch: a queue of tasks, each with an output tile of its own.
#[derive(Debug)]
pub(super) struct Grid<'a> {
    pub(super) clock: Clock,
    pub(super) problem: &'a Problem,
    pub(super) outputs: &'a Outputs,
    pub(super) tasks: u32,
    head: AtomicU32,
}

/// What one block did.
#[derive(Clone, Debug, Default)]
pub(super) struct BlockReport {
    pub(super) start_ns: u64,
    pub(super) end_ns: u64,
    pub(super) tiles: u64,
    pub(super) yields: u64,
    pub(super) claims: u64,
    pub(super) boundary_ns: Vec<u32>,
}

impl<'a> Grid<'a> {
    pub(super) fn new(clock: Clock, problem: &'a Problem, outputs: &'a Outputs, tasks: u32) -> Self {
        Self { clock, problem, outputs, tasks, head: AtomicU32::new(0) }
    }

    /// Takes the next task's number; at or above `tasks` there is none.
    pub(super) fn pop(&self) -> u32 {
        self.head.fetch_add(1, Relaxed)
    }

    /// Works on one task.
    pub(super) fn run(&self, task: u32, report: &mut BlockReport) {
        self.outputs.execute(task as usize, self.problem, Pair::of_task(task));
        report.tiles += 1;
        // There are more blocks than cores: without yielding, one block would drain the queue while the setter waits
        // for a core.
        std::thread::yield_now();
    }

    /// Works until the queue is dry, taking each next task one tile ahead, and calls `poll` before every `period`-th tile.
    pub(super) fn drain(&self, period: u32, mut poll: impl FnMut(&mut BlockReport)) -> BlockReport {
        let mut report = BlockReport { start_ns: self.clock.now(), ..BlockReport::default() };
        let mut task = self.pop();
        let mut until_poll = 0;
        loop {
            if until_poll == 0 {
                poll(&mut report);
                until_poll = period;
            }
            until_poll -= 1;
            if task >= self.tasks {
                break;
            }
            let next = self.pop();
            self.run(task, &mut report);
            task = next;
        }
        report.end_ns = self.clock.now();
        report
    }
}

/// Runs `body` on one thread per block and returns the reports in block order.
pub(super) fn on_blocks(blocks: u32, body: impl Fn(u32) -> BlockReport + Sync) -> Vec<BlockReport> {
    std::thread::scope(|scope| {
        let body = &body;
        let threads: Vec<_> = (0..blocks).map(|block| scope.spawn(move || body(block))).collect();
        threads.into_iter().map(|thread| thread.join().expect("an emulated block panicked")).collect()
    })
}

/// The instant the first block started.
pub(super) fn first_start(reports: &[BlockReport]) -> u64 {
    reports.iter().map(|report| report.start_ns).min().unwrap_or(0)
}

/// What every launch records, whatever its blocks do.
pub(super) fn trace(config: LaunchConfig, sms: u32, host_start_ns: u64, reports: &[BlockReport]) -> LaunchTrace {
    let blocks: Vec<(u64, u64)> = reports.iter().map(|report| (report.start_ns, report.end_ns)).collect();
    emulated::trace(config, sms, host_start_ns, &blocks)
}

/// The record of a launch without urgent work.
pub(super) fn launch_raw(
    config: LaunchConfig,
    sms: u32,
    host_start_ns: u64,
    tasks: u32,
    reports: &[BlockReport],
    checked: Checked,
) -> LaunchRaw {
    LaunchRaw {
        trace: trace(config, sms, host_start_ns, reports),
        tasks,
        executed: checked.executed,
        wrong_tiles: checked.wrong,
        unwritten_tiles: checked.unwritten,
        not_once: checked.not_once,
        urgent_requested: 0,
        urgent_executed: 0,
        urgent_wrong: 0,
        urgent_not_once: 0,
        deadline_hits: 0,
    }
}
