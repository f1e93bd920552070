//! Regions as Markdown, as snapshots, and how they are put into a text.

use super::*;
use crate::failure::code_of;
use crate::pure::summary::summarize;
use crate::pure::synthetic::{SLOTS, cells, plan};

fn published(run: &str, gpu: &str) -> PublishedRun {
    let plan = plan(ProfileName::Full, 400);
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
        metrics: summarize(&plan, &SLOTS, run, &cells(&plan)).unwrap(),
        claims: vec![claim],
        waivers: Vec::new(),
        remarks: Vec::new(),
    }
}

#[test]
fn regions_of_a_published_run() {
    let runs = [published("20260101T000000Z-h200-00000000", "NVIDIA H200")];
    insta::assert_snapshot!(results_region(&runs));
    insta::assert_snapshot!(headline_region(&runs));
}

#[test]
fn nothing_published_is_said() {
    assert_eq!(results_region(&[]), "Nothing is published yet.\n");
    assert_eq!(headline_region(&[]), "Nothing is published yet.\n");
}

#[test]
fn devices_are_never_blended_and_the_newest_run_comes_first() {
    let runs = [
        published("20260101T000000Z-h200-00000000", "NVIDIA H200"),
        published("20260102T000000Z-a10-00000000", "NVIDIA A10"),
        published("20260103T000000Z-h200-00000000", "NVIDIA H200"),
    ];
    let text = results_region(&runs);
    let order = ["## NVIDIA A10", "20260102", "## NVIDIA H200", "20260103", "20260101"];
    let positions: Vec<usize> = order.iter().map(|part| text.find(part).unwrap()).collect();
    assert!(positions.is_sorted(), "{positions:?}");
    let headline = headline_region(&runs);
    assert!(headline.contains("20260103") && !headline.contains("20260101"), "{headline}");
    assert_eq!(headline.matches("| value |").count(), 2);
}

#[test]
fn every_table_says_what_was_waived_and_remarked() {
    let mut run = published("20260101T000000Z-h200-00000000", "NVIDIA H200");
    run.waivers = vec!["clocks".into()];
    run.remarks = vec!["retracted by R-001".into()];
    let text = results_region(std::slice::from_ref(&run));
    let tables = text.matches("\n|---|").count();
    assert_eq!(tables, text.matches("**waived: clocks**, **retracted by R-001**.").count());
    assert_eq!(headline_region(std::slice::from_ref(&run)), "Nothing is published yet.\n");
    run.remarks.clear();
    assert!(headline_region(&[run]).contains("**Waived: clocks.**"));
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
