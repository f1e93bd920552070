//! Launches whose own clock was not the run's, and what each number is without them.
//!
//! A GPU that is well loses a percent of its clock now and then, for a launch or two, and NVML names no reason. Such
//! launches are kept and count, since to discard them would be a selection. Every number of a cell that has any is
//! computed a second time without them, and its row says both values. A number that they move by more than half of its
//! interval and by more than a tenth of its band is refused: its row stays and has no value. The others stand. Whether
//! the run as a whole is steady enough is for gate `clocks`.
//!
//! A launch is off the clock when one of its windows lies outside [`schema::plan::CLOCK_BAND_PCT`] round the median of the
//! run's launches. The launches of an ABBA quad are compared with each other alone, so that a slow wander of the clock, which
//! the order of a quad cancels, leaves a cost as it is.

use super::clock_class::{LaunchClock, launch_clocks, median_khz};
use super::drift::{MOST_DRIFT_PCT, drifts};
use super::summary::{CellData, Drawing, Drawn, find, summarize_without};
use anyhow::Context;
use schema::contract::{CellSpec, Contract, Recipe};
use std::collections::{BTreeMap, BTreeSet};

/// The part of a number's band by which launches off the clock may move it.
const PART_OF_BAND: f64 = 0.1;

/// The launches of a run that were off the clock, by cell.
#[derive(Clone, Debug, Default)]
pub struct OffClock {
    cells: BTreeMap<String, Off>,
}

/// Those of one cell.
#[derive(Clone, Debug, Default)]
struct Off {
    /// Against the run.
    launches: BTreeSet<u32>,
    /// All launches of quads whose launches did not run at one clock.
    quads: BTreeSet<u32>,
    /// How many launches of the cell count.
    of: usize,
}

impl OffClock {
    /// Finds them.
    ///
    /// # Errors
    /// When a table lacks a column.
    pub fn of(contract: &Contract, cells: &[CellData]) -> anyhow::Result<Self> {
        let mut clocks = Vec::new();
        for cell in contract.cells.iter().filter(|cell| cell.outputs) {
            let Some(data) = find(cells, cell) else { continue };
            let Some(launches) = &data.launches else { continue };
            clocks.push((cell, data, launch_clocks(launches).with_context(|| cell.id())?));
        }
        let Some(median) = median_khz(clocks.iter().flat_map(|(.., clocks)| clocks)) else {
            return Ok(Self::default());
        };
        let mut off = BTreeMap::new();
        for (cell, data, clocks) in &clocks {
            let launches = clocks.iter().filter(|clock| clock.leaves_band(median)).map(|clock| clock.launch).collect();
            let found = Off { launches, quads: quads(cell, data, clocks)?, of: clocks.len() };
            if !found.launches.is_empty() || !found.quads.is_empty() {
                off.insert(cell.id(), found);
            }
        }
        Ok(Self { cells: off })
    }

    /// Whether a cell, by its `phase/name`, has any, against the run.
    #[must_use]
    pub fn seen_in(&self, cell: &str) -> bool {
        self.cells.get(cell).is_some_and(|off| !off.launches.is_empty())
    }

    /// Whether no launch was.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.cells.is_empty()
    }

    /// How many launches were, against the run.
    #[must_use]
    pub fn count(&self) -> usize {
        self.cells.values().map(|off| off.launches.len()).sum()
    }

    /// The launches of a cell that a number of this recipe is to be computed without.
    pub(super) fn launches(&self, cell: &str, recipe: Option<&Recipe>) -> BTreeSet<u32> {
        let off = self.cells.get(cell);
        off.map(|off| if paired(recipe) { &off.quads } else { &off.launches }).cloned().unwrap_or_default()
    }

    /// The cells whose launches a number rests on, of those that have any off the clock.
    fn behind<'a>(&'a self, cell: &'a CellSpec, recipe: Option<&'a Recipe>) -> impl Iterator<Item = &'a Off> {
        let over = if let Some(Recipe::Ratio { over, .. }) = recipe { Some(over.clone()) } else { None };
        [Some(cell.id()), over].into_iter().flatten().filter_map(|cell| self.cells.get(&cell))
    }

    /// Whether a cell's numbers rest on any such launch.
    pub(super) fn touches(&self, cell: &CellSpec) -> bool {
        cell.metrics.iter().any(|metric| self.behind(cell, Some(&metric.recipe)).next().is_some())
    }
}

fn paired(recipe: Option<&Recipe>) -> bool {
    matches!(recipe, Some(Recipe::Abba { .. }))
}

