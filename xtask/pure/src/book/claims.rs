//! Judges registered claims by the metrics of a run: CONFIRMED, FALSIFIED or INCONCLUSIVE. Whether the run counts at
//! all (INVALID) is decided by the gates.
//!
//! A term holds when its whole interval does and is violated when its whole interval is; a ratio's interval is the
//! widest that its two intervals allow. Numbers are compared as the decimals that were printed, exactly, never as
//! binary fractions.

use crate::numbers::decimal::Decimal;
use crate::numbers::summary::decimal as print;
use anyhow::Context;
use schema::ExitCode;
use schema::cell::DeviceFacts;
use schema::claim::{Claim, ClaimFile, Comparator, MetricRef, Outcome, Term};
use schema::metrics::Metric;
use schema::plan::Slots;
use schema::verdict::ClaimResult;
use std::cmp::Ordering;
use std::collections::BTreeSet;
use std::fmt::Write as _;
use words::failure::fail;

/// Metrics that count something exactly and so need no interval.
const COUNTS: [&str; 4] = ["anomalous_events", "corrupt_events", "once_violations", "mutants_killed"];

/// Judges every claim, in order.
///
/// # Errors
/// When a claim is malformed, as [`check_claims`] would say, or a printed value is no decimal.
pub fn judge(claims: &ClaimFile, metrics: &[Metric], device: &DeviceFacts) -> anyhow::Result<Vec<ClaimResult>> {
    check_claims(claims)?;
    claims.claim.iter().map(|claim| judge_claim(claim, metrics, device)).collect()
}

/// Refuses claims that could not be judged: a threshold that is no decimal, a unit that is not the metric's, an unknown
/// placeholder, no terms, or an id used twice.
///
/// # Errors
/// When a claim is malformed; the message names the claim and the term.
pub fn check_claims(claims: &ClaimFile) -> anyhow::Result<()> {
    let mut ids = BTreeSet::new();
    for claim in &claims.claim {
        if !ids.insert(&claim.id) {
            return Err(malformed(claim, "its id is used twice"));
        }
        if claim.term.is_empty() {
            return Err(malformed(claim, "it has no terms"));
        }
        for term in &claim.term {
            check_term(term).map_err(|e| malformed(claim, &format!("term {:?}: {e:#}", term.name)))?;
        }
    }
    Ok(())
}

fn malformed(claim: &Claim, what: &str) -> anyhow::Error {
    let remedy = "correct claims.toml; a published claim never changes, a new threshold is a new claim";
    fail(ExitCode::Config, format!("claim {}: {what}", claim.id), remedy)
}

fn check_term(term: &Term) -> anyhow::Result<()> {
    term.threshold.parse::<Decimal>().context("threshold")?;
    for metric in std::iter::once(&term.value).chain(&term.over) {
        // No device is known yet, so any slot name may be valid.
        resolve_by(&metric.cell, 1, |_| Some(1))?;
    }
    let unit = unit_of(&term.value.metric);
    match &term.over {
        None => {
            anyhow::ensure!(unit == term.unit, "the unit of {} is {unit:?}, not {:?}", term.value.metric, term.unit)
        }
        Some(over) => {
            anyhow::ensure!(unit == unit_of(&over.metric), "a ratio of {} and {}", term.value.metric, over.metric);
            anyhow::ensure!(term.unit == "1", "the unit of a ratio is \"1\", not {:?}", term.unit);
        }
    }
    Ok(())
}

/// The unit that ends a metric's name, its quantile left aside.
fn unit_of(metric: &str) -> &'static str {
    let word = metric.rsplit('_').find(|word| !matches!(*word, "p50" | "p99" | "p999" | "max"));
    match word {
        Some("us") => "us",
        Some("ms") => "ms",
        Some("ns") => "ns",
        Some("mhz") => "MHz",
        Some("pct") => "%",
        Some("tops") => "TOPS",
        _ => "1",
    }
}

/// The cell's name on this device: `{sms}` is its number of SMs, `{NAME_full}` that times the slot `NAME_per_sm`.
pub(crate) fn resolve(cell: &str, slots: &Slots) -> anyhow::Result<String> {
    let slot = |stem: &str| Some(slots.per_sm(&format!("{stem}_per_sm"))).filter(|per_sm| *per_sm > 0);
    resolve_by(cell, slots.sms(), slot)
}

