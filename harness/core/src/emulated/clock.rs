//! The emulated device's timer: real nanoseconds since the device was opened, never zero.

use std::time::{Duration, Instant};

/// A monotonic clock that every emulated block reads.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    origin: Instant,
}

impl Clock {
    /// A clock that starts now.
    #[must_use]
    pub fn start() -> Self {
        Self { origin: Instant::now() }
    }

    /// Nanoseconds since the start, plus one, so that zero can mean "never".
    ///
    /// # Panics
    /// When a run lasts 584 years.
    #[must_use]
    pub fn now(&self) -> u64 {
        u64::try_from(self.origin.elapsed().as_nanos()).expect("no run lasts 584 years") + 1
    }

    /// Waits until `ready` says so; false when the clock passes `deadline` first.
    pub fn wait(&self, deadline: u64, mut ready: impl FnMut() -> bool) -> bool {
        loop {
            if ready() {
                return true;
            }
            if self.now() > deadline {
                return false;
            }
            std::thread::yield_now();
        }
    }

    /// Waits until the clock shows at least `until`. Long waits leave the cores to the blocks.
    pub fn wait_until(&self, until: u64) {
        const COARSE_NS: u64 = 300_000;
        loop {
            let now = self.now();
            if now >= until {
                return;
            }
            if until - now > COARSE_NS {
                std::thread::sleep(Duration::from_nanos(until - now - COARSE_NS));
            } else {
                std::thread::yield_now();
            }
        }
    }
}
