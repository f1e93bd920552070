//! What the instrument itself does: the timer's step, the SMs' offsets, and whether a planted delay arrives where planted.

use super::rows::Rows;
use super::{CellData, Kept, yields};
use crate::pure::stats::{Estimate, P50, Resamples, quantile};
use anyhow::ensure;
use schema::plan::Leg;
use schema::table::Table;
use std::collections::BTreeMap;

/// `timer_quantum_ns`: the step of the global timer. `sm_offset_ns_max`: the largest distance of an SM's timer from that
/// of block 0's SM.
pub(super) fn timer(data: &CellData, rows: &mut Rows) -> anyhow::Result<()> {
    if let Some(quantum) = data.record.facts.timer_quantum_ns {
        rows.nanoseconds("timer_quantum_ns", single(i64::from(quantum), 1), "");
    }
    let offsets = data.events.i64("offset_ns")?;
    let rtt = data.events.u32("rtt_ns")?;
    super::refuse_duplicates("SM", data.events.u32("sm")?.iter())?;
    if let Some(largest) = offsets.iter().map(|offset| offset.abs()).max() {
        let note = format!("longest round trip {} ns", rtt.iter().max().expect("a row an SM"));
        rows.nanoseconds("sm_offset_ns_max", single(largest, offsets.len() as u64), &note);
    }
    Ok(())
}

fn single(value: i64, n: u64) -> Estimate<i64> {
    Estimate { value, interval: None, n }
}

/// `leg_shift_ns`: by how much the median of this leg over events with the planted delay exceeds that over events
/// without. The planted delay is said beside it, so that a reader sees both.
pub(super) fn delay(leg: Leg, delay_ns: u32, events: &Table, kept: &Kept, rows: &mut Rows) -> anyhow::Result<()> {
    let (sound, anomalous) = yields::sound_rows(events, kept)?;
    let (launch, event, planted) = (events.u32("launch")?, events.u32("event")?, events.u32("delay_leg")?);
    let durations = durations(leg, events)?;
    let (mut plain, mut delayed) = (Vec::new(), Vec::new());
    for i in sound {
        let due = if event[i] % 2 == 1 { leg as u32 } else { 0 };
        ensure!(planted[i] == due, "event {} of launch {} says leg {}, not {due}", event[i], launch[i], planted[i]);
        let Some(duration) = durations[i] else { continue };
        if due == 0 { plain.push((launch[i], duration)) } else { delayed.push((launch[i], duration)) }
    }
    if spans_two_clocks(leg) {
        remove_clock_offsets(&mut plain, &mut delayed);
    }
    let launches = plain.iter().chain(&delayed).map(|(launch, _)| *launch);
    if let Some(shift) = Resamples::new(&rows.cell_seed(), launches).shift(&plain, &delayed) {
        rows.nanoseconds("leg_shift_ns", shift, &format!("planted {delay_ns} ns"));
    }
    rows.count("anomalous_events", anomalous, events.rows() as u64);
    Ok(())
}

/// How long the leg took in each event; absent where an end of it was not recorded.
fn durations(leg: Leg, events: &Table) -> anyhow::Result<Vec<Option<i64>>> {
    let between = |from: &str, to: &str| -> anyhow::Result<Vec<Option<i64>>> {
        Ok(events.i64(from)?.iter().zip(events.i64(to)?).map(|(from, to)| Some(to - from)).collect())
    };
    match leg {
        Leg::HostToSet => {
            let issued = events.opt_i64("host_issue_ns")?.iter();
            Ok(issued.zip(events.i64("set_ns")?).map(|(issued, set)| Some(set - (*issued)?)).collect())
        }
        Leg::SetToObserved => Ok(events.i64("first_observer_ns")?.iter().map(|ns| Some(*ns)).collect()),
        Leg::ObservedToReady => between("claimer_observed_ns", "claimer_ready_ns"),
        Leg::ReadyToUrgent => between("claimer_ready_ns", "urgent_start_ns"),
        Leg::Urgent => between("urgent_start_ns", "urgent_done_ns"),
        Leg::DoneToHost => {
            let (set, done) = (events.i64("set_ns")?, events.i64("urgent_done_ns")?);
            let seen = events.opt_i64("host_done_ns")?.iter().enumerate();
            Ok(seen.map(|(i, seen)| Some((*seen)? - set[i] - done[i])).collect())
        }
    }
}

fn spans_two_clocks(leg: Leg) -> bool {
    matches!(leg, Leg::HostToSet | Leg::DoneToHost)
}

/// Host and device clocks start apart, differently in each launch. The median of a launch's plain events is taken off all
/// of that launch's events, which leaves the shift alone.
fn remove_clock_offsets(plain: &mut [(u32, i64)], delayed: &mut Vec<(u32, i64)>) {
    let mut by_launch: BTreeMap<u32, Vec<i64>> = BTreeMap::new();
    for (launch, duration) in plain.iter() {
        by_launch.entry(*launch).or_default().push(*duration);
    }
    let offset = |launch: u32| quantile(by_launch.get(&launch)?, P50);
    delayed.retain(|(launch, _)| by_launch.contains_key(launch));
    for (launch, duration) in plain.iter_mut().chain(delayed) {
        *duration -= offset(*launch).expect("launches without a plain event were left out");
    }
}
