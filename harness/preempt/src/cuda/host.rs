//! The host's side of host-set events: it issues each through a mapped word and watches it being served.

use super::PreemptGpu;
use super::work::word;
use crate::launch::PreemptLaunch;
use std::time::{Duration, Instant};

/// How much longer than the device the host waits, so that the device's own deadline speaks first.
const MARGIN: Duration = Duration::from_secs(2);

/// What the host noted about host-set events.
#[derive(Default)]
pub(super) struct HostTimes {
    pub(super) issue_ns: Vec<u64>,
    pub(super) done_ns: Vec<u64>,
}

impl PreemptGpu {
    /// Issues every event through the mapped word, each a gap after the one before was served. Stops at the deadline.
    pub(super) fn issue_from_host(&self, launch: &PreemptLaunch, begun: Instant) -> HostTimes {
        let patience = Duration::from_nanos(launch.deadline_ns) + MARGIN;
        let wait = |ready: &dyn Fn() -> bool| {
            while !ready() {
                if begun.elapsed() > patience {
                    return false;
                }
                std::hint::spin_loop();
            }
            true
        };
        let words = &self.work.words;
        let done = self.events.host_done.as_ref();
        let is_done = |event: usize| done.is_some_and(|done| done.load(event) != 0);
        let now = || u64::try_from(begun.elapsed().as_nanos()).unwrap_or(u64::MAX);
        let events = launch.gaps_ns.len();
        let mut times = HostTimes { issue_ns: vec![0; events], done_ns: vec![0; events] };
        if !wait(&|| words.load(word::COMPLETED) > 0) {
            return times;
        }
        let served = |event: usize| words.load(word::COMPLETED) as usize >= event + 2;
        for (event, gap) in launch.gaps_ns.iter().enumerate() {
            if !launch.storm {
                let due = begun.elapsed() + Duration::from_nanos((*gap).into());
                wait(&|| begun.elapsed() >= due);
            }
            times.issue_ns[event] = now();
            words.store(word::ISSUED, u32::try_from(event + 1).unwrap_or(u32::MAX));
            if launch.storm {
                continue;
            }
            if !wait(&|| is_done(event)) {
                return times;
            }
            times.done_ns[event] = now();
            if !wait(&|| served(event)) {
                return times;
            }
        }
        for event in (0..events).filter(|_| launch.storm) {
            if !wait(&|| is_done(event)) {
                return times;
            }
            times.done_ns[event] = now();
        }
        times
    }
}
