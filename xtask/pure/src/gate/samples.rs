//! Gate `samples`: every planned cell is there, whole, with enough unique events behind each quantile.
//!
//! The floors are the schema's; a plan can only ask for more.

use super::evidence::{CellEvidence, Evidence};
use super::rule::Rule;
use super::table::{u32s, warmup, working_cells};
use super::timeline::timer_slack_ns;
use crate::clock_class::launch_clocks;
use crate::states::two_states;
use schema::plan::{
    CLOCK_REDRAW_PCT, CLOCK_REDRAW_SHARE, CLOCK_REDRAWS, Cell, MIN_EVENTS_P99, MIN_EVENTS_P999, MIN_LAUNCHES, Phase,
    Work,
};
use schema::table::{Column, Table};
use schema::verdict::GateResult;
use std::collections::{BTreeMap, BTreeSet};

const MORE: &str = "measure the full profile: cargo xtask reproduce --profile full";
const AGAIN: &str = "measure again: cargo xtask run --fresh";

/// At most one baseline launch in this many is discarded after the warm-up, or [`REDRAWS`] of few.
const REDRAW_SHARE: u64 = 10;
/// See [`REDRAW_SHARE`].
const REDRAWS: u64 = 20;
/// So many launches of a cell with events may be discarded since their queue ran dry: each time it is made twice as long.
const DRY_LAUNCHES: u64 = 5;
/// The harness compares with the windows so far, we with all launches that a run kept: the medians lie no further apart, in
/// per cent.
const MEDIANS_APART_PCT: f64 = 0.1;
/// A launch off the clock takes its whole ABBA quad with it.
const QUAD: u64 = 4;

/// The unique samples of a cell, and the launches they came from.
#[derive(Clone, Copy, Debug, Default)]
struct Samples {
    rows: u64,
    unique: u64,
    launches: u64,
    /// Launches discarded since their clock was off.
    off_clock: u64,
}

pub(super) fn judge(evidence: &Evidence) -> GateResult {
    let mut rule = Rule::new("samples");
    let planned = evidence.plan.cells(&evidence.environment.device.slots);
    judge_grid(&mut rule, evidence, &planned);
    let (mut reasons, mut counted) = (Vec::new(), BTreeMap::new());
    let median = run_median_khz(evidence);
    for cell in &evidence.cells {
        let name = cell.name();
        let Some(plan) = planned.iter().find(|p| p.phase == cell.data.record.phase && p.name == cell.data.record.cell)
        else {
            continue;
        };
        match count(cell, median) {
            Err(error) => reasons.push(format!("{name}: {error}")),
            Ok(samples) => {
                let found = judge_cell(evidence, cell, plan, samples);
                reasons.extend(found.into_iter().map(|reason| format!("{name}: {reason}")));
                counted.insert(name, samples);
            }
        }
    }
    let smallest = |phase: &str| {
        counted
            .iter()
            .filter(|(name, _)| name.starts_with(phase) && !name.contains("/cost,"))
            .map(|(_, s)| s.unique)
            .min()
    };
    rule.count("fewest_baseline_events", smallest("baseline/"));
    rule.count("fewest_yield_events", smallest("yield/"));
    rule.count(
        "discarded_launches",
        evidence.cells.iter().map(|cell| u64::from(cell.data.record.warmup_launches)).sum::<u64>(),
    );
    rule.count("off_clock_launches", counted.values().map(|s| s.off_clock).sum::<u64>());
    rule.count("unique_samples", counted.values().map(|s| s.unique).sum::<u64>());
    rule.refuse_all(reasons, MORE);
    judge_states(&mut rule, evidence);
    judge_anomalies(&mut rule, evidence);
    judge_quantiles(&mut rule, evidence, &counted);
    rule.done()
}

