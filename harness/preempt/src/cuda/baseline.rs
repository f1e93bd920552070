//! `preempt_urgent` beside `preempt_drain`: a drain that does not yield, and one urgent kernel beside it on a high-priority stream.

use super::PreemptGpu;
use super::abi::UrgentArgs;
use super::compare::UrgentOutputs;
use super::work::{TILE_BYTES, WorkPlan, word};
use crate::launch::{BaselineLaunch, BaselineRaw};
use crate::tables::anomaly;
use harness_core::gpu::{Arg, Shape};
use harness_core::oracle::UNWRITTEN;
use std::time::{Duration, Instant};

/// How long the host waits for a word from the device: a drain lasts milliseconds ...
const PATIENCE: Duration = Duration::from_secs(10);
/// ... but a sanitizer, which gets the lineinfo cubins, slows it by up to two orders of magnitude.
const SANITIZED_PATIENCE: Duration = Duration::from_secs(60);

/// When the host saw each word, from the instant it saw the drain running.
#[derive(Default)]
struct Seen {
    start: Option<Duration>,
    done: Option<Duration>,
    drain_done: Option<Duration>,
}

impl PreemptGpu {
    /// See [`crate::launch::Device::baseline`].
    pub(super) fn run_baseline(&mut self, launch: &BaselineLaunch) -> anyhow::Result<BaselineRaw> {
        let (drain, urgent) = (self.kernels.drain, self.kernels.urgent);
        self.gpu.check_residency(&drain, launch.blocks)?;
        self.work.urgent_c.ensure(TILE_BYTES, "the urgent output")?;
        self.work.urgent_c.fill(0, TILE_BYTES, UNWRITTEN as u8)?;
        let (k, tasks, blocks) = (launch.k, launch.tasks, launch.blocks);
        let plan = WorkPlan { k, tasks, workers: blocks, columns: blocks, first_column: 0, watched: true };
        let prepared = self.prepare(&plan)?;
        let evidence = &self.work.evidence;
        let executions = evidence.at(prepared.places.urgent_executions);
        let args = UrgentArgs {
            a: prepared.args.a,
            b: prepared.args.b,
            c: self.work.urgent_c.at(0),
            executions,
            times_ns: evidence.at(prepared.places.urgent_times),
            sites: prepared.args.sites,
            host_started: self.work.words.at(word::URGENT_STARTED),
            host_done: self.work.words.at(word::URGENT_DONE),
            k_chunks: prepared.args.k_chunks,
            event_id: launch.event_id,
        };
        let shape = Shape { mode: "baseline", grid: blocks, shared_bytes: 0, cooperative: false };
        let urgent_shape = Shape { mode: "urgent", grid: 1, shared_bytes: 0, cooperative: false };
        let host_start_ns = self.gpu.host_ns();
        drain.launch(self.gpu.background(), &shape, &[Arg::of(&prepared.args)])?;
        let running = self.await_word(word::STARTED)?;
        let mut seen = Seen::default();
        let arrival = Duration::from_nanos(launch.arrival_ns.into());
        while running.elapsed() < arrival {
            self.look(running, &mut seen);
            std::hint::spin_loop();
        }
        let issue = running.elapsed();
        urgent.launch(self.gpu.priority(), &urgent_shape, &[Arg::of(&args)])?;
        while !self.look(running, &mut seen) && running.elapsed() < self.patience() {
            std::hint::spin_loop();
        }
        self.gpu.finish("preempt_drain and preempt_urgent")?;
        let times: Vec<u64> = self.work.evidence.download(prepared.places.urgent_times, 2)?;
        let outputs = UrgentOutputs { executions, tiles: 1, per_event: 1, first_event_id: launch.event_id };
        let collected = self.collect(&prepared, drain.config(&shape), host_start_ns, false, Some(&outputs))?;
        let from_start = |ns: u64| ns.wrapping_sub(collected.start_ns).cast_signed();
        let once = collected.launch.urgent_executed == 1 && collected.launch.urgent_not_once == 0;
        Ok(BaselineRaw {
            urgent: urgent.config(&urgent_shape),
            issue_ns: narrow(Some(issue)),
            start_ns: narrow(seen.start),
            done_ns: narrow(seen.done),
            drain_done_ns: narrow(seen.drain_done),
            device_start_ns: from_start(times[0]),
            device_done_ns: from_start(times[1]),
            device_drain_ns: i64::from(collected.launch.trace.wall_ns),
            anomaly: anomalies(issue, &seen, once),
            launch: collected.launch,
        })
    }

