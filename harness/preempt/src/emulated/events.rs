//! Event launches: block 0 (or a setter beside the grid) sets the flag, the other blocks poll it at tile boundaries.
//!
//! The protocol is the kernel's: an unsigned generation that may wrap, a next task popped before it is needed, claims by
//! compare-and-swap, and blocks that linger at the end of the queue until every event is served.

use super::grid::{BlockReport, Grid, first_start, launch_raw};
use super::tiles::{Outputs, Problem};
use super::{Emulated, config, task_pair};
use crate::launch::{PreemptLaunch, PreemptRaw};
use crate::oracle::Pair;
use crate::plan::{Leg, Setter};
use schema::timer::delayed_event;
use std::sync::atomic::{
    AtomicU8, AtomicU32, AtomicU64, Ordering::AcqRel, Ordering::Acquire, Ordering::Relaxed, Ordering::Release,
};

const OBSERVED: u8 = 1;
const READY: u8 = 2;

/// Everything the threads of one event launch share.
struct Stage<'a> {
    grid: Grid<'a>,
    launch: &'a PreemptLaunch,
    urgent_outputs: &'a Outputs,
    problem: &'a Problem,
    /// The clock value at which waits give up.
    deadline: u64,
    flag: AtomicU32,
    checked_in: AtomicU32,
    /// Tickets of urgent tiles taken so far, in event order.
    claimed: AtomicU32,
    /// Events the host has issued.
    host_issued: AtomicU32,
    /// 1 once every block is there, one more for each event served.
    host_completed: AtomicU32,
    deadline_hits: AtomicU32,
    events: Vec<EventMarks>,
    tickets: Vec<Ticket>,
    /// `blocks` entries an event.
    columns: Vec<Observation>,
}

#[derive(Debug, Default)]
struct EventMarks {
    set_ns: AtomicU64,
    ready: AtomicU32,
    urgent_finished: AtomicU32,
    urgent_seen_by_host: AtomicU32,
    host_issue_ns: AtomicU64,
    host_done_ns: AtomicU64,
    delay_ns: AtomicU32,
}

#[derive(Debug)]
struct Ticket {
    claimer: AtomicU32,
    start_ns: AtomicU64,
    done_ns: AtomicU64,
}

#[derive(Debug, Default)]
struct Observation {
    observed_ns: AtomicU32,
    ready_ns: AtomicU32,
    last_old_ns: AtomicU32,
    seen: AtomicU8,
}

/// What a block knows of the flag.
struct Poller {
    column: u32,
    seen: u32,
    last_old_ns: u64,
}

pub(super) fn run(device: &Emulated, launch: &PreemptLaunch) -> (PreemptRaw, Vec<BlockReport>) {
    let host_start = device.clock.now();
    let stage = Stage::new(device, launch, host_start);
    let reports = std::thread::scope(|scope| {
        let stage = &stage;
        let block = |column: u32| match column {
            0 => stage.set_only(),
            _ => stage.work(column),
        };
        let blocks: Vec<_> = (0..launch.blocks).map(|column| scope.spawn(move || block(column))).collect();
        if launch.set == Setter::Host {
            stage.host_side(host_start);
        }
        blocks.into_iter().map(|thread| thread.join().expect("an emulated block panicked")).collect::<Vec<_>>()
    });
    (stage.record(device, host_start, &reports), reports)
}

/// Whether a generation comes after another; generations wrap.
fn newer(generation: u32, than: u32) -> bool {
    generation.wrapping_sub(than).cast_signed() > 0
}

impl<'a> Stage<'a> {
    fn new(device: &'a Emulated, launch: &'a PreemptLaunch, host_start: u64) -> Self {
        let events = launch.gaps_ns.len();
        let problem = &device.problems[&launch.k];
        let ticket =
            || Ticket { claimer: AtomicU32::new(u32::MAX), start_ns: AtomicU64::new(0), done_ns: AtomicU64::new(0) };
        Self {
            grid: Grid::new(device.clock, problem, &device.outputs, launch.tasks),
            launch,
            urgent_outputs: &device.urgent_outputs,
            problem,
            deadline: host_start.saturating_add(launch.deadline_ns),
            flag: AtomicU32::new(launch.first_generation),
            checked_in: AtomicU32::new(0),
            claimed: AtomicU32::new(0),
            host_issued: AtomicU32::new(0),
            host_completed: AtomicU32::new(0),
            deadline_hits: AtomicU32::new(0),
            events: (0..events).map(|_| EventMarks::default()).collect(),
            tickets: (0..events * launch.urgent_tiles as usize).map(|_| ticket()).collect(),
            columns: (0..events * launch.blocks as usize).map(|_| Observation::default()).collect(),
        }
    }

    fn now(&self) -> u64 {
        self.grid.clock.now()
    }

