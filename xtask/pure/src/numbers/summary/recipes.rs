//! One function for each recipe, from the events of a cell that count to rows. What a recipe means is documented in
//! the contract's definition.

use super::kept::Kept;
use super::rows::{Drawing, Rows};
use super::{CellData, find};
use crate::numbers::off_clock::OffClock;
use crate::numbers::stats::{Estimate, P25, P50, P75, QuadLaunch, Resamples, abba_cost, quantile};
use anyhow::{Context, bail, ensure};
use schema::compare::Band;
use schema::contract::{CellSpec, Contract, Expr, Only, Recipe, TableSpec};
use schema::metrics::Metric;
use schema::timer::delayed_event;
use tables::{Column, Table};

/// Events of one launch that are drawn as a whole where there is no other launch to draw.
const EVENTS_TOGETHER: u32 = 8;

/// Samples with the launch, or quad, that is drawn as a whole.
type Samples = Vec<(u32, i64)>;

/// A cell's events, and which of them count.
pub(super) struct Source<'a> {
    pub(super) contract: &'a Contract,
    pub(super) cells: &'a [CellData],
    pub(super) cell: &'a CellSpec,
    pub(super) table: &'a TableSpec,
    pub(super) data: &'a CellData,
    pub(super) kept: &'a Kept,
    /// Launches that every number is computed without; none, in the summary that is published.
    pub(super) without: &'a OffClock,
}

/// Adds the rows of a recipe.
///
/// # Errors
/// When a column, a fact or a launch is not there, or the events contradict what was planted.
pub(super) fn add(source: &Source<'_>, recipe: &Recipe, rows: &mut Rows<'_>) -> anyhow::Result<()> {
    match recipe {
        Recipe::Quantiles { stem, unit, of, quantiles, by, only } => {
            let (samples, absent) = source.samples(of, by, only.as_ref())?;
            rows.quantiles(stem, *unit, &samples, quantiles);
            if absent > 0 {
                let stem = format!("{stem}_{}_", unit.name());
                rows.annotate(&stem, &format!("absent in {absent} of {} events", samples.len() + absent));
            }
            Ok(())
        }
        Recipe::Abba { name, quad, position, arm, wall, against } => {
            let events = &source.data.events;
            let [quad, position, arm] = [quad, position, arm].map(|name| events.u32(name));
            let (quad, position, arm, wall) = (quad?, position?, arm?, events.u32(wall)?);
            let launch = |i: usize| QuadLaunch { quad: quad[i], position: position[i], arm: arm[i], wall_ns: wall[i] };
            let launches: Vec<QuadLaunch> = source.sound()?.0.into_iter().map(launch).collect();
            let said = against.as_ref().and_then(|(fact, words)| Some((source.data.record.facts.whole(fact)?, words)));
            let note = said.map_or_else(String::new, |(n, words)| format!("against {n} {words}"));
            if let Some(cost) = abba_cost(&rows.seed(), &launches)? {
                let below_zero = cost.interval.is_some_and(|(_, hi)| hi < 0.0);
                // A cost is near zero, so a share of it means nothing.
                rows.real(name, "%", cost, Band { pct: 0.0, least: 0.5 }, &note);
                if below_zero {
                    rows.annotate(name, Metric::REFERENCE_SLOWER);
                }
            }
            Ok(())
        }
        Recipe::Rate { name, work, of, by, only, peak } => {
            rate(source, name, work, (of, by, only.as_ref()), peak, rows)
        }
        Recipe::Ratio { over, over_of, of } => ratio(source, over, over_of, of, rows),
        Recipe::PlantedDelay { column, number, spent, planted_ns, of, .. } => {
            planted_delay(source, (column, *number, spent, *planted_ns), of, rows)
        }
        Recipe::Correlation { name, a, b } => {
            let ((a, _), (b, _)) = (source.samples(a, "launch", None)?, source.samples(b, "launch", None)?);
            let pairs =
                a.iter().zip(&b).map(|((launch, a), (_, b))| (*launch, *a as f64, *b as f64)).collect::<Vec<_>>();
            let resamples = Resamples::new(&rows.seed(), pairs.iter().map(|(launch, ..)| *launch));
            if let Some(correlation) = resamples.correlation(&pairs) {
                rows.real(name, "1", correlation, Band { pct: 0.0, least: 0.1 }, "");
            }
            Ok(())
        }
        Recipe::Anomalies => {
            let (sound, anomalous) = source.sound()?;
            rows.count("anomalous_events", anomalous, sound.len() as u64 + anomalous, Drawing::Chance);
            Ok(())
        }
        Recipe::Fact { name, fact } => {
            if let Some(value) = source.data.record.facts.whole(fact) {
                rows.reading(name, i64::try_from(value)?, 1, Band { pct: 0.0, least: 0.0 }, "");
            }
            Ok(())
        }
        Recipe::Largest { name, column, note } => {
            let largest = |column: &str| -> anyhow::Result<Option<i64>> {
                Ok(numbers(&source.data.events, column)?.into_iter().flatten().map(i64::abs).max())
            };
            if let Some(value) = largest(column)? {
                let note = format!("{} {} ns", note.1, largest(&note.0)?.unwrap_or_default());
                // The largest of single readings, known to four steps of a 32 ns timer.
                rows.reading(name, value, source.data.events.rows() as u64, Band { pct: 0.0, least: 128.0 }, &note);
            }
            Ok(())
        }
    }
}

