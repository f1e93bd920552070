//! Whether the host's clocks agree over a run: it did not sleep, and its wall clock was not set.
//!
//! Durations are only ever taken from monotonic clocks, so a step of the wall clock spoils no number; it is reported,
//! since dates and run ids come from that clock. If the host slept, the run is refused, since its GPU slept too.

use schema::environment::Stamp;

/// Growth of boot time over monotonic time that counts as sleep.
pub const SLEPT_MS: i64 = 100;
/// A step of wall time over monotonic time that is said.
pub const STEP_MS: i64 = 1_000;

/// What the clocks show.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Kept {
    /// Readings compared.
    pub stamps: u64,
    /// Everything that spoils the run.
    pub reasons: Vec<String>,
    /// Wall-clock steps in milliseconds, backwards negative.
    pub steps_ms: Vec<i64>,
}

/// Compares each reading with the one before.
#[must_use]
pub fn compare(stamps: &[Stamp]) -> Kept {
    let mut kept = Kept { stamps: stamps.len() as u64, ..Kept::default() };
    if stamps.len() < 2 {
        kept.reasons.push("the host's clocks were not read at the begin and the end of the run".to_owned());
    }
    for pair in stamps.windows(2) {
        let monotonic = pair[1].monotonic_ms.saturating_sub(pair[0].monotonic_ms);
        let ahead = |to: i64, from: i64| to.saturating_sub(from).saturating_sub(monotonic);
        let slept = ahead(pair[1].boottime_ms, pair[0].boottime_ms);
        let step = ahead(pair[1].wall_ms, pair[0].wall_ms);
        if monotonic < 0 {
            kept.reasons.push(format!("monotonic time went back by {} ms {}", -monotonic, place(pair)));
        }
        if slept.abs() > SLEPT_MS {
            kept.reasons.push(format!("the host slept for {slept} ms {}", place(pair)));
        }
        if step.abs() > STEP_MS {
            kept.steps_ms.push(step);
        }
    }
    kept
}

fn place(pair: &[Stamp]) -> String {
    match (pair[0].cell, pair[1].cell) {
        (0, 0) => "between cells".to_owned(),
        (0, cell) => format!("before cell {cell}"),
        (cell, _) => format!("in cell {cell}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stamp(cell: u32, wall_ms: i64, monotonic_ms: i64, boottime_ms: i64) -> Stamp {
        Stamp { cell, wall_ms, monotonic_ms, boottime_ms }
    }

    #[test]
    fn clocks_that_run_together_pass() {
        let kept =
            compare(&[stamp(0, 500, 100, 900), stamp(1, 60_540, 60_100, 60_900), stamp(0, 90_540, 90_100, 90_950)]);
        assert_eq!(kept, Kept { stamps: 3, ..Kept::default() });
    }

    #[test]
    fn a_host_that_slept_spoils_the_run_and_names_the_cell() {
        let asleep = compare(&[stamp(4, 0, 0, 0), stamp(0, 5_422_000, 10_000, 5_422_000)]);
        assert_eq!(asleep.reasons, ["the host slept for 5412000 ms in cell 4"]);
        assert_eq!(asleep.steps_ms, [5_412_000]);
    }

    #[test]
    fn a_step_of_the_wall_clock_is_said_in_its_direction() {
        let back = compare(&[stamp(0, 10_000, 0, 0), stamp(0, 8_855, 0, 0), stamp(1, 3_608_855, 1_000, 1_000)]);
        assert_eq!((back.reasons.len(), back.steps_ms), (0, vec![-1_145, 3_599_000]));
        let extreme = compare(&[stamp(0, i64::MIN, 0, 0), stamp(0, i64::MAX, 1, 1)]);
        assert_eq!(extreme.steps_ms.len(), 1);
    }

    #[test]
    fn clocks_that_were_not_read_or_go_back_are_no_evidence() {
        assert_eq!(compare(&[]).reasons.len(), 1);
        assert_eq!(compare(&[stamp(0, 0, 0, 0)]).reasons.len(), 1);
        let back = compare(&[stamp(0, 5_000, 5_000, 5_000), stamp(0, 4_000, 4_000, 4_000)]);
        assert_eq!(back.reasons, ["monotonic time went back by 1000 ms between cells"]);
    }
}