    fn n_events(&self) -> u32 {
        u32::try_from(self.events.len()).expect("a launch holds fewer than 2^32 events")
    }

    fn observers(&self) -> u32 {
        self.launch.blocks - 1
    }

    /// Waits, and counts a deadline hit when it was in vain.
    fn wait(&self, ready: impl FnMut() -> bool) -> bool {
        let in_time = self.grid.clock.wait(self.deadline, ready);
        if !in_time {
            self.deadline_hits.fetch_add(1, Relaxed);
        }
        in_time
    }

    /// Spends the planted delay when it belongs to this leg of this event, and records what was spent.
    fn delay(&self, leg: Leg, event: u32) {
        if let Some((planted, ns)) = self.launch.delay
            && planted == leg
            && delayed_event(event)
        {
            let start_ns = self.now();
            self.grid.clock.wait_until(start_ns + u64::from(ns));
            let spent_ns = u32::try_from(self.now() - start_ns).unwrap_or(u32::MAX);
            self.events[event as usize].delay_ns.fetch_max(spent_ns, Relaxed);
        }
    }

    /// The block that only sets.
    fn set_only(&self) -> BlockReport {
        let start_ns = self.now();
        if self.wait(|| self.checked_in.load(Acquire) == self.observers()) {
            self.host_completed.store(1, Release);
            let _all_set = (0..self.n_events()).all(|event| self.set(event));
        }
        BlockReport { start_ns, end_ns: self.now(), ..BlockReport::default() }
    }

    /// Sets one event when it is due, and waits until it is served. False when the deadline came first.
    fn set(&self, event: u32) -> bool {
        if !self.await_due(event) {
            return false;
        }
        let marks = &self.events[event as usize];
        marks.set_ns.store(self.now(), Release);
        self.delay(Leg::SetToObserved, event);
        self.flag.store(self.launch.first_generation.wrapping_add(event + 1), Release);
        if self.launch.storm {
            return true;
        }
        let served = self.wait(|| {
            marks.ready.load(Acquire) == self.observers()
                && marks.urgent_finished.load(Acquire) == self.launch.urgent_tiles
        });
        self.host_completed.store(event + 2, Release);
        served
    }

    fn await_due(&self, event: u32) -> bool {
        if self.launch.set == Setter::Host {
            let issued = self.wait(|| self.host_issued.load(Acquire) > event);
            if issued {
                self.delay(Leg::HostToSet, event);
            }
            return issued;
        }
        if !self.launch.storm {
            self.grid.clock.wait_until(self.now() + u64::from(self.launch.gaps_ns[event as usize]));
        }
        true
    }

    /// The host's side of host-set events: issue when due, watch until done.
    fn host_side(&self, host_start: u64) {
        for event in 0..self.n_events() {
            if !self.launch.storm {
                if !self.wait(|| self.host_completed.load(Acquire) > event) {
                    return;
                }
                self.grid.clock.wait_until(self.now() + u64::from(self.launch.gaps_ns[event as usize]));
            }
            let marks = &self.events[event as usize];
            marks.host_issue_ns.store(self.now() - host_start, Relaxed);
            self.host_issued.store(event + 1, Release);
            if !self.launch.storm {
                if !self.wait(|| marks.urgent_seen_by_host.load(Acquire) == 1) {
                    return;
                }
                marks.host_done_ns.store(self.now() - host_start, Relaxed);
            }
        }
    }

    /// A block that works: it drains the queue, polls at tile boundaries, and lingers until every event is served.
    fn work(&self, column: u32) -> BlockReport {
        let mut poller = Poller { column, seen: self.launch.first_generation, last_old_ns: self.now() };
        self.checked_in.fetch_add(1, AcqRel);
        let mut report = self.grid.drain(self.launch.poll, |report| {
            self.poll(&mut poller, report);
        });
        let all = self.launch.first_generation.wrapping_add(self.n_events());
        self.wait(|| {
            self.poll(&mut poller, &mut report);
            poller.seen == all
        });
        report.end_ns = self.now();
        report
    }

    /// One look at the flag, and what follows from it.
    fn poll(&self, poller: &mut Poller, report: &mut BlockReport) {
        let began_ns = self.now();
        let generation = self.flag.load(Acquire);
        let old_ns = std::mem::replace(&mut poller.last_old_ns, began_ns);
        if !newer(generation, poller.seen) {
            return;
        }
        let observed_ns = self.now();
        let index = |generation: u32| generation.wrapping_sub(self.launch.first_generation);
        self.delay(Leg::ObservedToReady, index(generation) - 1);
        let ready_ns = self.now();
        for event in index(poller.seen)..index(generation) {
            self.note(event, poller.column, old_ns, observed_ns, ready_ns);
        }
        report.yields += 1;
        self.serve(index(generation) * self.launch.urgent_tiles, poller.column, report);
        poller.seen = generation;
    }

