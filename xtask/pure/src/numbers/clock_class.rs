//! The class of a run's clocks, from cycles counted on the GPU itself and from what NVML reported meanwhile.
//!
//! There are two sources, and each alone can refuse a run: the in-band clock (cycles ÷ globaltimer in windows of
//! every launch) and NVML's telemetry. What was not observed counts against the run: without windows or samples the
//! class is `unsteady`.

mod rows;

pub use rows::{launch_clocks, measured_seconds, samples};

use schema::plan::{CLOCK_BAND_PCT, ClockClass};
use serde::Serialize;
use std::collections::BTreeMap;
use words::throttle;

/// Samples per second of measured time that telemetry must at least have.
pub const SAMPLES_PER_SECOND: f64 = 1.0;
/// Cells longer than this many seconds need samples of their own,
pub const LONG_CELL_S: f64 = 2.0;
/// and at least this many.
pub const SAMPLES_PER_LONG_CELL: u64 = 2;

/// The in-band clock of one measured launch, over its SMs and windows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LaunchClock {
    /// Windows observed; zero means that the other three say nothing.
    pub windows: u32,
    /// Slowest window.
    pub khz_min: u32,
    /// Median window.
    pub khz_p50: u32,
    /// Fastest window.
    pub khz_max: u32,
}

/// One row of telemetry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    /// The cell it was taken in, from 1; 0 between cells.
    pub cell: u32,
    /// SM clock.
    pub sm_mhz: Option<u32>,
    /// Reason bits.
    pub throttle: Option<i64>,
    /// Accumulated time below the clock because of power.
    pub power_violation_ns: Option<i64>,
    /// Accumulated time below the clock because of heat.
    pub thermal_violation_ns: Option<i64>,
}

/// All that the class is judged from.
#[derive(Clone, Debug)]
pub struct ClockEvidence<'a> {
    /// Every measured launch, warm-up excluded by the plan's rule.
    pub launches: &'a [LaunchClock],
    /// Telemetry, in the order it was taken.
    pub telemetry: &'a [Sample],
    /// Seconds every measured cell took, by its index from 1.
    pub cells: &'a [(u32, f64)],
    /// The clock that was locked and proven under load; absent when clocks were only observed.
    pub locked_mhz: Option<u32>,
}

/// The class, why it is no better, and what was counted.
#[derive(Clone, Debug, Serialize)]
pub struct ClockJudgement {
    /// The class.
    pub class: ClockClass,
    /// Everything that stands against a better class; may hold a reason against `locked` alone.
    pub reasons: Vec<String>,
    /// The counts.
    pub counts: ClockCounts,
}

/// What was counted.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct ClockCounts {
    /// Launches looked at.
    pub launches: u64,
    /// Launches without a window.
    pub launches_without_windows: u64,
    /// Windows observed.
    pub windows: u64,
    /// Median of the launches' medians.
    pub run_median_khz: Option<u32>,
    /// Slowest window of the run.
    pub khz_min: Option<u32>,
    /// Fastest window of the run.
    pub khz_max: Option<u32>,
    /// Launches with a window outside the band round the run's median.
    pub launches_off_median: u64,
    /// Launches with a window outside the band round the locked clock; absent when not locked.
    pub launches_off_lock: Option<u64>,
    /// Measured seconds.
    pub seconds: f64,
    /// Telemetry rows inside measured cells.
    pub rows: u64,
    /// Those with both clock and reasons.
    pub samples: u64,
    /// Long cells with too few samples.
    pub cells_short_of_samples: u64,
    /// Samples with a reason that disturbs.
    pub throttled_samples: u64,
    /// All reasons seen, as bits.
    pub throttle_bits: u64,
    /// Samples under load whose NVML clock is outside the band round their median.
    pub samples_off_median: u64,
    /// Time held down by power within cells; absent when never read twice.
    pub power_violation_ns: Option<i64>,
    /// Time held down by heat within cells; absent when never read twice.
    pub thermal_violation_ns: Option<i64>,
}

/// Judges the clocks of a run.
#[must_use]
pub fn classify(evidence: &ClockEvidence<'_>) -> ClockJudgement {
    let mut counts = ClockCounts::default();
    let mut against_stable = in_band(evidence, &mut counts);
    against_stable.extend(telemetry(evidence, &mut counts));
    let against_locked = lock(evidence, &counts);
    let class = match (against_stable.is_empty(), against_locked.is_none()) {
        (false, _) => ClockClass::Unsteady,
        (true, false) => ClockClass::Stable,
        (true, true) => ClockClass::Locked,
    };
    let mut reasons = against_stable;
    reasons.extend(against_locked);
    ClockJudgement { class, reasons, counts }
}