impl Source<'_> {
    /// The rows that count and have no anomaly, and how many had one.
    fn sound(&self) -> anyhow::Result<(Vec<usize>, u64)> {
        self.kept.sound_rows(&self.data.events, self.table)
    }

    /// A number of each event that counts, with what is drawn as a whole, and how many events have no such number.
    pub(super) fn samples(&self, of: &Expr, by: &str, only: Option<&Only>) -> anyhow::Result<(Samples, usize)> {
        let events = &self.data.events;
        let (values, by) = (evaluate(events, of)?, events.u32(by)?);
        let only = only.map(|only| Ok::<_, anyhow::Error>((events.u32(&only.column)?, only.is))).transpose()?;
        let (mut samples, mut absent) = (Vec::new(), 0);
        for i in self.sound()?.0 {
            if only.is_some_and(|(column, is)| column[i] != is) {
                continue;
            }
            match values[i] {
                Some(value) => samples.push((by[i], value)),
                None => absent += 1,
            }
        }
        Ok((samples, absent))
    }
}

/// A rate: work over the median of a duration, in 10^12 a second, or that as a share of a peak. Absent where a fact is.
fn rate(
    source: &Source<'_>,
    name: &str,
    work: &[String],
    (of, by, only): (&Expr, &str, Option<&Only>),
    peak: &Option<String>,
    rows: &mut Rows<'_>,
) -> anyhow::Result<()> {
    let facts = &source.data.record.facts;
    let Some(work) = work.iter().map(|fact| facts.number(fact)).product::<Option<f64>>() else { return Ok(()) };
    let (samples, _) = source.samples(of, by, only)?;
    let resamples = Resamples::new(&rows.seed(), samples.iter().map(|(unit, _)| *unit));
    let Some(wall) = resamples.quantiles(&samples, &[P50]).pop() else { return Ok(()) };
    if wall.value <= 0 || wall.draws.iter().any(|ns| *ns <= 0) {
        return Ok(());
    }
    let (unit, divisor, band) = match peak {
        None => ("1e12/s", 1.0, Band { pct: 5.0, least: 0.0 }),
        Some(fact) => match facts.number(fact).filter(|peak| *peak > 0.0) {
            Some(peak) => ("%", peak / 100.0, Band { pct: 0.0, least: 1.0 }),
            None => return Ok(()),
        },
    };
    let unit = if peak.is_none() && name.ends_with("_tops") { "TOPS" } else { unit };
    let of = |ns: i64| work / ns as f64 / 1e3 / divisor;
    let interval = wall.interval.map(|(lo, hi)| (of(hi), of(lo)));
    let draws = wall.draws.iter().map(|ns| of(*ns)).collect();
    rows.real(name, unit, Estimate { value: of(wall.value), interval, n: wall.n, draws }, band, "");
    Ok(())
}

/// Medians over the same end points, the other cell's over this one's. Its interval is the widest the two intervals allow.
fn ratio(source: &Source<'_>, over: &str, over_of: &Expr, of: &Expr, rows: &mut Rows<'_>) -> anyhow::Result<()> {
    let other = source.contract.cells.iter().find(|cell| cell.id() == over);
    let Some(slow) = other.and_then(|cell| find(source.cells, cell)) else { return Ok(()) };
    let other = other.context("the contract was checked")?;
    let table = source.contract.table(other).context("the contract was checked")?;
    let kept = Kept::new(slow, source.without.launches(over, None))?;
    let slow = Source { cell: other, table, data: slow, kept: &kept, ..*source };
    let slow = rows.estimate_of(over, &slow.samples(over_of, "launch", None)?.0);
    let fast = rows.estimate_of(&source.cell.id(), &source.samples(of, "launch", None)?.0);
    if let (Some(slow), Some(fast)) = (slow, fast) {
        rows.ratio(slow, fast, &format!("{over} over this cell"));
    }
    Ok(())
}