    #[expect(clippy::cast_possible_truncation, reason = "the record holds the low 32 bits")]
    fn note(&self, event: u32, column: u32, old_ns: u64, observed_ns: u64, ready_ns: u64) {
        let cell = &self.columns[event as usize * self.launch.blocks as usize + column as usize];
        cell.observed_ns.store(observed_ns as u32, Relaxed);
        cell.ready_ns.store(ready_ns as u32, Relaxed);
        cell.last_old_ns.store(old_ns as u32, Relaxed);
        cell.seen.store(OBSERVED | READY, Relaxed);
        self.events[event as usize].ready.fetch_add(1, AcqRel);
    }

    /// Claims and runs urgent tiles of the observed events until none is left.
    fn serve(&self, limit: u32, column: u32, report: &mut BlockReport) {
        while let Ok(ticket) =
            self.claimed.fetch_update(AcqRel, Acquire, |ticket| (ticket < limit).then_some(ticket + 1))
        {
            self.run_urgent(ticket, column);
            report.claims += 1;
        }
    }

    fn run_urgent(&self, ticket: u32, column: u32) {
        let event = ticket / self.launch.urgent_tiles;
        let marks = &self.tickets[ticket as usize];
        self.delay(Leg::ReadyToUrgent, event);
        marks.start_ns.store(self.now(), Relaxed);
        marks.claimer.store(column, Relaxed);
        self.urgent_outputs.execute(ticket as usize, self.problem, self.urgent_pair(ticket as usize));
        self.delay(Leg::Urgent, event);
        marks.done_ns.store(self.now(), Relaxed);
        let event_marks = &self.events[event as usize];
        let before = event_marks.urgent_finished.fetch_add(1, AcqRel);
        if before + 1 == self.launch.urgent_tiles {
            self.delay(Leg::DoneToHost, event);
            event_marks.urgent_seen_by_host.store(1, Release);
        }
    }

    fn urgent_pair(&self, ticket: usize) -> Pair {
        let ticket = u32::try_from(ticket).expect("a launch holds fewer than 2^32 urgent tiles");
        let event_id = self.launch.first_event_id.wrapping_add(ticket / self.launch.urgent_tiles);
        Pair::of_urgent(event_id, ticket % self.launch.urgent_tiles)
    }

