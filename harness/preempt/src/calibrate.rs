//! Phase 1: the wall time of a tile for each inner dimension and residency. Every output is checked, and the oracle
//! must find a planted wrong element.

use crate::launch::{self, CalibrateLaunch, CalibrateRaw};
use crate::pilots::Context;
use crate::plan::CalibratePlan;
use crate::tables::{TILES, table};
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
        .with("tasks", blocks * (launch.warmup_tiles + launch.tiles + launch.tail_tiles))
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
        tiles: plan.tiles_per_block(blocks),
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
        let places = (0_u32..)
            .zip(&raw.launch.trace.block_sm)
            .flat_map(|(block, sm)| (0..tiles).map(move |tile| (block, *sm, tile)));
        for ((block, sm, tile), wall_ns) in places.zip(&raw.wall_ns) {
            for (column, value) in self.0.iter_mut().zip([launch, block, sm, tile, *wall_ns]) {
                column.push(value);
            }
        }
    }

    fn table(self) -> Table {
        table(TILES, self.0.map(Column::U32))
    }
}
