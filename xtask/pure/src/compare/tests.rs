//! What a comparison says of equal data, of planted shifts, and of data it cannot judge.

use super::*;
use crate::numbers::summary::{CellData, Tails, summarize_drawn};
use crate::trial::halves::halves;
use crate::trial::synthetic::{cells, contract, plan, set_column};
use preempt::plan::PreemptPlan;
use schema::compare::Band;
use schema::metrics::Metric;
use schema::plan::ProfileName;
use tables::Column;

fn drawn(plan: &PreemptPlan, cells: &[CellData]) -> Vec<Drawn> {
    summarize_drawn(&contract(plan), "r", cells, Tails::All).unwrap()
}

fn row(metric: &str, value: f64, draws: Vec<f64>) -> Drawn {
    let metric = Metric {
        run: "r".into(),
        experiment: "preempt".into(),
        phase: "yield".into(),
        cell: "c".into(),
        metric: metric.into(),
        unit: "us".into(),
        value: value.to_string(),
        lo: String::new(),
        hi: String::new(),
        n: 1000,
        note: String::new(),
    };
    // What the median of a device time has.
    Drawn { metric, value, draws, band: Band { pct: 5.0, least: 0.064 }, drawing: Drawing::Sampled }
}

/// Draws spread evenly over `value` ± `half`.
fn around(metric: &str, value: f64, half: f64) -> Drawn {
    row(metric, value, (0..1000).map(|i| value - half + 2.0 * half * f64::from(i * 7919 % 1000) / 999.0).collect())
}

/// A count, of which any difference is one unless it is chance.
fn count(metric: &str, value: f64, drawing: Drawing) -> Drawn {
    Drawn { band: Band { pct: 0.0, least: 0.0 }, drawing, ..row(metric, value, Vec::new()) }
}

fn judged(a: Drawn, b: Drawn) -> Compared {
    compare_rows(&[a], &[b], &Bands::new()).remove(0)
}

#[test]
fn words_follow_from_interval_and_band() {
    let check = |interval, word_| assert_eq!(word(interval, 1.0), word_, "{interval:?}");
    check((-1.0, 1.0), Word::Reproduced);
    check((0.0, 0.0), Word::Reproduced);
    check((1.1, 1.2), Word::Shifted);
    check((-9.0, -1.1), Word::Shifted);
    check((0.9, 1.1), Word::Ambiguous);
    check((1.0, 1.2), Word::Ambiguous);
    check((-2.0, 2.0), Word::Ambiguous);
}

#[test]
fn effect_interval_and_band_are_in_the_metrics_unit_and_the_order_changes_no_word() {
    for (moved, word) in [(100.0, Word::Reproduced), (115.0, Word::Shifted), (105.0, Word::Ambiguous)] {
        let (a, b) = (around("preempt_latency_us_p50", 100.0, 2.0), around("preempt_latency_us_p50", moved, 2.0));
        let there = judged(a.clone(), b.clone());
        assert_eq!((there.verdict, there.effect), (Some(word), Some(moved - 100.0)), "{there:?}");
        assert!((there.band.unwrap() - 0.05 * (100.0 + moved) / 2.0).abs() < 1e-9);
        assert!(there.lo.unwrap() < moved - 100.0 && moved - 100.0 < there.hi.unwrap());
        let back = judged(b, a);
        assert_eq!((back.verdict, back.effect), (Some(word), Some(100.0 - moved)));
    }
}

#[test]
fn draws_that_both_runs_share_do_not_cancel() {
    let a = around("preempt_latency_us_p50", 100.0, 20.0);
    let same = judged(a.clone(), a);
    assert_eq!((same.effect, same.verdict), (Some(0.0), Some(Word::Ambiguous)));
}

#[test]
fn counts_differ_by_any_difference_and_need_no_draws() {
    let count = |value| count("once_violations", value, Drawing::Reading);
    assert_eq!(judged(count(0.0), count(0.0)).verdict, Some(Word::Reproduced));
    assert_eq!(judged(count(0.0), count(1.0)).verdict, Some(Word::Shifted));
    let single = |value| row("preempt_latency_us_p50", value, Vec::new());
    let compared = judged(single(1.0), single(1.0));
    assert_eq!((compared.verdict, compared.why.as_str()), (Some(Word::Ambiguous), "too few launches for an interval"));
}

#[test]
fn one_lost_event_is_chance_and_many_are_a_shift() {
    let check = |a, b, expected| {
        let count = |value| count("anomalous_events", value, Drawing::Chance);
        assert_eq!(judged(count(a), count(b)).verdict, Some(expected), "{a} {b}");
    };
    check(0.0, 0.0, Word::Reproduced);
    check(0.0, 1.0, Word::Ambiguous);
    check(9.0, 10.0, Word::Ambiguous);
    check(0.0, 5.0, Word::Shifted);
    check(30.0, 3.0, Word::Shifted);
}

