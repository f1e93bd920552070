//! Every outcome of a claim, and what makes a claim malformed.

use super::*;

fn device(compute_capability: &str) -> DeviceFacts {
    DeviceFacts {
        id: "emulated".into(),
        name: "emulated".into(),
        slug: "emulated".into(),
        compute_capability: compute_capability.into(),
        arch: "sm_90".into(),
        slots: Slots::of_sms(132).with("calibrate_per_sm", 5).with("drain_per_sm", 5).with("yield_per_sm", 4),
        max_threads_per_sm: 2048,
        fp32_lanes_per_sm: 128,
        memory_bytes: 0,
        l2_bytes: 0,
        driver_cuda: 13_000,
        kernel_timeout: false,
        mig: None,
        libcuda: None,
        pci: None,
    }
}

fn metric(cell: &str, metric: &str, [value, lo, hi]: [&str; 3]) -> Metric {
    Metric {
        run: "r".into(),
        experiment: "preempt".into(),
        phase: "yield".into(),
        cell: cell.into(),
        metric: metric.into(),
        unit: unit_of(metric).into(),
        value: value.into(),
        lo: lo.into(),
        hi: hi.into(),
        n: 1,
        note: String::new(),
    }
}

fn reference(cell: &str, metric: &str) -> MetricRef {
    MetricRef { phase: "yield".into(), cell: cell.into(), metric: metric.into() }
}

fn term(comparator: Comparator, threshold: &str) -> Term {
    let value = reference("blocks={yield_full}", "preempt_latency_us_p50");
    Term { name: "latency".into(), value, over: None, comparator, threshold: threshold.into(), unit: "us".into() }
}

fn ratio(comparator: Comparator, threshold: &str) -> Term {
    let over = Some(reference("blocks={sms}", "preempt_latency_us_p50"));
    Term { over, unit: "1".into(), name: "growth".into(), ..term(comparator, threshold) }
}

fn claims(term: Vec<Term>) -> ClaimFile {
    let claim = Claim {
        id: "C".into(),
        statement: String::new(),
        falsifier: String::new(),
        compute_capability: "9.0".into(),
        prediction: "P-001".into(),
        needs: Vec::new(),
        term,
    };
    ClaimFile { format: 1, claim: vec![claim] }
}

fn judged(term: Vec<Term>, full: [&str; 3], sms: [&str; 3]) -> ClaimResult {
    let metrics = [
        metric("blocks=528", "preempt_latency_us_p50", full),
        metric("blocks=132", "preempt_latency_us_p50", sms),
        metric("blocks=528", "once_violations", ["0", "", ""]),
    ];
    judge(&claims(term), &metrics, &device("9.0")).unwrap().remove(0)
}

#[test]
fn a_term_is_judged_by_its_whole_interval_ends_included() {
    use Comparator::{AtLeast, AtMost, Greater, Less};
    use Outcome::{Confirmed, Falsified, Inconclusive};
    let check = |comparator, threshold: &str, expected| {
        let found = judged(vec![term(comparator, threshold)], ["9.5", "9.4", "9.7"], ["1", "1", "1"]);
        assert_eq!(found.outcome, expected, "{found:?}");
    };
    check(AtMost, "9.7", Confirmed);
    check(Less, "9.7", Inconclusive);
    check(Less, "9.701", Confirmed);
    check(AtMost, "9.5", Inconclusive);
    check(AtMost, "9.4", Inconclusive);
    check(AtMost, "9.399999", Falsified);
    check(Less, "9.4", Falsified);
    check(AtLeast, "9.40", Confirmed);
    check(Greater, "9.4", Inconclusive);
    check(AtLeast, "9.7", Inconclusive);
    check(Greater, "9.7", Falsified);
    check(AtLeast, "9.8", Falsified);
}

#[test]
fn a_ratio_is_judged_by_the_widest_interval() {
    use Comparator::{AtLeast, AtMost};
    use Outcome::{Confirmed, Falsified, Inconclusive};
    let check = |comparator, threshold: &str, expected| {
        let found = judged(vec![ratio(comparator, threshold)], ["6", "5", "8"], ["3", "2", "4"]);
        assert_eq!(found.outcome, expected, "{found:?}");
        assert_eq!((&*found.value, &*found.unit), ("2.000", "1"));
    };
    check(AtMost, "4", Confirmed);
    check(AtMost, "3.99", Inconclusive);
    check(AtMost, "1.25", Inconclusive);
    check(AtMost, "1.249", Falsified);
    check(AtLeast, "1.25", Confirmed);
    check(AtLeast, "4.1", Falsified);
    // Negative numerators: -1/2 is the least, -1/4 the greatest.
    let negative = judged(vec![ratio(AtMost, "-0.25")], ["-1", "-1", "-1"], ["3", "2", "4"]);
    assert_eq!(negative.outcome, Confirmed);
}

