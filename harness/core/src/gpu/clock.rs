//! The in-band clock: how often blocks sample it, and which windows are kept. Pure.

use super::abi::{BlockRecord, ClockSample};
use std::collections::{BTreeMap, BTreeSet};

/// Readings a block has room for in a long launch.
const MOST_SAMPLES: u32 = 34;
/// Launches shorter than this keep one window per SM: the whole launch.
const SHORT_LAUNCH_NS: u64 = 5_000_000;
/// Windows are at least this long, and at least [`QUANTA`] timer steps, so that a step is 0.1 % of one. The two clocks are
/// read one after the other: in windows of 100 us on a full SM of an H200 some clocks came out 0.8 % above the highest the GPU
/// has, so that much is the reading's own error. A longer window makes it smaller. A GPC now and then loses 13 us of cycles at
/// once: that is seen in a window of this length, as less than 1 %, and is not a change of its clock.
const SHORTEST_WINDOW_NS: u64 = 1_500_000;
/// See [`SHORTEST_WINDOW_NS`].
const QUANTA: u64 = 1000;
/// When a block samples its clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sampling {
    /// Every 2^this steps.
    pub shift: u32,
    /// Readings there is room for, the first and the last included.
    pub capacity: u32,
}

/// What a launch is expected to take.
#[derive(Clone, Copy, Debug)]
pub struct Expected {
    /// Wall of one step of a block's work, after which it may read its clock.
    pub step_ns: u64,
    /// Steps of a block.
    pub steps: u64,
}

impl Expected {
    /// How to sample a launch like this with a timer of this step.
    #[must_use]
    pub fn sampling(&self, quantum_ns: u32) -> Sampling {
        if self.step_ns * self.steps < SHORT_LAUNCH_NS {
            return Sampling { shift: 31, capacity: 2 };
        }
        let window_ns = SHORTEST_WINDOW_NS.max(QUANTA * u64::from(quantum_ns));
        let mut shift = 0;
        while shift < 31 && ((self.step_ns << shift) < window_ns || (self.steps >> shift) > u64::from(MOST_SAMPLES - 2))
        {
            shift += 1;
        }
        Sampling { shift, capacity: MOST_SAMPLES }
    }
}

/// The windows of one block per SM (the one with the lowest index): SM, cycles, ns.
#[must_use]
pub fn windows(blocks: &[BlockRecord], samples: &[ClockSample], capacity: u32) -> Vec<(u32, u32, u32)> {
    let mut sms = BTreeSet::new();
    let mut kept = Vec::new();
    for (block, samples) in blocks.iter().zip(samples.chunks_exact(capacity as usize)) {
        let written = &samples[..(block.clock_samples.min(capacity)) as usize];
        if written.len() >= 2 && sms.insert(block.sm) {
            kept.extend(block_windows(block.sm, written));
        }
    }
    kept
}

/// The windows between a block's readings; a last one that is much shorter than the first is left out.
fn block_windows(sm: u32, samples: &[ClockSample]) -> Vec<(u32, u32, u32)> {
    let spans = samples.windows(2).map(|pair| (pair[1].cycles - pair[0].cycles, pair[1].ns - pair[0].ns));
    let mut spans: Vec<(u64, u64)> = spans.filter(|(_, ns)| *ns > 0).collect();
    if spans.len() > 1 && spans[spans.len() - 1].1 < spans[0].1 / 2 {
        spans.pop();
    }
    let narrow = |(cycles, ns)| Some((sm, u32::try_from(cycles).ok()?, u32::try_from(ns).ok()?));
    spans.into_iter().filter_map(narrow).collect()
}

/// The median over windows of the clock in MHz; absent without any.
#[must_use]
pub fn median_mhz(windows: &[(u32, u32, u32)]) -> Option<f64> {
    let mut mhz: Vec<f64> = windows.iter().map(|(_, cycles, ns)| f64::from(*cycles) * 1e3 / f64::from(*ns)).collect();
    mhz.sort_by(f64::total_cmp);
    mhz.get(mhz.len() / 2).copied()
}

