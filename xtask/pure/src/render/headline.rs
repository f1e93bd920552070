//! The short table of README.md: a few rows of the newest full run of each device.

use super::{NOTHING, PublishedRun, attempt, by_gpu, clock_name, escape, struck};
use schema::metrics::Metric;
use schema::plan::{Phase, ProfileName};
use std::fmt::Write as _;

/// What a row says, and where its number is: phase, metric, and what the cell's name begins and ends with. Among several
/// such cells the one with most blocks is shown.
struct Headline {
    what: &'static str,
    phase: Phase,
    metric: &'static str,
    begins: &'static str,
    ends: &'static str,
}

const fn headline(
    what: &'static str,
    phase: Phase,
    metric: &'static str,
    begins: &'static str,
    ends: &'static str,
) -> Headline {
    Headline { what, phase, metric, begins, ends }
}

const HEADLINES: [Headline; 6] = [
    headline("preemption latency, median", Phase::Yield, "preempt_latency_us_p50", "k=", "poll=1,set=device"),
    headline("preemption latency, p99", Phase::Yield, "preempt_latency_us_p99", "k=", "poll=1,set=device"),
    headline("cost of polling every tile", Phase::Yield, "poll_cost_pct", "cost,", "poll=1"),
    headline("host to host without yielding, median", Phase::Baseline, "host_e2e_us_p50", "k=", ""),
    headline("host to host with yielding, median", Phase::Yield, "host_e2e_us_p50", "k=", "poll=1,set=host"),
    headline("ratio of the two", Phase::Yield, "ratio", "k=", "poll=1,set=host"),
];

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
    for headline in &HEADLINES {
        if let Some(m) = find(run, headline) {
            let (value, interval, _) = struck::shown(run, m);
            let _ = writeln!(text, "| {} | {value} | {interval} | {} | `{}` |", headline.what, m.n, escape(&m.cell));
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

fn find<'a>(run: &'a PublishedRun, headline: &Headline) -> Option<&'a Metric> {
    let fits = |m: &&Metric| {
        m.phase == headline.phase.name()
            && m.metric == headline.metric
            && m.cell.starts_with(headline.begins)
            && m.cell.ends_with(headline.ends)
    };
    run.metrics.iter().filter(fits).max_by_key(|m| blocks(&m.cell))
}

fn blocks(cell: &str) -> Option<u32> {
    cell.split(',').find_map(|pair| pair.strip_prefix("blocks=")?.parse().ok())
}