#[test]
fn all_terms_must_hold_and_one_violation_falsifies() {
    use Comparator::AtMost;
    let check = |terms: Vec<Term>, outcome, why: &str| {
        let found = judged(terms, ["9.5", "9.4", "9.7"], ["4", "4", "4"]);
        assert_eq!(found.outcome, outcome, "{found:?}");
        assert!(found.why.contains(why), "{found:?} lacks {why:?}");
    };
    check(
        vec![term(AtMost, "25"), ratio(AtMost, "2.5")],
        Outcome::Confirmed,
        "growth: 95 % interval 2.350 to 2.425 holds <= 2.5",
    );
    check(vec![term(AtMost, "10"), ratio(AtMost, "25")], Outcome::Confirmed, "latency");
    check(
        vec![term(AtMost, "9.5"), ratio(AtMost, "2")],
        Outcome::Falsified,
        "growth: 95 % interval 2.350 to 2.425 violates <= 2",
    );
    check(
        vec![term(AtMost, "9.5"), ratio(AtMost, "3")],
        Outcome::Inconclusive,
        "latency: 95 % interval 9.400 to 9.700 straddles <= 9.5",
    );
    let lost = Term { value: reference("blocks=16", "preempt_latency_us_p50"), ..term(AtMost, "9") };
    check(vec![term(AtMost, "10"), lost.clone()], Outcome::Inconclusive, "cell yield/blocks=16 is missing");
    check(vec![term(AtMost, "1"), lost], Outcome::Falsified, "violates <= 1");
    let absent = Term { value: reference("blocks={sms}", "preempt_latency_us_p99"), ..term(AtMost, "9") };
    check(vec![absent], Outcome::Inconclusive, "has no preempt_latency_us_p99");
}

#[test]
fn a_number_that_does_not_stand_decides_nothing() {
    let refused = Metric {
        note: format!("{}12 of 20 launches off the clock", Metric::REFUSED),
        ..metric("blocks=528", "preempt_latency_us_p50", ["", "", ""])
    };
    let found = judge(&claims(vec![term(Comparator::AtMost, "9")]), &[refused], &device("9.0")).unwrap().remove(0);
    assert_eq!(found.outcome, Outcome::Inconclusive);
    assert!(found.why.contains("preempt_latency_us_p50 was refused: 12 of 20 launches off the clock"), "{found:?}");
}

#[test]
fn a_cost_below_zero_confirms_nothing() {
    let value = reference("blocks=132", "poll_cost_pct");
    let at_most = Term { value, unit: "%".into(), ..term(Comparator::AtMost, "2") };
    let outcome = |note: &str| {
        let cost = metric("blocks=132", "poll_cost_pct", ["-0.592", "-0.601", "-0.584"]);
        let cost = Metric { note: note.to_owned(), ..cost };
        judge(&claims(vec![at_most.clone()]), &[cost], &device("9.0")).unwrap().remove(0)
    };
    let found = outcome(&format!("against 660 poll-free blocks; {}", Metric::REFERENCE_SLOWER));
    assert_eq!(found.outcome, Outcome::Inconclusive);
    assert!(found.why.contains("-0.601 to -0.584 %: the reference was slower"), "{found:?}");
    assert_eq!(outcome("").outcome, Outcome::Confirmed);
}

#[test]
fn without_an_interval_only_counts_are_judged() {
    let found = judged(vec![term(Comparator::AtMost, "25")], ["9", "", ""], ["1", "1", "1"]);
    assert_eq!((found.outcome, &*found.value), (Outcome::Inconclusive, "9"));
    let count =
        Term { value: reference("blocks=528", "once_violations"), unit: "1".into(), ..term(Comparator::AtMost, "0") };
    assert_eq!(judged(vec![count], ["9", "", ""], ["1", "1", "1"]).outcome, Outcome::Confirmed);
}

#[test]
fn a_denominator_that_reaches_zero_decides_nothing() {
    for sms in [["0.064", "0.000", "0.064"], ["0", "0", "0"]] {
        let found = judged(vec![ratio(Comparator::AtMost, "2")], ["9", "9", "9"], sms);
        assert_eq!(found.outcome, Outcome::Inconclusive, "{found:?}");
    }
}

#[test]
fn another_compute_capability_decides_nothing() {
    let found = judge(&claims(vec![term(Comparator::AtMost, "25")]), &[], &device("8.6")).unwrap().remove(0);
    assert_eq!(found.outcome, Outcome::Inconclusive);
    assert_eq!(found.why, "latency: it is about compute capability 9.0, and this device has 8.6");
    assert_eq!((&*found.value, &*found.threshold), ("", "<= 25"));
}

#[test]
fn malformed_claims_are_refused_with_the_term() {
    let check = |file: ClaimFile, expected: &str| {
        let error = check_claims(&file).unwrap_err();
        assert_eq!(crate::trial::code_of(&error), ExitCode::Config);
        assert!(error.to_string().contains(expected), "{error} lacks {expected:?}");
    };
    let good = || term(Comparator::AtMost, "25");
    check(claims(vec![]), "no terms");
    check(claims(vec![term(Comparator::AtMost, "25us")]), "term \"latency\": threshold");
    check(claims(vec![Term { unit: "ms".into(), ..good() }]), "is \"us\", not \"ms\"");
    check(claims(vec![Term { unit: "us".into(), ..ratio(Comparator::AtMost, "2") }]), "unit of a ratio");
    check(claims(vec![Term { value: reference("blocks={full}", "x_us"), ..good() }]), "unknown placeholder");
    let over = Some(reference("a", "poll_cost_pct"));
    check(claims(vec![Term { over, unit: "1".into(), ..good() }]), "a ratio of");
    let mut twice = claims(vec![good()]);
    twice.claim.push(twice.claim[0].clone());
    check(twice, "used twice");
}

#[test]
fn the_registered_claims_are_well_formed() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../harness/experiments/preempt/claims.toml");
    let Ok(text) = std::fs::read_to_string(path) else {
        eprintln!("skipped: {path} is not there");
        return;
    };
    let file: ClaimFile = toml::from_str(&text).unwrap();
    check_claims(&file).unwrap();
    assert!(!file.claim.is_empty());
}
