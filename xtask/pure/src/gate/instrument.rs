//! Gate `instrument`: the timer was measured, and a delay planted in one leg of the timeline lengthens that leg by
//! the same amount.

use super::evidence::{CellEvidence, Evidence};
use super::rule::Rule;
use schema::contract::Recipe;
use schema::metrics::Metric;
use schema::timer::QUANTUM;
use schema::verdict::GateResult;
use std::collections::{BTreeMap, BTreeSet};

/// A shift's interval is evidence only when it is narrower than this part of the planted delay.
const NARROW: i64 = 4;
const AGAIN: &str = "measure the instrument phase again: cargo xtask run --fresh";

pub(super) fn judge(evidence: &Evidence) -> GateResult {
    let mut rule = Rule::new("instrument");
    let spec = evidence.contract.timer();
    let timer = evidence.cells.iter().find(|cell| spec.is_some_and(|spec| cell.name() == spec.id()));
    let quantum = timer.and_then(|cell| cell.data.record.facts.whole(QUANTUM)).unwrap_or(0);
    rule.must_count(QUANTUM, quantum, AGAIN);
    match timer {
        Some(timer) => judge_offsets(&mut rule, evidence, timer),
        None => rule.refuse("the cross-SM offset was not measured", AGAIN),
    }
    judge_legs(&mut rule, evidence, quantum);
    judge_bounds(&mut rule, evidence, quantum);
    rule.done()
}

fn judge_offsets(rule: &mut Rule, evidence: &Evidence, timer: &CellEvidence) {
    let events = &timer.data.events;
    let (Ok(sm), Ok(offsets), Ok(rounds)) = (events.u32("sm"), events.i64("offset_ns"), events.u32("rounds")) else {
        return rule.refuse("the table of cross-SM offsets lacks a column", AGAIN);
    };
    let seen: BTreeSet<u32> = sm.iter().zip(rounds).filter(|(_, rounds)| **rounds > 0).map(|(sm, _)| *sm).collect();
    rule.must_count("sms_measured", seen.len() as u64, AGAIN);
    let sms = evidence.environment.device.slots.sms();
    let all = seen.len() as u64 == u64::from(sms);
    rule.require(all, format!("offsets of {} SMs were measured, and the device has {sms}", seen.len()), AGAIN);
    rule.count("sm_offset_ns_max", offsets.iter().map(|offset| offset.saturating_abs()).max());
}

/// A leg must become longer by the time that the planted delay really took. The median of a noisy leg is known only
/// to within its interval, so the interval of the error must come within two timer quanta of zero, and must be
/// narrow. The host sees a word in mapped memory only when it happens to poll, so for a leg with an end on the host
/// its spread without a delay (the interquartile range) replaces the two quanta.
fn judge_legs(rule: &mut Rule, evidence: &Evidence, quantum: u64) {
    let two_quanta = 2 * i64::try_from(quantum).unwrap_or(i64::MAX / 2);
    let (mut shifts, mut errors) = (BTreeMap::new(), BTreeMap::new());
    for cell in &evidence.contract.cells {
        for metric in &cell.metrics {
            let Recipe::PlantedDelay { leg, planted_ns, host, .. } = &metric.recipe else { continue };
            let planted = i64::from(*planted_ns);
            let reason = format!("a planted delay of {planted} ns is below two quanta");
            rule.require(planted > two_quanta, reason, "plan a longer delay_ns");
            let of_cell = |m: &&Metric| m.phase == cell.phase && m.cell == cell.name;
            let find = |name: &str| evidence.recomputed.metrics.iter().filter(of_cell).find(|m| m.metric == name);
            let found = find("leg_shift_ns").and_then(shift_of).zip(find("leg_shift_error_ns").and_then(shift_of));
            let Some(((shift, ..), (error, lo, hi))) = found else {
                let why =
                    find("leg_shift_ns").filter(|m| m.refused()).map(|m| format!(": {}", m.note)).unwrap_or_default();
                rule.refuse(format!("no planted delay was seen in leg {leg}{why}"), AGAIN);
                continue;
            };
            let spread = find("leg_spread_ns").and_then(shift_of).map(|(spread, ..)| spread);
            let slack = spread.filter(|_| *host).map_or(two_quanta, |spread| two_quanta.max(spread));
            shifts.insert(leg, shift);
            errors.insert(leg, error);
            let reaches = lo <= slack && -slack <= hi && hi - lo <= planted / NARROW;
            let moved = shift > planted / 2 && (error.abs() <= slack || reaches);
            let reason = format!(
                "leg {leg} moved by {shift} ns, {planted} ns were planted, and what was spent leaves {error} ns ({lo} to {hi})"
            );
            rule.require(moved, reason, "find what delays this leg, or plan more delay_events");
        }
    }
    rule.count("legs", shifts.len());
    rule.count("leg_shift_ns", shifts);
    rule.count("leg_shift_error_ns", errors);
}

/// A shift with the ends of its interval; without an interval, both ends are the shift itself.
fn shift_of(metric: &Metric) -> Option<(i64, i64, i64)> {
    let shift = metric.value.parse().ok()?;
    Some((shift, metric.lo.parse().unwrap_or(shift), metric.hi.parse().unwrap_or(shift)))
}

/// A duration on the device timer below two quanta must be shown as a bound.
fn judge_bounds(rule: &mut Rule, evidence: &Evidence, quantum: u64) {
    let bound_ns = 2.0 * quantum as f64;
    let device = |metric: &&Metric| {
        let spec = evidence.contract.metric(&metric.phase, &metric.cell, &metric.metric);
        matches!(spec.map(|spec| &spec.recipe), Some(Recipe::Quantiles { unit, .. }) if unit.is_device())
    };
    let mut bounds = 0_u64;
    for metric in evidence.recomputed.metrics.iter().filter(device) {
        let said = metric.note.contains("bound");
        bounds += u64::from(said);
        let in_ns = if metric.unit == "ms" { 1e6 } else { 1e3 };
        let short = metric.value.parse::<f64>().is_ok_and(|value| value * in_ns < bound_ns);
        let reason =
            format!("{}/{} {} is under two quanta and not shown as a bound", metric.phase, metric.cell, metric.metric);
        rule.require(!short || said, reason, "cargo xtask reproduce");
    }
    rule.count("bounds", bounds);
}
