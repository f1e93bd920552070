//! Finds samples that fall into two states with nothing between them, such as the drains of a grid that settles in
//! one of two placements: a median over both describes neither.

/// Each state holds at least this share of the samples, in per cent; fewer are outliers, which quantiles show.
const SHARE_PCT: usize = 5;
/// Between the states lies an empty stretch of at least this part of the median, in per cent: well above the spread of one
/// state, which is under 1 % on an idle GPU with a steady clock.
const GAP_PCT: u64 = 4;
/// Fewer samples than this show no states.
const MIN_SAMPLES: usize = 20;

/// Two states.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TwoStates {
    /// Samples in the lower state.
    pub lower: usize,
    /// Samples in the upper state.
    pub upper: usize,
    /// Median of the lower state.
    pub lower_p50: u64,
    /// Median of the upper state.
    pub upper_p50: u64,
}

/// The two states that samples fall into; absent when they are one.
#[must_use]
pub fn two_states(mut samples: Vec<u64>) -> Option<TwoStates> {
    if samples.len() < MIN_SAMPLES {
        return None;
    }
    samples.sort_unstable();
    let fewest = (samples.len() * SHARE_PCT).div_ceil(100);
    // The upper state begins at `at`.
    let (gap, at) = (fewest..=samples.len() - fewest).map(|at| (samples[at] - samples[at - 1], at)).max()?;
    let (lower, upper) = samples.split_at(at);
    let apart = gap.saturating_mul(100) >= median(&samples).saturating_mul(GAP_PCT) && gap > 0;
    apart.then(|| TwoStates {
        lower: lower.len(),
        upper: upper.len(),
        lower_p50: median(lower),
        upper_p50: median(upper),
    })
}

/// The lower median of sorted samples, of which there is at least one.
fn median(sorted: &[u64]) -> u64 {
    sorted[(sorted.len() - 1) / 2]
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;
    use tables::Table;

    /// `n` samples from `from` on, spread over one per cent of it.
    fn state(from: u64, n: u64) -> impl Iterator<Item = u64> {
        (0..n).map(move |i| from + i * from / 100 / n)
    }

    fn check(samples: impl Iterator<Item = u64>, expected: Option<(usize, usize)>) {
        assert_eq!(two_states(samples.collect()).map(|found| (found.lower, found.upper)), expected);
    }

    #[test]
    fn two_states_are_found_whatever_their_order() {
        check(state(1_000_000, 50).chain(state(1_120_000, 50)), Some((50, 50)));
        check(state(1_120_000, 60).chain(state(1_000_000, 40)), Some((40, 60)));
        check(state(1_000_000, 95).chain(state(1_120_000, 5)), Some((95, 5)));
        check(state(1_000_000, 5).chain(state(1_120_000, 95)), Some((5, 95)));
        let found = two_states(state(1_000_000, 3).chain(state(2_000_000, 17)).collect()).unwrap();
        assert_eq!((found.lower_p50, found.upper_p50), (1_003_333, 2_009_411));
    }

    #[test]
    fn one_state_few_samples_and_outliers_are_no_states() {
        check(state(1_000_000, 100), None);
        check(state(1_000_000, 96).chain(state(1_120_000, 4)), None);
        check(state(1_000_000, 9).chain(state(1_120_000, 10)), None);
        check(state(1_000_000, 10).chain(state(1_120_000, 10)), Some((10, 10)));
        check(state(1_000_000, 384).chain(state(1_120_000, 20)), None);
        check(state(1_000_000, 383).chain(state(1_120_000, 21)), Some((383, 21)));
        check(std::iter::repeat_n(7, 100), None);
        check(std::iter::repeat_n(0, 100), None);
    }

    /// What GPUs gave us: of every published cell of drains, a grid as large as the GPU among them, the drains are one state.
    #[test]
    fn published_drains_are_one_state() {
        let events = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap().join("results/events");
        let mut cells = 0;
        for run in fs_err::read_dir(events).unwrap() {
            let baseline = run.unwrap().path().join("cells/baseline");
            for file in fs_err::read_dir(&baseline).into_iter().flatten().map(|file| file.unwrap().path()) {
                let name = file.file_name().unwrap().to_string_lossy().into_owned();
                if name.ends_with(".launches.parquet") || !name.ends_with(".parquet") {
                    continue;
                }
                let drains = Table::read(&file).unwrap().i64("device_drain_ns").unwrap().to_vec();
                let drains: Vec<u64> = drains.into_iter().map(|ns| u64::try_from(ns).unwrap()).collect();
                assert!(drains.len() >= MIN_SAMPLES, "{}", file.display());
                assert_eq!(two_states(drains), None, "{}", file.display());
                cells += 1;
            }
        }
        assert!(cells > 0);
    }

    #[test]
    fn the_gap_counts_from_four_per_cent_of_the_median() {
        let pair = |upper| std::iter::repeat_n(1_000, 60).chain(std::iter::repeat_n(upper, 40));
        check(pair(1_040), Some((60, 40)));
        check(pair(1_039), None);
        let long = |upper| std::iter::repeat_n(10_000, 60).chain(std::iter::repeat_n(upper, 40));
        check(long(10_399), None);
        check(std::iter::repeat_n(25, 60).chain(std::iter::repeat_n(26, 40)), Some((60, 40)));
    }
}