fn in_band(evidence: &ClockEvidence<'_>, counts: &mut ClockCounts) -> Vec<String> {
    let seen: Vec<&LaunchClock> = evidence.launches.iter().filter(|launch| launch.windows > 0).collect();
    counts.launches = evidence.launches.len() as u64;
    counts.launches_without_windows = counts.launches - seen.len() as u64;
    counts.windows = seen.iter().map(|launch| u64::from(launch.windows)).sum();
    counts.run_median_khz = median(seen.iter().map(|launch| launch.khz_p50).collect());
    counts.khz_min = seen.iter().map(|launch| launch.khz_min).min();
    counts.khz_max = seen.iter().map(|launch| launch.khz_max).max();
    let off = |middle: u32| seen.iter().filter(|launch| leaves_band(launch, middle)).count() as u64;
    counts.launches_off_median = counts.run_median_khz.map_or(0, off);
    counts.launches_off_lock = evidence.locked_mhz.map(|mhz| off(mhz.saturating_mul(1000)));

    let mut reasons = Vec::new();
    if counts.windows == 0 {
        reasons.push("no launch observed its clock in-band".to_owned());
    } else if counts.launches_without_windows > 0 {
        let (none, all) = (counts.launches_without_windows, counts.launches);
        reasons.push(format!("{none} of {all} launches did not observe their clock in-band"));
    }
    if counts.launches_off_median > 0 {
        let (off, all) = (counts.launches_off_median, counts.launches);
        let (min, max) = (counts.khz_min.unwrap_or(0), counts.khz_max.unwrap_or(0));
        let median = counts.run_median_khz.unwrap_or(0);
        reasons.push(format!(
            "in-band clock left {CLOCK_BAND_PCT} % of the run's median ({median} kHz) in {off} of {all} launches: {min} to {max} kHz"
        ));
    }
    reasons
}

fn telemetry(evidence: &ClockEvidence<'_>, counts: &mut ClockCounts) -> Vec<String> {
    let mut per_cell: BTreeMap<u32, Vec<&Sample>> =
        evidence.cells.iter().map(|(cell, _)| (*cell, Vec::new())).collect();
    for sample in evidence.telemetry {
        if let Some(rows) = per_cell.get_mut(&sample.cell) {
            rows.push(sample);
        }
    }
    let complete = |row: &&&Sample| row.sm_mhz.is_some() && row.throttle.is_some();
    counts.seconds = evidence.cells.iter().map(|(_, seconds)| seconds).sum();
    counts.rows = per_cell.values().map(|rows| rows.len() as u64).sum();
    counts.samples = per_cell.values().flatten().filter(complete).count() as u64;
    let samples_in = |cell: u32| per_cell[&cell].iter().filter(complete).count() as u64;
    let short = |(cell, seconds): &&(u32, f64)| *seconds > LONG_CELL_S && samples_in(*cell) < SAMPLES_PER_LONG_CELL;
    counts.cells_short_of_samples = evidence.cells.iter().filter(short).count() as u64;
    throttled(&per_cell, counts);
    counts.samples_off_median = off_median(&per_cell);
    counts.power_violation_ns = grown(&per_cell, |row| row.power_violation_ns);
    counts.thermal_violation_ns = grown(&per_cell, |row| row.thermal_violation_ns);
    telemetry_reasons(counts)
}

fn telemetry_reasons(counts: &ClockCounts) -> Vec<String> {
    let mut reasons = Vec::new();
    let (samples, seconds) = (counts.samples, counts.seconds);
    if samples == 0 {
        reasons.push("no telemetry inside the measured cells".to_owned());
    } else if (samples as f64) < seconds * SAMPLES_PER_SECOND {
        reasons.push(format!("{samples} telemetry samples over {seconds:.1} measured seconds are too few"));
    }
    if counts.cells_short_of_samples > 0 {
        let cells = counts.cells_short_of_samples;
        reasons.push(format!(
            "{cells} cells longer than {LONG_CELL_S} s have fewer than {SAMPLES_PER_LONG_CELL} telemetry samples"
        ));
    }
    if counts.throttled_samples > 0 {
        let named = throttle::names(counts.throttle_bits & !throttle::HARMLESS);
        reasons.push(format!("clocks were throttled in {} of {samples} samples: {named}", counts.throttled_samples));
    }
    if counts.samples_off_median > 0 {
        let off = counts.samples_off_median;
        reasons.push(format!(
            "NVML's SM clock differed from its median by more than {CLOCK_BAND_PCT} % in {off} samples under load"
        ));
    }
    for (what, ns) in [("power", counts.power_violation_ns), ("heat", counts.thermal_violation_ns)] {
        if let Some(ns) = ns.filter(|ns| *ns > 0) {
            reasons.push(format!(
                "NVML counted {:.3} ms of throttling by {what} within the measured cells",
                ns as f64 / 1e6
            ));
        }
    }
    reasons
}

