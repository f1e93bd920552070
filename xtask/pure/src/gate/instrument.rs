//! Gate `instrument`: the timer was measured, and a delay planted in one leg of the timeline moves that leg by itself.

use super::evidence::{CellEvidence, Evidence};
use super::rule::Rule;
use schema::metrics::Metric;
use schema::plan::Leg;
use schema::verdict::GateResult;
use std::collections::{BTreeMap, BTreeSet};

/// A shift's interval is evidence only when it is narrower than this part of the planted delay.
const NARROW: i64 = 4;
const AGAIN: &str = "measure the instrument phase again: cargo xtask run --fresh";

pub(super) fn judge(evidence: &Evidence) -> GateResult {
    let mut rule = Rule::new("instrument");
    let timer = evidence.cells.iter().find(|cell| cell.name() == "instrument/timer");
    let quantum = timer.and_then(|cell| cell.data.record.facts.whole("timer_quantum_ns"));
    let quantum = quantum.and_then(|ns| u32::try_from(ns).ok()).unwrap_or(0);
    rule.must_count("timer_quantum_ns", u64::from(quantum), AGAIN);
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

/// A leg moves by what was really spent on the planted delay. The median of a noisy leg is known to its interval only: the
/// interval of the error must reach zero within two quanta, and be narrow.
fn judge_legs(rule: &mut Rule, evidence: &Evidence, quantum: u32) {
    let planted = i64::from(evidence.plan.profile.instrument.delay_ns);
    let slack = 2 * i64::from(quantum);
    rule.count("planted_ns", planted);
    rule.require(
        planted > slack,
        format!("a planted delay of {planted} ns is below two quanta"),
        "plan a longer delay_ns",
    );
    let (mut shifts, mut errors) = (BTreeMap::new(), BTreeMap::new());
    for leg in Leg::ALL {
        let cell = format!("leg={}", leg.name());
        let find = |name: &str| evidence.recomputed.metrics.iter().find(|m| m.cell == cell && m.metric == name);
        let found = find("leg_shift_ns").and_then(shift_of).zip(find("leg_shift_error_ns").and_then(shift_of));
        let Some(((shift, ..), (error, lo, hi))) = found else {
            rule.refuse(format!("no planted delay was seen in leg {}", leg.name()), AGAIN);
            continue;
        };
        let spread = find("leg_spread_ns").and_then(shift_of).map(|(spread, ..)| spread);
        let slack = spread.filter(|_| ends_on_host(leg)).map_or(slack, |spread| slack.max(spread));
        shifts.insert(leg.name(), shift);
        errors.insert(leg.name(), error);
        let reaches = lo <= slack && -slack <= hi && hi - lo <= planted / NARROW;
        let moved = shift > planted / 2 && (error.abs() <= slack || reaches);
        let reason = format!(
            "leg {} moved by {shift} ns, {planted} ns were planted, and what was spent leaves {error} ns ({lo} to {hi})",
            leg.name()
        );
        rule.require(moved, reason, "find what delays this leg, or plan more delay_events");
    }
    rule.count("leg_shift_ns", shifts);
    rule.count("leg_shift_error_ns", errors);
}

/// Whether a leg has an end on the host. The host sees a mapped word when its poll happens to, so the spread of the undelayed
/// leg (its interquartile range) stands in for the quantum of a timer.
fn ends_on_host(leg: Leg) -> bool {
    matches!(leg, Leg::HostToSet | Leg::DoneToHost)
}

/// A shift with the ends of its interval; without an interval it is its own.
fn shift_of(metric: &Metric) -> Option<(i64, i64, i64)> {
    let shift = metric.value.parse().ok()?;
    Some((shift, metric.lo.parse().unwrap_or(shift), metric.hi.parse().unwrap_or(shift)))
}

/// A duration on the device timer below two quanta is said to be a bound.
fn judge_bounds(rule: &mut Rule, evidence: &Evidence, quantum: u32) {
    let bound_us = 2.0 * f64::from(quantum) / 1000.0;
    let device = |metric: &&Metric| {
        let host = ["host_", "urgent_wait_"].iter().any(|prefix| metric.metric.starts_with(prefix));
        metric.unit == "us" && !host
    };
    let mut bounds = 0_u64;
    for metric in evidence.recomputed.metrics.iter().filter(device) {
        let said = metric.note.contains("bound");
        bounds += u64::from(said);
        let short = metric.value.parse::<f64>().is_ok_and(|value| value < bound_us);
        let reason =
            format!("{}/{} {} is under two quanta and not shown as a bound", metric.phase, metric.cell, metric.metric);
        rule.require(!short || said, reason, "cargo xtask reproduce");
    }
    rule.count("bounds", bounds);
}
