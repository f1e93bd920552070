//! Regions as Markdown, as snapshots, and how they are put into a text.

use super::*;
use crate::numbers::summary::summarize;
use crate::trial::code_of;
use crate::trial::synthetic::{self, cells, plan};
use schema::claim::Outcome;

fn published(run: &str, gpu: &str) -> PublishedRun {
    let plan = plan(ProfileName::Full, 400);
    let contract = synthetic::contract(&plan);
    let claim = ClaimResult {
        id: "H-COST".into(),
        outcome: Outcome::Confirmed,
        value: "0.498".into(),
        unit: "%".into(),
        threshold: "< 1".into(),
        why: "polling cost: 95 % interval 0.490 to 0.506 holds < 1".into(),
    };
    PublishedRun {
        run: run.into(),
        experiment: "preempt".into(),
        gpu: gpu.into(),
        compute_capability: "9.0".into(),
        clocks: ClockClass::Stable,
        profile: ProfileName::Full,
        attempt: 2,
        attempts: 3,
        metrics: summarize(&contract, run, &cells(&plan)).unwrap(),
        claims: vec![claim],
        waivers: Vec::new(),
        refused_before: Vec::new(),
        withdrawn: Vec::new(),
        contract,
        rules: 6,
        remarks: Vec::new(),
        events_in: None,
    }
}

#[test]
fn a_run_whose_events_left_the_tree_says_how_they_come_back() {
    let mut run = published("20260101T000000Z-h200-00000000", "NVIDIA H200");
    let told = |run: &PublishedRun| results_region(std::slice::from_ref(run), &[]);
    assert!(!told(&run).contains("left the tree"));
    run.events_in = Some("c".repeat(40));
    let line = format!("`git checkout {} -- results/events/{}`", "c".repeat(40), run.run);
    assert!(told(&run).contains(&line), "{}", told(&run));
}

#[test]
fn regions_of_a_published_run() {
    let runs = [published("20260101T000000Z-h200-00000000", "NVIDIA H200")];
    insta::assert_snapshot!(results_region(&runs, &[]));
    insta::assert_snapshot!(headline_region(&runs));
}

#[test]
fn a_run_without_a_contract_shows_its_claims_and_where_its_values_are() {
    let old =
        PublishedRun { contract: Contract::default(), ..published("20260101T000000Z-h200-00000000", "NVIDIA H200") };
    let text = results_region(std::slice::from_ref(&old), &[]);
    assert!(text.contains("| H-COST | CONFIRMED |") && text.contains("/metrics.csv)."), "{text}");
    assert!(!text.contains("![") && !text.contains("| value | 95 %"), "{text}");
}

#[test]
fn nothing_published_is_said() {
    assert_eq!(results_region(&[], &[]), "Nothing is published yet.\n");
    assert_eq!(headline_region(&[]), "Nothing is published yet.\n");
}

#[test]
fn devices_are_never_blended_and_the_newest_run_comes_first() {
    let runs = [
        published("20260101T000000Z-h200-00000000", "NVIDIA H200"),
        published("20260102T000000Z-a10-00000000", "NVIDIA A10"),
        published("20260103T000000Z-h200-00000000", "NVIDIA H200"),
    ];
    let text = results_region(&runs, &[]);
    let order = ["## NVIDIA A10", "20260102", "## NVIDIA H200", "20260103", "20260101"];
    let positions: Vec<usize> = order.iter().map(|part| text.find(part).unwrap()).collect();
    assert!(positions.is_sorted(), "{positions:?}");
    let headline = headline_region(&runs);
    assert!(headline.contains("20260103") && !headline.contains("20260101"), "{headline}");
    assert_eq!(headline.matches("| value |").count(), 2);
}

#[test]
fn a_page_says_what_was_waived_and_remarked() {
    let mut run = published("20260101T000000Z-h200-00000000", "NVIDIA H200");
    run.waivers = vec!["clocks".into()];
    run.remarks = vec!["reopens C-001: two producers".into()];
    let text = results_region(std::slice::from_ref(&run), &[]);
    assert_eq!(text.matches("**waived: clocks**, **reopens C-001: two producers**.").count(), 1);
    let newer = published("20260102T000000Z-h200-00000000", "NVIDIA H200");
    let text = results_region(&[newer, run.clone()], &[]);
    let line = text.lines().find(|line| line.starts_with(&format!("- `{}`", run.run))).unwrap();
    assert!(line.contains("**waived: clocks**, **reopens C-001: two producers**"), "{line}");
    let headline = headline_region(&[run]);
    assert!(headline.contains("**Waived: clocks.** **reopens C-001: two producers.**"), "{headline}");
}

