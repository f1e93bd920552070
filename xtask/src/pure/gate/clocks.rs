//! Gate `clocks`: the class that the plan requires, from the in-band clock and from NVML, each of which alone can refuse.

use super::evidence::Evidence;
use super::rule::Rule;
use super::table::working_cells;
use crate::pure::clock_class::{
    ClockEvidence, LaunchClock, Sample, classify, launch_clocks, measured_seconds, samples,
};
use anyhow::Context;
use schema::environment::ClockRecord;
use schema::plan::ClockClass;
use schema::verdict::GateResult;

const STEADY: &str = "lock the clocks (cargo xtask clocks lock) or measure on a cooler, idle GPU";

pub(super) fn judge(evidence: &Evidence) -> GateResult {
    let mut rule = Rule::new("clocks");
    // A plan can only ask for more than steady clocks.
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
    rule.done()
}

/// What the record of the clocks says of itself: a lock was put back, and an observer set nothing.
fn judge_record(rule: &mut Rule, clocks: &ClockRecord) {
    let unchanged = clocks.mode != "lock" && clocks.setter_calls == 0 && clocks.restored != Some(false);
    let restored = clocks.mode == "lock" && clocks.restored == Some(true);
    rule.count("setter_calls", clocks.setter_calls);
    rule.require(unchanged || restored, "the clocks were changed and not put back", "cargo xtask clocks restore");
}

/// The clock that was locked; absent when none was, or when what was read back is not what was asked for.
fn locked(evidence: &Evidence) -> Option<u32> {
    let clocks = &evidence.environment.clocks;
    if clocks.mode == "lock" { clocks.read_back_mhz.filter(|mhz| clocks.asked_mhz == Some(*mhz)) } else { None }
}

type Read = (Vec<LaunchClock>, Vec<Sample>, Vec<(u32, f64)>);

/// Launches, telemetry, and the seconds of each cell by its place in the plan.
fn read(evidence: &Evidence) -> anyhow::Result<Read> {
    let planned = evidence.plan.cells(&evidence.environment.device.slots);
    let (mut clocks, mut seconds) = (Vec::new(), Vec::new());
    for cell in working_cells(evidence) {
        let record = &cell.data.record;
        let launches = cell.data.launches.as_ref().with_context(|| format!("{} has no launches", cell.name()))?;
        clocks.extend(launch_clocks(launches).with_context(|| cell.name())?);
        if let Some(place) = planned.iter().position(|p| p.phase == record.phase && p.name == record.cell) {
            seconds.push((u32::try_from(place)? + 1, measured_seconds(launches).with_context(|| cell.name())?));
        }
    }
    let telemetry = evidence.telemetry.as_ref().map(samples).transpose().context("telemetry.parquet")?;
    Ok((clocks, telemetry.unwrap_or_default(), seconds))
}