/// `leg_shift_ns`: by how much the median of the leg over events with the planted delay exceeds that over events without.
/// `leg_shift_error_ns`: that, less what was really spent. `leg_spread_ns`: the leg's interquartile range without a delay.
fn planted_delay(
    source: &Source<'_>,
    (column, number, spent, planted_ns): (&str, u32, &str, u32),
    of: &Expr,
    rows: &mut Rows<'_>,
) -> anyhow::Result<()> {
    let events = &source.data.events;
    let (launch, event, planted) = (events.u32("launch")?, events.u32("event")?, events.u32(column)?);
    let (spent, legs) = (numbers(events, spent)?, evaluate(events, of)?);
    let (mut plain, mut delayed): ((Samples, Vec<i64>), (Samples, Vec<i64>)) = Default::default();
    let counted = source.sound()?.0;
    let one_launch = counted.windows(2).all(|pair| launch[pair[0]] == launch[pair[1]]);
    let drawn_with = |i: usize| if one_launch { event[i] / EVENTS_TOGETHER } else { launch[i] };
    for i in counted {
        let due = if delayed_event(event[i]) { number } else { 0 };
        ensure!(planted[i] == due, "event {} of launch {} says leg {}, not {due}", event[i], launch[i], planted[i]);
        let Some((leg, spent)) = legs[i].zip(spent[i]) else { continue };
        let samples = if due == 0 { &mut plain } else { &mut delayed };
        samples.0.push((drawn_with(i), leg));
        samples.1.push(spent);
    }
    let units = plain.0.iter().chain(&delayed.0).map(|(unit, _)| *unit);
    let shift = Resamples::new(&rows.seed(), units).shift(&plain.0, &delayed.0);
    let spent = quantile(&delayed.1, P50).zip(quantile(&plain.1, P50)).map(|(delayed, plain)| delayed - plain);
    if let Some((shift, spent)) = shift.zip(spent) {
        let note = format!("planted {planted_ns} ns");
        rows.nanoseconds("leg_shift_ns", shift.clone(), Band { pct: 2.0, least: 400.0 }, &note);
        let note = format!("{note}, spent {spent} ns");
        rows.nanoseconds("leg_shift_error_ns", less(shift, spent), Band { pct: 0.0, least: 400.0 }, &note);
    }
    if let Some(spread) = spread(&rows.seed(), &plain.0) {
        rows.nanoseconds(
            "leg_spread_ns",
            spread,
            Band { pct: 25.0, least: 64.0 },
            "interquartile range without a delay",
        );
    }
    Ok(())
}

fn less(estimate: Estimate<i64>, by: i64) -> Estimate<i64> {
    let interval = estimate.interval.map(|(lo, hi)| (lo - by, hi - by));
    let draws = estimate.draws.into_iter().map(|drawn| drawn - by).collect();
    Estimate { value: estimate.value - by, interval, n: estimate.n, draws }
}

/// The interquartile range; a summary shows it without an interval, a comparison draws it.
fn spread(seed: &str, legs: &[(u32, i64)]) -> Option<Estimate<i64>> {
    let resamples = Resamples::new(seed, legs.iter().map(|(launch, _)| *launch));
    let [low, high] = <[Estimate<i64>; 2]>::try_from(resamples.quantiles(legs, &[P25, P75])).ok()?;
    let draws = high.draws.iter().zip(&low.draws).map(|(high, low)| high - low).collect();
    Some(Estimate { value: high.value - low.value, interval: None, n: low.n, draws })
}

/// A number of every event; absent where a column it is made of is.
///
/// # Errors
/// When the table has no such column of whole numbers.
pub fn evaluate(events: &Table, of: &Expr) -> anyhow::Result<Vec<Option<i64>>> {
    match of {
        Expr::Column(name) => numbers(events, name),
        Expr::Between(from, to) => {
            let (from, to) = (numbers(events, from)?, numbers(events, to)?);
            Ok(from.into_iter().zip(to).map(|(from, to)| Some(to? - from?)).collect())
        }
        Expr::Rest(from, to, part) => {
            let whole = evaluate(events, &Expr::Between(from.clone(), to.clone()))?;
            Ok(whole.into_iter().zip(numbers(events, part)?).map(|(whole, part)| Some(whole? - part?)).collect())
        }
    }
}

/// A column of whole numbers, whatever its width.
///
/// # Errors
/// When the table has none of this name.
pub fn numbers(table: &Table, name: &str) -> anyhow::Result<Vec<Option<i64>>> {
    let found = table.columns.iter().find(|(n, _)| n == name);
    match &found.with_context(|| format!("the table has no column {name:?}"))?.1 {
        Column::U32(values) => Ok(values.iter().map(|value| Some(i64::from(*value))).collect()),
        Column::I64(values) => Ok(values.iter().copied().map(Some).collect()),
        Column::OptI64(values) => Ok(values.clone()),
        Column::OptU32(_) | Column::F64(_) => {
            bail!("column {name:?} does not hold whole numbers of the kinds that events have")
        }
    }
}
