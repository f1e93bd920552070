//! Gate `clocks`: the class that the plan requires, from the in-band clock and from NVML, each of which alone can refuse.

use super::evidence::Evidence;
use super::rule::Rule;
use super::table::{over_launches, u32s, working_cells};
use crate::numbers::clock_class::{
    ClockEvidence, LaunchClock, Sample, classify, launch_clocks, measured_seconds, samples,
};
use crate::numbers::drift::{MOST_DRIFT_PCT, drift_pct};
use anyhow::Context;
use schema::environment::{ClockRecord, POWER_READING};
use schema::plan::ClockClass;
use schema::verdict::GateResult;
use std::collections::BTreeMap;
use tables::Table;

const STEADY: &str = "lock the clocks (cargo xtask clocks lock) or measure on a cooler, idle GPU";

pub(super) fn judge(evidence: &Evidence) -> GateResult {
    let mut rule = Rule::new("clocks");
    // A plan can require more than stable clocks, never less.
    let required = evidence.plan.clocks.max(ClockClass::Stable);
    rule.count("required", required);
    rule.count("mode", &evidence.environment.clocks.mode);
    match read(evidence) {
        Err(error) => rule.refuse(format!("{error:#}"), "measure again"),
        Ok((launches, telemetry, cells)) => {
            let locked_mhz = locked(evidence);
            let judged =
                classify(&ClockEvidence { launches: &launches, telemetry: &telemetry, cells: &cells, locked_mhz });
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

/// Launches of one kind take as long at a cell's end as at its begin.
fn judge_drift(rule: &mut Rule, evidence: &Evidence) {
    const COOLER: &str = "measure again on a cooler GPU, or with clocks locked lower: --clock-mhz";
    let (mut kinds, mut worst) = (0_u64, 0.0_f64);
    let reasons = over_launches(working_cells(evidence), |_, launches| {
        let drifts = drifts(launches)?;
        kinds += drifts.len() as u64;
        worst = drifts.iter().fold(worst, |worst, drift| worst.max(drift.abs()));
        let off = drifts.into_iter().filter(|drift| drift.abs() > MOST_DRIFT_PCT);
        Ok(off.map(|drift| format!("launches drifted by {drift:.1} % from its begin to its end")).collect())
    });
    rule.count("drift_judged", kinds);
    rule.count("drift_pct_most", worst);
    rule.refuse_all(reasons, COOLER);
}

/// The drift of each kind of launch in a cell that was launched often enough.
fn drifts(launches: &Table) -> Result<Vec<f64>, String> {
    let (config, warmup, wall) = (u32s(launches, "config")?, u32s(launches, "warmup")?, u32s(launches, "wall_ns")?);
    let mut kinds: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    for row in (0..launches.rows()).filter(|row| warmup[*row] == 0) {
        kinds.entry(config[row]).or_default().push(wall[row]);
    }
    Ok(kinds.values().filter_map(|walls| drift_pct(walls)).collect())
}

/// The clock that was locked; absent when none was, or when what was read back is not what was asked for.
fn locked(evidence: &Evidence) -> Option<u32> {
    let clocks = &evidence.environment.clocks;
    if clocks.mode == "lock" { clocks.read_back_mhz.filter(|mhz| clocks.asked_mhz == Some(*mhz)) } else { None }
}

type Read = (Vec<LaunchClock>, Vec<Sample>, Vec<(u32, f64)>);

/// Launches, telemetry, and the seconds of each cell by its place in the plan.
fn read(evidence: &Evidence) -> anyhow::Result<Read> {
    let planned = &evidence.contract.cells;
    let (mut clocks, mut seconds) = (Vec::new(), Vec::new());
    for cell in working_cells(evidence) {
        let record = &cell.data.record;
        let launches = cell.data.launches.as_ref().with_context(|| format!("{} has no launches", cell.name()))?;
        clocks.extend(launch_clocks(launches).with_context(|| cell.name())?);
        if let Some(place) = planned.iter().position(|cell| cell.phase == record.phase && cell.name == record.cell) {
            seconds.push((u32::try_from(place)? + 1, measured_seconds(launches).with_context(|| cell.name())?));
        }
    }
    let telemetry = evidence.telemetry.as_ref().map(samples).transpose().context("telemetry.parquet")?;
    Ok((clocks, telemetry.unwrap_or_default(), seconds))
}