fn withdrawal(metric: Option<&str>, claims: &[&str]) -> Withdrawal {
    Withdrawal {
        entry: "R-001".into(),
        reason: "slots were one region".into(),
        metric: metric.map(str::to_owned),
        claims: claims.iter().map(|id| (*id).to_owned()).collect(),
        rests: Vec::new(),
    }
}

/// Cells of a table that hold a number, and those that hold it struck out.
fn values(text: &str) -> (usize, usize) {
    let rows = text.lines().filter(|line| line.starts_with("| ") && !line.contains("| claim |"));
    let (struck, plain): (Vec<&str>, Vec<&str>) = rows.partition(|line| line.contains("~~"));
    (plain.len(), struck.len())
}

#[test]
fn a_withdrawn_run_stays_struck_out_with_its_reason_and_the_one_before_it_leads() {
    let mut run = published("20260102T000000Z-h200-00000000", "NVIDIA H200");
    assert_eq!(values(&results_region(std::slice::from_ref(&run), &[])).1, 0);
    run.withdrawn = vec![withdrawal(None, &[])];
    let older = published("20260101T000000Z-h200-00000000", "NVIDIA H200");
    let line = format!("- `{}`: judged under rules 6, profile full, H-COST ~~CONFIRMED~~, ", run.run)
        + "**retracted by R-001: slots were one region**. [Values]";
    let text = results_region(std::slice::from_ref(&run), &[]);
    assert!(text.contains(&line) && values(&text) == (0, 0), "{text}");
    let text = results_region(&[older.clone(), run.clone()], &[]);
    assert!(text.contains(&format!("Run `{}`", older.run)) && text.contains(&line), "{text}");
    let alone = headline_region(std::slice::from_ref(&run));
    let both = headline_region(&[older.clone(), run.clone()]);
    for text in [&alone, &both] {
        assert!(
            text.contains("**retracted by R-001: slots were one region.** Claims: H-COST ~~CONFIRMED~~."),
            "{text}"
        );
        assert!(text.contains("| ratio of the two | ~~"), "{text}");
    }
    assert!(both.ends_with(&headline_region(&[older])) && both.contains("20260102"), "{both}");
}

#[test]
fn a_withdrawn_metric_strikes_its_row_and_the_claims_made_of_it() {
    let mut run = published("20260101T000000Z-h200-00000000", "NVIDIA H200");
    let ratio = run.metrics.iter().find(|m| m.metric == "ratio").unwrap();
    let name = format!("ratio@{}/{}", ratio.phase, ratio.cell);
    run.withdrawn = vec![withdrawal(Some(&name), &["H-COST"])];
    let text = results_region(std::slice::from_ref(&run), &[]);
    assert_eq!(values(&text).1, 2, "{text}");
    assert!(text.contains(&format!("**{name} retracted by R-001: slots were one region**")), "{text}");
    let headline = headline_region(&[run]);
    assert!(headline.matches("| ~~").count() == 2 && headline.contains("H-COST ~~CONFIRMED~~"), "{headline}");
}

#[test]
fn a_ratio_of_a_withdrawn_metric_is_struck_out_with_it() {
    let mut run = published("20260101T000000Z-h200-00000000", "NVIDIA H200");
    let ratio = run.metrics.iter().find(|m| m.metric == "ratio").unwrap();
    let place = format!("{}/{}", ratio.phase, ratio.cell);
    let one = withdrawal(Some(&format!("host_e2e_us_p50@{place}")), &[]);
    run.withdrawn = vec![Withdrawal { rests: vec!["claim H-RATIO".into(), format!("ratio@{place}")], ..one }];
    let text = results_region(std::slice::from_ref(&run), &[]);
    let struck: Vec<&str> = text.lines().filter(|line| line.contains("| ~~")).collect();
    assert!(struck.len() == 2 && struck.iter().any(|line| line.contains("| ratio of the two |")), "{struck:?}");
}

