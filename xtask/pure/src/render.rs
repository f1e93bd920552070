//! Published runs as Markdown: the regions of RESULTS.md and README.md between markers. Every number comes from a run's
//! metrics, every table says which run, device, clock class, profile and attempt it rests on, and no table has two devices.

mod counters;
mod headline;
mod struck;

pub use headline::headline_region;
pub use struck::{Elsewhere, Withdrawal};

use crate::failure::fail;
use schema::ExitCode;
use schema::claim::Outcome;
use schema::counters::CounterReport;
use schema::metrics::Metric;
use schema::plan::{ClockClass, Phase, ProfileName};
use schema::verdict::ClaimResult;
use std::fmt::Write as _;

/// What a region says while there is nothing to show.
const NOTHING: &str = "Nothing is published yet.\n";

/// Metrics shown in RESULTS.md, without what follows the unit; all others are in `metrics.csv` only.
const SHOWN: [&str; 16] = [
    "timer_quantum_ns",
    "sm_offset_ns",
    "leg_shift_ns",
    "leg_shift_error_ns",
    "tile_wall_us",
    "urgent_wait_us",
    "host_e2e_us",
    "remaining_drain_corr",
    "preempt_latency_us",
    "first_observer_us",
    "last_observer_us",
    "visibility_us",
    "urgent_e2e_us",
    "poll_cost_pct",
    "fp32_peak_pct",
    "ratio",
];

/// A published run, as its manifest, verdict and metrics tell it.
#[derive(Clone, Debug)]
pub struct PublishedRun {
    /// Run id.
    pub run: String,
    /// Experiment.
    pub experiment: String,
    /// The GPU's product name.
    pub gpu: String,
    /// Its compute capability.
    pub compute_capability: String,
    /// Clock class.
    pub clocks: ClockClass,
    /// Profile.
    pub profile: ProfileName,
    /// Which attempt with its plan this run was, from 1.
    pub attempt: u64,
    /// How many attempts with that plan there were up to its publication.
    pub attempts: u64,
    /// Rows of its `metrics.csv`.
    pub metrics: Vec<Metric>,
    /// Its claims.
    pub claims: Vec<ClaimResult>,
    /// Names of gates that were waived.
    pub waivers: Vec<String>,
    /// Ids of notebook entries that tell of earlier refused runs with the same claims, made on other machines.
    pub refused_before: Vec<String>,
    /// What of it the notebook withdraws.
    pub withdrawn: Vec<Withdrawal>,
    /// What hardware counters said; absent unless they were asked.
    pub counters: Option<CounterReport>,
    /// What else a reader must know at once, e.g. which closed work it takes up again.
    pub remarks: Vec<String>,
    /// The commit that holds its events; absent while they are in the tree.
    pub events_in: Option<String>,
}

/// The body of RESULTS.md's region: devices by name, the newest run of each first; then what was withdrawn and is no number of
/// a published run.
#[must_use]
pub fn results_region(runs: &[PublishedRun], elsewhere: &[Elsewhere]) -> String {
    let mut text = String::new();
    for (gpu, runs) in by_gpu(runs) {
        let _ = write!(text, "## {}\n\n", escape(gpu));
        for run in runs {
            let _ = write!(text, "### {}, run `{}`\n\n", run.experiment, run.run);
            claims_table(run, &mut text);
            for phase in Phase::ALL {
                phase_table(run, phase, &mut text);
            }
            counters::table(run, &mut text);
            let _ = writeln!(text, "All values: `results/summary/{}/metrics.csv`.{}\n", run.run, events_told(run));
        }
    }
    if text.is_empty() {
        text.push_str(NOTHING);
    }
    struck::elsewhere_table(elsewhere, &mut text);
    text.trim_end().to_owned() + "\n"
}

/// How a reader gets the events of a run that a newer one superseded.
fn events_told(run: &PublishedRun) -> String {
    let told = |commit: &String| {
        format!("\nIts events left the tree: `git checkout {commit} -- results/events/{}` brings them back.", run.run)
    };
    run.events_in.as_ref().map(told).unwrap_or_default()
}

/// Runs by device, devices by name, the newest run first; run ids begin with their time.
fn by_gpu(runs: &[PublishedRun]) -> Vec<(&str, Vec<&PublishedRun>)> {
    let mut sorted: Vec<&PublishedRun> = runs.iter().collect();
    sorted.sort_by(|a, b| a.gpu.cmp(&b.gpu).then_with(|| b.run.cmp(&a.run)));
    let groups = sorted.chunk_by(|a, b| a.gpu == b.gpu);
    groups.map(|runs| (runs[0].gpu.as_str(), runs.to_vec())).collect()
}

/// What a table rests on, in one line above it.
fn caption(run: &PublishedRun) -> String {
    let mut parts = vec![
        format!("Run `{}`", run.run),
        format!("{} (compute capability {})", escape(&run.gpu), run.compute_capability),
        format!("clocks {}", clock_name(run.clocks)),
        format!("profile {}", profile_name(run.profile)),
        attempt(run),
    ];
    if !run.waivers.is_empty() {
        parts.push(format!("**waived: {}**", escape(run.waivers.join(", "))));
    }
    parts.extend(run.withdrawn.iter().map(|withdrawal| format!("**{}**", escape(withdrawal.told()))));
    parts.extend(run.remarks.iter().map(|remark| format!("**{}**", escape(remark))));
    parts.join(", ") + ".\n\n"
}

