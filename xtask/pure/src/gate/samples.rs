//! Gate `samples`: every cell of the contract is there, whole, with enough unique events behind each quantile.
//!
//! The floors are the schema's; a plan and its contract can only ask for more.

use super::evidence::{CellEvidence, Evidence};
use super::rule::Rule;
use super::table::{u32s, warmup};
use crate::numbers::states::two_states;
use crate::numbers::summary::numbers;
use schema::cell::seed;
use schema::contract::{CellSpec, Check, TableSpec};
use schema::plan::{MIN_EVENTS_P99, MIN_EVENTS_P999, MIN_LAUNCHES};
use schema::verdict::GateResult;
use std::collections::{BTreeMap, BTreeSet};

const MORE: &str = "measure the full profile: cargo xtask reproduce --profile full";
const AGAIN: &str = "measure again: cargo xtask run --fresh";

/// The unique samples of a cell, and the launches they came from.
#[derive(Clone, Copy, Debug, Default)]
struct Samples {
    rows: u64,
    unique: u64,
    launches: u64,
}

pub(super) fn judge(evidence: &Evidence) -> GateResult {
    let mut rule = Rule::new("samples");
    judge_grid(&mut rule, evidence);
    let (mut reasons, mut counted, mut fewest) = (Vec::new(), BTreeMap::new(), BTreeMap::<&str, u64>::new());
    for cell in &evidence.cells {
        let Some(spec) = cell.spec(&evidence.contract) else { continue };
        let Some(table) = evidence.contract.table(spec) else { continue };
        match count(cell, table) {
            Err(error) => reasons.push(format!("{}: {error}", cell.name())),
            Ok(samples) => {
                let found = judge_cell(cell, spec, samples);
                reasons.extend(found.into_iter().map(|reason| format!("{}: {reason}", cell.name())));
                counted.insert(cell.name(), samples);
                if spec.expects.tails {
                    let least = fewest.entry(&spec.phase).or_insert(u64::MAX);
                    *least = samples.unique.min(*least);
                }
            }
        }
    }
    rule.count("fewest_events", fewest);
    rule.count(
        "discarded_launches",
        evidence.cells.iter().map(|cell| u64::from(cell.data.record.warmup_launches)).sum::<u64>(),
    );
    rule.count("unique_samples", counted.values().map(|s| s.unique).sum::<u64>());
    rule.refuse_all(reasons, MORE);
    judge_states(&mut rule, evidence);
    judge_anomalies(&mut rule, evidence);
    judge_quantiles(&mut rule, evidence, &counted);
    rule.done()
}

fn judge_grid(rule: &mut Rule, evidence: &Evidence) {
    let planned: BTreeSet<String> = evidence.contract.cells.iter().map(CellSpec::id).collect();
    let recorded: BTreeSet<String> = evidence.cells.iter().map(CellEvidence::name).collect();
    rule.must_count("cells_planned", planned.len() as u64, AGAIN);
    rule.must_count("cells_recorded", recorded.len() as u64, AGAIN);
    rule.require(
        evidence.contract.experiment == evidence.plan.experiment,
        "the contract is another experiment's than the plan",
        AGAIN,
    );
    let phases: BTreeSet<&str> = evidence.contract.cells.iter().map(|cell| cell.phase.as_str()).collect();
    let unmet = evidence.plan.phases.iter().filter(|phase| !phases.contains(phase.as_str()));
    rule.refuse_all(unmet.map(|phase| format!("the contract has no cell of phase {phase}")).collect(), AGAIN);
    rule.refuse_all(
        planned.difference(&recorded).map(|cell| format!("cell {cell} was planned and is not there")).collect(),
        AGAIN,
    );
    rule.refuse_all(recorded.difference(&planned).map(|cell| format!("cell {cell} was not planned")).collect(), AGAIN);
    let faults = |cell: &CellEvidence| cell.faults.iter().map(|f| format!("{}: {f}", cell.name())).collect::<Vec<_>>();
    rule.refuse_all(evidence.cells.iter().flat_map(faults).collect(), AGAIN);
    let run = &evidence.manifest.predicate.run;
    let chosen = evidence.cells.iter().filter(|cell| {
        let record = &cell.data.record;
        record.seed != seed(run, &record.phase, &record.cell)
    });
    rule.refuse_all(
        chosen
            .map(|cell| format!("{}: its schedule is not the one that follows from this run's id", cell.name()))
            .collect(),
        AGAIN,
    );
    let foreign = evidence.cells.iter().filter(|cell| {
        cell.data.record.plan != evidence.plan_digest || cell.data.record.device != evidence.environment.device.id
    });
    rule.refuse_all(
        foreign.map(|cell| format!("{}: measured with another plan or device", cell.name())).collect(),
        AGAIN,
    );
}

fn count(cell: &CellEvidence, table: &TableSpec) -> Result<Samples, String> {
    let columns = table.key.iter().map(|column| u32s(&cell.data.events, column)).collect::<Result<Vec<_>, String>>()?;
    let warm = cell.data.launches.as_ref().map(warmup).transpose()?.unwrap_or_default();
    let kept = (0..cell.data.events.rows()).filter(|row| !table.by_launch() || !warm.contains(&columns[0][*row]));
    let keys: Vec<[u32; 3]> =
        kept.map(|row| std::array::from_fn(|i| columns.get(i).map_or(0, |column| column[row]))).collect();
    let rows = keys.len() as u64;
    let unique: BTreeSet<[u32; 3]> = keys.into_iter().collect();
    let launches: BTreeSet<u32> = unique.iter().map(|key| key[0]).collect();
    Ok(Samples { rows, unique: unique.len() as u64, launches: launches.len() as u64 })
}

