//! Order statistics, paired costs and correlations, each with a bootstrap interval. Knows nothing of cells or metrics.
//!
//! A quantile is the nearest-rank one: the value at rank ceil(q n), counted from 1, of the sorted samples. It is always a
//! value that was measured, and its rank is whole-number arithmetic, so that any language gets the same digits.
//! Intervals are 95 % percentile intervals over [`RESAMPLES`] resamples of whole launches (or quads), since samples of one
//! launch are not independent of each other. More than [`MAX_UNITS`] launches are drawn in that many groups of consecutive
//! ones, which keeps slow drift in the interval and is quick. The draws depend on a name alone, never on a clock or a machine.

mod abba;
mod correlation;
mod rng;

pub use abba::{QuadLaunch, abba_cost};

use rng::SplitMix64;

/// How often launches are drawn anew for an interval.
pub const RESAMPLES: usize = 1000;

/// The most units that are drawn from: launches, or groups of consecutive launches.
pub const MAX_UNITS: usize = 200;

/// Samples per block of the index that finds a weighted quantile.
const BLOCK: usize = 64;

/// A quantile as a fraction of whole numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quantile {
    /// Numerator.
    pub num: u64,
    /// Denominator.
    pub den: u64,
}

/// The median.
pub const P50: Quantile = Quantile { num: 1, den: 2 };
/// The lower quartile.
pub const P25: Quantile = Quantile { num: 1, den: 4 };
/// The upper quartile.
pub const P75: Quantile = Quantile { num: 3, den: 4 };
/// The 99th percentile.
pub const P99: Quantile = Quantile { num: 99, den: 100 };
/// The 99.9th percentile.
pub const P999: Quantile = Quantile { num: 999, den: 1000 };
const LOWER: Quantile = Quantile { num: 25, den: 1000 };
const UPPER: Quantile = Quantile { num: 975, den: 1000 };

impl Quantile {
    /// The rank of this quantile among `n` sorted samples, counted from 1.
    #[must_use]
    pub fn rank(self, n: u64) -> u64 {
        (self.num * n).div_ceil(self.den).max(1)
    }

    /// This quantile of sorted samples.
    fn of<T: Copy>(self, sorted: &[T]) -> T {
        sorted[self.rank(sorted.len() as u64) as usize - 1]
    }
}

/// A value with its 95 % interval.
#[derive(Clone, Debug, PartialEq)]
pub struct Estimate<T> {
    /// The value.
    pub value: T,
    /// The interval; absent when there are fewer than two launches to draw from.
    pub interval: Option<(T, T)>,
    /// How many samples it rests on.
    pub n: u64,
    /// The value in each resample, in the order drawn: what a comparison with another run draws from. May be empty.
    pub draws: Vec<T>,
}

impl<T: Copy + PartialOrd> Estimate<T> {
    /// A value with the interval that its draws give.
    pub(super) fn drawn(value: T, draws: Vec<T>, n: u64) -> Self {
        Self { value, interval: percentile_interval(&draws), n, draws }
    }

    /// A value that was read or counted, not sampled.
    pub(super) fn exact(value: T, n: u64) -> Self {
        Self { value, interval: None, n, draws: Vec::new() }
    }
}

/// The nearest-rank quantile of `samples`, or nothing when there are none.
///
/// # Panics
/// When a sample is not a number.
pub fn quantile<T: Copy + PartialOrd>(samples: &[T], q: Quantile) -> Option<T> {
    let sorted = sorted_by(samples.to_vec(), |sample| *sample);
    (!sorted.is_empty()).then(|| q.of(&sorted))
}

/// Draws of whole launches, shared by all metrics of a cell.
#[derive(Clone, Debug)]
pub struct Resamples {
    launches: Vec<u32>,
    /// One row a resample: how often each unit was drawn.
    weights: Vec<u32>,
}

impl Resamples {
    /// Draws among `launches` (duplicates count once), determined by `name`.
    #[must_use]
    pub fn new(name: &str, launches: impl IntoIterator<Item = u32>) -> Self {
        let mut launches: Vec<u32> = launches.into_iter().collect();
        launches.sort_unstable();
        launches.dedup();
        let units = launches.len().min(MAX_UNITS);
        let mut rng = SplitMix64::named(name);
        let mut weights = vec![0_u32; if units < 2 { 0 } else { units * RESAMPLES }];
        for row in weights.chunks_exact_mut(units.max(1)) {
            for _ in 0..units {
                row[rng.below(units)] += 1;
            }
        }
        Self { launches, weights }
    }

    /// How many launches there are to draw from.
    #[must_use]
    pub fn n_launches(&self) -> usize {
        self.launches.len()
    }

    /// Whether these are just the launches drawn from.
    pub fn covers(&self, launches: impl IntoIterator<Item = u32>) -> bool {
        let mut seen = vec![false; self.launches.len()];
        let known = launches.into_iter().all(|launch| match self.launches.binary_search(&launch) {
            Ok(i) => {
                seen[i] = true;
                true
            }
            Err(_) => false,
        });
        known && seen.into_iter().all(|seen| seen)
    }

