//! A drain with one urgent launch beside it: the urgent block starts when a slot is free, as a GPU's scheduler would have it.

use super::grid::{BlockReport, Grid, first_start, launch_raw};
use super::{Emulated, config, narrow, task_pair};
use crate::launch::{BaselineLaunch, BaselineRaw};
use crate::oracle::Pair;
use crate::tables::anomaly;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Acquire, Ordering::Relaxed, Ordering::Release};

/// Instants both sides see; zero means "not yet".
#[derive(Debug, Default)]
struct Marks {
    drain_start: AtomicU64,
    urgent_start: AtomicU64,
    urgent_done: AtomicU64,
    blocks_left: AtomicU32,
}

/// Host instants, from the moment the host saw the drain running.
#[derive(Clone, Copy, Debug, Default)]
struct HostTimes {
    issue: u64,
    start: u64,
    done: u64,
    drain_done: u64,
}

pub(super) fn run(device: &Emulated, launch: &BaselineLaunch) -> (BaselineRaw, Vec<BlockReport>) {
    let problem = &device.problems[&launch.k];
    let grid = Grid::new(device.clock, problem, &device.outputs, launch.tasks);
    let marks = Marks { blocks_left: AtomicU32::new(launch.blocks), ..Marks::default() };
    let pair = Pair::of_urgent(launch.event_id, 0);
    let host_start = device.clock.now();
    let (mut reports, host) = std::thread::scope(|scope| {
        let blocks: Vec<_> = (0..launch.blocks).map(|_| scope.spawn(|| drain_block(&grid, &marks))).collect();
        let host = host_side(device, launch, &marks, |scope_marks| urgent_block(device, launch, scope_marks, pair));
        let join = |thread: std::thread::ScopedJoinHandle<'_, BlockReport>| thread.join().expect("a block panicked");
        (blocks.into_iter().map(join).collect::<Vec<_>>(), host)
    });
    let checked = device.outputs.check(problem, task_pair);
    let urgent = device.urgent_outputs.check(problem, |_| pair);
    let sms = device.facts.slots.sms();
    let mut raw = launch_raw(
        config("preempt_drain", "baseline", launch.blocks, false),
        sms,
        host_start,
        launch.tasks,
        &reports,
        checked,
    );
    raw.urgent_requested = 1;
    raw.urgent_executed = urgent.executed;
    raw.urgent_wrong = urgent.wrong;
    raw.urgent_not_once = urgent.not_once;
    let from_start = |ns: u64| ns.cast_signed() - first_start(&reports).cast_signed();
    let end = reports.iter().map(|report| report.end_ns).max().unwrap_or(0);
    let raw = BaselineRaw {
        urgent: config("preempt_urgent", "urgent", 1, false),
        issue_ns: narrow(host.issue),
        start_ns: narrow(host.start),
        done_ns: narrow(host.done),
        drain_done_ns: narrow(host.drain_done),
        device_start_ns: from_start(marks.urgent_start.load(Acquire)),
        device_done_ns: from_start(marks.urgent_done.load(Acquire)),
        device_drain_ns: from_start(end),
        anomaly: if host.drain_done <= host.issue { anomaly::LOST } else { 0 },
        launch: raw,
    };
    reports.push(BlockReport { claims: 1, ..BlockReport::default() });
    (raw, reports)
}

fn drain_block(grid: &Grid, marks: &Marks) -> BlockReport {
    let now = grid.clock.now();
    let _ = marks.drain_start.compare_exchange(0, now, Release, Relaxed);
    let report = grid.drain(u32::MAX, |_| ());
    marks.blocks_left.fetch_sub(1, Release);
    report
}

/// The urgent kernel: it waits for a slot, then runs one tile.
fn urgent_block(device: &Emulated, launch: &BaselineLaunch, marks: &Marks, pair: Pair) {
    while marks.blocks_left.load(Acquire) >= device.slots() {
        std::thread::yield_now();
    }
    marks.urgent_start.store(device.clock.now(), Release);
    device.urgent_outputs.execute(0, &device.problems[&launch.k], pair);
    marks.urgent_done.store(device.clock.now(), Release);
}

/// Waits for the drain, then for the arrival, launches the urgent block and watches both to their ends.
fn host_side(device: &Emulated, launch: &BaselineLaunch, marks: &Marks, urgent: impl Fn(&Marks) + Sync) -> HostTimes {
    let clock = device.clock;
    while marks.drain_start.load(Acquire) == 0 {
        std::thread::yield_now();
    }
    let origin = clock.now();
    clock.wait_until(origin + u64::from(launch.arrival_ns));
    let issue = clock.now() - origin;
    let drained_before = marks.blocks_left.load(Acquire) == 0;
    let mut times = HostTimes { issue, drain_done: if drained_before { issue } else { 0 }, ..HostTimes::default() };
    std::thread::scope(|scope| {
        scope.spawn(|| urgent(marks));
        while times.done == 0 || times.drain_done == 0 {
            let now = clock.now() - origin;
            mark_once(&mut times.start, now, marks.urgent_start.load(Acquire) != 0);
            mark_once(&mut times.done, now, marks.urgent_done.load(Acquire) != 0);
            mark_once(&mut times.drain_done, now, marks.blocks_left.load(Acquire) == 0);
            std::thread::yield_now();
        }
    });
    times
}

fn mark_once(mark: &mut u64, now: u64, reached: bool) {
    if reached && *mark == 0 {
        *mark = now;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::launch::Device;

    fn check(blocks: u32) -> BaselineRaw {
        let launch = BaselineLaunch { k: 64, blocks, tasks: 200, arrival_ns: 100_000, event_id: 9 };
        let raw = Emulated::open().baseline(&launch).unwrap();
        assert_eq!((raw.launch.executed, raw.launch.wrong_tiles, raw.launch.urgent_wrong), (200, 0, 0));
        assert!(raw.issue_ns >= 100_000 && raw.start_ns >= raw.issue_ns && raw.done_ns >= raw.start_ns);
        assert!(raw.device_done_ns >= raw.device_start_ns && raw.device_drain_ns > 0);
        raw
    }

    #[test]
    fn a_full_device_makes_the_urgent_task_wait_for_a_block_to_end() {
        let raw = check(4);
        assert!(raw.device_start_ns > 0 && raw.start_ns > raw.issue_ns);
    }

    #[test]
    fn an_arrival_after_the_drain_is_lost() {
        let launch = BaselineLaunch { k: 16, blocks: 2, tasks: 2, arrival_ns: 50_000_000, event_id: 0 };
        assert_eq!(Emulated::open().baseline(&launch).unwrap().anomaly, anomaly::LOST);
    }

    #[test]
    fn an_open_slot_takes_it() {
        check(3);
        check(1);
    }
}
