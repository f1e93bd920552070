//! The class of a run's clocks, from cycles counted on the GPU itself and from what NVML reported meanwhile.
//!
//! There are two sources, and each alone can refuse a run: the in-band clock (cycles ÷ globaltimer in windows of
//! every launch) and NVML's telemetry. What was not observed counts against the run: without windows or samples the
//! class is `unsteady`. Launches off the clock do not by themselves: each number is judged for what they do to it (see
//! [`super::off_clock`]), and only a run of whose numbers not a tenth stands is unsteady. NVML must not see a clock that the
//! launches of the same cell do not.

mod rows;

pub use rows::{launch_clocks, measured_seconds, samples};

use schema::plan::{CLOCK_BAND_PCT, ClockClass};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use words::throttle;

/// Samples per second of measured time that telemetry must at least have.
pub const SAMPLES_PER_SECOND: f64 = 1.0;
/// Cells longer than this many seconds need samples of their own,
pub const LONG_CELL_S: f64 = 2.0;
/// and at least this many.
pub const SAMPLES_PER_LONG_CELL: u64 = 2;

/// Of this many numbers one must stand.
const ONE_STANDS_IN: u64 = 10;

/// The in-band clock of one measured launch, over its SMs and windows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LaunchClock {
    /// Its number in its cell.
    pub launch: u32,
    /// Windows observed; zero means that the clocks say nothing.
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
    /// Every measured cell.
    pub cells: &'a [CellClock],
    /// Telemetry, in the order it was taken.
    pub telemetry: &'a [Sample],
    /// Numbers that were sampled.
    pub numbers: u64,
    /// Those that launches off the clock move too far.
    pub numbers_refused: u64,
    /// The clock that was locked and proven under load; absent when clocks were only observed.
    pub locked_mhz: Option<u32>,
}

/// The clocks of one cell.
#[derive(Clone, Debug)]
pub struct CellClock {
    /// Its place in the plan, from 1.
    pub cell: u32,
    /// How long it took.
    pub seconds: f64,
    /// Every measured launch, warm-up excluded by the plan's rule.
    pub launches: Vec<LaunchClock>,
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
    /// Numbers that were sampled.
    pub numbers: u64,
    /// Those that launches off the clock move too far.
    pub numbers_refused: u64,
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
    /// Samples under load whose NVML clock is outside the band round their median, in cells none of whose launches is.
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
    let launches: Vec<&LaunchClock> = evidence.cells.iter().flat_map(|cell| &cell.launches).collect();
    let seen: Vec<&LaunchClock> = launches.iter().copied().filter(|launch| launch.windows > 0).collect();
    counts.launches = launches.len() as u64;
    counts.launches_without_windows = counts.launches - seen.len() as u64;
    counts.windows = seen.iter().map(|launch| u64::from(launch.windows)).sum();
    counts.run_median_khz = median_khz(launches.iter().copied());
    counts.khz_min = seen.iter().map(|launch| launch.khz_min).min();
    counts.khz_max = seen.iter().map(|launch| launch.khz_max).max();
    let off = |middle: u32| seen.iter().filter(|launch| launch.leaves_band(middle)).count() as u64;
    counts.launches_off_median = counts.run_median_khz.map_or(0, off);
    counts.launches_off_lock = evidence.locked_mhz.map(|mhz| off(mhz.saturating_mul(1000)));
    (counts.numbers, counts.numbers_refused) = (evidence.numbers, evidence.numbers_refused);

    let mut reasons = Vec::new();
    if counts.windows == 0 {
        reasons.push("no launch observed its clock in-band".to_owned());
    } else if counts.launches_without_windows > 0 {
        let (none, all) = (counts.launches_without_windows, counts.launches);
        reasons.push(format!("{none} of {all} launches did not observe their clock in-band"));
    }
    if counts.launches_off_median > 0 && (counts.numbers - counts.numbers_refused) * ONE_STANDS_IN < counts.numbers {
        let (refused, numbers) = (counts.numbers_refused, counts.numbers);
        let (off, all) = (counts.launches_off_median, counts.launches);
        let (min, max) = (counts.khz_min.unwrap_or(0), counts.khz_max.unwrap_or(0));
        let median = counts.run_median_khz.unwrap_or(0);
        reasons.push(format!(
            "in-band clock left {CLOCK_BAND_PCT} % of the run's median ({median} kHz) in {off} of {all} launches, {min} to {max} kHz; {refused} of {numbers} numbers do not stand"
        ));
    }
    reasons
}

