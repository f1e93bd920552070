//! Quantiles compared with a naive computation, and the intervals that follow.

use super::*;
use proptest::prelude::*;

fn samples(n: u32, launches: u32) -> Vec<(u32, i64)> {
    (0..n).map(|i| (i % launches, i64::from(i.wrapping_mul(2_654_435_761) % 10_007))).collect()
}

/// What the documentation says, done the slow way.
fn naive(weights: &[u32], samples: &[(u32, i64)], q: Quantile) -> Option<i64> {
    let mut all: Vec<i64> = Vec::new();
    for (launch, value) in samples {
        all.extend(std::iter::repeat_n(*value, weights[*launch as usize] as usize));
    }
    all.sort_unstable();
    let rank = (q.num as usize * all.len()).div_ceil(q.den as usize);
    all.get(rank.max(1) - 1).copied()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn an_indexed_quantile_is_the_naive_one(
        weights in proptest::collection::vec(0_u32..4, 1..90),
        values in proptest::collection::vec(-50_i64..50, 1..400),
    ) {
        let resamples = Resamples::new("t", 0..weights.len() as u32);
        let samples: Vec<(u32, i64)> =
            values.iter().enumerate().map(|(i, v)| ((i * 31 % weights.len()) as u32, *v)).collect();
        let index = Index::new(&samples, &resamples);
        let found = index.quantiles(&weights, &[P50, P99, P999]);
        let expected: Vec<_> = [P50, P99, P999].iter().map(|q| naive(&weights, &samples, *q)).collect();
        prop_assert_eq!(found, expected);
    }

    #[test]
    fn a_quantile_lies_at_its_rank(values in proptest::collection::vec(-1000_i64..1000, 1..300)) {
        for q in [P50, P99, P999] {
            let found = quantile(&values, q).unwrap();
            let below = values.iter().filter(|v| **v < found).count() as u64;
            let at_most = values.iter().filter(|v| **v <= found).count() as u64;
            prop_assert!(below < q.rank(values.len() as u64) && q.rank(values.len() as u64) <= at_most);
        }
    }
}

#[test]
fn ranks_are_nearest_ranks() {
    let check = |q: Quantile, n, rank| assert_eq!(q.rank(n), rank, "{q:?} of {n}");
    check(P50, 1, 1);
    check(P50, 2, 1);
    check(P50, 3, 2);
    check(P99, 100, 99);
    check(P99, 101, 100);
    check(P999, 100_000, 99_900);
    assert_eq!(quantile::<i64>(&[], P50), None);
}

#[test]
fn an_interval_holds_its_value_and_follows_the_spread_between_launches() {
    let alike: Vec<(u32, i64)> = (0..20).flat_map(|l| (0..100).map(move |i| (l, i))).collect();
    let apart: Vec<(u32, i64)> = (0..20).flat_map(|l| (0..100).map(move |i| (l, i + 50 * i64::from(l)))).collect();
    let width = |samples: &[(u32, i64)]| {
        let e = &Resamples::new("t", 0..20).quantiles(samples, &[P50])[0];
        let (lo, hi) = e.interval.unwrap();
        assert!(lo <= e.value && e.value <= hi);
        hi - lo
    };
    assert_eq!(width(&alike), 0);
    assert!(width(&apart) > 200);
}

#[test]
fn many_launches_are_drawn_in_groups_of_consecutive_ones() {
    let resamples = Resamples::new("t", (0..10_000).map(|i| 2 * i));
    assert_eq!((resamples.n_launches(), resamples.n_units()), (10_000, MAX_UNITS));
    assert_eq!((resamples.unit(0), resamples.unit(98), resamples.unit(100), resamples.unit(19_998)), (0, 0, 1, 199));
    // Values that drift over launches have a wider interval than the same values in any order.
    let width = |value: fn(u32) -> u32| {
        let samples: Vec<(u32, i64)> = (0..10_000).map(|i| (2 * i, i64::from(value(i)))).collect();
        let (lo, hi) = resamples.quantiles(&samples, &[P50])[0].interval.unwrap();
        hi - lo
    };
    assert!(width(|i| i) > 3 * width(|i| i.wrapping_mul(2_654_435_761) % 10_000));
}

#[test]
fn one_launch_gives_a_value_without_an_interval() {
    let e = Resamples::new("t", [7]).quantiles(&[(7, 3), (7, 1), (7, 2)], &[P50]);
    assert_eq!(e, [Estimate::exact(2, 3)]);
}

#[test]
fn a_shift_of_medians_is_found_with_its_interval() {
    let base = samples(2000, 20);
    let moved: Vec<(u32, i64)> = base.iter().map(|(l, v)| (*l, v + 500)).collect();
    let shift = Resamples::new("t", 0..20).shift(&base, &moved).unwrap();
    assert_eq!((shift.value, shift.interval, shift.n), (500, Some((500, 500)), 4000));
    assert_eq!(Resamples::new("t", 0..20).shift(&base, &[]), None);
}

#[test]
fn a_shuffle_is_a_permutation_that_its_name_determines() {
    let mut order = shuffled("a", 100);
    assert_eq!(order, shuffled("a", 100));
    assert_ne!(order, shuffled("b", 100));
    order.sort_unstable();
    assert_eq!(order, (0..100).collect::<Vec<_>>());
}

#[test]
fn a_full_run_is_summarized_in_seconds_also_without_optimization() {
    let began = std::time::Instant::now();
    let resamples = Resamples::new("yield", 0..20);
    let yields = samples(10_000, 20);
    for _ in 0..40 {
        resamples.quantiles(&yields, &[P50, P99]);
    }
    let yields_took = began.elapsed();
    let resamples = Resamples::new("baseline", 0..10_000);
    let baseline = samples(10_000, 10_000);
    resamples.quantiles(&baseline, &[P50, P99]);
    let took = began.elapsed();
    eprintln!("40 metrics over 20 launches: {yields_took:?}; one over 10,000 launches: {:?}", took - yields_took);
    // Loose, so that a loaded machine passes: it must only never take minutes.
    assert!(took.as_secs() < 30, "{took:?}");
}