#[test]
fn a_plans_own_band_decides() {
    let [a, b] =
        [30.0, 31.0].map(|value| Drawn { band: Band { pct: 10.0, least: 0.0 }, ..around("ratio", value, 0.1) });
    assert_eq!(judged(a.clone(), b.clone()).verdict, Some(Word::Reproduced));
    let bands = Bands::from([("ratio".to_owned(), Band { pct: 1.0, least: 0.0 })]);
    assert_eq!(compare_rows(&[a], &[b], &bands)[0].verdict, Some(Word::Shifted));
}

#[test]
fn too_few_events_say_nothing_and_do_not_count() {
    let thin = |value: f64| {
        let mut row = around("visibility_us_p50", value, 0.0);
        row.metric.n = 99;
        row
    };
    let sound = || around("preempt_latency_us_p50", 100.0, 1.0);
    let metrics = compare_rows(&[sound(), thin(1.0)], &[sound(), thin(9.0)], &Bands::new());
    assert_eq!(metrics[1].verdict, Some(Word::Ambiguous));
    assert_eq!(overall(&metrics), Word::Reproduced);
    assert_eq!(overall(&metrics[1..]), Word::Ambiguous);
}

#[test]
fn what_one_run_lacks_leaves_the_whole_ambiguous() {
    let (a, b) = (around("preempt_latency_us_p50", 100.0, 1.0), around("urgent_e2e_us_p50", 100.0, 1.0));
    let metrics = compare_rows(&[a.clone(), b.clone()], &[a], &Bands::new());
    assert_eq!((metrics[1].b, metrics[1].effect), (None, None));
    assert_eq!(metrics[1].why, "the second run has no such value");
    assert_eq!(overall(&metrics), Word::Ambiguous);
    let moved = around("preempt_latency_us_p50", 200.0, 1.0);
    let both = compare_rows(&[around("preempt_latency_us_p50", 100.0, 1.0), b], &[moved], &Bands::new());
    assert_eq!(overall(&both), Word::Shifted);
}

#[test]
fn halves_of_a_run_are_disjoint_and_keep_quads_whole() {
    let plan = plan(ProfileName::Full, 400);
    let cells = cells(&plan);
    let (one, other) = halves(&cells, "s").unwrap();
    for ((whole, one), other) in cells.iter().zip(&one).zip(&other) {
        if whole.launches.is_some() {
            assert_eq!(one.events.rows() + other.events.rows(), whole.events.rows(), "{}", whole.record.cell);
        }
    }
    assert_ne!(one.last().unwrap().events, halves(&cells, "t").unwrap().0.last().unwrap().events);
    drawn(&plan, &one);
}

/// A fast one of what `cargo bench --bench compare` does a thousand times on a real run.
#[test]
fn halves_of_one_run_are_seldom_shifted_and_a_shift_of_twice_the_band_is_seldom_missed() {
    let plan = plan(ProfileName::Full, 2_000);
    let mut cells = cells(&plan);
    cells.retain(|cell| cell.record.phase == "yield");
    let (mut shifted, mut splits) = (0, 0);
    for i in 0..20 {
        let (one, other) = halves(&cells, &i.to_string()).unwrap();
        let metrics = compare_rows(&drawn(&plan, &one), &drawn(&plan, &other), &Bands::new());
        shifted += u32::from(overall(&metrics) == Word::Shifted);
        splits += 1;
    }
    assert!(shifted * 20 <= splits, "{shifted} of {splits} splits are SHIFTED");
    // Ready 12 % later: twice the band of a median, planted in the events themselves.
    let mut late = cells.clone();
    for cell in late.iter_mut().filter(|cell| cell.record.cell.contains("set=device")) {
        let ready = cell.events.i64("last_ready_ns").unwrap().iter().map(|ns| ns + ns * 12 / 100).collect();
        set_column(&mut cell.events, "last_ready_ns", Column::I64(ready));
    }
    let metrics = compare_rows(&drawn(&plan, &cells), &drawn(&plan, &late), &Bands::new());
    let moved = |m: &&Compared| m.verdict == Some(Word::Shifted);
    let moved: Vec<&str> = metrics.iter().filter(moved).map(|m| m.id.as_str()).collect();
    assert!(moved.contains(&"preempt_latency_us_p50"), "{moved:?}");
    assert!(moved.iter().all(|id| id.starts_with("preempt_latency")), "{moved:?}");
    assert_eq!(overall(&metrics), Word::Shifted);
}