fn resolve_by(cell: &str, sms: u32, slot: impl Fn(&str) -> Option<u32>) -> anyhow::Result<String> {
    let (mut name, mut rest) = (String::new(), cell);
    while let Some((before, after)) = rest.split_once('{') {
        let (word, after) = after.split_once('}').with_context(|| format!("cell {cell:?} has an open brace"))?;
        let per_sm = if word == "sms" { Some(1) } else { word.strip_suffix("_full").and_then(&slot) };
        let per_sm = per_sm.with_context(|| format!("cell {cell:?} holds an unknown placeholder {word:?}"))?;
        let _ = write!(name, "{before}{}", sms * per_sm);
        rest = after;
    }
    anyhow::ensure!(!rest.contains('}'), "cell {cell:?} has an extra closing brace");
    Ok(name + rest)
}

fn judge_claim(claim: &Claim, metrics: &[Metric], device: &DeviceFacts) -> anyhow::Result<ClaimResult> {
    if claim.compute_capability != device.compute_capability {
        let (wanted, found) = (&claim.compute_capability, &device.compute_capability);
        let why = format!("it is about compute capability {wanted}, and this device has {found}");
        return Ok(result(claim, Outcome::Inconclusive, &claim.term[0], String::new(), why));
    }
    let judged: Vec<Judged> = claim
        .term
        .iter()
        .map(|term| judge_term(term, metrics, &device.slots).with_context(|| format!("claim {}", claim.id)))
        .collect::<anyhow::Result<_>>()?;
    // One violated term falsifies a claim, whatever the others say; a missing one leaves it open.
    let order = [State::Violated, State::Missing, State::Undecided];
    let decisive = order.iter().find_map(|state| judged.iter().position(|j| j.state == *state));
    let decisive = decisive.unwrap_or_else(|| tightest(&judged));
    let outcome = match judged[decisive].state {
        State::Holds => Outcome::Confirmed,
        State::Violated => Outcome::Falsified,
        State::Undecided | State::Missing => Outcome::Inconclusive,
    };
    let Judged { value, why, .. } = judged[decisive].clone();
    Ok(result(claim, outcome, &claim.term[decisive], value, why))
}

fn result(claim: &Claim, outcome: Outcome, term: &Term, value: String, why: String) -> ClaimResult {
    let threshold = format!("{} {}", comparison(term.comparator).0, term.threshold);
    let why = format!("{}: {why}", term.name);
    ClaimResult { id: claim.id.clone(), outcome, value, unit: term.unit.clone(), threshold, why }
}

/// How a comparison is written, and whether it holds for the order of its two sides.
fn comparison(comparator: Comparator) -> (&'static str, fn(Ordering) -> bool) {
    match comparator {
        Comparator::AtMost => ("<=", Ordering::is_le),
        Comparator::Less => ("<", Ordering::is_lt),
        Comparator::AtLeast => (">=", Ordering::is_ge),
        Comparator::Greater => (">", Ordering::is_gt),
    }
}

/// The position of the term with the least room to its threshold: what a CONFIRMED claim rests on most.
fn tightest(judged: &[Judged]) -> usize {
    (0..judged.len()).min_by(|a, b| judged[*a].room.total_cmp(&judged[*b].room)).unwrap_or(0)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Holds,
    Violated,
    Undecided,
    Missing,
}

#[derive(Clone, Debug)]
struct Judged {
    state: State,
    value: String,
    why: String,
    /// Distance of the nearer end of the interval to the threshold, relative to it; only for choosing what to show.
    room: f64,
}

impl Judged {
    fn new(state: State, value: String, why: String) -> Self {
        Self { state, value, why, room: 0.0 }
    }
}

fn judge_term(term: &Term, metrics: &[Metric], slots: &Slots) -> anyhow::Result<Judged> {
    let value = match find(&term.value, metrics, slots)? {
        Ok(range) => range,
        Err(why) => return Ok(Judged::new(State::Missing, String::new(), why)),
    };
    let over = match term.over.as_ref().map(|over| find(over, metrics, slots)).transpose()? {
        None => Range::ONE,
        Some(Ok(range)) => range,
        Some(Err(why)) => return Ok(Judged::new(State::Missing, String::new(), why)),
    };
    let threshold: Decimal = term.threshold.parse()?;
    Ok(compare(&value, &over, term.comparator, threshold))
}

