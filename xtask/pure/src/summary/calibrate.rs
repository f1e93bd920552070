//! Phase 1: how long a tile takes.

use super::rows::{Rows, Unit};
use super::{Kept, refuse_duplicates};
use schema::table::Table;

/// `tile_wall_us`: one tile's wall time over all recorded tiles of all blocks.
pub(super) fn tile_walls(events: &Table, kept: &Kept, rows: &mut Rows) -> anyhow::Result<()> {
    let (launch, block, tile) = (events.u32("launch")?, events.u32("block")?, events.u32("tile")?);
    refuse_duplicates("(launch, block, tile)", (0..events.rows()).map(|i| (launch[i], block[i], tile[i])))?;
    let wall = events.u32("wall_ns")?;
    let walls: Vec<(u32, i64)> = kept.rows(launch)?.into_iter().map(|i| (launch[i], i64::from(wall[i]))).collect();
    rows.median_and_tail("tile_wall", Unit::DeviceUs, &walls);
    Ok(())
}
