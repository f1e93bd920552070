//! Gate `recompute`: every summary value and figure follows from the raw events, to the byte.

use super::evidence::{CellEvidence, DetachedFacts, Evidence, Facts};
use super::rule::Rule;
use schema::verdict::GateResult;
use std::collections::BTreeSet;

const RESEAL: &str = "a sealed run is never edited: measure again";

pub(super) fn judge(evidence: &Evidence, facts: &Facts) -> GateResult {
    let mut rule = Rule::new("recompute");
    let anew = &evidence.recomputed;
    if !anew.fault.is_empty() {
        rule.refuse(format!("the summary cannot be computed: {}", anew.fault), RESEAL);
    }
    rule.must_count("metrics", anew.metrics.len() as u64, RESEAL);
    match &evidence.metrics_csv {
        None => rule.refuse("summary/metrics.csv is absent", RESEAL),
        Some(stored) => {
            let reason = format!("summary/metrics.csv {}", difference(stored, &anew.metrics_csv));
            rule.require(*stored == anew.metrics_csv, reason, RESEAL);
        }
    }
    judge_figures(&mut rule, evidence);
    match &facts.detached {
        None => rule.refuse(
            "the block rows are not at hand to derive the events from",
            "keep the run directory until the gate has judged",
        ),
        Some(detached) => {
            rule.count("detached", detached);
            rule.require(detached.clock_launches > 0, "no launch's clock was derived from its windows", RESEAL);
            rule.refuse_all(uncounted(evidence, detached), RESEAL);
            rule.refuse_all(detached.faults.clone(), RESEAL);
        }
    }
    rule.done()
}

/// The derived events and launches must be exactly those for which the manifest names a detached table.
fn uncounted(evidence: &Evidence, detached: &DetachedFacts) -> Vec<String> {
    let named: BTreeSet<&str> = evidence.manifest.subject.iter().map(|subject| subject.name.as_str()).collect();
    let beside = |cell: &CellEvidence, suffix: &str| named.contains(format!("cells/{}{suffix}", cell.name()).as_str());
    let (mut events, mut launches) = (0, 0);
    for cell in &evidence.cells {
        let clocked = cell.data.launches.as_ref().and_then(|launches| launches.u32("clock_windows").ok());
        let clocked = clocked.map_or(0, |windows| windows.iter().filter(|windows| **windows > 0).count() as u64);
        events += if beside(cell, ".blocks.parquet") { cell.data.events.rows() as u64 } else { 0 };
        launches += if beside(cell, ".clock.parquet") { clocked } else { 0 };
    }
    let counts = [("events", events, detached.events), ("launches' clocks", launches, detached.clock_launches)];
    let wrong = counts.into_iter().filter(|(_, there, derived)| there != derived);
    wrong.map(|(what, there, derived)| format!("{derived} {what} were derived again, and {there} are there")).collect()
}

fn judge_figures(rule: &mut Rule, evidence: &Evidence) {
    let anew = &evidence.recomputed.figures;
    rule.count("figures", anew.len());
    for (name, figure) in anew {
        let same = evidence.figures.get(name) == Some(figure);
        rule.require(same, format!("summary/{name} is not what the values give"), RESEAL);
    }
    for name in evidence.figures.keys().filter(|name| !anew.contains_key(*name)) {
        rule.refuse(format!("summary/{name} is no figure of this run"), RESEAL);
    }
}

/// The first line in which a summary differs from the one computed anew.
fn difference(stored: &str, anew: &str) -> String {
    let mut lines = stored.lines().zip(anew.lines()).enumerate();
    match lines.find(|(_, (a, b))| a != b) {
        Some((i, (stored, anew))) => format!("line {}: holds {stored:?}, the events give {anew:?}", i + 1),
        None => format!("holds {} bytes, the events give {}", stored.len(), anew.len()),
    }
}
