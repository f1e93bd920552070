//! Computes the rows of `summary/metrics.csv` from the raw tables of a run, in the order of the contract, which says
//! how each is computed.
//!
//! Rules that hold for every row: launches marked as warm-up do not count; an event with an anomaly enters no
//! quantile and is counted in `anomalous_events`; a p99 or p99.9 below the floors of `schema::plan` is absent, never
//! zero; a value of the device timer under two of its quanta is written as that bound. An event that occurs twice is
//! an error.

mod blocks;
mod kept;
mod recipes;
mod rows;

pub use blocks::{BlockCheck, check_blocks};
pub use recipes::{evaluate, numbers};
pub(crate) use rows::decimal;
pub use rows::{Drawing, Drawn, Tails};

use super::off_clock::OffClock;
use anyhow::{Context, ensure};
use kept::{Kept, refuse_duplicates};
use recipes::Source;
use rows::Rows;
use schema::cell::CellRecord;
use schema::contract::{CellSpec, Contract, Expr};
use schema::metrics::Metric;
use schema::timer::QUANTUM;
use std::collections::BTreeSet;
use tables::{Column, Table};

/// A cell as read from disk.
#[derive(Clone, Debug)]
pub struct CellData {
    /// Its header.
    pub record: CellRecord,
    /// Its events.
    pub events: Table,
    /// Its launches; absent where the cell has none (`instrument/timer`).
    pub launches: Option<Table>,
}

/// The most nanoseconds that an instant or a duration of a cell may have, either way: about three days.
const MOST_NS: i64 = 1 << 48;

impl CellData {
    /// Refuses numbers that no cell measures, so that nothing computed from them overflows.
    ///
    /// # Errors
    /// Names the column.
    pub fn check_range(&self) -> anyhow::Result<()> {
        let sane = |ns: &i64| (-MOST_NS..=MOST_NS).contains(ns);
        for (name, column) in self.events.columns.iter().chain(self.launches.iter().flat_map(|table| &table.columns)) {
            let holds = match column {
                Column::I64(values) => values.iter().all(sane),
                Column::OptI64(values) => values.iter().flatten().all(sane),
                Column::F64(values) => values.iter().all(|value| value.is_finite()),
                Column::U32(_) | Column::OptU32(_) => true,
            };
            ensure!(holds, "column {name:?} holds a number that no cell measures");
        }
        Ok(())
    }
}

/// Every metric of a run, in the contract's order whatever the order of `cells`. A cell that is not there gives no rows.
///
/// # Errors
/// When a table lacks a column or a launch, holds an event twice, or a cell is given twice or not in the contract.
pub fn summarize(contract: &Contract, run: &str, cells: &[CellData]) -> anyhow::Result<Vec<Metric>> {
    Ok(summarize_drawn(contract, run, cells, Tails::Floored)?.into_iter().map(|row| row.metric).collect())
}

/// As [`summarize`], each row with what its interval was drawn from.
///
/// # Errors
/// As [`summarize`].
pub fn summarize_drawn(contract: &Contract, run: &str, cells: &[CellData], tails: Tails) -> anyhow::Result<Vec<Drawn>> {
    check_names(contract, cells)?;
    rows(contract, run, cells, tails, &OffClock::default())
}

/// The rows of each cell that launches off the clock touch, computed without them. Of a part of the launches nothing is
/// published, so no floor holds.
///
/// # Errors
/// As [`summarize`].
pub(super) fn summarize_without(
    contract: &Contract,
    run: &str,
    cells: &[CellData],
    without: &OffClock,
) -> anyhow::Result<Vec<Drawn>> {
    rows(contract, run, cells, Tails::All, without)
}

/// The rows of all cells, or of those that launches to be left out touch.
fn rows(
    contract: &Contract,
    run: &str,
    cells: &[CellData],
    tails: Tails,
    without: &OffClock,
) -> anyhow::Result<Vec<Drawn>> {
    let timer = contract.timer().and_then(|cell| find(cells, cell));
    let quantum_ns = timer.and_then(|data| data.record.facts.whole(QUANTUM));
    let mut metrics = Vec::new();
    for cell in contract.cells.iter().filter(|cell| without.is_empty() || without.touches(cell)) {
        let Some(data) = find(cells, cell) else { continue };
        let mut rows = Rows::new(&contract.experiment, run, cell, quantum_ns, tails);
        summarize_cell((contract, cells, without), cell, data, &mut rows)
            .with_context(|| format!("cell {}", cell.id()))?;
        metrics.extend(rows.finish());
    }
    Ok(metrics)
}

