//! The short table of README.md: a few rows of the newest full run of each device.

use super::{NOTHING, PublishedRun, attempt, by_gpu, clock_name, escape, struck};
use schema::metrics::Metric;
use schema::contract::HeadlineRow;
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
    let (gpu, clocks) = (escape(&run.gpu), clock_name(run.clocks));
    let _ = writeln!(text, "| {gpu}, clocks {clocks}, {} | value | 95 % interval | n | cell |", attempt(run));
    text.push_str("|---|---:|---|---:|---|\n");
    for HeadlineRow { label, at } in &run.contract.headline {
        let named = |m: &&Metric| m.phase == at.phase && m.cell == at.cell && m.metric == at.metric;
        if let Some(m) = run.metrics.iter().find(named) {
            let (value, interval, _) = struck::shown(run, m);
            let _ = writeln!(text, "| {} | {value} | {interval} | {} | `{}` |", escape(label), m.n, escape(&m.cell));
        }
    }
    let waived =
        if run.waivers.is_empty() { String::new() } else { format!(" **Waived: {}.**", run.waivers.join(", ")) };
    let told = run.withdrawn.iter().map(|withdrawal| withdrawal.told()).chain(run.remarks.iter().cloned());
    let told: String = told.map(|told| format!(" **{}.**", escape(told.trim_end_matches('.')))).collect();
    let outcomes = run.claims.iter().map(|claim| {
        let outcome = super::outcome_name(claim.outcome);
        let outcome = struck::of_claim(run, &claim.id).map_or(outcome.to_owned(), |_| struck::strike(outcome));
        format!("{} {outcome}", claim.id)
    });
    let outcomes = outcomes.collect::<Vec<_>>().join(", ");
    let _ = writeln!(
        text,
        "\nRun `{}`.{waived}{told} Claims: {}.\n",
        run.run,
        if outcomes.is_empty() { "none" } else { &outcomes }
    );
}