#[test]
fn metrics_that_begin_alike_are_withdrawn_together() {
    let mut run = published("20260101T000000Z-h200-00000000", "NVIDIA H200");
    run.withdrawn = vec![withdrawal(Some("preempt_latency_us_*"), &[])];
    let text = results_region(std::slice::from_ref(&run), &[]);
    let latencies = |line: &&str| line.contains("preemption latency");
    let rows: Vec<&str> = text.lines().filter(latencies).filter(|line| line.starts_with("| ")).collect();
    assert!(!rows.is_empty() && rows.iter().all(|row| row.contains("| ~~")), "{rows:?}");
    assert!(text.contains("| ratio of the two | ") && !text.contains("| ratio of the two | ~~"), "{text}");
}

#[test]
fn a_refused_number_keeps_its_row_and_says_so() {
    let mut run = published("20260101T000000Z-h200-00000000", "NVIDIA H200");
    let latency = run.metrics.iter_mut().find(|m| m.metric == "preempt_latency_us_p50").unwrap();
    [&mut latency.value, &mut latency.lo, &mut latency.hi].into_iter().for_each(String::clear);
    latency.note = format!("{}12 of 20 launches off the clock", Metric::REFUSED);
    let text = headline_region(std::slice::from_ref(&run));
    assert!(text.contains("| preemption latency, median | refused |"), "{text}");
}

#[test]
fn what_was_withdrawn_and_is_no_number_of_a_published_run_is_told_as_well() {
    let what = Elsewhere { entry: "R-001".into(), what: "16.631 ms (a log)".into(), reason: "one region".into() };
    let text = results_region(&[], std::slice::from_ref(&what));
    assert!(text.starts_with("Nothing is published yet.\n\n## Retracted"), "{text}");
    assert!(text.ends_with("| ~~16.631 ms (a log)~~ | one region | R-001 |\n"), "{text}");
}

#[test]
fn refused_runs_of_other_machines_count_beside_the_attempts_of_this_one() {
    let mut run = published("20260101T000000Z-h200-00000000", "NVIDIA H200");
    run.refused_before = vec!["O-001".into()];
    let one = "attempt 2 of 3 on this machine (the notebook lists 1 earlier refused run: O-001)";
    assert!(results_region(std::slice::from_ref(&run), &[]).contains(one));
    run.refused_before.push("O-002".into());
    let two = "attempt 2 of 3 on this machine (the notebook lists 2 earlier refused runs: O-001, O-002)";
    assert!(headline_region(std::slice::from_ref(&run)).contains(two));
    run.refused_before.clear();
    assert!(results_region(&[run], &[]).contains("attempt 2 of 3."));
}

#[test]
fn a_region_is_replaced_and_nothing_else() {
    let text = "before\n<!-- assay:begin results -->\nold\n<!-- assay:end results -->\nafter\n";
    let replaced = replace_region(text, "results", "new\nlines").unwrap();
    assert_eq!(replaced, "before\n<!-- assay:begin results -->\nnew\nlines\n<!-- assay:end results -->\nafter\n");
    assert_eq!(region(&replaced, "results").unwrap(), "new\nlines\n");
    assert_eq!(replace_region(&replaced, "results", "old\n").unwrap(), text);
    assert_eq!(region(&replace_region(text, "results", "").unwrap(), "results").unwrap(), "");
}

#[test]
fn missing_doubled_and_reversed_markers_are_refused() {
    let (begin, end) = ("<!-- assay:begin results -->\n", "<!-- assay:end results -->\n");
    for text in [
        String::new(),
        begin.to_owned(),
        end.to_owned(),
        format!("{end}{begin}"),
        format!("{begin}{begin}{end}"),
        format!("{begin}{end}{end}"),
        format!("text {begin}{end}"),
    ] {
        let error = replace_region(&text, "results", "").unwrap_err();
        assert_eq!(code_of(&error), ExitCode::Config);
    }
    assert!(replace_region(&format!("{begin}{end}"), "readme", "").is_err());
}