pub(super) fn find<'a>(cells: &'a [CellData], cell: &CellSpec) -> Option<&'a CellData> {
    cells.iter().find(|data| data.record.phase == cell.phase && data.record.cell == cell.name)
}

fn check_names(contract: &Contract, cells: &[CellData]) -> anyhow::Result<()> {
    let mut seen = BTreeSet::new();
    for CellData { record, .. } in cells {
        let known = contract.cell(&record.phase, &record.cell).is_some();
        ensure!(known, "cell {}/{} is not in the contract", record.phase, record.cell);
        let first = seen.insert((&record.phase, &record.cell));
        ensure!(first, "cell {}/{} is given twice", record.phase, record.cell);
    }
    Ok(())
}

fn summarize_cell(
    (contract, cells, without): (&Contract, &[CellData], &OffClock),
    cell: &CellSpec,
    data: &CellData,
    rows: &mut Rows<'_>,
) -> anyhow::Result<()> {
    let events = data.events.rows() as u64;
    ensure!(events == data.record.events, "{events} rows of events, but its header says {}", data.record.events);
    let table = contract.table(cell).with_context(|| format!("the contract has no table {:?}", cell.table))?;
    refuse_duplicates(&data.events, table)?;
    for metric in &cell.metrics {
        let kept = Kept::new(data, without.launches(&cell.id(), Some(&metric.recipe)))?;
        recipes::add(&Source { contract, cells, cell, table, data, kept: &kept, without }, &metric.recipe, rows)?;
    }
    launches(contract, data, &Kept::new(data, without.launches(&cell.id(), None))?, rows)
}

/// `clock_mhz_p50`: median over launches of each launch's median in-band clock. `corrupt_events`: outputs that disagree with
/// the oracle. `once_violations`: work not done exactly once. The last two count warm-up launches as well, since a wrong
/// result is wrong there too.
fn launches(contract: &Contract, data: &CellData, kept: &Kept, rows: &mut Rows<'_>) -> anyhow::Result<()> {
    let Some(table) = &data.launches else { return Ok(()) };
    let (launch, windows, khz) = (table.u32("launch")?, table.u32("clock_windows")?, table.u32("clock_khz_p50")?);
    let clocked = (0..table.rows()).filter(|i| kept.launch(launch[*i]) && windows[*i] > 0);
    let clocks: Vec<(u32, i64)> = clocked.map(|i| (launch[i], i64::from(khz[i]))).collect();
    rows.clock(&clocks);
    let n = table.rows() as u64;
    for (metric, tallies) in
        [("corrupt_events", &contract.launches.wrong), ("once_violations", &contract.launches.once)]
    {
        let sums = tallies.iter().map(|tally| Ok(table.u32(&tally.column)?.iter().map(|n| u64::from(*n)).sum::<u64>()));
        rows.count(metric, sums.sum::<anyhow::Result<u64>>()?, n, Drawing::Reading);
    }
    Ok(())
}

/// A number of each event of a cell that counts and has it, in the order of events. For figures.
///
/// # Errors
/// When the cell's tables are not as the contract says.
pub(super) fn sound_values(contract: &Contract, cells: &[CellData], cell: &str, of: &Expr) -> anyhow::Result<Vec<i64>> {
    let Some(cell) = contract.cells.iter().find(|spec| spec.id() == cell) else { return Ok(Vec::new()) };
    let Some(data) = find(cells, cell) else { return Ok(Vec::new()) };
    let table = contract.table(cell).context("the contract has no such table")?;
    let kept = Kept::new(data, BTreeSet::new())?;
    let values = evaluate(&data.events, of)?;
    Ok(kept.sound_rows(&data.events, table)?.0.into_iter().filter_map(|row| values[row]).collect())
}

#[cfg(test)]
mod tests;