fn lock(evidence: &ClockEvidence<'_>, counts: &ClockCounts) -> Option<String> {
    let Some(mhz) = evidence.locked_mhz else {
        return Some("clocks were not locked".to_owned());
    };
    let off = counts.launches_off_lock.unwrap_or(0);
    (off > 0).then(|| {
        format!(
            "in-band clock left {CLOCK_BAND_PCT} % of the locked {mhz} MHz in {off} of {} launches",
            counts.launches
        )
    })
}

fn throttled(per_cell: &BTreeMap<u32, Vec<&Sample>>, counts: &mut ClockCounts) {
    for bits in per_cell.values().flatten().filter_map(|row| row.throttle) {
        let bits = bits.cast_unsigned();
        counts.throttle_bits |= bits;
        counts.throttled_samples += u64::from(bits & !throttle::HARMLESS != 0);
    }
}

/// Samples off the median of those under load. A sample after an idle one may lie on the ramp, and is not judged.
fn off_median(per_cell: &BTreeMap<u32, Vec<&Sample>>) -> u64 {
    let busy = |row: &Sample| row.throttle.is_some_and(|bits| bits.cast_unsigned() & throttle::GPU_IDLE == 0);
    let pairs = per_cell.values().flat_map(|rows| rows.windows(2));
    let judged: Vec<u32> =
        pairs.filter(|pair| busy(pair[0]) && busy(pair[1])).filter_map(|pair| pair[1].sm_mhz).collect();
    let Some(middle) = median(judged.clone()) else { return 0 };
    judged.into_iter().filter(|mhz| !within_band(f64::from(*mhz), f64::from(middle))).count() as u64
}

/// How much a counter grew between the first and the last row of each cell, summed; absent when no cell read it twice.
fn grown(per_cell: &BTreeMap<u32, Vec<&Sample>>, counter: impl Fn(&Sample) -> Option<i64>) -> Option<i64> {
    let growth = |rows: &Vec<&Sample>| {
        let read: Vec<i64> = rows.iter().filter_map(|row| counter(row)).collect();
        if read.len() < 2 { None } else { Some(read[read.len() - 1].saturating_sub(read[0])) }
    };
    per_cell.values().filter_map(growth).reduce(i64::saturating_add)
}

/// Whether `value` lies within [`CLOCK_BAND_PCT`] of `middle`.
#[must_use]
pub fn within_band(value: f64, middle: f64) -> bool {
    (value - middle).abs() <= middle * (CLOCK_BAND_PCT / 100.0)
}

fn leaves_band(launch: &LaunchClock, middle_khz: u32) -> bool {
    let middle = f64::from(middle_khz);
    !within_band(f64::from(launch.khz_min), middle) || !within_band(f64::from(launch.khz_max), middle)
}

