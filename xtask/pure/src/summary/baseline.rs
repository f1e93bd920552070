//! Phase 2: how long an urgent task waits when nothing yields.

use super::rows::{Rows, Unit};
use super::{Kept, refuse_duplicates};
use crate::stats::Resamples;
use schema::table::Table;

/// `urgent_wait_us`: host issue to the host's sight of the urgent kernel's start. `host_e2e_us`: host issue to the host's
/// sight of its result. `remaining_drain_corr`: correlation of the wait with what remained of the drain at issue.
/// `drain_ms`: the drain on the device timer.
pub(super) fn waits(events: &Table, kept: &Kept, rows: &mut Rows) -> anyhow::Result<()> {
    let launch = events.u32("launch")?;
    refuse_duplicates("the event of launch", launch.iter())?;
    let (sound, anomalous) = kept.sound_rows(launch, events.u32("anomaly")?)?;
    let pairs = wait_pairs(events, kept)?;
    let waits: Vec<(u32, i64)> = pairs.iter().map(|(launch, wait, _)| (*launch, *wait)).collect();
    rows.median_and_tail("urgent_wait", Unit::HostUs, &waits);
    rows.median_and_tail("host_e2e", Unit::HostUs, &host_e2e(events, kept)?);
    let pairs: Vec<(u32, f64, f64)> = pairs.into_iter().map(|(launch, w, r)| (launch, w as f64, r as f64)).collect();
    let resamples = Resamples::new(&rows.cell_seed(), pairs.iter().map(|(launch, ..)| *launch));
    if let Some(correlation) = resamples.correlation(&pairs) {
        rows.real("remaining_drain_corr", "1", correlation, "");
    }
    let device_drain = events.i64("device_drain_ns")?;
    let drains: Vec<(u32, i64)> = sound.iter().map(|i| (launch[*i], device_drain[*i])).collect();
    rows.median("drain", Unit::DeviceMs, &drains);
    rows.count("anomalous_events", anomalous, sound.len() as u64 + anomalous);
    Ok(())
}

/// Launch, wait, and what remained of the drain at issue, of each event that counts.
pub(super) fn wait_pairs(events: &Table, kept: &Kept) -> anyhow::Result<Vec<(u32, i64, i64)>> {
    let launch = events.u32("launch")?;
    let (issue, start, drain_done) = (events.u32("issue_ns")?, events.u32("start_ns")?, events.u32("drain_done_ns")?);
    let (sound, _) = kept.sound_rows(launch, events.u32("anomaly")?)?;
    let since_issue = |column: &[u32], i: usize| i64::from(column[i]) - i64::from(issue[i]);
    Ok(sound.into_iter().map(|i| (launch[i], since_issue(start, i), since_issue(drain_done, i))).collect())
}

/// Host issue to host-observed done, by launch.
pub(super) fn host_e2e(events: &Table, kept: &Kept) -> anyhow::Result<Vec<(u32, i64)>> {
    let launch = events.u32("launch")?;
    let (issue, done) = (events.u32("issue_ns")?, events.u32("done_ns")?);
    let (sound, _) = kept.sound_rows(launch, events.u32("anomaly")?)?;
    Ok(sound.into_iter().map(|i| (launch[i], i64::from(done[i]) - i64::from(issue[i]))).collect())
}
