//! Decides whether two runs agree: for each metric and cell the effect with its interval, an equivalence band, and
//! one word.
//!
//! The effect is the second run's value less the first's, in the metric's unit. Its interval takes the draws that
//! each run's own interval was made of (launches for quantiles, ABBA quads for costs and drains) in pairs that share
//! no draw, since two runs are independent. For counts and values that were read, the interval is the difference
//! itself; for counts of random events, it is that of two Poisson counts.
//!
//! `REPRODUCED`: the whole interval lies within the band. `SHIFTED`: all of it lies outside. `AMBIGUOUS`: neither, or
//! there is too little to say. For the whole comparison one shifted metric is enough to say `SHIFTED`, and
//! `REPRODUCED` requires every metric; metrics that rest on too few events in either run are shown and do not count.
//! Two GPU models have no verdict: their numbers stand side by side.

mod inputs;

pub use inputs::{Difference, differences};

use crate::gate::Evidence;
use crate::numbers::derive::derive;
use crate::numbers::stats::percentile_interval;
use crate::numbers::summary::{CellData, Drawing, Drawn};
use crate::records::json;
use schema::compare::{Bands, MIN_EVENTS_COMPARED};
use schema::contract::Contract;
use serde::Serialize;
use std::collections::BTreeMap;

/// The 97.5 % point of the normal distribution, for the difference of two Poisson counts.
const NORMAL_95: f64 = 1.96;

/// What a comparison comes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Word {
    /// The whole interval lies outside the band.
    Shifted,
    /// Neither.
    Ambiguous,
    /// The whole interval lies within the band.
    Reproduced,
}

impl Word {
    /// The word.
    #[must_use]
    pub fn name(self) -> String {
        json::word(self)
    }
}

/// One metric of one cell in both runs.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Compared {
    /// The metric's name.
    pub id: String,
    /// `phase/cell`; across GPU models, what the cell is on either: `blocks=full` for its number of blocks.
    pub cell: String,
    /// The unit of every number here.
    pub unit: String,
    /// The first run's value; absent where it has none.
    pub a: Option<f64>,
    /// The second run's value; absent where it has none.
    pub b: Option<f64>,
    /// `b` less `a`; absent where either is, and across GPU models.
    pub effect: Option<f64>,
    /// Lower end of the effect's 95 % interval.
    pub lo: Option<f64>,
    /// Upper end of it.
    pub hi: Option<f64>,
    /// Half-width of the band.
    pub band: Option<f64>,
    /// The word; absent across GPU models.
    pub verdict: Option<Word>,
    /// Why there is no more to say; empty where there is.
    pub why: String,
    /// Whether it counts for the whole.
    #[serde(skip)]
    counts: bool,
}

/// Two runs side by side.
#[derive(Clone, Debug, Serialize)]
pub struct Comparison {
    /// The word for the whole; absent across GPU models.
    pub verdict: Option<Word>,
    /// Why there is none; empty where there is one.
    pub why: String,
    /// Every metric of either run.
    pub metrics: Vec<Compared>,
    /// What differs in how the runs were made, in the order of the path; the first of it comes first.
    pub environment: Vec<Difference>,
}

/// Compares two runs; bands are the first run's plan's. A run from before there were contracts is read by the other's.
#[must_use]
pub fn compare(a: &Evidence, b: &Evidence) -> Comparison {
    let environment = differences(a, b);
    let (one, other) = (&a.environment.device, &b.environment.device);
    let (rows_a, rows_b) = (rows(a, &b.contract), rows(b, &a.contract));
    if one.name != other.name {
        let why = format!("different GPU models, {} and {}: side by side, never blended", one.name, other.name);
        let metrics = side_by_side((&rows_a, &a.contract), (&rows_b, &b.contract));
        return Comparison { verdict: None, why, metrics, environment };
    }
    let metrics = compare_rows(&rows_a, &rows_b, &a.plan.compare);
    Comparison { verdict: Some(overall(&metrics)), why: String::new(), metrics, environment }
}

/// The rows of a run, by its own contract, or by another for the cells that both have.
fn rows(run: &Evidence, other: &Contract) -> Vec<Drawn> {
    if run.contract_digest.is_some() {
        return run.recomputed.drawn.clone();
    }
    let known = run.cells.iter().filter(|cell| cell.spec(other).is_some());
    let cells: Vec<CellData> = known.map(|cell| cell.data.clone()).collect();
    derive(other, &run.manifest.predicate.run, &cells).drawn
}

/// Compares the rows of two runs on one GPU model, in the first run's order, then what only the second has.
#[must_use]
pub fn compare_rows(a: &[Drawn], b: &[Drawn], bands: &Bands) -> Vec<Compared> {
    pairs(&placed(a, place), &placed(b, place)).into_iter().map(|(cell, a, b)| one(cell, a, b, bands)).collect()
}

/// The word for all of them.
#[must_use]
pub fn overall(metrics: &[Compared]) -> Word {
    let counted = metrics.iter().filter(|metric| metric.counts).filter_map(|metric| metric.verdict);
    counted.min().unwrap_or(Word::Ambiguous)
}

