//! What the phases share: the context of a cell, and short pilot launches that determine how large its launches must
//! be. Pilot launches are counted, never recorded.

use crate::launch::{DrainLaunch, Drainer};
use crate::launches::Launches;
use crate::plan::{Phase, Profile};
use crate::sizes::{most_tasks, scale_tasks};
use anyhow::Context as _;
use harness_core::draws::Seed;
use harness_core::record::CellStore;

/// Tasks per block of the first pilot drain.
const PILOT_TASKS: u32 = 8;
/// Tasks per block of the drain that gives the mean tile wall: enough that its ramps hardly count.
const TILE_WALL_TASKS: u32 = 32;
/// Drains behind one pilot median.
const PILOT_DRAINS: usize = 3;

/// The cell that every cell with events builds on.
pub const TIMER_CELL: &str = "timer";

/// What a phase gets to work with.
pub struct Context<'a, 's> {
    /// The device in use.
    pub launches: Launches<'a, 's>,
    /// The plan's numbers.
    pub profile: &'a Profile,
    /// The seed of this cell.
    pub seed: Seed,
    /// Where finished cells lie.
    pub store: &'a CellStore,
}

impl Context<'_, '_> {
    /// The most tasks that a launch may have here.
    #[must_use]
    pub fn most_tasks(&self) -> u32 {
        most_tasks(self.launches.facts().memory_bytes)
    }

    /// How far a cross-SM interval may be negative, in nanoseconds: the largest offset that the timer cell measured, plus one
    /// quantum.
    ///
    /// # Errors
    /// When the timer cell is missing.
    pub fn tolerance_ns(&self) -> anyhow::Result<i64> {
        let (header, events) =
            self.store.read(Phase::Instrument.name(), TIMER_CELL).context("the timer cell must come first")?;
        let largest = events.i64("offset_ns")?.iter().map(|offset| offset.abs()).max().unwrap_or(0);
        let quantum = header.facts.whole("timer_quantum_ns").context("the timer cell has no quantum")?;
        Ok(largest + i64::try_from(quantum)?)
    }

    /// Median wall of `drains` drains, after one that is not counted.
    ///
    /// # Errors
    /// When a drain fails.
    pub fn drain_wall_ns(&mut self, launch: &DrainLaunch, drains: usize) -> anyhow::Result<u32> {
        self.launches.drain(launch)?;
        let mut walls = Vec::with_capacity(drains);
        for _ in 0..drains {
            walls.push(self.launches.drain(launch)?.trace.wall_ns);
        }
        Ok(median(&mut walls))
    }

    /// Tasks with which a drain takes about `target_us`, by two rounds of pilots.
    ///
    /// # Errors
    /// When a drain fails.
    pub fn size_drain(&mut self, drainer: Drainer, k: u32, blocks: u32, target_us: u32) -> anyhow::Result<u32> {
        let most = self.most_tasks();
        let target_ns = u64::from(target_us) * 1000;
        let mut tasks = (blocks * PILOT_TASKS).min(most);
        for _ in 0..2 {
            let launch = DrainLaunch { drainer, k, blocks, tasks, poison: false };
            let wall_ns = self.drain_wall_ns(&launch, PILOT_DRAINS)?;
            tasks = scale_tasks(tasks, wall_ns, target_ns, blocks, most);
        }
        Ok(tasks)
    }

    /// Mean wall of a background tile under this drain's residency, in ns.
    ///
    /// # Errors
    /// When a drain fails.
    pub fn tile_wall_ns(&mut self, drainer: Drainer, k: u32, blocks: u32) -> anyhow::Result<u32> {
        let tasks = blocks * TILE_WALL_TASKS;
        let launch = DrainLaunch { drainer, k, blocks, tasks, poison: false };
        let wall_ns = self.drain_wall_ns(&launch, PILOT_DRAINS)?;
        Ok((wall_ns / TILE_WALL_TASKS).max(1))
    }
}

/// The lower median.
///
/// # Panics
/// When there are no values.
pub fn median<T: Ord + Copy>(values: &mut [T]) -> T {
    values.sort_unstable();
    values[(values.len() - 1) / 2]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_the_lower_one() {
        assert_eq!(median(&mut [3, 1, 2]), 2);
        assert_eq!(median(&mut [4, 1, 3, 2]), 2);
        assert_eq!(median(&mut [9]), 9);
    }
}
