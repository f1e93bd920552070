//! Detects launches of one kind that became slower or faster while a cell was measured, an order effect that no
//! interval shows.

use std::collections::BTreeMap;
use tables::Table;

/// The most that the median of the last third, or of the last tenth, may differ from that of the first third, in percent.
///
/// Over three full runs on an H200 whose clocks held, the largest was 0.64 % (20261129T162508Z-h200-913d750a).
pub const MOST_DRIFT_PCT: f64 = 2.0;
/// Fewer launches than this show no drift worth the name.
pub const FEWEST_LAUNCHES: usize = 12;
/// From so many launches on the last tenth is looked at by itself: a GPU may throttle only near the end.
const FEWEST_FOR_TENTHS: usize = 60;

/// The drift of each kind of launch in a cell that was launched often enough, warm-up left out.
///
/// # Errors
/// When a column is missing or of another type.
pub fn drifts(launches: &Table) -> anyhow::Result<Vec<f64>> {
    let (config, warmup, wall) = (launches.u32("config")?, launches.u32("warmup")?, launches.u32("wall_ns")?);
    let mut kinds: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    for row in (0..launches.rows()).filter(|row| warmup[*row] == 0) {
        kinds.entry(config[row]).or_default().push(wall[row]);
    }
    Ok(kinds.values().filter_map(|walls| drift_pct(walls)).collect())
}

/// How much the end's median differs from the first third's, in percent, the farther of the two ends; `None` for too few launches.
#[must_use]
pub fn drift_pct(walls_ns: &[u32]) -> Option<f64> {
    if walls_ns.len() < FEWEST_LAUNCHES {
        return None;
    }
    let (n, third) = (walls_ns.len(), walls_ns.len() / 3);
    let first = median(&walls_ns[..third]);
    let against_first = |last: usize| (median(&walls_ns[n - last..]) / first - 1.0) * 100.0;
    let (end, very_end) = (against_first(third), against_first(if n < FEWEST_FOR_TENTHS { third } else { n / 10 }));
    let farther = if very_end.abs() > end.abs() { very_end } else { end };
    (first > 0.0).then_some(farther)
}

fn median(values: &[u32]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_unstable();
    let middle = sorted.len() / 2;
    let of = |idx: usize| f64::from(sorted[idx]);
    if sorted.len().is_multiple_of(2) { f64::midpoint(of(middle - 1), of(middle)) } else { of(middle) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slow_end_shows_and_single_outliers_do_not() {
        let mut walls = vec![1_000; 60];
        assert_eq!(drift_pct(&walls), Some(0.0));
        for outlier in [0, 30, 59] {
            walls[outlier] = 90_000;
        }
        assert_eq!(drift_pct(&walls), Some(0.0));
        // The last 15 % are slower, as on a GPU that throttles under sustained load.
        walls[51..].fill(1_170);
        assert!(drift_pct(&walls).unwrap() > 16.0);
        walls.reverse();
        assert!(drift_pct(&walls).unwrap().abs() < MOST_DRIFT_PCT, "a cold start is the warm-up rule's");
        walls[..30].fill(1_170);
        assert!(drift_pct(&walls).unwrap() < -14.0);
        let mut few = [1_000; 20];
        few[15..].fill(1_170);
        assert!(drift_pct(&few).unwrap() > 16.0);
    }

    #[test]
    fn too_few_launches_or_none_at_all_show_nothing() {
        assert_eq!(drift_pct(&[1_000; 11]), None);
        assert_eq!(drift_pct(&[0; 30]), None);
        assert_eq!(drift_pct(&[]), None);
    }
}