/// The clock of each SM over one launch.
pub struct SmClock {
    ns_per_cycle: BTreeMap<u32, f64>,
    /// The median over SMs, for those without a window.
    median: Option<f64>,
}

impl SmClock {
    /// The clock of each SM by its windows: SM, cycles, nanoseconds.
    #[must_use]
    pub fn new(windows: &[(u32, u32, u32)]) -> Self {
        let mut sums = BTreeMap::<u32, (u64, u64)>::new();
        for (sm, cycles, ns) in windows {
            let sum = sums.entry(*sm).or_default();
            *sum = (sum.0 + u64::from(*cycles), sum.1 + u64::from(*ns));
        }
        let rates = sums.into_iter().filter(|(_, (cycles, _))| *cycles > 0);
        let ns_per_cycle: BTreeMap<u32, f64> =
            rates.map(|(sm, (cycles, ns))| (sm, ns as f64 / cycles as f64)).collect();
        let mut sorted: Vec<f64> = ns_per_cycle.values().copied().collect();
        sorted.sort_by(f64::total_cmp);
        Self { median: sorted.get(sorted.len() / 2).copied(), ns_per_cycle }
    }

    /// How long an SM took for so many cycles; absent without any window.
    #[must_use]
    pub fn ns(&self, sm: u32, cycles: u32) -> Option<u32> {
        let rate = self.ns_per_cycle.get(&sm).copied().or(self.median)?;
        Some((f64::from(cycles) * rate) as u32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(cycles: u64, ns: u64) -> ClockSample {
        ClockSample { cycles, ns }
    }

    fn block(sm: u32, clock_samples: u32) -> BlockRecord {
        BlockRecord { sm, clock_samples, ..BlockRecord::default() }
    }

    #[test]
    fn a_short_launch_keeps_one_window() {
        let expected = Expected { step_ns: 5_120, steps: 163 };
        assert_eq!(expected.sampling(32), Sampling { shift: 31, capacity: 2 });
    }

    #[test]
    fn a_long_launch_gets_windows_that_fit_its_room() {
        let expected = Expected { step_ns: 8_000, steps: 100_000 };
        let sampling = expected.sampling(32);
        assert!((8_000 << sampling.shift) >= SHORTEST_WINDOW_NS && (100_000 >> sampling.shift) <= 32, "{sampling:?}");
        let coarse = Expected { step_ns: 8_000, steps: 1_000 }.sampling(1024);
        assert!((8_000_u64 << coarse.shift) >= SHORTEST_WINDOW_NS, "{coarse:?}");
    }

    #[test]
    fn one_block_per_sm_gives_windows_and_a_short_tail_is_dropped() {
        let blocks = [block(7, 4), block(7, 2), block(9, 0)];
        let mut samples = vec![ClockSample::default(); 12];
        samples[..4].copy_from_slice(&[sample(0, 0), sample(200, 100), sample(400, 200), sample(440, 220)]);
        assert_eq!(windows(&blocks, &samples, 4), [(7, 200, 100), (7, 200, 100)]);
    }

    #[test]
    fn cycles_become_time_by_the_clock_of_their_sm() {
        let clock = SmClock::new(&[(3, 200, 100), (3, 200, 100), (5, 100, 100), (9, 300, 100)]);
        assert_eq!([3, 5, 9, 77].map(|sm| clock.ns(sm, 1000)), [Some(500), Some(1000), Some(333), Some(500)]);
        assert_eq!(SmClock::new(&[]).ns(3, 1000), None);
    }

    #[test]
    fn a_whole_launch_is_kept_however_short() {
        let samples = [sample(10, 5), sample(30, 15)];
        assert_eq!(windows(&[block(1, 2)], &samples, 2), [(1, 20, 10)]);
    }
}
