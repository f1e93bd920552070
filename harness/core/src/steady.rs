//! Finds launches whose in-band clock differs from that of the others; they are discarded and measured again. Pure.
//!
//! Now and then the 16 SMs of one GPC of an H200 lose about 13 us of cycles at once, with no throttle reason: 1 % of
//! a launch that lasts 1.3 ms. Such a launch keeps its row, marked as discarded; the rule looks at the clock alone,
//! never at a measured value, and the gate requires of every kept launch that it is within the whole band.

use schema::plan::{CLOCK_REDRAW_PCT, CLOCK_REDRAW_SHARE, CLOCK_REDRAWS};
use std::collections::BTreeMap;

/// Fewer windows than this say nothing of the device's clock, so no launch is drawn again yet.
const LEAST_WINDOWS: u64 = 200;

/// The clocks of all windows of a session so far, those of pilots and warm-up included.
///
/// Windows and not launches: a launch on two SMs must not count as much as one on all.
#[derive(Clone, Debug, Default)]
pub struct Steady {
    /// Windows by their clock in kHz.
    khz: BTreeMap<u64, u64>,
    windows: u64,
}

impl Steady {
    /// Takes note of a launch's windows (SM, cycles, ns).
    pub fn add(&mut self, windows: &[(u32, u32, u32)]) {
        for khz in rates(windows) {
            *self.khz.entry(khz).or_default() += 1;
            self.windows += 1;
        }
    }

    /// Whether a window lies further from the median of all so far than [`CLOCK_REDRAW_PCT`].
    #[must_use]
    pub fn left_by(&self, windows: &[(u32, u32, u32)]) -> bool {
        self.median().is_some_and(|median| {
            rates(windows).any(|khz| (khz as f64 - median).abs() > median * (CLOCK_REDRAW_PCT / 100.0))
        })
    }

    fn median(&self) -> Option<f64> {
        let mut below = 0;
        let middle = self.khz.iter().find(|(_, count)| {
            below += **count;
            2 * below >= self.windows
        });
        middle.filter(|_| self.windows >= LEAST_WINDOWS).map(|(khz, _)| *khz as f64)
    }
}

fn rates(windows: &[(u32, u32, u32)]) -> impl Iterator<Item = u64> {
    let timed = windows.iter().filter(|(_, _, ns)| *ns > 0);
    timed.map(|(_, cycles, ns)| u64::from(*cycles) * 1_000_000 / u64::from(*ns))
}

/// How many launches a cell may still draw again for their clock; beyond that they stay, and the gate sees them.
#[derive(Clone, Copy, Debug)]
pub struct OffClock(u32);

impl OffClock {
    /// For a cell of so many launches.
    #[must_use]
    pub fn of(launches: u32) -> Self {
        Self((launches / CLOCK_REDRAW_SHARE).max(CLOCK_REDRAWS))
    }

    /// Whether a launch that was off the clock, or not, is drawn again.
    pub fn take(&mut self, off_clock: bool) -> bool {
        let again = off_clock && self.0 > 0;
        self.0 -= u32::from(again);
        again
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NS: u32 = 1_300_000;

    /// A window of 1.3 ms at 2 GHz that lost so many nanoseconds of cycles.
    fn window(lost_ns: u32) -> (u32, u32, u32) {
        (0, 2 * (NS - lost_ns), NS)
    }

    #[test]
    fn a_launch_that_lost_more_than_its_share_is_off_the_clock() {
        let mut steady = Steady::default();
        assert!(!steady.left_by(&[window(500_000)]), "nothing to compare with");
        (0..LEAST_WINDOWS / 2).for_each(|_| steady.add(&[window(0), window(0)]));
        for (lost_ns, expected) in [(0, false), (11_000, false), (12_000, true), (500_000, true)] {
            assert_eq!(steady.left_by(&[window(0), window(lost_ns)]), expected, "{lost_ns}");
        }
        assert!(steady.left_by(&[(0, 2 * NS + 30_000, NS)]), "too fast is off as well");
        assert!(!steady.left_by(&[]) && !steady.left_by(&[(0, 5, 0)]));
    }

    #[test]
    fn many_launches_on_few_sms_do_not_set_the_clock_for_those_on_all() {
        let mut steady = Steady::default();
        (0..60).for_each(|_| steady.add(&[window(26_000), window(26_000)]));
        (0..2).for_each(|_| steady.add(&[window(0); 132]));
        assert!(!steady.left_by(&[window(11_000)]) && steady.left_by(&[window(12_000)]));
    }

    #[test]
    fn redraws_run_out() {
        let mut few = OffClock::of(20);
        assert_eq!((0..100).filter(|_| few.take(true)).count(), CLOCK_REDRAWS as usize);
        assert!(!few.take(true) && !OffClock::of(20).take(false));
        let mut many = OffClock::of(10_000);
        assert_eq!((0..10_000).filter(|_| many.take(true)).count(), 500);
    }
}