fn judge_grid(rule: &mut Rule, evidence: &Evidence, planned: &[Cell]) {
    let names = |cells: &[Cell]| -> BTreeSet<String> {
        cells.iter().map(|cell| format!("{}/{}", cell.phase.name(), cell.name)).collect()
    };
    let planned = names(planned);
    let recorded: BTreeSet<String> = evidence.cells.iter().map(CellEvidence::name).collect();
    rule.count("cells_planned", planned.len());
    rule.must_count("cells_recorded", recorded.len() as u64, AGAIN);
    rule.refuse_all(
        planned.difference(&recorded).map(|cell| format!("cell {cell} was planned and is not there")).collect(),
        AGAIN,
    );
    rule.refuse_all(recorded.difference(&planned).map(|cell| format!("cell {cell} was not planned")).collect(), AGAIN);
    let faults = |cell: &CellEvidence| cell.faults.iter().map(|f| format!("{}: {f}", cell.name())).collect::<Vec<_>>();
    rule.refuse_all(evidence.cells.iter().flat_map(faults).collect(), AGAIN);
    let foreign = evidence.cells.iter().filter(|cell| {
        cell.data.record.plan != evidence.plan_digest || cell.data.record.device != evidence.environment.device.id
    });
    rule.refuse_all(
        foreign.map(|cell| format!("{}: measured with another plan or device", cell.name())).collect(),
        AGAIN,
    );
}

/// What makes a row of the event table unique.
fn key_columns(cell: &CellEvidence) -> &'static [&'static str] {
    match cell.data.record.phase {
        Phase::Calibrate => &["launch", "block", "tile"],
        Phase::Baseline => &["launch"],
        Phase::Instrument if cell.data.record.cell == "timer" => &["sm"],
        Phase::Yield if cell.data.record.cell.starts_with("cost,") => &["launch", "quad", "position"],
        Phase::Instrument | Phase::Yield => &["launch", "event"],
    }
}

fn count(cell: &CellEvidence, median: f64) -> Result<Samples, String> {
    let columns =
        key_columns(cell).iter().map(|column| u32s(&cell.data.events, column)).collect::<Result<Vec<_>, String>>()?;
    let warm = cell.data.launches.as_ref().map(warmup).transpose()?.unwrap_or_default();
    let by_launch = key_columns(cell)[0] == "launch";
    let kept = (0..cell.data.events.rows()).filter(|row| !by_launch || !warm.contains(&columns[0][*row]));
    let keys: Vec<[u32; 3]> =
        kept.map(|row| std::array::from_fn(|i| columns.get(i).map_or(0, |column| column[row]))).collect();
    let rows = keys.len() as u64;
    let unique: BTreeSet<[u32; 3]> = keys.into_iter().collect();
    let launches: BTreeSet<u32> = unique.iter().map(|key| key[0]).collect();
    let off_clock = off_clock(cell, median).unwrap_or(0);
    Ok(Samples { rows, unique: unique.len() as u64, launches: launches.len() as u64, off_clock })
}

fn judge_cell(evidence: &Evidence, cell: &CellEvidence, plan: &Cell, samples: Samples) -> Vec<String> {
    let mut reasons = Vec::new();
    if samples.unique != samples.rows {
        reasons.push(format!("{} duplicate events", samples.rows - samples.unique));
    }
    if cell.data.record.events != cell.data.events.rows() as u64 {
        reasons.push(format!(
            "its header counts {} events and {} are there",
            cell.data.record.events,
            cell.data.events.rows()
        ));
    }
    let profile = &evidence.plan.profile;
    reasons.extend(warmup_fault(cell, evidence, plan, samples.off_clock));
    let (events, launches) = match plan.work {
        Work::Baseline { .. } => (Some(profile.baseline.events), profile.baseline.events),
        Work::Yield { .. } => (Some(profile.yields.events), profile.yields.launches),
        Work::Cost { .. } => (Some(4 * profile.yields.cost_quads), 4 * profile.yields.cost_quads),
        Work::Calibrate { .. } => (None, profile.calibrate.launches),
        Work::Timer | Work::Delay(_) => return reasons,
    };
    if let Some(events) = events.filter(|events| u64::from(*events) > samples.unique) {
        reasons.push(format!("{} unique events of {events} planned", samples.unique));
    }
    if samples.launches < u64::from(launches) {
        reasons.push(format!("{} launches of {launches} planned", samples.launches));
    }
    let enough = samples.unique >= MIN_EVENTS_P99 && samples.launches >= MIN_LAUNCHES;
    if matches!(plan.work, Work::Baseline { .. } | Work::Yield { .. }) && !enough {
        let Samples { unique, launches, .. } = samples;
        let needed = format!("at least {MIN_EVENTS_P99} over {MIN_LAUNCHES} are needed");
        reasons.push(format!("{unique} unique events over {launches} launches, and {needed}"));
    }
    reasons
}

