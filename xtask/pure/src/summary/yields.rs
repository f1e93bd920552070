//! Phase 3: how soon a persistent kernel makes way.

use super::rows::{Rows, Unit};
use super::{Kept, refuse_duplicates};
use schema::plan::Setter;
use schema::table::Table;

/// All from the set instant on the device timer unless they say otherwise: `preempt_latency_us` to the last ready block,
/// `first_observer_us`, `last_observer_us`, `visibility_us` to the latest poll that still returned the old generation,
/// `urgent_e2e_us` to the end of the urgent tile, `urgent_tile_us` from its start to its end, and for host-set events
/// `host_e2e_us` from host issue to host-observed done on the host's clock.
pub(super) fn timeline(set: Setter, events: &Table, kept: &Kept, rows: &mut Rows) -> anyhow::Result<()> {
    let (sound, anomalous) = sound_rows(events, kept)?;
    let launch = events.u32("launch")?;
    let column = |name: &str| -> anyhow::Result<Vec<(u32, i64)>> {
        let values = events.i64(name)?;
        Ok(sound.iter().map(|i| (launch[*i], values[*i])).collect())
    };
    rows.median_and_far_tail("preempt_latency", Unit::DeviceUs, &column("last_ready_ns")?);
    rows.median_and_tail("first_observer", Unit::DeviceUs, &column("first_observer_ns")?);
    rows.median_and_tail("last_observer", Unit::DeviceUs, &column("last_observer_ns")?);
    visibility(&sound, events, rows)?;
    let done = column("urgent_done_ns")?;
    rows.median_and_tail("urgent_e2e", Unit::DeviceUs, &done);
    let start = column("urgent_start_ns")?;
    let tiles: Vec<(u32, i64)> = done.iter().zip(start).map(|((launch, done), (_, s))| (*launch, done - s)).collect();
    rows.median("urgent_tile", Unit::DeviceUs, &tiles);
    if set == Setter::Host {
        rows.median_and_tail("host_e2e", Unit::HostUs, &host_e2e(events, kept)?);
    }
    rows.count("anomalous_events", anomalous, sound.len() as u64 + anomalous);
    Ok(())
}

/// Events in which no poll after the set instant returned the old generation have no visibility; how many is said beside it.
fn visibility(sound: &[usize], events: &Table, rows: &mut Rows) -> anyhow::Result<()> {
    let (launch, visibility) = (events.u32("launch")?, events.opt_i64("visibility_ns")?);
    let seen: Vec<(u32, i64)> = sound.iter().filter_map(|i| Some((launch[*i], visibility[*i]?))).collect();
    rows.median_and_tail("visibility", Unit::DeviceUs, &seen);
    let absent = sound.len() - seen.len();
    if absent > 0 {
        let note = format!("absent in {absent} of {} events", sound.len());
        rows.annotate("visibility_us_p50", &note);
        rows.annotate("visibility_us_p99", &note);
    }
    Ok(())
}

/// Host issue to host-observed done, by launch; events without both are left out, which the samples gate counts.
pub(super) fn host_e2e(events: &Table, kept: &Kept) -> anyhow::Result<Vec<(u32, i64)>> {
    let launch = events.u32("launch")?;
    let (issue, done) = (events.opt_i64("host_issue_ns")?, events.opt_i64("host_done_ns")?);
    let (sound, _) = sound_rows(events, kept)?;
    Ok(sound.into_iter().filter_map(|i| Some((launch[i], done[i]? - issue[i]?))).collect())
}

/// The rows of events that count and have no anomaly, and how many had one. An event that occurs twice is an error.
pub(super) fn sound_rows(events: &Table, kept: &Kept) -> anyhow::Result<(Vec<usize>, u64)> {
    let launch = events.u32("launch")?;
    refuse_duplicates("(launch, event)", launch.iter().zip(events.u32("event")?))?;
    kept.sound_rows(launch, events.u32("anomaly")?)
}