/// Which attempt it was. The chain of attempts is its machine's; the notebook knows of others.
fn attempt(run: &PublishedRun) -> String {
    let counted = format!("attempt {} of {}", run.attempt, run.attempts);
    match run.refused_before.as_slice() {
        [] => counted,
        refused => {
            let runs = if refused.len() == 1 { "run" } else { "runs" };
            format!(
                "{counted} on this machine (the notebook lists {} earlier refused {runs}: {})",
                refused.len(),
                refused.join(", ")
            )
        }
    }
}

fn claims_table(run: &PublishedRun, text: &mut String) {
    if run.claims.is_empty() {
        return;
    }
    text.push_str(&caption(run));
    text.push_str("| claim | outcome | value | threshold | why |\n|---|---|---|---|---|\n");
    for claim in &run.claims {
        let value = with_unit(&claim.value, &claim.unit);
        let threshold = with_unit(&claim.threshold, &claim.unit);
        let [outcome, value, why] = match struck::of_claim(run, &claim.id) {
            None => [outcome_name(claim.outcome).to_owned(), value, claim.why.clone()],
            Some(by) => [
                struck::strike(outcome_name(claim.outcome)),
                struck::strike(&value),
                format!("{}; {}", by.short(), claim.why),
            ],
        };
        let cells = [&claim.id, &outcome, &value, &threshold, &why].map(escape);
        let _ = writeln!(text, "| {} |", cells.join(" | "));
    }
    text.push('\n');
}

fn phase_table(run: &PublishedRun, phase: Phase, text: &mut String) {
    let rows: Vec<&Metric> = run.metrics.iter().filter(|m| m.phase == phase.name() && is_shown(&m.metric)).collect();
    if rows.is_empty() {
        return;
    }
    text.push_str(&caption(run));
    let _ = writeln!(
        text,
        "| {} cell | metric | value | 95 % interval | n | note |\n|---|---|---:|---|---:|---|",
        phase.name()
    );
    for m in rows {
        let cell = format!("`{}`", m.cell);
        let (value, interval, note) = struck::shown(run, m);
        let cells = [&cell, &m.metric, &value, &interval, &m.n.to_string(), &note].map(escape);
        let _ = writeln!(text, "| {} |", cells.join(" | "));
    }
    text.push('\n');
}

fn is_shown(metric: &str) -> bool {
    let suffixes = ["", "_p50", "_p99", "_p999", "_max"];
    SHOWN.iter().any(|shown| metric.strip_prefix(shown).is_some_and(|rest| suffixes.contains(&rest)))
}

fn interval(m: &Metric) -> String {
    if m.lo.is_empty() || m.hi.is_empty() { "none".to_owned() } else { format!("{} to {}", m.lo, m.hi) }
}

fn with_unit(value: &str, unit: &str) -> String {
    if value.is_empty() || unit == "1" { value.to_owned() } else { format!("{value} {unit}") }
}

fn escape(text: impl AsRef<str>) -> String {
    text.as_ref().replace('|', "\\|").replace(['\n', '\r'], " ")
}

fn clock_name(class: ClockClass) -> &'static str {
    match class {
        ClockClass::Unsteady => "unsteady",
        ClockClass::Stable => "stable",
        ClockClass::Locked => "locked",
    }
}

fn profile_name(profile: ProfileName) -> &'static str {
    match profile {
        ProfileName::Smoke => "smoke",
        ProfileName::Quick => "quick",
        ProfileName::Full => "full",
    }
}

fn outcome_name(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Confirmed => "CONFIRMED",
        Outcome::Falsified => "FALSIFIED",
        Outcome::Inconclusive => "INCONCLUSIVE",
        Outcome::Invalid => "INVALID",
    }
}

/// `text` with the body of the region `name` replaced; all else stays as it is.
///
/// # Errors
/// When the region's markers are not there exactly once, in order.
pub fn replace_region(text: &str, name: &str, body: &str) -> anyhow::Result<String> {
    let (start, end) = region_bounds(text, name)?;
    let break_before_end = if body.is_empty() || body.ends_with('\n') { "" } else { "\n" };
    Ok(format!("{}{body}{break_before_end}{}", &text[..start], &text[end..]))
}

/// The body of the region `name`.
///
/// # Errors
/// As [`replace_region`].
pub fn region<'a>(text: &'a str, name: &str) -> anyhow::Result<&'a str> {
    let (start, end) = region_bounds(text, name)?;
    Ok(&text[start..end])
}

/// Where the body starts and ends: from the line after the one marker to the line of the other.
fn region_bounds(text: &str, name: &str) -> anyhow::Result<(usize, usize)> {
    let (begin, end) = (format!("<!-- assay:begin {name} -->\n"), format!("<!-- assay:end {name} -->"));
    let once = |marker: &str| {
        let mut found =
            text.match_indices(marker).map(|(at, _)| at).filter(|at| *at == 0 || text.as_bytes()[at - 1] == b'\n');
        let at = found.next()?;
        found.next().is_none().then_some(at)
    };
    match (once(&begin).map(|at| at + begin.len()), once(&end)) {
        (Some(start), Some(end)) if start <= end => Ok((start, end)),
        _ => Err(fail(
            ExitCode::Config,
            format!("the text has not one region {name:?} between lines {:?} and {end:?}", begin.trim_end()),
            "git checkout RESULTS.md README.md",
        )),
    }
}

#[cfg(test)]
mod tests;