/// The launches of each quad in which one leaves the band round the quad's own clock.
fn quads(cell: &CellSpec, data: &CellData, clocks: &[LaunchClock]) -> anyhow::Result<BTreeSet<u32>> {
    let by_launch: BTreeMap<u32, &LaunchClock> = clocks.iter().map(|clock| (clock.launch, clock)).collect();
    let mut off = BTreeSet::new();
    for metric in &cell.metrics {
        let Recipe::Abba { quad, .. } = &metric.recipe else { continue };
        let mut quads: BTreeMap<u32, Vec<&LaunchClock>> = BTreeMap::new();
        for (quad, launch) in data.events.u32(quad)?.iter().zip(data.events.u32("launch")?) {
            quads.entry(*quad).or_default().extend(by_launch.get(launch));
        }
        for clocks in quads.into_values() {
            let middle = median_khz(clocks.iter().copied());
            if middle.is_some_and(|middle| clocks.iter().any(|clock| clock.leaves_band(middle))) {
                off.extend(clocks.iter().map(|clock| clock.launch));
            }
        }
    }
    Ok(off)
}

/// Compares each number with what it is without the launches off the clock, says so in its row, and takes the value from the row
/// where it does not stand. Likewise where launches of one kind drifted within the cell, but for what quads make.
///
/// # Errors
/// When a table lacks a column.
pub fn judge(contract: &Contract, run: &str, cells: &[CellData], rows: &mut [Drawn]) -> anyhow::Result<OffClock> {
    let off = OffClock::of(contract, cells)?;
    let without = if off.is_empty() { Vec::new() } else { summarize_without(contract, run, cells, &off)? };
    let key = |row: &Drawn| (row.metric.phase.clone(), row.metric.cell.clone(), row.metric.metric.clone());
    let without: BTreeMap<_, &Drawn> = without.iter().map(|row| (key(row), row)).collect();
    for row in rows.iter_mut().filter(|row| row.drawing == Drawing::Sampled) {
        let Some(cell) = contract.cell(&row.metric.phase, &row.metric.cell) else { continue };
        let recipe = contract.metric(&cell.phase, &cell.name, &row.metric.metric).map(|spec| &spec.recipe);
        match moved(&off, cell, recipe, row, without.get(&key(row)).copied()) {
            Ok(said) => row.remark(&said),
            Err(why) => row.refuse(&why),
        }
        if !paired(recipe)
            && let Some(drift) = drift(cell, cells)?
        {
            row.refuse(&format!("launches of one kind drifted by {drift:.1} % within this cell"));
        }
    }
    Ok(off)
}

/// What is said beside a number that stands, or why it does not.
fn moved(
    off: &OffClock,
    cell: &CellSpec,
    recipe: Option<&Recipe>,
    row: &Drawn,
    without: Option<&Drawn>,
) -> Result<String, String> {
    let (mut left_out, mut of, mut most) = (0, 0, false);
    for found in off.behind(cell, recipe) {
        let launches = if paired(recipe) { &found.quads } else { &found.launches };
        left_out += launches.len();
        of += found.of;
        most |= 2 * launches.len() > found.of;
    }
    if left_out == 0 {
        return Ok(String::new());
    }
    let beside = format!("{left_out} of {of} launches off the clock");
    let Some(without) = without.filter(|_| !most) else { return Err(beside) };
    let said = format!("{} without {beside}", without.metric.value);
    let allowed = allowed(row, without.value);
    if (row.value - without.value).abs() <= allowed {
        return Ok(said);
    }
    Err(format!("{} with all launches, {said}: further apart than {allowed:.4}", row.metric.value))
}

/// Half of the number's interval, or a tenth of its band, the wider of the two.
fn allowed(row: &Drawn, without: f64) -> f64 {
    let end = |text: &str| text.parse::<f64>().ok();
    let interval = end(&row.metric.hi).zip(end(&row.metric.lo)).map_or(0.0, |(hi, lo)| (hi - lo) / 2.0);
    interval.max(row.band.width(row.value, without) * PART_OF_BAND)
}

/// How far launches of one kind drifted within a cell, where it is too far for all numbers but those that quads make.
fn drift(cell: &CellSpec, cells: &[CellData]) -> anyhow::Result<Option<f64>> {
    let launches = find(cells, cell).and_then(|data| data.launches.as_ref());
    let drifts = launches.map(drifts).transpose()?.unwrap_or_default();
    Ok(drifts.into_iter().find(|drift| drift.abs() > MOST_DRIFT_PCT))
}

#[cfg(test)]
mod tests;
