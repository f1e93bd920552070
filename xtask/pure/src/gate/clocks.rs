//! Gate `clocks`: the class that the plan requires, from the in-band clock and from NVML, each of which alone can refuse.
//!
//! A launch off the clock is no reason: what it does to a number is judged number by number, in the summary.

use super::evidence::Evidence;
use super::rule::Rule;
use super::table::{over_launches, working_cells};
use crate::numbers::clock_class::{
    CellClock, ClockEvidence, Sample, classify, launch_clocks, measured_seconds, samples,
};
use crate::numbers::drift::{MOST_DRIFT_PCT, drifts};
use crate::numbers::summary::Drawing;
use anyhow::Context;
use schema::environment::{ClockRecord, POWER_READING};
use schema::plan::ClockClass;
use schema::verdict::GateResult;

const STEADY: &str = "lock the clocks (cargo xtask clocks lock) or measure on a cooler, idle GPU";

pub(super) fn judge(evidence: &Evidence) -> GateResult {
    let mut rule = Rule::new("clocks");
    // A plan can require more than stable clocks, never less.
    let required = evidence.plan.clocks.max(ClockClass::Stable);
    rule.count("required", required);
    rule.count("mode", &evidence.environment.clocks.mode);
    match read(evidence) {
        Err(error) => rule.refuse(format!("{error:#}"), "measure again"),
        Ok((cells, telemetry)) => {
            let anew = &evidence.recomputed;
            let numbers_refused = anew.metrics.iter().filter(|metric| metric.refused()).count() as u64;
            let sampled = anew.drawn.iter().filter(|row| row.drawing == Drawing::Sampled).count() as u64;
            let judged = classify(&ClockEvidence {
                cells: &cells,
                telemetry: &telemetry,
                numbers: sampled + numbers_refused,
                numbers_refused,
                locked_mhz: locked(evidence),
            });
            rule.count("class", judged.class);
            rule.count("counts", &judged.counts);
            if judged.class < required {
                rule.refuse_all(judged.reasons, STEADY);
            }
        }
    }
    judge_record(&mut rule, &evidence.environment.clocks);
    judge_drift(&mut rule, evidence);
    rule.count("power_reading", POWER_READING);
    rule.done()
}

/// Checks the record of the clocks: a lock was restored, and an observed run set nothing.
fn judge_record(rule: &mut Rule, clocks: &ClockRecord) {
    let unchanged = clocks.mode != "lock" && clocks.setter_calls == 0 && clocks.restored != Some(false);
    let restored = clocks.mode == "lock" && clocks.restored == Some(true);
    rule.count("setter_calls", clocks.setter_calls);
    rule.require(unchanged || restored, "the clocks were changed and not restored", "cargo xtask clocks restore");
}

/// Launches of one kind take as long at a cell's end as at its begin, or their clock says why not: then the cell's numbers are
/// refused, and not the run.
fn judge_drift(rule: &mut Rule, evidence: &Evidence) {
    const COOLER: &str = "measure again on a cooler GPU, or with clocks locked lower: --clock-mhz";
    let (mut kinds, mut worst) = (0_u64, 0.0_f64);
    let reasons = over_launches(working_cells(evidence), |cell, launches| {
        let drifts = drifts(launches).map_err(|error| format!("{error:#}"))?;
        kinds += drifts.len() as u64;
        worst = drifts.iter().fold(worst, |worst, drift| worst.max(drift.abs()));
        let explained = evidence.recomputed.off_clock.seen_in(&cell.name());
        let off = drifts.into_iter().filter(|drift| !explained && drift.abs() > MOST_DRIFT_PCT);
        Ok(off.map(|drift| format!("launches drifted by {drift:.1} % from its begin to its end")).collect())
    });
    rule.count("drift_judged", kinds);
    rule.count("drift_pct_most", worst);
    rule.refuse_all(reasons, COOLER);
}

/// The clock that was locked; absent when none was, or when what was read back is not what was asked for.
fn locked(evidence: &Evidence) -> Option<u32> {
    let clocks = &evidence.environment.clocks;
    if clocks.mode == "lock" { clocks.read_back_mhz.filter(|mhz| clocks.asked_mhz == Some(*mhz)) } else { None }
}

/// The cells whose launches make outputs, and the telemetry.
fn read(evidence: &Evidence) -> anyhow::Result<(Vec<CellClock>, Vec<Sample>)> {
    let planned = &evidence.contract.cells;
    let mut cells = Vec::new();
    for cell in working_cells(evidence) {
        let record = &cell.data.record;
        let launches = cell.data.launches.as_ref().with_context(|| format!("{} has no launches", cell.name()))?;
        let place = planned.iter().position(|cell| cell.phase == record.phase && cell.name == record.cell);
        let clocks = || anyhow::Ok((measured_seconds(launches)?, launch_clocks(launches)?));
        let (seconds, launches) = clocks().with_context(|| cell.name())?;
        // A cell that is not in the plan has no telemetry; gate `samples` refuses it.
        let place = place.map_or(Ok(u32::MAX), |place| u32::try_from(place + 1))?;
        cells.push(CellClock { cell: place, seconds, launches });
    }
    let telemetry = evidence.telemetry.as_ref().map(samples).transpose().context("telemetry.parquet")?;
    Ok((cells, telemetry.unwrap_or_default()))
}