/// Median of the median windows of all launches kept, in kHz; zero without any.
fn run_median_khz(evidence: &Evidence) -> f64 {
    let launches =
        working_cells(evidence).filter_map(|cell| launch_clocks(cell.data.launches.as_ref()?).ok()).flatten();
    let mut khz: Vec<u32> = launches.filter(|launch| launch.windows > 0).map(|launch| launch.khz_p50).collect();
    khz.sort_unstable();
    khz.get(khz.len().saturating_sub(1) / 2).map_or(0.0, |khz| f64::from(*khz))
}

/// Launches discarded after the first one kept because a window left the run's median; absent without such columns.
fn off_clock(cell: &CellEvidence, median: f64) -> Option<u64> {
    let launches = cell.data.launches.as_ref()?;
    let column = |name: &str| launches.u32(name).ok();
    let (warm, windows) = (column("warmup")?, column("clock_windows")?);
    let (min, max) = (column("clock_khz_min")?, column("clock_khz_max")?);
    let far = |khz: u32| (f64::from(khz) - median).abs() > median * ((CLOCK_REDRAW_PCT - MEDIANS_APART_PCT) / 100.0);
    let late = (0..launches.rows()).skip_while(|row| warm[*row] != 0);
    Some(late.filter(|row| warm[*row] != 0 && windows[*row] > 0 && (far(min[*row]) || far(max[*row]))).count() as u64)
}

/// The rule: the first launches are discarded, as many as planned. Besides them only launches that met no event may be (a
/// baseline arrival that missed its drain, or a queue that ran dry) and launches off the clock, and few of both. Elsewhere
/// nothing is, once one is kept.
fn warmup_fault(cell: &CellEvidence, evidence: &Evidence, plan: &Cell, off: u64) -> Option<String> {
    let flags = cell.data.launches.as_ref().and_then(|launches| launches.u32("warmup").ok())?;
    let leading = flags.iter().take_while(|flag| **flag != 0).count() as u64;
    let all = flags.iter().filter(|flag| **flag != 0).count() as u64;
    let profile = &evidence.plan.profile;
    let (planned, most) = match plan.work {
        Work::Baseline { .. } => {
            (u64::from(profile.baseline.warmup_launches), (flags.len() as u64 / REDRAW_SHARE).max(REDRAWS))
        }
        Work::Yield { .. } => (u64::from(profile.yields.warmup_launches), DRY_LAUNCHES),
        Work::Delay(_) => (leading, DRY_LAUNCHES),
        Work::Cost { .. } | Work::Calibrate { .. } | Work::Timer => (leading, 0),
    };
    let most_off = u64::from((flags.len() as u32 / CLOCK_REDRAW_SHARE).max(CLOCK_REDRAWS));
    let explained = if matches!(plan.work, Work::Cost { .. }) { off * QUAD } else { off };
    let few = off <= most_off && all.saturating_sub(planned) <= most + explained;
    let by_rule = leading >= planned && few && all == u64::from(cell.data.record.warmup_launches);
    (!by_rule).then(|| format!("{all} launches discarded as warm-up, {leading} of them leading, {planned} planned"))
}

/// No number over drains that fell into two states: a grid that now settles in one placement and now in another.
fn judge_states(rule: &mut Rule, evidence: &Evidence) {
    let mut reasons = Vec::new();
    for cell in &evidence.cells {
        for (arm, drains) in drains(cell) {
            if let Some(found) = two_states(drains) {
                reasons.push(format!(
                    "{}: its drains{arm} fall into two states, {} round {} ns and {} round {} ns",
                    cell.name(),
                    found.lower,
                    found.lower_p50,
                    found.upper,
                    found.upper_p50
                ));
            }
        }
    }
    rule.refuse_all(reasons, "plan another number of blocks: no number stands for both states of this grid");
}

/// The drains of a cell that measures any, each arm by itself; launches that do not count are left out.
fn drains(cell: &CellEvidence) -> Vec<(String, Vec<u64>)> {
    let events = &cell.data.events;
    let warm = cell.data.launches.as_ref().and_then(|launches| warmup(launches).ok()).unwrap_or_default();
    let Ok(launch) = events.u32("launch") else { return Vec::new() };
    let kept = launch.iter().enumerate().filter(|(_, launch)| !warm.contains(launch)).map(|(row, _)| row);
    if let Ok(whole) = events.i64("device_drain_ns") {
        return vec![(String::new(), kept.map(|row| whole[row].unsigned_abs()).collect())];
    }
    let (Ok(arm), Ok(wall)) = (events.u32("arm"), events.u32("wall_ns")) else { return Vec::new() };
    let mut arms: BTreeMap<u32, Vec<u64>> = BTreeMap::new();
    for row in kept {
        arms.entry(arm[row]).or_default().push(u64::from(wall[row]));
    }
    arms.into_iter().map(|(arm, drains)| (format!(" in arm {arm}"), drains)).collect()
}

