//! The short table of README.md: a few rows of the newest full run of each device.

use super::{NOTHING, PublishedRun, by_gpu, clock_name, escape, interval, with_unit};
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

/// The body of README.md's region: one table a device, from its newest run of profile `full`.
#[must_use]
pub fn headline_region(runs: &[PublishedRun]) -> String {
    let mut text = String::new();
    for (_, runs) in by_gpu(runs) {
        let newest = runs.into_iter().find(|run| run.profile == ProfileName::Full && run.remarks.is_empty());
        if let Some(run) = newest {
            table(run, &mut text);
        }
    }
    if text.is_empty() { NOTHING.to_owned() } else { text.trim_end().to_owned() + "\n" }
}

fn table(run: &PublishedRun, text: &mut String) {
    let (gpu, clocks) = (escape(&run.gpu), clock_name(run.clocks));
    let _ = writeln!(
        text,
        "| {gpu}, clocks {clocks}, attempt {} of {} | value | 95 % interval | n | cell |",
        run.attempt, run.attempts
    );
    text.push_str("|---|---:|---|---:|---|\n");
    for headline in &HEADLINES {
        if let Some(m) = find(run, headline) {
            let value = with_unit(&m.value, &m.unit);
            let _ =
                writeln!(text, "| {} | {value} | {} | {} | `{}` |", headline.what, interval(m), m.n, escape(&m.cell));
        }
    }
    let waived =
        if run.waivers.is_empty() { String::new() } else { format!(" **Waived: {}.**", run.waivers.join(", ")) };
    let outcomes = run.claims.iter().map(|c| format!("{} {}", c.id, super::outcome_name(c.outcome)));
    let outcomes = outcomes.collect::<Vec<_>>().join(", ");
    let _ = writeln!(
        text,
        "\nRun `{}`.{waived} Claims: {}.\n",
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
