//! Order statistics, paired costs and correlations, each with a bootstrap interval. Knows nothing of cells or metrics.
//!
//! A quantile is the nearest-rank one: the value at rank ceil(q n), counted from 1, of the sorted samples. It is always a
//! value that was measured, and its rank is whole-number arithmetic, so that any language gets the same digits.
//! Intervals are 95 % percentile intervals over [`RESAMPLES`] resamples of whole launches (or quads), since samples of one
//! launch are not independent of each other. The draws depend on a name alone, never on a clock or a machine.

mod abba;
mod correlation;
mod rng;

pub use abba::{Drain, abba_cost};

use rng::SplitMix64;

/// How often launches are drawn anew for an interval.
pub const RESAMPLES: usize = 1000;

/// Samples per block of the index that finds a weighted quantile.
const BLOCK: usize = 64;
/// Up to this many launches a per-launch index pays off.
const INDEXED_LAUNCHES: usize = 64;

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
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate<T> {
    /// The value.
    pub value: T,
    /// The interval; absent when there are fewer than two launches to draw from.
    pub interval: Option<(T, T)>,
    /// How many samples it rests on.
    pub n: u64,
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
    /// One row a resample: how often each launch was drawn.
    weights: Vec<u32>,
}

impl Resamples {
    /// Draws among `launches` (duplicates count once), determined by `name`.
    #[must_use]
    pub fn new(name: &str, launches: impl IntoIterator<Item = u32>) -> Self {
        let mut launches: Vec<u32> = launches.into_iter().collect();
        launches.sort_unstable();
        launches.dedup();
        let n = launches.len();
        let mut rng = SplitMix64::named(name);
        let mut weights = vec![0_u32; if n < 2 { 0 } else { n * RESAMPLES }];
        for row in weights.chunks_exact_mut(n.max(1)) {
            for _ in 0..n {
                row[rng.below(n)] += 1;
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
        let index = Index::new(samples, &self.launches);
        let mut drawn = vec![Vec::with_capacity(RESAMPLES); wanted.len()];
        for weights in self.rows() {
            for (values, value) in drawn.iter_mut().zip(index.quantiles(weights, wanted)) {
                values.extend(value);
            }
        }
        let n = samples.len() as u64;
        let estimate = |(q, drawn): (&Quantile, Vec<T>)| Estimate {
            value: q.of(&index.values),
            interval: percentile_interval(drawn),
            n,
        };
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
        let (base, moved) = (Index::new(base, &self.launches), Index::new(moved, &self.launches));
        let shift = |weights: &[u32]| {
            let medians = |index: &Index<i64>| index.quantiles(weights, &[P50])[0];
            Some(medians(&moved)? - medians(&base)?)
        };
        Some(Estimate {
            value: P50.of(&moved.values) - P50.of(&base.values),
            interval: percentile_interval(self.rows().filter_map(shift).collect()),
            n: (base.values.len() + moved.values.len()) as u64,
        })
    }

    fn rows(&self) -> impl Iterator<Item = &[u32]> {
        self.weights.chunks_exact(self.launches.len().max(1))
    }

    fn position(&self, launch: u32) -> usize {
        position(&self.launches, launch)
    }
}

fn position(launches: &[u32], launch: u32) -> usize {
    launches.binary_search(&launch).expect("every sample belongs to a launch that is drawn from")
}

fn percentile_interval<T: Copy + PartialOrd>(drawn: Vec<T>) -> Option<(T, T)> {
    let sorted = sorted_by(drawn, |value| *value);
    (!sorted.is_empty()).then(|| (LOWER.of(&sorted), UPPER.of(&sorted)))
}

fn sorted_by<S, T: PartialOrd>(mut samples: Vec<S>, value: impl Fn(&S) -> T) -> Vec<S> {
    samples.sort_by(|a, b| value(a).partial_cmp(&value(b)).expect("a sample is a number"));
    samples
}

/// Sorted samples, made so that a quantile under any weighting of launches is found in a few steps.
struct Index<T> {
    values: Vec<T>,
    /// Which launch each value is from, as a position among the launches.
    launch: Vec<u32>,
    /// How many samples of each launch lie before each block; left empty for many launches, where walking is cheaper.
    before: Vec<Vec<u32>>,
}

impl<T: Copy + PartialOrd> Index<T> {
    fn new(samples: &[(u32, T)], launches: &[u32]) -> Self {
        let sorted = sorted_by(samples.to_vec(), |(_, value)| *value);
        let launch: Vec<u32> = sorted.iter().map(|(launch, _)| position(launches, *launch) as u32).collect();
        let before = if launches.len() <= INDEXED_LAUNCHES { counts_before(&launch, launches.len()) } else { vec![] };
        Self { values: sorted.iter().map(|(_, value)| *value).collect(), launch, before }
    }

    /// The quantiles under these weights; absent where no launch with a sample was drawn.
    fn quantiles(&self, weights: &[u32], wanted: &[Quantile]) -> Vec<Option<T>> {
        let walked = if self.before.is_empty() { self.walk(weights) } else { Vec::new() };
        let before = |block: usize| match self.before.get(block) {
            Some(counts) => counts.iter().zip(weights).map(|(c, w)| u64::from(*c) * u64::from(*w)).sum(),
            None => walked[block],
        };
        let total = before(self.launch.len().div_ceil(BLOCK));
        let find = |q: &Quantile| (total > 0).then(|| self.find(q.rank(total), weights, &before));
        wanted.iter().map(find).collect()
    }

    /// The value of weighted rank `rank`, which must be at most the total weight.
    fn find(&self, rank: u64, weights: &[u32], before: &impl Fn(usize) -> u64) -> T {
        let (mut low, mut high) = (0, self.launch.len().div_ceil(BLOCK));
        while high - low > 1 {
            let middle = usize::midpoint(low, high);
            if before(middle) < rank { low = middle } else { high = middle }
        }
        let mut seen = before(low);
        let start = low * BLOCK;
        let weight = |launch: &u32| u64::from(weights[*launch as usize]);
        let reached = |launch: &u32| {
            seen += weight(launch);
            seen >= rank
        };
        let offset = self.launch[start..].iter().position(reached).expect("the rank is within the total weight");
        self.values[start + offset]
    }

    /// The weight before each block, and the total.
    fn walk(&self, weights: &[u32]) -> Vec<u64> {
        let mut total = 0;
        let mut before = vec![0];
        for block in self.launch.chunks(BLOCK) {
            for launch in block {
                total += u64::from(weights[*launch as usize]);
            }
            before.push(total);
        }
        before
    }
}

fn counts_before(launch: &[u32], n_launches: usize) -> Vec<Vec<u32>> {
    let mut counts = vec![0; n_launches];
    let mut before = vec![counts.clone()];
    for block in launch.chunks(BLOCK) {
        for launch in block {
            counts[*launch as usize] += 1;
        }
        before.push(counts.clone());
    }
    before
}

#[cfg(test)]
mod tests;
