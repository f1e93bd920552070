//! Launches whose in-band clock left that of the others, which are drawn again. Pure.
//!
//! Now and then the 16 SMs of one GPC of an H200 lose about 13 us of cycles at once, with no throttle reason: 1 % of a
//! launch that lasts 1.3 ms. Such a launch keeps its row, marked as discarded; the rule looks at the clock and at nothing
//! that is measured with it, and the gate holds what was kept to the whole band.

use schema::plan::{CLOCK_REDRAW_PCT, CLOCK_REDRAW_SHARE, CLOCK_REDRAWS};

/// Fewer launches than this say nothing of the device's clock, so none of them is drawn again.
const LEAST_LAUNCHES: usize = 10;

/// The clocks of all launches of a session, pilots and warm-up included.
#[derive(Clone, Debug, Default)]
pub struct Steady {
    /// Median window of each launch in kHz, sorted.
    khz: Vec<u64>,
}

impl Steady {
    /// Takes note of a launch's windows (SM, cycles, ns). One without windows says nothing.
    pub fn add(&mut self, windows: &[(u32, u32, u32)]) {
        let mut khz: Vec<u64> = rates(windows).collect();
        if khz.is_empty() {
            return;
        }
        let middle = crate::measure::median(&mut khz);
        self.khz.insert(self.khz.partition_point(|known| *known <= middle), middle);
    }

    /// Whether a window lies further from the median launch than [`CLOCK_REDRAW_PCT`].
    #[must_use]
    pub fn left_by(&self, windows: &[(u32, u32, u32)]) -> bool {
        if self.khz.len() < LEAST_LAUNCHES {
            return false;
        }
        let median = self.khz[(self.khz.len() - 1) / 2] as f64;
        rates(windows).any(|khz| (khz as f64 - median).abs() > median * (CLOCK_REDRAW_PCT / 100.0))
    }
}

fn rates(windows: &[(u32, u32, u32)]) -> impl Iterator<Item = u64> {
    let timed = windows.iter().filter(|(_, _, ns)| *ns > 0);
    timed.map(|(_, cycles, ns)| u64::from(*cycles) * 1_000_000 / u64::from(*ns))
}

/// How many launches a cell may still draw again for their clock; beyond that they stay, and the gate sees them.
#[derive(Clone, Copy, Debug)]
pub struct Redraws(u32);

impl Redraws {
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
        (0..LEAST_LAUNCHES).for_each(|_| steady.add(&[window(0), window(0)]));
        for (lost_ns, expected) in [(0, false), (11_000, false), (12_000, true), (500_000, true)] {
            assert_eq!(steady.left_by(&[window(0), window(lost_ns)]), expected, "{lost_ns}");
        }
        assert!(steady.left_by(&[(0, 2 * NS + 30_000, NS)]), "too fast is off as well");
        assert!(!steady.left_by(&[]) && !steady.left_by(&[(0, 5, 0)]));
    }

    #[test]
    fn early_launches_on_a_rising_clock_do_not_condemn_the_later_ones() {
        let mut steady = Steady::default();
        (0..5).for_each(|_| steady.add(&[window(400_000)]));
        (0..6).for_each(|_| steady.add(&[window(0)]));
        assert!(!steady.left_by(&[window(0)]));
    }

    #[test]
    fn redraws_run_out() {
        let mut few = Redraws::of(20);
        assert_eq!((0..100).filter(|_| few.take(true)).count(), CLOCK_REDRAWS as usize);
        assert!(!few.take(true) && !Redraws::of(20).take(false));
        let mut many = Redraws::of(10_000);
        assert_eq!((0..10_000).filter(|_| many.take(true)).count(), 500);
    }
}