fn median(mut values: Vec<u32>) -> Option<u32> {
    values.sort_unstable();
    values.get(values.len() / 2).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    const STEADY: LaunchClock = LaunchClock { windows: 8, khz_min: 1_979_000, khz_p50: 1_980_000, khz_max: 1_981_000 };
    const QUIET: Sample = Sample {
        cell: 1,
        sm_mhz: Some(1980),
        throttle: Some(0),
        power_violation_ns: Some(5),
        thermal_violation_ns: Some(0),
    };

    /// Classifies one cell of 3 seconds and looks for `needle` among the reasons (empty: no look).
    fn check(launches: &[LaunchClock], telemetry: &[Sample], locked_mhz: Option<u32>, class: ClockClass, needle: &str) {
        let judgement = classify(&ClockEvidence { launches, telemetry, cells: &[(1, 3.0)], locked_mhz });
        assert_eq!(judgement.class, class, "{judgement:?}");
        assert!(needle.is_empty() || judgement.reasons.iter().any(|r| r.contains(needle)), "{judgement:?}");
    }

    fn with(change: impl Fn(&mut Sample)) -> [Sample; 4] {
        let mut changed = QUIET;
        change(&mut changed);
        [QUIET, QUIET, changed, QUIET]
    }

    #[test]
    fn steady_clocks_are_stable_and_locked_only_when_they_sit_on_the_lock() {
        check(&[STEADY; 3], &[QUIET; 4], None, ClockClass::Stable, "not locked");
        check(&[STEADY; 3], &[QUIET; 4], Some(1980), ClockClass::Locked, "");
        check(&[STEADY; 3], &[QUIET; 4], Some(1935), ClockClass::Stable, "locked 1935 MHz");
    }

    #[test]
    fn idle_and_application_clocks_are_no_reason() {
        check(&[STEADY], &with(|row| row.throttle = Some(3)), None, ClockClass::Stable, "");
    }

    #[test]
    fn every_other_reason_refuses_known_or_not() {
        for bit in 2..16 {
            check(&[STEADY], &with(|row| row.throttle = Some(1 << bit)), Some(1980), ClockClass::Unsteady, "throttled");
        }
        check(&[STEADY], &with(|row| row.throttle = Some(4)), None, ClockClass::Unsteady, "power cap");
    }

    #[test]
    fn unsteady_in_band_alone_is_found() {
        let sagged = LaunchClock { khz_min: 1_950_000, ..STEADY };
        let raced = LaunchClock { khz_max: 2_010_000, ..STEADY };
        for odd in [sagged, raced] {
            check(&[STEADY, STEADY, odd], &[QUIET; 4], Some(1980), ClockClass::Unsteady, "in-band clock left");
        }
    }

    #[test]
    fn unsteady_in_nvml_alone_is_found() {
        check(&[STEADY], &with(|row| row.sm_mhz = Some(1755)), None, ClockClass::Unsteady, "NVML's SM clock");
        let power = [QUIET, QUIET, QUIET, Sample { power_violation_ns: Some(9), ..QUIET }];
        check(&[STEADY], &power, None, ClockClass::Unsteady, "by power");
        let heat = [QUIET, QUIET, QUIET, Sample { thermal_violation_ns: Some(1), ..QUIET }];
        check(&[STEADY], &heat, None, ClockClass::Unsteady, "by heat");
    }

    #[test]
    fn a_ramp_out_of_idle_is_not_judged() {
        let idle = Sample { sm_mhz: Some(345), throttle: Some(1), ..QUIET };
        let ramp = Sample { sm_mhz: Some(1200), ..QUIET };
        check(&[STEADY], &[idle, ramp, QUIET, QUIET, QUIET], None, ClockClass::Stable, "");
    }

    #[test]
    fn absent_evidence_refuses() {
        let blind = LaunchClock { windows: 0, khz_min: 0, khz_p50: 0, khz_max: 0 };
        check(&[], &[QUIET; 4], Some(1980), ClockClass::Unsteady, "no launch observed");
        check(&[blind], &[QUIET; 4], None, ClockClass::Unsteady, "no launch observed");
        check(&[STEADY, blind], &[QUIET; 4], None, ClockClass::Unsteady, "1 of 2 launches");
        check(&[STEADY], &[], None, ClockClass::Unsteady, "no telemetry");
        check(&[STEADY], &[QUIET; 2], None, ClockClass::Unsteady, "too few");
        let lost =
            Sample { sm_mhz: None, throttle: None, power_violation_ns: None, thermal_violation_ns: None, ..QUIET };
        check(&[STEADY], &[lost; 9], None, ClockClass::Unsteady, "no telemetry");
        let elsewhere = Sample { cell: 0, ..QUIET };
        check(&[STEADY], &[elsewhere; 9], None, ClockClass::Unsteady, "no telemetry");
    }

    #[test]
    fn a_long_cell_needs_samples_of_its_own() {
        let telemetry = [QUIET; 30];
        let evidence = ClockEvidence {
            launches: &[STEADY],
            telemetry: &telemetry,
            cells: &[(1, 3.0), (2, 2.5)],
            locked_mhz: None,
        };
        let judgement = classify(&evidence);
        assert_eq!(judgement.class, ClockClass::Unsteady);
        assert_eq!(judgement.counts.cells_short_of_samples, 1);
    }
}
