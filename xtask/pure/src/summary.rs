//! Raw tables of a run in, `summary/metrics.csv` rows out, in plan order. What a row means is said at the function that
//! makes it; the formats of numbers are in [`rows`].
//!
//! Rules that hold for every row: launches marked as warm-up do not count; an event with an anomaly enters no quantile and
//! is counted in `anomalous_events`; a p99 or p99.9 below the floors of `schema::plan` is absent, never zero; a value of the
//! device timer under two of its quanta is written as that bound. An event that occurs twice is an error.

mod baseline;
mod blocks;
mod calibrate;
mod cost;
mod instrument;
mod rows;
mod yields;

pub use blocks::{BlockCheck, check_blocks};
pub(super) use rows::decimal;
pub use rows::{Drawn, Tails};

use anyhow::{Context, bail, ensure};
use rows::{Rows, Unit};
use schema::cell::CellRecord;
use schema::metrics::Metric;
use schema::plan::{Cell, Phase, Plan, Residency, Setter, Slots, Work};
use schema::table::{Column, Table};
use std::collections::BTreeSet;

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

/// Every metric of a run, in plan order whatever the order of `cells`. A cell of the plan that is not there gives no rows.
///
/// # Errors
/// When a table lacks a column or a launch, holds an event twice, or a cell is given twice or not in the plan.
pub fn summarize(plan: &Plan, slots: &Slots, run: &str, cells: &[CellData]) -> anyhow::Result<Vec<Metric>> {
    Ok(summarize_drawn(plan, slots, run, cells, Tails::Floored)?.into_iter().map(|row| row.metric).collect())
}

/// As [`summarize`], each row with what its interval was drawn from.
///
/// # Errors
/// As [`summarize`].
pub fn summarize_drawn(
    plan: &Plan,
    slots: &Slots,
    run: &str,
    cells: &[CellData],
    tails: Tails,
) -> anyhow::Result<Vec<Drawn>> {
    let planned = plan.cells(slots);
    check_names(&planned, cells)?;
    let quantum_ns = planned
        .iter()
        .filter(|cell| cell.work == Work::Timer)
        .find_map(|cell| u32::try_from(find(cells, cell)?.record.facts.whole("timer_quantum_ns")?).ok());
    let mut metrics = Vec::new();
    for cell in &planned {
        let Some(data) = find(cells, cell) else { continue };
        let where_ = || format!("cell {}/{}", cell.phase.name(), cell.name);
        let mut rows = Rows::new(plan, run, cell, quantum_ns, tails);
        summarize_cell(plan, cell, data, &mut rows).with_context(where_)?;
        let baseline = ratio_baseline(plan, slots, &planned, cell).and_then(|slow| Some((slow, find(cells, slow)?)));
        if let Some(baseline) = baseline {
            add_ratio(cell, data, baseline, &mut rows).with_context(where_)?;
        }
        metrics.extend(rows.finish());
    }
    Ok(metrics)
}

fn find<'a>(cells: &'a [CellData], cell: &Cell) -> Option<&'a CellData> {
    cells.iter().find(|data| data.record.phase == cell.phase && data.record.cell == cell.name)
}

fn check_names(planned: &[Cell], cells: &[CellData]) -> anyhow::Result<()> {
    let mut seen = BTreeSet::new();
    for CellData { record, .. } in cells {
        let known = planned.iter().any(|cell| cell.phase == record.phase && cell.name == record.cell);
        ensure!(known, "cell {}/{} is not in the plan", record.phase.name(), record.cell);
        let first = seen.insert((record.phase, &record.cell));
        ensure!(first, "cell {}/{} is given twice", record.phase.name(), record.cell);
    }
    Ok(())
}

fn summarize_cell(plan: &Plan, cell: &Cell, data: &CellData, rows: &mut Rows) -> anyhow::Result<()> {
    let events = data.events.rows() as u64;
    ensure!(events == data.record.events, "{events} rows of events, but its header says {}", data.record.events);
    let kept = Kept::new(data)?;
    match cell.work {
        Work::Timer => instrument::timer(data, rows)?,
        Work::Delay(leg) => instrument::delay(leg, plan.profile.instrument.delay_ns, &data.events, &kept, rows)?,
        Work::Calibrate { .. } => calibrate::tile_walls(&data.events, &kept, rows)?,
        Work::Baseline { .. } => baseline::waits(&data.events, &kept, rows)?,
        Work::Yield { set, .. } => yields::timeline(set, &data.events, &kept, rows)?,
        Work::Cost { .. } => cost::polling(data, &kept, rows)?,
    }
    launches(data, &kept, rows)
}

/// `clock_mhz_p50`: median over launches of each launch's median in-band clock. `corrupt_events`: tiles, background and
/// urgent, with a wrong or unwritten element. `once_violations`: tasks not executed exactly once. The last two count
/// warm-up launches as well, since a wrong result is wrong there too.
fn launches(data: &CellData, kept: &Kept, rows: &mut Rows) -> anyhow::Result<()> {
    let Some(table) = &data.launches else { return Ok(()) };
    let (launch, windows, khz) = (table.u32("launch")?, table.u32("clock_windows")?, table.u32("clock_khz_p50")?);
    let clocked = (0..table.rows()).filter(|i| kept.launch(launch[*i]) && windows[*i] > 0);
    let clocks: Vec<(u32, i64)> = clocked.map(|i| (launch[i], i64::from(khz[i]))).collect();
    rows.median("clock", Unit::Mhz, &clocks);
    let total = |names: &[&str]| -> anyhow::Result<u64> {
        let sums = names.iter().map(|name| Ok(table.u32(name)?.iter().map(|n| u64::from(*n)).sum::<u64>()));
        sums.sum()
    };
    let n = table.rows() as u64;
    rows.count("corrupt_events", total(&["wrong_tiles", "unwritten_tiles", "urgent_wrong"])?, n);
    rows.count("once_violations", total(&["not_once", "urgent_not_once"])?, n);
    Ok(())
}

