//! Phase 1: the wall time of a tile for each inner dimension and residency. Every output is checked, and the oracle
//! must find a planted wrong element.

use crate::launch::{self, CalibrateLaunch, CalibrateRaw};
use crate::pilots::Context;
use crate::plan::CalibratePlan;
use crate::tables::{TILES, table};
use anyhow::Context as _;
use harness_core::experiment::Measured;
use harness_core::record::LaunchLog;
use schema::cell::Facts;
use schema::facts::POISON_CAUGHT;
use tables::{Column, Table};

/// Cells `k=…,blocks=…`.
///
/// # Errors
/// When a launch fails.
pub fn measure(context: &mut Context, k: u32, blocks: u32) -> anyhow::Result<Measured> {
    let plan = &context.profile.calibrate;
    let launch = launch(plan, k, blocks);
    let tasks = launch.tasks().context("too many tiles in one launch")?;
    let (mut log, mut rows) = (launch::log(), Rows::default());
    let caught = poison_caught(context, &launch, &mut log)?;
    let mut largest_error: f64 = 0.0;
    for _ in 0..plan.launches {
        let raw = context.launches.calibrate(&launch)?;
        largest_error = largest_error.max(raw.max_relative_error);
        let number = raw.launch.record(&mut log, false);
        rows.add(number, &raw, launch.tiles);
        context.launches.events(rows.0[0].len() as u64)?;
    }
    let facts = Facts::default()
        .with("tasks", tasks)
        .with("flop_per_tile", flop_per_tile(k))
        .with(POISON_CAUGHT, caught)
        .with("max_relative_error", largest_error);
    Ok(Measured { log, events: rows.table(), blocks: None, facts, missed_fault: !caught })
}

/// Floating-point operations of a 64 by 64 tile: a multiplication and an addition per element and step.
#[must_use]
pub fn flop_per_tile(k: u32) -> u64 {
    2 * 64 * 64 * u64::from(k)
}

fn launch(plan: &CalibratePlan, k: u32, blocks: u32) -> CalibrateLaunch {
    CalibrateLaunch {
        k,
        blocks,
        warmup_tiles: plan.warmup_tiles,
        tiles: plan.tiles,
        tail_tiles: plan.tail_tiles,
        poison: false,
    }
}

/// One launch whose output is spoiled in one element; its row is kept as warm-up, its tiles are not events.
fn poison_caught(context: &mut Context, launch: &CalibrateLaunch, log: &mut LaunchLog) -> anyhow::Result<bool> {
    let raw = context.launches.calibrate(&CalibrateLaunch { poison: true, ..*launch })?;
    raw.launch.record(log, true);
    Ok(raw.launch.wrong_tiles == 1 && raw.max_relative_error > 0.0)
}

/// The event columns, in the order of [`TILES`].
#[derive(Default)]
struct Rows([Vec<u32>; 5]);

impl Rows {
    fn add(&mut self, launch: u32, raw: &CalibrateRaw, tiles: u32) {
        for (block, tile, wall_ns) in ends(&raw.boundary_ns, tiles) {
            let sm = raw.launch.trace.block_sm[block as usize];
            for (column, value) in self.0.iter_mut().zip([launch, block, sm, tile, wall_ns]) {
                column.push(value);
            }
        }
    }

    fn table(self) -> Table {
        table(TILES, self.0.map(Column::U32))
    }
}

/// Block, number and wall of each tile that ended while every block recorded: after the last block's first boundary, up to the
/// first block's last one. A tile counts where it ends, so that long ones count as often as they happen.
///
/// `boundary_ns` as in [`CalibrateRaw`].
#[must_use]
pub fn ends(boundary_ns: &[u32], tiles: u32) -> Vec<(u32, u32, u32)> {
    let Some(origin) = boundary_ns.first().copied() else { return Vec::new() };
    // The timer's low half wraps; a launch is far shorter than half of it.
    let since = |ns: u32| ns.wrapping_sub(origin).cast_signed();
    let blocks = boundary_ns.chunks_exact(tiles as usize + 1);
    let recorded: Vec<Vec<i32>> =
        blocks.map(|block| block.iter().take_while(|ns| **ns != 0).map(|ns| since(*ns)).collect()).collect();
    let (Some(from), Some(to)) = (
        recorded.iter().map(|block| block.first()).max_by_key(|first| first.map_or(i32::MAX, |ns| *ns)).flatten(),
        recorded.iter().map(|block| block.last()).min_by_key(|last| last.map_or(i32::MIN, |ns| *ns)).flatten(),
    ) else {
        return Vec::new();
    };
    let mut ends = Vec::new();
    for (block, boundaries) in (0..).zip(&recorded) {
        for (tile, pair) in (0..).zip(boundaries.windows(2)) {
            if from < &pair[1] && &pair[1] <= to {
                ends.push((block, tile, (pair[1] - pair[0]).cast_unsigned()));
            }
        }
    }
    ends
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tiles_count_that_end_while_every_block_records() {
        // Across the timer's wrap: one block is twice as fast as the other, and fills its row first.
        let at = |ns: [u32; 4]| ns.map(|ns| ns.wrapping_sub(100) | 1);
        let fast = at([10, 20, 30, 40]);
        let slow = at([14, 34, 54, 74]);
        assert_eq!(ends(&[fast, slow].concat(), 3), [(0, 0, 10), (0, 1, 10), (0, 2, 10), (1, 0, 20)]);
        // What was not recorded is no boundary.
        let short = [slow[0], slow[1], 0, 0];
        assert_eq!(ends(&[fast, short].concat(), 3), [(0, 0, 10), (0, 1, 10), (1, 0, 20)]);
    }

    #[test]
    fn without_a_common_time_nothing_counts() {
        assert_eq!(ends(&[], 1), []);
        assert_eq!(ends(&[11, 21, 0, 0], 1), []);
        assert_eq!(ends(&[11, 21, 31, 41], 1), []);
    }
}
