//! Gate `clocks`: the class that the plan requires, from the in-band clock and from NVML, each of which alone can refuse.

use super::evidence::{CellEvidence, Evidence};
use super::rule::Rule;
use super::table::u32s;
use crate::pure::clock_class::{ClockEvidence, LaunchClock, Sample, classify};
use schema::table::Table;
use schema::verdict::GateResult;

const STEADY: &str = "lock the clocks (cargo xtask clocks lock) or measure on a cooler, idle GPU";

pub(super) fn judge(evidence: &Evidence) -> GateResult {
    let mut rule = Rule::new("clocks");
    let required = evidence.plan.clocks;
    rule.count("required", required);
    rule.count("mode", &evidence.environment.clocks.mode);
    match (launch_clocks(evidence), samples(evidence), cell_seconds(evidence)) {
        (Ok(launches), Ok(telemetry), Ok(cells)) => {
            let locked_mhz = locked(evidence);
            let judged =
                classify(&ClockEvidence { launches: &launches, telemetry: &telemetry, cells: &cells, locked_mhz });
            rule.count("class", judged.class);
            rule.count("counts", &judged.counts);
            if judged.class < required {
                rule.refuse_all(judged.reasons, STEADY);
            }
        }
        (launches, telemetry, cells) => {
            let errors = [launches.err(), telemetry.err(), cells.err()];
            rule.refuse_all(errors.into_iter().flatten().collect(), "measure again");
        }
    }
    let restored = evidence.environment.clocks.restored != Some(false);
    rule.require(restored, "the clocks were changed and not put back", "cargo xtask clocks restore");
    rule.done()
}

fn locked(evidence: &Evidence) -> Option<u32> {
    let clocks = &evidence.environment.clocks;
    if clocks.mode == "lock" { clocks.read_back_mhz.filter(|mhz| clocks.asked_mhz == Some(*mhz)) } else { None }
}

fn launch_clocks(evidence: &Evidence) -> Result<Vec<LaunchClock>, String> {
    let mut clocks = Vec::new();
    for cell in timed(evidence) {
        let launches = cell.data.launches.as_ref().ok_or_else(|| format!("{} has no launches", cell.name()))?;
        let column = |name| u32s(launches, name);
        let (warmup, windows) = (column("warmup")?, column("clock_windows")?);
        let (min, p50, max) = (column("clock_khz_min")?, column("clock_khz_p50")?, column("clock_khz_max")?);
        for row in (0..launches.rows()).filter(|row| warmup[*row] == 0) {
            clocks.push(LaunchClock { windows: windows[row], khz_min: min[row], khz_p50: p50[row], khz_max: max[row] });
        }
    }
    Ok(clocks)
}

/// The cells whose launches carry a clock: all but the timer's.
fn timed(evidence: &Evidence) -> impl Iterator<Item = &CellEvidence> {
    evidence.cells.iter().filter(|cell| cell.data.record.cell != "timer")
}

fn samples(evidence: &Evidence) -> Result<Vec<Sample>, String> {
    let Some(table) = &evidence.telemetry else { return Ok(Vec::new()) };
    let read = |table: &Table| -> anyhow::Result<Vec<Sample>> {
        let (cell, sm_mhz, throttle) = (table.u32("cell")?, table.opt_u32("sm_mhz")?, table.opt_i64("throttle")?);
        let (power, thermal) = (table.opt_i64("power_violation_ns")?, table.opt_i64("thermal_violation_ns")?);
        let row = |i: usize| Sample {
            cell: cell[i],
            sm_mhz: sm_mhz[i],
            throttle: throttle[i],
            power_violation_ns: power[i],
            thermal_violation_ns: thermal[i],
        };
        Ok((0..table.rows()).map(row).collect())
    };
    read(table).map_err(|error| format!("telemetry: {error:#}"))
}

/// Seconds between a cell's first launch and the end of its last, by the cell's place in the plan.
fn cell_seconds(evidence: &Evidence) -> Result<Vec<(u32, f64)>, String> {
    let planned = evidence.plan.cells(&evidence.environment.device.slots);
    let mut seconds = Vec::new();
    for cell in timed(evidence) {
        let place = planned.iter().position(|p| p.phase == cell.data.record.phase && p.name == cell.data.record.cell);
        let (Some(place), Some(launches)) = (place, &cell.data.launches) else { continue };
        let starts = super::table::i64s(launches, "host_start_ns")?;
        let walls = u32s(launches, "wall_ns")?;
        let ends = starts.iter().zip(walls).map(|(start, wall)| start.saturating_add(i64::from(*wall)));
        let span = ends.max().unwrap_or(0).saturating_sub(starts.iter().copied().min().unwrap_or(0));
        seconds.push((place as u32 + 1, span as f64 / 1e9));
    }
    Ok(seconds)
}