fn judge_cell(cell: &CellEvidence, spec: &CellSpec, samples: Samples) -> Vec<String> {
    let mut reasons = Vec::new();
    let Samples { rows, unique, launches } = samples;
    if unique != rows {
        reasons.push(format!("{} duplicate events", rows - unique));
    }
    let there = cell.data.events.rows();
    if cell.data.record.events != there as u64 {
        reasons.push(format!("its header counts {} events and {there} are there", cell.data.record.events));
    }
    reasons.extend(warmup_fault(cell, spec));
    if unique < spec.expects.events {
        reasons.push(format!("{unique} unique events of {} planned", spec.expects.events));
    }
    if launches < spec.expects.launches {
        reasons.push(format!("{launches} launches of {} planned", spec.expects.launches));
    }
    if spec.expects.tails && (unique < MIN_EVENTS_P99 || launches < MIN_LAUNCHES) {
        let needed = format!("at least {MIN_EVENTS_P99} over {MIN_LAUNCHES} are needed");
        reasons.push(format!("{unique} unique events over {launches} launches, and {needed}"));
    }
    reasons
}

/// As many launches are discarded first as the contract says, or as many as the cell did where it says none. Later only
/// launches that met no event may be discarded, where the contract lets them, and few.
fn warmup_fault(cell: &CellEvidence, spec: &CellSpec) -> Option<String> {
    let flags = cell.data.launches.as_ref().and_then(|launches| launches.u32("warmup").ok())?;
    let leading = flags.iter().take_while(|flag| **flag != 0).count() as u64;
    let all = flags.iter().filter(|flag| **flag != 0).count() as u64;
    let rule = &spec.expects.warmup;
    let planned = rule.leading.map_or(leading, u64::from);
    let few = all.saturating_sub(planned) <= rule.redraws.most(flags.len() as u64);
    let by_rule = leading >= planned && few && all == u64::from(cell.data.record.warmup_launches);
    (!by_rule).then(|| format!("{all} launches discarded as warm-up, {leading} of them leading, {planned} planned"))
}

/// No number over durations that fell into two states: a grid that now settles in one placement and now in another.
fn judge_states(rule: &mut Rule, evidence: &Evidence) {
    let (mut reasons, mut judged) = (Vec::new(), 0_u64);
    for cell in &evidence.cells {
        let checks = cell.spec(&evidence.contract).map(|spec| spec.checks.as_slice()).unwrap_or_default();
        for check in checks {
            let Check::OneState { column, by } = check else { continue };
            judged += 1;
            for (kind, durations) in durations(cell, column, by.as_deref()) {
                let Some(found) = two_states(durations) else { continue };
                reasons.push(format!(
                    "{}: its {column}{kind} falls into two states, {} round {} ns and {} round {} ns",
                    cell.name(),
                    found.lower,
                    found.lower_p50,
                    found.upper,
                    found.upper_p50
                ));
            }
        }
    }
    rule.count("states_judged", judged);
    rule.refuse_all(reasons, "plan another number of blocks: no number stands for both states of this grid");
}

/// A duration of each event whose launch counts, by kind where a column names one.
fn durations(cell: &CellEvidence, column: &str, by: Option<&str>) -> Vec<(String, Vec<u64>)> {
    let events = &cell.data.events;
    let warm = cell.data.launches.as_ref().and_then(|launches| warmup(launches).ok()).unwrap_or_default();
    let (Ok(launch), Ok(values)) = (events.u32("launch"), numbers(events, column)) else { return Vec::new() };
    let kinds = by.and_then(|by| events.u32(by).ok());
    let mut found: BTreeMap<u32, Vec<u64>> = BTreeMap::new();
    for row in (0..events.rows()).filter(|row| !warm.contains(&launch[*row])) {
        let kind = kinds.map_or(0, |kinds| kinds[row]);
        found.entry(kind).or_default().extend(values[row].map(i64::unsigned_abs));
    }
    let named = |kind: u32| by.map_or_else(String::new, |by| format!(" in {by} {kind}"));
    found.into_iter().map(|(kind, durations)| (named(kind), durations)).collect()
}

/// Anomalies as the harness recorded them.
fn judge_anomalies(rule: &mut Rule, evidence: &Evidence) {
    let (mut flagged, mut reasons) = (0, Vec::new());
    for cell in &evidence.cells {
        let spec = cell.spec(&evidence.contract).and_then(|spec| evidence.contract.table(spec));
        let Some(column) = spec.and_then(TableSpec::anomaly) else { continue };
        let bad = cell.data.events.u32(column).map_or(0, |bits| bits.iter().filter(|bits| **bits != 0).count());
        flagged += bad;
        if bad > 0 {
            reasons.push(format!("{}: {bad} anomalous events", cell.name()));
        }
    }
    rule.count("anomalous_events", flagged);
    rule.refuse_all(reasons, AGAIN);
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
