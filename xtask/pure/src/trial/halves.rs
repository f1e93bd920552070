//! Splits one run into two random halves, which a comparison must not call shifted.

use crate::numbers::stats::shuffled;
use crate::numbers::summary::CellData;
use anyhow::Result;
use std::collections::{BTreeMap, BTreeSet};
use tables::{Column, Table};

/// Splits every cell in two by launches (by quads where drains stand in quads) that only `name` chooses. Warm-up launches, and
/// cells whose events belong to no launch, are in both.
///
/// # Errors
/// When a table lacks a column.
pub fn halves(cells: &[CellData], name: &str) -> Result<(Vec<CellData>, Vec<CellData>)> {
    let split: Result<Vec<(CellData, CellData)>> = cells.iter().map(|cell| halve(cell, name)).collect();
    Ok(split?.into_iter().unzip())
}

fn halve(cell: &CellData, name: &str) -> Result<(CellData, CellData)> {
    let by_launch = cell.events.columns.iter().any(|(name, _)| name == "launch");
    let Some(launches) = cell.launches.as_ref().filter(|_| by_launch) else { return Ok((cell.clone(), cell.clone())) };
    let names = launches.u32("launch")?;
    let warmup: BTreeSet<u32> =
        names.iter().zip(launches.u32("warmup")?).filter(|(_, warmup)| **warmup == 1).map(|(name, _)| *name).collect();
    let unit = units(cell)?;
    let mut units: Vec<u32> = unit.values().copied().collect::<BTreeSet<_>>().into_iter().collect();
    units.retain(|unit| !warmup.contains(unit));
    let order = shuffled(&format!("{name}/{}/{}", cell.record.phase, cell.record.cell), units.len());
    let first: BTreeSet<u32> = order[..units.len() / 2].iter().map(|i| units[*i]).collect();
    let part = |wanted: bool| -> Result<CellData> {
        let of_part = |launch: &u32| {
            warmup.contains(launch) || unit.get(launch).is_some_and(|unit| first.contains(unit) == wanted)
        };
        let events = rows_where(&cell.events, of_part)?;
        let mut record = cell.record.clone();
        record.events = events.rows() as u64;
        Ok(CellData { record, events, launches: Some(rows_where(launches, of_part)?) })
    };
    Ok((part(true)?, part(false)?))
}

/// Which unit each launch is drawn with: its quad where the events have quads, itself otherwise.
fn units(cell: &CellData) -> Result<BTreeMap<u32, u32>> {
    let launch = cell.events.u32("launch")?;
    if cell.events.columns.iter().any(|(name, _)| name == "quad") {
        return Ok(launch.iter().copied().zip(cell.events.u32("quad")?.iter().copied()).collect());
    }
    let all = cell.launches.iter().flat_map(|launches| launches.u32("launch").unwrap_or_default()).chain(launch);
    Ok(all.map(|launch| (*launch, *launch)).collect())
}

fn rows_where(table: &Table, keep: impl Fn(&u32) -> bool) -> Result<Table> {
    let kept: Vec<bool> = table.u32("launch")?.iter().map(keep).collect();
    fn pick<T: Copy>(values: &[T], kept: &[bool]) -> Vec<T> {
        values.iter().zip(kept).filter(|(_, kept)| **kept).map(|(value, _)| *value).collect()
    }
    let column = |column: &Column| match column {
        Column::U32(v) => Column::U32(pick(v, &kept)),
        Column::OptU32(v) => Column::OptU32(pick(v, &kept)),
        Column::I64(v) => Column::I64(pick(v, &kept)),
        Column::OptI64(v) => Column::OptI64(pick(v, &kept)),
        Column::F64(v) => Column::F64(pick(v, &kept)),
    };
    Ok(Table { columns: table.columns.iter().map(|(name, values)| (name.clone(), column(values))).collect() })
}