fn place(row: &Drawn) -> String {
    format!("{}/{}", row.metric.phase, row.metric.cell)
}

type Placed<'a> = Vec<(String, &'a Drawn)>;

fn placed<'a>(rows: &'a [Drawn], place: impl Fn(&Drawn) -> String) -> Placed<'a> {
    rows.iter().map(|row| (place(row), row)).collect()
}

type Pair<'a> = (String, Option<&'a Drawn>, Option<&'a Drawn>);

/// Rows that speak of the same metric of the same place.
fn pairs<'a>(a: &Placed<'a>, b: &Placed<'a>) -> Vec<Pair<'a>> {
    let key = |(place, row): &(String, &Drawn)| (place.clone(), row.metric.metric.clone());
    let [in_a, in_b] = [a, b].map(|rows| rows.iter().map(|at| (key(at), at.1)).collect::<BTreeMap<_, _>>());
    let of_a = a.iter().map(|at| (at.0.clone(), Some(at.1), in_b.get(&key(at)).copied()));
    let only_b = b.iter().filter(|at| !in_a.contains_key(&key(at))).map(|at| (at.0.clone(), None, Some(at.1)));
    of_a.chain(only_b).collect()
}

fn one(cell: String, a: Option<&Drawn>, b: Option<&Drawn>, bands: &Bands) -> Compared {
    let mut compared = unjudged(cell, a, b);
    compared.verdict = Some(Word::Ambiguous);
    let thin = [a, b].into_iter().flatten().any(is_thin);
    compared.counts = !thin;
    let (Some(a), Some(b)) = (a, b) else {
        let lacks = if a.is_none() { "first" } else { "second" };
        compared.why = format!("the {lacks} run has no such value");
        return compared;
    };
    let effect = b.value - a.value;
    let band = bands.get(&a.metric.metric).copied().unwrap_or(a.band);
    let width = band.width(a.value, b.value);
    let interval = interval(a, b, effect);
    (compared.effect, compared.band) = (Some(rounded(effect)), Some(rounded(width)));
    (compared.lo, compared.hi) = (interval.map(|(lo, _)| rounded(lo)), interval.map(|(_, hi)| rounded(hi)));
    match interval {
        None => compared.why = "too few launches for an interval".to_owned(),
        Some(_) if thin => compared.why = format!("fewer than {MIN_EVENTS_COMPARED} events"),
        Some(interval) => compared.verdict = Some(word(interval, width)),
    }
    compared
}

/// The word for an interval of an effect and the half-width of a band.
#[must_use]
pub fn word((lo, hi): (f64, f64), width: f64) -> Word {
    if -width <= lo && hi <= width {
        Word::Reproduced
    } else if lo > width || hi < -width {
        Word::Shifted
    } else {
        Word::Ambiguous
    }
}

/// The interval of the effect. Draw i of the first run stands beside draw i + 1 of the second, since equal numbers of launches
/// in equal cells are drawn alike, and what is drawn alike is not independent.
fn interval(a: &Drawn, b: &Drawn, effect: f64) -> Option<(f64, f64)> {
    match a.drawing {
        Drawing::Chance => {
            let half = NORMAL_95 * libm::sqrt(a.value + b.value);
            return Some((effect - half, effect + half));
        }
        Drawing::Reading => return Some((effect, effect)),
        Drawing::Sampled => {}
    }
    let n = a.draws.len().min(b.draws.len());
    let effects: Vec<f64> = (0..n).map(|i| b.draws[(i + 1) % n] - a.draws[i]).collect();
    percentile_interval(&effects)
}

/// A time of too few events.
fn is_thin(row: &Drawn) -> bool {
    row.metric.unit == "us" && row.metric.n < MIN_EVENTS_COMPARED
}

fn side_by_side(a: (&[Drawn], &Contract), b: (&[Drawn], &Contract)) -> Vec<Compared> {
    let roles = |contract: &Contract, row: &Drawn| {
        let cell = contract.cell(&row.metric.phase, &row.metric.cell);
        format!("{}/{}", row.metric.phase, cell.map_or(&row.metric.cell, |cell| &cell.role))
    };
    let [a, b] = [a, b].map(|(rows, contract)| placed(rows, |row| roles(contract, row)));
    let pairs = pairs(&a, &b);
    pairs.into_iter().map(|(cell, a, b)| unjudged(cell, a, b)).collect()
}

/// Both values and nothing about them.
fn unjudged(cell: String, a: Option<&Drawn>, b: Option<&Drawn>) -> Compared {
    let either = a.or(b).expect("a pair has a row");
    let value = |row: Option<&Drawn>| row.map(|row| row.metric.value.parse().unwrap_or(row.value));
    Compared {
        id: either.metric.metric.clone(),
        cell,
        unit: either.metric.unit.clone(),
        a: value(a),
        b: value(b),
        counts: true,
        ..Compared::default()
    }
}

/// Six digits after the point: more than any unit here is printed with.
fn rounded(value: f64) -> f64 {
    let rounded = (value * 1e6).round() / 1e6;
    if rounded == 0.0 { 0.0 } else { rounded }
}

#[cfg(test)]
mod tests;