    /// Quantiles of `samples`, each a launch and a value; one estimate for each wanted quantile, none without samples.
    ///
    /// # Panics
    /// When a sample's launch is not one of those given to [`Resamples::new`], or a value is not a number.
    pub fn quantiles<T: Copy + PartialOrd>(&self, samples: &[(u32, T)], wanted: &[Quantile]) -> Vec<Estimate<T>> {
        if samples.is_empty() {
            return Vec::new();
        }
        let index = Index::new(samples, self);
        let mut drawn = vec![Vec::with_capacity(RESAMPLES); wanted.len()];
        for weights in self.rows() {
            for (values, value) in drawn.iter_mut().zip(index.quantiles(weights, wanted)) {
                values.extend(value);
            }
        }
        let n = samples.len() as u64;
        let estimate = |(q, drawn): (&Quantile, Vec<T>)| Estimate::drawn(q.of(&index.values), drawn, n);
        wanted.iter().zip(drawn).map(estimate).collect()
    }

    /// By how much the median of `moved` exceeds that of `base`; launches are drawn once for both.
    ///
    /// # Panics
    /// As [`Resamples::quantiles`].
    pub fn shift(&self, base: &[(u32, i64)], moved: &[(u32, i64)]) -> Option<Estimate<i64>> {
        if base.is_empty() || moved.is_empty() {
            return None;
        }
        let (base, moved) = (Index::new(base, self), Index::new(moved, self));
        let shift = |weights: &[u32]| {
            let medians = |index: &Index<i64>| index.quantiles(weights, &[P50])[0];
            Some(medians(&moved)? - medians(&base)?)
        };
        let value = P50.of(&moved.values) - P50.of(&base.values);
        let n = (base.values.len() + moved.values.len()) as u64;
        Some(Estimate::drawn(value, self.rows().filter_map(shift).collect(), n))
    }

    fn rows(&self) -> impl Iterator<Item = &[u32]> {
        self.weights.chunks_exact(self.n_units().max(1))
    }

    fn n_units(&self) -> usize {
        self.launches.len().min(MAX_UNITS)
    }

    /// The unit a launch is drawn with.
    fn unit(&self, launch: u32) -> usize {
        let position = self.launches.binary_search(&launch);
        let position = position.expect("every sample belongs to a launch that is drawn from");
        position * self.n_units() / self.launches.len()
    }
}

/// The 95 % percentile interval of draws; absent where there are none.
pub fn percentile_interval<T: Copy + PartialOrd>(drawn: &[T]) -> Option<(T, T)> {
    let sorted = sorted_by(drawn.to_vec(), |value| *value);
    (!sorted.is_empty()).then(|| (LOWER.of(&sorted), UPPER.of(&sorted)))
}

/// The numbers below `n` in an order that only `name` determines.
#[must_use]
pub fn shuffled(name: &str, n: usize) -> Vec<usize> {
    let mut rng = SplitMix64::named(name);
    let mut order: Vec<usize> = (0..n).collect();
    for last in (1..n).rev() {
        order.swap(last, rng.below(last + 1));
    }
    order
}

fn sorted_by<S, T: PartialOrd>(mut samples: Vec<S>, value: impl Fn(&S) -> T) -> Vec<S> {
    samples.sort_by(|a, b| value(a).partial_cmp(&value(b)).expect("a sample is a number"));
    samples
}

/// Sorted samples, made so that a quantile under any weighting of units is found in a few steps.
struct Index<T> {
    values: Vec<T>,
    /// Which unit each value belongs to.
    unit: Vec<u32>,
    /// How many samples of each unit lie before each block, and in all.
    before: Vec<Vec<u32>>,
}

impl<T: Copy + PartialOrd> Index<T> {
    fn new(samples: &[(u32, T)], resamples: &Resamples) -> Self {
        let sorted = sorted_by(samples.to_vec(), |(_, value)| *value);
        let unit: Vec<u32> = sorted.iter().map(|(launch, _)| resamples.unit(*launch) as u32).collect();
        let before = counts_before(&unit, resamples.n_units());
        Self { values: sorted.iter().map(|(_, value)| *value).collect(), unit, before }
    }

    /// The quantiles under these weights; absent where no unit with a sample was drawn.
    fn quantiles(&self, weights: &[u32], wanted: &[Quantile]) -> Vec<Option<T>> {
        let total = self.weight_before(self.before.len() - 1, weights);
        let find = |q: &Quantile| (total > 0).then(|| self.find(q.rank(total), weights));
        wanted.iter().map(find).collect()
    }

    /// The weight of all samples before a block.
    fn weight_before(&self, block: usize, weights: &[u32]) -> u64 {
        self.before[block].iter().zip(weights).map(|(count, weight)| u64::from(*count) * u64::from(*weight)).sum()
    }

    /// The value of weighted rank `rank`, which must be at most the total weight.
    fn find(&self, rank: u64, weights: &[u32]) -> T {
        let (mut low, mut high) = (0, self.before.len() - 1);
        while high - low > 1 {
            let middle = usize::midpoint(low, high);
            if self.weight_before(middle, weights) < rank { low = middle } else { high = middle }
        }
        let mut seen = self.weight_before(low, weights);
        let start = low * BLOCK;
        let reached = |unit: &u32| {
            seen += u64::from(weights[*unit as usize]);
            seen >= rank
        };
        let offset = self.unit[start..].iter().position(reached).expect("the rank is within the total weight");
        self.values[start + offset]
    }
}

fn counts_before(unit: &[u32], n_units: usize) -> Vec<Vec<u32>> {
    let mut counts = vec![0; n_units];
    let mut before = vec![counts.clone()];
    for block in unit.chunks(BLOCK) {
        for unit in block {
            counts[*unit as usize] += 1;
        }
        before.push(counts.clone());
    }
    before
}

#[cfg(test)]
mod tests;
