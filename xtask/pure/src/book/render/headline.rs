//! The short table of README.md: a few rows of the newest full run of each device.

use super::{NOTHING, PublishedRun, attempt, by_gpu, escape, outcome, struck};
use crate::records::json::word;
use schema::contract::HeadlineRow;
use schema::metrics::Metric;
use schema::plan::ProfileName;
use std::fmt::Write as _;

/// The body of README.md's region: one table a device, from its newest run of profile `full` that stands. Above it, struck
/// out, newer ones that were withdrawn.
#[must_use]
pub fn headline_region(runs: &[PublishedRun]) -> String {
    let mut text = String::new();
    for (_, runs) in by_gpu(runs) {
        let full: Vec<&PublishedRun> = runs.into_iter().filter(|run| run.profile == ProfileName::Full).collect();
        let newer = full.iter().take_while(|run| struck::whole(run).is_some()).count();
        full.iter().take(newer + 1).for_each(|run| table(run, &mut text));
    }
    if text.is_empty() { NOTHING.to_owned() } else { text.trim_end().to_owned() + "\n" }
}

fn table(run: &PublishedRun, text: &mut String) {
    let _ = writeln!(text, "{}, clocks {}:\n", escape(&run.gpu), word(run.clocks));
    rows(run, text);
    let waived =
        if run.waivers.is_empty() { String::new() } else { format!(" **Waived: {}.**", run.waivers.join(", ")) };
    let told = run.withdrawn.iter().map(|withdrawal| withdrawal.told()).chain(run.remarks.iter().cloned());
    let told: String = told.map(|told| format!(" **{}.**", escape(told.trim_end_matches('.')))).collect();
    let claims: Vec<String> = run.claims.iter().map(|claim| outcome(run, claim)).collect();
    let claims = if claims.is_empty() { "none".to_owned() } else { claims.join(", ") };
    let _ = writeln!(text, "Run `{}`, {}.{waived}{told} Claims: {claims}.\n", run.run, attempt(run));
}

/// The rows that the run's contract names for a headline.
pub(super) fn rows(run: &PublishedRun, text: &mut String) {
    if run.contract.headline.is_empty() {
        return;
    }
    text.push_str("| | value | 95 % interval | n | cell |\n|---|---:|---|---:|---|\n");
    for HeadlineRow { label, at } in &run.contract.headline {
        let named = |m: &&Metric| m.phase == at.phase && m.cell == at.cell && m.metric == at.metric;
        if let Some(m) = run.metrics.iter().find(named) {
            let (value, interval, _) = struck::shown(run, m);
            let _ = writeln!(text, "| {} | {value} | {interval} | {} | `{}` |", escape(label), m.n, escape(&m.cell));
        }
    }
    text.push('\n');
}