    fn record(&self, device: &Emulated, host_start: u64, reports: &[BlockReport]) -> PreemptRaw {
        let launch = self.launch;
        let workers = launch.blocks - u32::from(launch.set == Setter::Kernel);
        let symbol = format!("preempt_yield_p{}", launch.poll);
        let mode = format!("event_{}", launch.set.name());
        let checked = device.outputs.check(self.problem, task_pair);
        let urgent = device.urgent_outputs.check(self.problem, |ticket| self.urgent_pair(ticket));
        let cooperative = launch.set != Setter::Kernel;
        let (config, sms) = (config(&symbol, &mode, workers, cooperative), device.facts.slots.sms());
        let mut raw = launch_raw(config, sms, host_start, launch.tasks, reports, checked);
        raw.trace.block_sm = (0..launch.blocks).map(|block| block % sms).collect();
        raw.urgent_requested = u32::try_from(self.tickets.len()).unwrap_or(u32::MAX);
        raw.urgent_executed = urgent.executed;
        raw.urgent_wrong = urgent.wrong;
        raw.urgent_not_once = urgent.not_once;
        raw.deadline_hits = self.deadline_hits.load(Relaxed);
        let column = |value: fn(&Observation) -> &AtomicU32| -> Vec<u32> {
            self.columns.iter().map(|cell| value(cell).load(Relaxed)).collect()
        };
        let event = |value: fn(&EventMarks) -> &AtomicU64| -> Vec<u64> {
            self.events.iter().map(|marks| value(marks).load(Relaxed)).collect()
        };
        PreemptRaw {
            launch: raw,
            setter: (launch.set == Setter::Kernel).then(|| super::config("preempt_setter", "setter", 1, false)),
            start_ns: first_start(reports),
            set_ns: event(|marks| &marks.set_ns),
            claimer: self.tickets.iter().map(|ticket| ticket.claimer.load(Relaxed)).collect(),
            urgent_start_ns: self.tickets.iter().map(|ticket| ticket.start_ns.load(Relaxed)).collect(),
            urgent_done_ns: self.tickets.iter().map(|ticket| ticket.done_ns.load(Relaxed)).collect(),
            delay_ns: self.events.iter().map(|marks| marks.delay_ns.load(Relaxed)).collect(),
            urgent_executed: (0..self.tickets.len()).map(|ticket| self.urgent_outputs.times(ticket)).collect(),
            observed_ns: column(|cell| &cell.observed_ns),
            ready_ns: column(|cell| &cell.ready_ns),
            last_old_ns: column(|cell| &cell.last_old_ns),
            seen: self.columns.iter().map(|cell| cell.seen.load(Relaxed)).collect(),
            host_issue_ns: event(|marks| &marks.host_issue_ns),
            host_done_ns: event(|marks| &marks.host_done_ns),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::launch::Device;

    fn launch() -> PreemptLaunch {
        PreemptLaunch {
            k: 16,
            blocks: 4,
            poll: 1,
            set: Setter::Device,
            tasks: 400,
            gaps_ns: vec![20_000; 12],
            urgent_tiles: 1,
            first_generation: 0,
            first_event_id: 7,
            delay: None,
            storm: false,
            deadline_ns: 20_000_000_000,
        }
    }

    /// Runs a launch and expects every task, urgent tile and observation exactly once.
    fn check(launch: &PreemptLaunch) -> PreemptRaw {
        let raw = Emulated::open().preempt(launch).unwrap();
        let events = launch.gaps_ns.len();
        assert_eq!((raw.launch.executed, raw.launch.wrong_tiles, raw.launch.not_once), (launch.tasks, 0, 0));
        assert!(raw.urgent_executed.iter().all(|times| *times == 1), "{:?}", raw.urgent_executed);
        assert_eq!((raw.launch.urgent_wrong, raw.launch.urgent_not_once, raw.launch.deadline_hits), (0, 0, 0));
        for row in raw.seen.chunks_exact(launch.blocks as usize) {
            assert!(row[0] == 0 && row[1..].iter().all(|seen| *seen == OBSERVED | READY), "{row:?}");
        }
        assert_eq!(raw.set_ns.iter().filter(|ns| **ns > 0).count(), events);
        raw
    }

    #[test]
    fn every_setter_serves_every_event() {
        for set in [Setter::Device, Setter::Host, Setter::Kernel] {
            for poll in [1, 4] {
                let raw = check(&PreemptLaunch { set, poll, ..launch() });
                assert_eq!(raw.setter.is_some(), set == Setter::Kernel);
                let host = raw.host_issue_ns.iter().zip(&raw.host_done_ns);
                assert_eq!(host.filter(|(issue, done)| done > issue).count(), if set == Setter::Host { 12 } else { 0 });
            }
        }
    }

    #[test]
    fn generations_wrap() {
        for first_generation in [i32::MAX.cast_unsigned() - 5, u32::MAX - 5] {
            check(&PreemptLaunch { first_generation, ..launch() });
        }
    }

    #[test]
    fn a_storm_coalesces_and_loses_nothing() {
        for first_generation in [0, u32::MAX - 5] {
            let storm = PreemptLaunch { storm: true, urgent_tiles: 2, first_generation, ..launch() };
            let raw = check(&storm);
            let pairs: Vec<&[u32]> = raw.observed_ns.chunks_exact(4).collect();
            let coalesced = pairs.windows(2).any(|events| (1..4).any(|block| events[0][block] == events[1][block]));
            assert!(coalesced, "no block saw two events at once, so the storm tested nothing");
        }
    }

    #[test]
    fn many_seeds_do_everything_exactly_once() {
        for seed in 0..12 {
            let gaps_ns = (0..8).map(|event| (seed * 7919 + event * 104_729) % 90_000).collect();
            check(&PreemptLaunch { gaps_ns, tasks: 150, blocks: 2 + seed % 3, first_event_id: seed, ..launch() });
        }
    }

    #[test]
    fn events_after_the_queue_ran_dry_are_still_served() {
        check(&PreemptLaunch { tasks: 4, ..launch() });
    }

    #[test]
    fn a_deadline_ends_every_wait() {
        let hopeless = PreemptLaunch { deadline_ns: 0, ..launch() };
        let raw = Emulated::open().preempt(&hopeless).unwrap();
        assert!(raw.launch.deadline_hits > 0 && raw.set_ns.contains(&0));
    }

    #[test]
    fn a_delay_lands_in_its_own_leg() {
        let delay = Some((Leg::Urgent, 3_000_000));
        let raw = check(&PreemptLaunch { delay, gaps_ns: vec![1000; 4], ..launch() });
        let spent: Vec<u64> =
            raw.urgent_done_ns.iter().zip(&raw.urgent_start_ns).map(|(done, start)| done - start).collect();
        for (event, spent_ns) in (0..).zip(spent) {
            let delayed = delayed_event(event);
            assert!(!delayed || spent_ns >= u64::from(raw.delay_ns[event as usize]));
            assert_eq!(raw.delay_ns[event as usize] >= 3_000_000, delayed);
        }
        assert!((0..4).any(delayed_event));
    }
}