/// A value with the ends of its interval.
#[derive(Clone, Copy, Debug)]
struct Range {
    value: Decimal,
    /// Absent where the metric has no interval.
    ends: Option<(Decimal, Decimal)>,
}

impl Range {
    const ONE: Self = Self { value: Decimal::ONE, ends: Some((Decimal::ONE, Decimal::ONE)) };
}

/// The metric's range, or why there is none.
fn find(wanted: &MetricRef, metrics: &[Metric], slots: &Slots) -> anyhow::Result<Result<Range, String>> {
    let cell = resolve(&wanted.cell, slots)?;
    let phase = &wanted.phase;
    let of_cell = |m: &&Metric| m.phase == *phase && m.cell == cell;
    if !metrics.iter().any(|m| of_cell(&m)) {
        return Ok(Err(format!("cell {phase}/{cell} is missing")));
    }
    let Some(metric) = metrics.iter().find(|m| of_cell(m) && m.metric == wanted.metric) else {
        return Ok(Err(format!("cell {phase}/{cell} has no {}", wanted.metric)));
    };
    let place = format!("{phase}/{cell} {}", wanted.metric);
    if metric.refused() {
        return Ok(Err(format!("{place} was {}", metric.note)));
    }
    if metric.note.contains(Metric::REFERENCE_SLOWER) {
        return Ok(Err(format!(
            "{place} is {} to {} {}: {}",
            metric.lo,
            metric.hi,
            metric.unit,
            Metric::REFERENCE_SLOWER
        )));
    }
    let parse = |text: &str| text.parse::<Decimal>().with_context(|| place.clone());
    let value = parse(&metric.value)?;
    let ends = if COUNTS.contains(&wanted.metric.as_str()) {
        Some((value, value))
    } else if metric.lo.is_empty() || metric.hi.is_empty() {
        None
    } else {
        Some((parse(&metric.lo)?, parse(&metric.hi)?))
    };
    Ok(Ok(Range { value, ends }))
}

/// Whether value ÷ over compares with the threshold all over both intervals. `value - threshold × over` is linear in
/// either, so its extremes lie at the intervals' ends, and no division is needed.
fn compare(value: &Range, over: &Range, comparator: Comparator, threshold: Decimal) -> Judged {
    let zero = Decimal::ZERO;
    let shown = if over.value > zero { shown(value.value, over.value) } else { String::new() };
    let undecided = |why: &str| Judged::new(State::Undecided, shown.clone(), why.to_owned());
    let Some((ends, over_ends)) = value.ends.zip(over.ends).filter(|_| over.value > zero) else {
        return undecided("there is no interval to judge by");
    };
    if over_ends.0 <= zero {
        return undecided("the interval of the denominator reaches zero");
    }
    let (lo, hi) = (ends.0.over(over_ends.1), ends.1.over(over_ends.0));
    let (symbol, holds) = comparison(comparator);
    let holds = |value: Decimal, over: Decimal| holds(value.times(Decimal::ONE).cmp(&threshold.times(over)));
    let corners = [ends.0, ends.1].map(|v| [over_ends.0, over_ends.1].map(|o| holds(v, o)));
    let corners = corners.concat();
    let (state, verb) = if corners.iter().all(|holds| *holds) {
        (State::Holds, "holds")
    } else if corners.iter().all(|holds| !*holds) {
        (State::Violated, "violates")
    } else {
        (State::Undecided, "straddles")
    };
    let why = format!("95 % interval {} to {} {verb} {symbol} {threshold}", print(lo, 3), print(hi, 3));
    let limit = threshold.to_f64();
    let room = ((lo - limit).abs()).min((hi - limit).abs()) / limit.abs().max(f64::MIN_POSITIVE);
    Judged { state, value: shown, why, room }
}

fn shown(value: Decimal, over: Decimal) -> String {
    if over == Decimal::ONE { value.to_string() } else { print(value.over(over), 3) }
}

#[cfg(test)]
mod tests;
