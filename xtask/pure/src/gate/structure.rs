//! Gate `structure`: every task once, every event once; none lost, none coalesced away, none unclaimed.

use super::evidence::{CellEvidence, Evidence};
use super::rule::Rule;
use super::table::{over_launches, sum, sum_where, u32s, working_cells};
use super::timeline::{contradictions, timer_slack_ns};
use schema::plan::Phase;
use schema::table::Table;
use schema::verdict::GateResult;
use std::collections::BTreeMap;

const AGAIN: &str = "measure again: cargo xtask run --fresh";

pub(super) fn judge(evidence: &Evidence) -> GateResult {
    let mut rule = Rule::new("structure");
    let (mut tasks, mut urgent, mut launch_count, mut served) = (0, 0, 0, 0);
    let mut reasons = over_launches(working_cells(evidence), |_, launches| {
        launch_count += launches.rows() as u64;
        tasks += sum(launches, "executed")?;
        urgent += sum(launches, "urgent_executed")?;
        unbalanced(launches)
    });
    for cell in evidence.cells.iter().filter(|cell| has_events(cell)) {
        let found = unserved(cell).unwrap_or_else(|error| vec![error]);
        served += cell.data.events.rows() as u64;
        reasons.extend(found.into_iter().map(|reason| format!("{}: {reason}", cell.name())));
    }
    for cell in evidence.cells.iter().filter(|cell| has_samples(cell)) {
        let found = unrecorded(cell).unwrap_or_else(Some);
        reasons.extend(found.map(|reason| format!("{}: {reason}", cell.name())));
    }
    reasons.extend(contradictory(evidence));
    rule.must_count("launches", launch_count, AGAIN);
    rule.must_count("tasks_executed", tasks, AGAIN);
    rule.count("urgent_executed", urgent);
    rule.count("events_served", served);
    rule.refuse_all(reasons, AGAIN);
    rule.done()
}

/// Cells whose tables contradict each other, or the cell's name.
fn contradictory(evidence: &Evidence) -> Vec<String> {
    let planned = evidence.plan.cells(&evidence.environment.device.slots);
    let slack = timer_slack_ns(evidence);
    let mut reasons = Vec::new();
    for cell in &evidence.cells {
        let record = &cell.data.record;
        let work = planned.iter().find(|p| p.phase == record.phase && p.name == record.cell).map(|p| &p.work);
        let found = work
            .map_or(Ok(Vec::new()), |work| contradictions(cell, work, &evidence.environment.device, slack))
            .unwrap_or_else(|error| vec![error]);
        reasons.extend(found.into_iter().map(|reason| format!("{}: {reason}", cell.name())));
    }
    reasons
}

/// Cells whose events are yields: phase 3 without its cost cells, and the planted delays.
fn has_events(cell: &CellEvidence) -> bool {
    match cell.data.record.phase {
        Phase::Yield => !cell.data.record.cell.starts_with("cost,"),
        Phase::Instrument => cell.data.record.cell.starts_with("leg="),
        _ => false,
    }
}

/// Cells in which every launch that counts gives as many rows as any other: an urgent task, a drain, or its tiles.
fn has_samples(cell: &CellEvidence) -> bool {
    match cell.data.record.phase {
        Phase::Calibrate | Phase::Baseline => true,
        Phase::Yield => cell.data.record.cell.starts_with("cost,"),
        Phase::Instrument => false,
    }
}

/// Launches that count and have fewer rows than the others, or none: rows that were dropped.
fn unrecorded(cell: &CellEvidence) -> Result<Option<String>, String> {
    let launches = cell.data.launches.as_ref().ok_or("it has no launches")?;
    let mut rows: BTreeMap<u32, u64> = BTreeMap::new();
    for launch in u32s(&cell.data.events, "launch")? {
        *rows.entry(*launch).or_default() += 1;
    }
    let most = rows.values().max();
    let kept = u32s(launches, "launch")?.iter().zip(u32s(launches, "warmup")?).filter(|(_, warm)| **warm == 0);
    let short = kept.filter(|(launch, _)| most.is_none() || rows.get(launch) != most).count();
    Ok((short > 0).then(|| format!("{short} launches have fewer rows than others: some were dropped")))
}

/// Launch by launch, since two errors of opposite sign must not cancel. What a launch discarded as warm-up did not serve is
/// the reason it was discarded; its tasks count like any other's.
fn unbalanced(launches: &Table) -> Result<Vec<String>, String> {
    let every = vec![true; launches.rows()];
    let measured: Vec<bool> = u32s(launches, "warmup")?.iter().map(|warmup| *warmup == 0).collect();
    let mut reasons = Vec::new();
    for (wanted, got, counts, what) in [
        ("tasks", "executed", &every, "launches did not execute exactly their tasks"),
        (
            "urgent_requested",
            "urgent_executed",
            &measured,
            "launches did not execute exactly the urgent tasks requested",
        ),
    ] {
        let pairs = u32s(launches, wanted)?.iter().zip(u32s(launches, got)?).zip(counts);
        let differing = pairs.filter(|((wanted, got), counts)| **counts && wanted != got).count();
        if differing > 0 {
            reasons.push(format!("{differing} {what}"));
        }
    }
    for (column, counts, what) in [
        ("not_once", &every, "tasks were not executed exactly once"),
        ("urgent_not_once", &measured, "urgent tasks were not executed exactly once"),
        ("deadline_hits", &measured, "blocks hit their deadline"),
    ] {
        let found = sum_where(launches, column, counts)?;
        if found > 0 {
            reasons.push(format!("{found} {what}"));
        }
    }
    Ok(reasons)
}

/// Events that fewer blocks met than others, or none: they are counted, but never met what they are to show.
fn unmet(observers: &[u32]) -> Option<String> {
    let most = observers.iter().max();
    let short = observers.iter().filter(|seen| **seen == 0 || Some(*seen) != most).count();
    (short > 0).then(|| format!("{short} events were met by fewer blocks than others, or by none"))
}

/// Events that were not claimed, and launches with another number of events than they served urgent tasks.
fn unserved(cell: &CellEvidence) -> Result<Vec<String>, String> {
    let launches = cell.data.launches.as_ref().ok_or("it has no launches")?;
    let claims = u32s(&cell.data.events, "claims")?;
    let unclaimed = claims.iter().filter(|claims| **claims == 0).count();
    let mut events: BTreeMap<u32, u32> = BTreeMap::new();
    for launch in u32s(&cell.data.events, "launch")? {
        *events.entry(*launch).or_default() += 1;
    }
    let (launch, warmup) = (u32s(launches, "launch")?, u32s(launches, "warmup")?);
    let requested = u32s(launches, "urgent_requested")?;
    let kept = launch.iter().zip(warmup).zip(requested).filter(|((_, warm), _)| **warm == 0);
    let differing =
        kept.filter(|((launch, _), requested)| events.get(launch).copied().unwrap_or(0) != **requested).count();
    let mut reasons: Vec<String> = unmet(u32s(&cell.data.events, "observers")?).into_iter().collect();
    if unclaimed > 0 {
        reasons.push(format!("{unclaimed} events were never claimed"));
    }
    if differing > 0 {
        reasons.push(format!("{differing} launches recorded another number of events than were requested"));
    }
    Ok(reasons)
}