/// The launches of a cell that count.
struct Kept {
    all: BTreeSet<u32>,
    warmup: BTreeSet<u32>,
}

impl Kept {
    fn new(data: &CellData) -> anyhow::Result<Self> {
        let mut kept = Self { all: BTreeSet::new(), warmup: BTreeSet::new() };
        let Some(table) = &data.launches else { return Ok(kept) };
        for (launch, warmup) in table.u32("launch")?.iter().zip(table.u32("warmup")?) {
            ensure!(kept.all.insert(*launch), "launch {launch} has two rows");
            match warmup {
                0 => {}
                1 => drop(kept.warmup.insert(*launch)),
                other => bail!("launch {launch} has warmup = {other}, which is neither 0 nor 1"),
            }
        }
        Ok(kept)
    }

    fn launch(&self, launch: u32) -> bool {
        !self.warmup.contains(&launch)
    }

    /// The indices of rows whose launch counts; `launch` is the table's column.
    fn rows(&self, launch: &[u32]) -> anyhow::Result<Vec<usize>> {
        if let Some(lost) = launch.iter().find(|launch| !self.all.contains(launch)) {
            bail!("an event of launch {lost}, which has no row among the launches");
        }
        Ok((0..launch.len()).filter(|i| self.launch(launch[*i])).collect())
    }

    /// As [`Kept::rows`], without events that have an anomaly; also how many of those there were.
    fn sound_rows(&self, launch: &[u32], anomaly: &[u32]) -> anyhow::Result<(Vec<usize>, u64)> {
        let (sound, anomalous): (Vec<usize>, Vec<usize>) =
            self.rows(launch)?.into_iter().partition(|i| anomaly[*i] == 0);
        Ok((sound, anomalous.len() as u64))
    }
}

/// A column of the yield events that count, without those that have an anomaly.
pub(super) fn sound_column(data: &CellData, name: &str) -> anyhow::Result<Vec<i64>> {
    let values = data.events.i64(name)?;
    let (sound, _) = yields::sound_rows(&data.events, &Kept::new(data)?)?;
    Ok(sound.into_iter().map(|i| values[i]).collect())
}

/// The wait and what remained of the drain at issue, of each baseline event that counts, in the order of events.
pub(super) fn wait_pairs(data: &CellData) -> anyhow::Result<Vec<(i64, i64)>> {
    let pairs = baseline::wait_pairs(&data.events, &Kept::new(data)?)?;
    Ok(pairs.into_iter().map(|(_, wait, remaining)| (wait, remaining)).collect())
}

/// Refuses events that occur twice; `key` names what makes an event unique.
fn refuse_duplicates<K: Ord + std::fmt::Debug>(what: &str, keys: impl Iterator<Item = K>) -> anyhow::Result<()> {
    let mut keys: Vec<K> = keys.collect();
    keys.sort_unstable();
    let twice = keys.windows(2).find(|pair| pair[0] == pair[1]);
    twice.map_or(Ok(()), |pair| Err(anyhow::anyhow!("{what} {:?} occurs twice", pair[0])))
}

/// The baseline cell with every slot taken, if `cell` is the host-set yield cell with every slot taken.
pub(super) fn ratio_baseline<'a>(plan: &Plan, slots: &Slots, planned: &'a [Cell], cell: &Cell) -> Option<&'a Cell> {
    let Work::Yield { k: yield_k, blocks, set: Setter::Host, .. } = cell.work else { return None };
    let full = |per_sm| Residency::Full.blocks(slots.sms(), per_sm);
    if blocks != full(slots.per_sm("yield_per_sm")) || plan.profile.baseline.k != yield_k {
        return None;
    }
    let work = Work::Baseline { k: yield_k, blocks: full(slots.per_sm("drain_per_sm")) };
    planned.iter().find(|cell| cell.work == work)
}

/// `ratio`: `host_e2e_us_p50` of the baseline over this cell's, from host issue to host-observed done on both sides. Its
/// interval is the widest the two intervals allow.
fn add_ratio(cell: &Cell, data: &CellData, over: (&Cell, &CellData), rows: &mut Rows) -> anyhow::Result<()> {
    let slow = baseline::host_e2e(&over.1.events, &Kept::new(over.1)?)?;
    let fast = yields::host_e2e(&data.events, &Kept::new(data)?)?;
    let (slow, fast) = (rows.estimate_of(over.0, &slow), rows.estimate_of(cell, &fast));
    if let (Some(slow), Some(fast)) = (slow, fast) {
        rows.ratio(slow, fast, &format!("{}/{} over this cell", Phase::Baseline.name(), over.0.name));
    }
    Ok(())
}

#[cfg(test)]
mod tests;
