//! Reads the host's clocks, one right after the other. `words/src/timekeeping.rs` compares them.

use rustix::time::{ClockId, clock_gettime};
use schema::environment::Stamp;
use std::cell::RefCell;

/// Reads the host's three clocks, each in milliseconds: wall, monotonic, boot time.
pub type Clocks<'a> = &'a dyn Fn() -> [i64; 3];

/// This machine's.
#[must_use]
pub fn system() -> [i64; 3] {
    [ClockId::Realtime, ClockId::Monotonic, ClockId::Boottime].map(|id| {
        let time = clock_gettime(id);
        time.tv_sec.saturating_mul(1000).saturating_add(time.tv_nsec / 1_000_000)
    })
}

/// Reads the clocks when a run begins, at each cell, and at its end.
pub struct Timekeeper<'a> {
    clocks: Clocks<'a>,
    stamps: RefCell<Vec<Stamp>>,
}

impl<'a> Timekeeper<'a> {
    /// Begins with a reading.
    #[must_use]
    pub fn begin(clocks: Clocks<'a>) -> Self {
        let keeper = Self { clocks, stamps: RefCell::default() };
        keeper.mark(0);
        keeper
    }

    /// Reads at the begin of a cell, or with 0 at its end.
    pub fn mark(&self, cell: u32) {
        let [wall_ms, monotonic_ms, boottime_ms] = (self.clocks)();
        self.stamps.borrow_mut().push(Stamp { cell, wall_ms, monotonic_ms, boottime_ms });
    }

    /// Ends with a reading and gives them all.
    #[must_use]
    pub fn end(self) -> Vec<Stamp> {
        self.mark(0);
        self.stamps.into_inner()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;
    use words::timekeeping::compare;

    #[test]
    fn this_machine_s_clocks_agree_over_a_moment() {
        let keeper = Timekeeper::begin(&system);
        keeper.mark(1);
        let stamps = keeper.end();
        assert_eq!(stamps.iter().map(|stamp| stamp.cell).collect::<Vec<_>>(), [0, 1, 0]);
        assert!(compare(&stamps).reasons.is_empty(), "{stamps:?}");
        assert!(stamps[0].wall_ms > 1_700_000_000_000 && stamps[0].boottime_ms >= stamps[0].monotonic_ms);
    }

    #[test]
    fn clocks_that_jump_are_recorded_as_they_jumped() {
        let now = Cell::new([0, 0, 0]);
        let clocks = || now.get();
        let keeper = Timekeeper::begin(&clocks);
        now.set([1_000, 1_000, 1_000]);
        keeper.mark(3);
        // An hour asleep in the cell, and an hour that the wall clock was set back.
        now.set([2_000, 2_000, 3_602_000]);
        let kept = compare(&keeper.end());
        assert_eq!(kept.reasons, ["the host slept for 3600000 ms in cell 3"]);
    }
}