fn telemetry(evidence: &ClockEvidence<'_>, counts: &mut ClockCounts) -> Vec<String> {
    let mut per_cell: BTreeMap<u32, Vec<&Sample>> = evidence.cells.iter().map(|cell| (cell.cell, Vec::new())).collect();
    for sample in evidence.telemetry {
        if let Some(rows) = per_cell.get_mut(&sample.cell) {
            rows.push(sample);
        }
    }
    let complete = |row: &&&Sample| row.sm_mhz.is_some() && row.throttle.is_some();
    counts.seconds = evidence.cells.iter().map(|cell| cell.seconds).sum();
    counts.rows = per_cell.values().map(|rows| rows.len() as u64).sum();
    counts.samples = per_cell.values().flatten().filter(complete).count() as u64;
    let samples_in = |cell: u32| per_cell[&cell].iter().filter(complete).count() as u64;
    let short = |cell: &&CellClock| cell.seconds > LONG_CELL_S && samples_in(cell.cell) < SAMPLES_PER_LONG_CELL;
    counts.cells_short_of_samples = evidence.cells.iter().filter(short).count() as u64;
    throttled(&per_cell, counts);
    let seen_in_band = |cell: &&CellClock| {
        let leaves = |launch: &LaunchClock| counts.run_median_khz.is_some_and(|middle| launch.leaves_band(middle));
        cell.launches.iter().any(leaves)
    };
    let explained: BTreeSet<u32> = evidence.cells.iter().filter(seen_in_band).map(|cell| cell.cell).collect();
    counts.samples_off_median = off_median(&per_cell, &explained);
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
            "NVML's SM clock differed from its median by more than {CLOCK_BAND_PCT} % in {off} samples under load, which no launch of the same cells shows"
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
    (2 * off > counts.launches).then(|| {
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

/// Samples off the median of those under load, but in cells whose launches show such a clock. A sample after an idle one may lie
/// on the ramp, and is not judged.
fn off_median(per_cell: &BTreeMap<u32, Vec<&Sample>>, explained: &BTreeSet<u32>) -> u64 {
    let busy = |row: &Sample| row.throttle.is_some_and(|bits| bits.cast_unsigned() & throttle::GPU_IDLE == 0);
    let pairs = per_cell.values().flat_map(|rows| rows.windows(2));
    let judged: Vec<&Sample> = pairs.filter(|pair| busy(pair[0]) && busy(pair[1])).map(|pair| pair[1]).collect();
    let Some(middle) = median(judged.iter().filter_map(|row| row.sm_mhz).collect()) else { return 0 };
    let off = |row: &&&Sample| row.sm_mhz.is_some_and(|mhz| !within_band(f64::from(mhz), f64::from(middle)));
    judged.iter().filter(off).filter(|row| !explained.contains(&row.cell)).count() as u64
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

impl LaunchClock {
    /// Whether a window lies outside the band round `middle_khz`; never without windows.
    #[must_use]
    pub fn leaves_band(&self, middle_khz: u32) -> bool {
        let outside = |khz: u32| !within_band(f64::from(khz), f64::from(middle_khz));
        self.windows > 0 && (outside(self.khz_min) || outside(self.khz_max))
    }
}

/// The median of the launches' median clocks; absent where none has windows.
pub fn median_khz<'a>(launches: impl IntoIterator<Item = &'a LaunchClock>) -> Option<u32> {
    median(launches.into_iter().filter(|launch| launch.windows > 0).map(|launch| launch.khz_p50).collect())
}

fn median(mut values: Vec<u32>) -> Option<u32> {
    values.sort_unstable();
    values.get(values.len() / 2).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    const STEADY: LaunchClock =
        LaunchClock { launch: 0, windows: 8, khz_min: 1_979_000, khz_p50: 1_980_000, khz_max: 1_981_000 };
    const QUIET: Sample = Sample {
        cell: 1,
        sm_mhz: Some(1980),
        throttle: Some(0),
        power_violation_ns: Some(5),
        thermal_violation_ns: Some(0),
    };

    /// Classifies one cell of 3 seconds and looks for `needle` among the reasons (empty: no look).
    fn check(launches: &[LaunchClock], telemetry: &[Sample], locked_mhz: Option<u32>, class: ClockClass, needle: &str) {
        judge(launches, (telemetry, locked_mhz), (100, 0), class, needle);
    }

    /// As [`check`], for a run of so many numbers of which so many were refused.
    fn judge(
        launches: &[LaunchClock],
        (telemetry, locked_mhz): (&[Sample], Option<u32>),
        (numbers, numbers_refused): (u64, u64),
        class: ClockClass,
        needle: &str,
    ) {
        let cells = [CellClock { cell: 1, seconds: 3.0, launches: launches.to_vec() }];
        let judgement = classify(&ClockEvidence { cells: &cells, telemetry, numbers, numbers_refused, locked_mhz });
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

    const SAGGED: LaunchClock = LaunchClock { khz_min: 1_950_000, ..STEADY };

    #[test]
    fn launches_off_the_clock_refuse_a_run_only_when_nearly_all_of_its_numbers_fall_with_them() {
        let raced = LaunchClock { khz_max: 2_010_000, ..STEADY };
        for odd in [SAGGED, raced] {
            let launches = [STEADY, STEADY, odd];
            for (refused, class) in [(0, ClockClass::Locked), (90, ClockClass::Locked), (91, ClockClass::Unsteady)] {
                let needle = if refused > 90 { "in-band clock left" } else { "" };
                judge(&launches, (&[QUIET; 4], Some(1980)), (100, refused), class, needle);
            }
        }
    }

    #[test]
    fn a_lock_that_most_launches_leave_is_none() {
        check(&[STEADY, SAGGED, SAGGED], &[QUIET; 4], Some(1980), ClockClass::Stable, "in 2 of 3 launches");
    }

    #[test]
    fn nvml_may_see_what_launches_of_the_same_cell_show() {
        let telemetry = with(|row| row.sm_mhz = Some(1755));
        check(&[STEADY, SAGGED], &telemetry, None, ClockClass::Stable, "");
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
        let blind = LaunchClock { launch: 1, windows: 0, khz_min: 0, khz_p50: 0, khz_max: 0 };
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
        let cell = |cell, seconds| CellClock { cell, seconds, launches: vec![STEADY] };
        let evidence = ClockEvidence {
            cells: &[cell(1, 3.0), cell(2, 2.5)],
            telemetry: &telemetry,
            numbers: 9,
            numbers_refused: 0,
            locked_mhz: None,
        };
        let judgement = classify(&evidence);
        assert_eq!(judgement.class, ClockClass::Unsteady);
        assert_eq!(judgement.counts.cells_short_of_samples, 1);
    }
}