    fn patience(&self) -> Duration {
        if self.gpu.is_slowed() { SANITIZED_PATIENCE } else { PATIENCE }
    }

    /// Waits for a word and returns the instant it was seen.
    fn await_word(&self, line: usize) -> anyhow::Result<Instant> {
        let begun = Instant::now();
        while self.work.words.load(line) == 0 {
            anyhow::ensure!(begun.elapsed() < self.patience(), "the drain did not start within {:?}", self.patience());
            std::hint::spin_loop();
        }
        Ok(Instant::now())
    }

    /// Notes which words have come; true once all have. What is written last is read first: however long this thread is held
    /// up between two reads, who sees a task done sees it begun.
    fn look(&self, running: Instant, seen: &mut Seen) -> bool {
        let [done, start, drain_done] =
            [word::URGENT_DONE, word::URGENT_STARTED, word::DONE].map(|line| self.work.words.load(line) != 0);
        seen.note(start, done, drain_done, || running.elapsed());
        seen.start.is_some() && seen.done.is_some() && seen.drain_done.is_some()
    }
}

impl Seen {
    /// Notes the words that are seen for the first time; all of one look get one time.
    fn note(&mut self, start: bool, done: bool, drain_done: bool, now: impl FnOnce() -> Duration) {
        let words = [(&mut self.start, start), (&mut self.done, done), (&mut self.drain_done, drain_done)];
        let new: Vec<_> = words.into_iter().filter(|(at, come)| *come && at.is_none()).collect();
        if !new.is_empty() {
            let now = now();
            new.into_iter().for_each(|(at, _)| *at = Some(now));
        }
    }
}

/// The bits of `tables::anomaly` that hold for an event.
fn anomalies(issue: Duration, seen: &Seen, once: bool) -> u32 {
    let mut bits = 0;
    if seen.drain_done.is_some_and(|done| done <= issue) {
        bits |= anomaly::LOST;
    }
    if seen.start.is_none() || seen.done.is_none() || seen.drain_done.is_none() {
        bits |= anomaly::DEADLINE;
    }
    if !once {
        bits |= anomaly::URGENT;
    }
    bits
}

fn narrow(at: Option<Duration>) -> u32 {
    at.map_or(0, |at| u32::try_from(at.as_nanos()).unwrap_or(u32::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_one_look_get_one_time_and_keep_it() {
        let (mut seen, at) = (Seen::default(), Duration::from_micros);
        seen.note(false, false, false, || unreachable!("nothing came"));
        seen.note(false, false, true, || at(1));
        seen.note(true, true, true, || at(2));
        seen.note(true, true, true, || unreachable!("nothing new came"));
        assert_eq!([seen.start, seen.done, seen.drain_done], [Some(at(2)), Some(at(2)), Some(at(1))]);
    }

    #[test]
    fn an_event_after_the_drain_is_lost_and_one_never_seen_hit_the_deadline() {
        let us = |n| Some(Duration::from_micros(n));
        let seen = Seen { start: us(5), done: us(6), drain_done: us(9) };
        assert_eq!(anomalies(Duration::from_micros(3), &seen, true), 0);
        assert_eq!(anomalies(Duration::from_micros(9), &seen, true), anomaly::LOST);
        assert_eq!(anomalies(Duration::from_micros(3), &seen, false), anomaly::URGENT);
        let unseen = Seen { drain_done: us(9), ..Seen::default() };
        assert_eq!(anomalies(Duration::from_micros(3), &unseen, true), anomaly::DEADLINE);
    }
}