/// Anomalies as recorded, and negative intervals as found here.
fn judge_anomalies(rule: &mut Rule, evidence: &Evidence) {
    let slack = timer_slack_ns(evidence);
    let (mut flagged, mut reasons) = (0, Vec::new());
    for cell in &evidence.cells {
        let bad = cell.data.events.u32("anomaly").map_or(0, |bits| bits.iter().filter(|bits| **bits != 0).count());
        flagged += bad;
        if bad > 0 {
            reasons.push(format!("{}: {bad} anomalous events", cell.name()));
        }
        let negative = negative_intervals(cell, slack);
        if negative > 0 {
            reasons.push(format!("{}: {negative} events with a negative interval", cell.name()));
        }
    }
    rule.count("anomalous_events", flagged);
    rule.refuse_all(reasons, AGAIN);
}

/// Legs of a timeline with both ends on one clock, or on clocks of one device.
const LEGS: [(&str, &str); 9] = [
    ("first_observer_ns", "last_observer_ns"),
    ("last_observer_ns", "last_ready_ns"),
    ("claimer_observed_ns", "claimer_ready_ns"),
    ("claimer_ready_ns", "urgent_start_ns"),
    ("urgent_start_ns", "urgent_done_ns"),
    ("host_issue_ns", "host_done_ns"),
    ("issue_ns", "start_ns"),
    ("start_ns", "done_ns"),
    ("device_start_ns", "device_done_ns"),
];

/// Events of which a leg ends before it begins, or that were observed before they were set.
fn negative_intervals(cell: &CellEvidence, slack: i64) -> usize {
    let events = &cell.data.events;
    let legs = LEGS.into_iter().filter_map(|(from, to)| Some((instants(events, from)?, instants(events, to)?)));
    let set = vec![Some(0); events.rows()];
    let first = instants(events, "first_observer_ns").map(|first| (set, first));
    let legs: Vec<_> = legs.chain(first).collect();
    let ends_early =
        |from: Option<i64>, to: Option<i64>| from.zip(to).is_some_and(|(from, to)| to < from.saturating_sub(slack));
    (0..events.rows()).filter(|row| legs.iter().any(|(from, to)| ends_early(from[*row], to[*row]))).count()
}

/// A column of instants, whatever its width; absent where the table has none of this name.
fn instants(table: &Table, name: &str) -> Option<Vec<Option<i64>>> {
    match &table.columns.iter().find(|(n, _)| n == name)?.1 {
        Column::U32(values) => Some(values.iter().map(|value| Some(i64::from(*value))).collect()),
        Column::I64(values) => Some(values.iter().map(|value| Some(*value)).collect()),
        Column::OptI64(values) => Some(values.clone()),
        Column::OptU32(_) | Column::F64(_) => None,
    }
}

/// No tail quantile in the summary without its floor behind it.
fn judge_quantiles(rule: &mut Rule, evidence: &Evidence, counted: &BTreeMap<String, Samples>) {
    let (mut tails, mut reasons) = (0_u64, Vec::new());
    for metric in &evidence.recomputed.metrics {
        let floor = match &metric.metric {
            name if name.ends_with("_p999") => MIN_EVENTS_P999,
            name if name.ends_with("_p99") => MIN_EVENTS_P99,
            _ => continue,
        };
        if metric.value.is_empty() {
            continue;
        }
        tails += 1;
        let cell = format!("{}/{}", metric.phase, metric.cell);
        let samples = counted.get(&cell).copied().unwrap_or_default();
        if samples.unique.min(metric.n) < floor || samples.launches < MIN_LAUNCHES {
            let n = samples.unique.min(metric.n);
            reasons.push(format!("{cell} {}: {n} unique events over {} launches", metric.metric, samples.launches));
        }
    }
    rule.count("tail_quantiles", tails);
    rule.refuse_all(reasons, MORE);
}
