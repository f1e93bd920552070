//! Pearson's correlation with an interval that draws launches.

use super::{Estimate, Resamples};

/// Sums of one unit's pairs, taken about the common mean so that little cancels.
#[derive(Clone, Copy, Default)]
struct Sums {
    n: f64,
    x: f64,
    y: f64,
    xx: f64,
    yy: f64,
    xy: f64,
}

impl Resamples {
    /// Pearson's correlation of pairs, each a launch and two values; nothing when either value never varies.
    ///
    /// # Panics
    /// When a pair's launch is not one of those given to [`Resamples::new`].
    #[must_use]
    pub fn correlation(&self, pairs: &[(u32, f64, f64)]) -> Option<Estimate<f64>> {
        let sums = self.sums_by_unit(pairs);
        let value = correlation(sums.iter().map(|sums| (1.0, sums)))?;
        let drawn = self.rows().filter_map(|weights| {
            correlation(weights.iter().zip(&sums).filter(|(w, _)| **w > 0).map(|(w, sums)| (f64::from(*w), sums)))
        });
        Some(Estimate::drawn(value, drawn.collect(), pairs.len() as u64))
    }

    fn sums_by_unit(&self, pairs: &[(u32, f64, f64)]) -> Vec<Sums> {
        let n = pairs.len() as f64;
        let mean_x = pairs.iter().map(|(_, x, _)| x).sum::<f64>() / n;
        let mean_y = pairs.iter().map(|(_, _, y)| y).sum::<f64>() / n;
        let mut sums = vec![Sums::default(); self.n_units()];
        for (launch, x, y) in pairs {
            let (x, y) = (x - mean_x, y - mean_y);
            let s = &mut sums[self.unit(*launch)];
            *s = Sums { n: s.n + 1.0, x: s.x + x, y: s.y + y, xx: s.xx + x * x, yy: s.yy + y * y, xy: s.xy + x * y };
        }
        sums
    }
}

fn correlation<'a>(weighted: impl Iterator<Item = (f64, &'a Sums)>) -> Option<f64> {
    let mut t = Sums::default();
    for (w, s) in weighted {
        t.n += w * s.n;
        t.x += w * s.x;
        t.y += w * s.y;
        t.xx += w * s.xx;
        t.yy += w * s.yy;
        t.xy += w * s.xy;
    }
    let spread = (t.n * t.xx - t.x * t.x) * (t.n * t.yy - t.y * t.y);
    (spread > 0.0).then(|| (t.n * t.xy - t.x * t.y) / spread.sqrt())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(pairs: &[(f64, f64)], expected: Option<f64>) {
        let pairs: Vec<(u32, f64, f64)> = pairs.iter().zip(0..).map(|((x, y), i)| (i, *x, *y)).collect();
        let found = Resamples::new("t", 0..pairs.len() as u32).correlation(&pairs).map(|e| e.value);
        match (found, expected) {
            (Some(found), Some(expected)) => assert!((found - expected).abs() < 1e-12, "{found} {expected}"),
            _ => assert_eq!(found, expected),
        }
    }

    #[test]
    fn known_correlations() {
        check(&[(1.0, 2.0), (2.0, 4.0), (3.0, 6.0)], Some(1.0));
        check(&[(1.0, 3.0), (2.0, 2.0), (3.0, 1.0)], Some(-1.0));
        check(&[(1e9, 1.0), (1e9 + 1.0, 3.0), (1e9 + 2.0, 2.0)], Some(0.5));
        check(&[(1.0, 2.0), (1.0, 3.0)], None);
        check(&[], None);
    }

    #[test]
    fn the_interval_holds_the_value_and_widens_with_noise() {
        let width = |noise: f64| {
            let y = |i: u32| f64::from(i) + noise * f64::from(i * 7919 % 101);
            let pairs: Vec<_> = (0..300).map(|i| (i, f64::from(i), y(i))).collect();
            let e = Resamples::new("t", 0..300).correlation(&pairs).unwrap();
            let (lo, hi) = e.interval.unwrap();
            assert!(lo <= e.value && e.value <= hi);
            hi - lo
        };
        assert!(width(0.1) < width(3.0));
    }
}
