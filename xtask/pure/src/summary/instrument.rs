//! What the instrument itself does: the timer's step, the SMs' offsets, and whether a planted delay arrives where planted.

use super::rows::Rows;
use super::{CellData, Kept, yields};
use crate::stats::{Estimate, P25, P50, P75, Resamples, quantile};
use anyhow::ensure;
use schema::plan::{Leg, delayed_event};
use schema::table::Table;

/// `timer_quantum_ns`: the step of the global timer. `sm_offset_ns_max`: the largest distance of an SM's timer from that
/// of block 0's SM.
pub(super) fn timer(data: &CellData, rows: &mut Rows) -> anyhow::Result<()> {
    if let Some(quantum) = data.record.facts.whole("timer_quantum_ns") {
        rows.nanoseconds("timer_quantum_ns", Estimate::exact(i64::try_from(quantum)?, 1), "");
    }
    let offsets = data.events.i64("offset_ns")?;
    let rtt = data.events.u32("rtt_ns")?;
    super::refuse_duplicates("SM", data.events.u32("sm")?.iter())?;
    if let Some(largest) = offsets.iter().map(|offset| offset.abs()).max() {
        let note = format!("longest round trip {} ns", rtt.iter().max().expect("a row an SM"));
        rows.nanoseconds("sm_offset_ns_max", Estimate::exact(largest, offsets.len() as u64), &note);
    }
    Ok(())
}

/// `leg_shift_ns`: by how much the median of this leg over events with the planted delay exceeds that over events without.
/// `leg_shift_error_ns`: that, less what was really spent, likewise over events with the delay and without.
/// `leg_spread_ns`: the interquartile range of the leg over events without.
pub(super) fn delay(leg: Leg, delay_ns: u32, events: &Table, kept: &Kept, rows: &mut Rows) -> anyhow::Result<()> {
    let (sound, anomalous) = yields::sound_rows(events, kept)?;
    let (launch, event, planted) = (events.u32("launch")?, events.u32("event")?, events.u32("delay_leg")?);
    let spent = events.i64("delay_ns")?;
    let durations = durations(leg, events)?;
    let (mut plain, mut delayed) = (Samples::default(), Samples::default());
    for i in sound {
        let due = if delayed_event(event[i]) { leg as u32 } else { 0 };
        ensure!(planted[i] == due, "event {} of launch {} says leg {}, not {due}", event[i], launch[i], planted[i]);
        let Some(duration) = durations[i] else { continue };
        let samples = if due == 0 { &mut plain } else { &mut delayed };
        samples.legs.push((launch[i], duration));
        samples.spent.push(spent[i]);
    }
    let launches = plain.legs.iter().chain(&delayed.legs).map(|(launch, _)| *launch);
    let shift = Resamples::new(&rows.cell_seed(), launches).shift(&plain.legs, &delayed.legs);
    let spent = quantile(&delayed.spent, P50).zip(quantile(&plain.spent, P50)).map(|(delayed, plain)| delayed - plain);
    if let Some((shift, spent)) = shift.zip(spent) {
        let note = format!("planted {delay_ns} ns");
        rows.nanoseconds("leg_shift_ns", shift.clone(), &note);
        rows.nanoseconds("leg_shift_error_ns", less(shift, spent), &format!("{note}, spent {spent} ns"));
    }
    if let Some(spread) = spread(&rows.cell_seed(), &plain.legs) {
        rows.nanoseconds("leg_spread_ns", spread, "interquartile range without a delay");
    }
    rows.count("anomalous_events", anomalous, events.rows() as u64);
    Ok(())
}

/// Events with the planted delay, or those without.
#[derive(Default)]
struct Samples {
    /// Launch, and how long the leg took.
    legs: Vec<(u32, i64)>,
    /// What was spent on the delay.
    spent: Vec<i64>,
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

/// How long the leg took in each event; absent where an end of it was not recorded.
///
/// Instants of the host and of the device are never subtracted: their clocks start apart. Both legs between the two are read
/// off the host's own interval, less the part of it that the device timed by itself, from the set instant to the urgent end.
fn durations(leg: Leg, events: &Table) -> anyhow::Result<Vec<Option<i64>>> {
    let between = |from: &str, to: &str| -> anyhow::Result<Vec<Option<i64>>> {
        Ok(events.i64(from)?.iter().zip(events.i64(to)?).map(|(from, to)| Some(to - from)).collect())
    };
    match leg {
        Leg::HostToSet | Leg::DoneToHost => {
            let (issued, seen) = (events.opt_i64("host_issue_ns")?, events.opt_i64("host_done_ns")?);
            let ends = issued.iter().zip(seen).zip(events.i64("urgent_done_ns")?);
            Ok(ends.map(|((issued, seen), device)| Some((*seen)? - (*issued)? - device)).collect())
        }
        Leg::SetToObserved => Ok(events.i64("first_observer_ns")?.iter().map(|ns| Some(*ns)).collect()),
        Leg::ObservedToReady => between("claimer_observed_ns", "claimer_ready_ns"),
        Leg::ReadyToUrgent => between("claimer_ready_ns", "urgent_start_ns"),
        Leg::Urgent => between("urgent_start_ns", "urgent_done_ns"),
    }
}
