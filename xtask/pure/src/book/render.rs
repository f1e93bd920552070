//! Published runs as Markdown: the regions of RESULTS.md and README.md between markers. Every number comes from a run's
//! metrics; what a page shows of a run is what its contract names, and no table has two devices.

mod headline;
mod struck;

pub use headline::headline_region;
pub use struck::{Elsewhere, Withdrawal};

use super::with_unit;
use crate::records::json::word;
use schema::ExitCode;
use schema::contract::Contract;
use schema::metrics::Metric;
use schema::plan::{ClockClass, ProfileName};
use schema::verdict::ClaimResult;
use std::fmt::Write as _;
use words::failure::fail;

/// What a region says while there is nothing to show.
const NOTHING: &str = "Nothing is published yet.\n";

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
    /// What it had to contain; empty for a run from before there were contracts.
    pub contract: Contract,
    /// The version of the rules that judged it.
    pub rules: u32,
    /// What else a reader must know at once, e.g. which closed work it takes up again.
    pub remarks: Vec<String>,
    /// The commit that holds its events; absent while they are in the tree.
    pub events_in: Option<String>,
}

/// The body of RESULTS.md's region: for each device its newest run that stands, with claims, a short table and a figure; then
/// one line for each other run, and what was withdrawn and is no number of a published run.
#[must_use]
pub fn results_region(runs: &[PublishedRun], elsewhere: &[Elsewhere]) -> String {
    let mut text = String::new();
    for (gpu, runs) in by_gpu(runs) {
        let _ = write!(text, "## {}\n\n", escape(gpu));
        let newest = runs.iter().position(|run| struck::whole(run).is_none());
        if let Some(run) = newest.map(|newest| runs[newest]) {
            let _ = write!(text, "### {}\n\n{}", run.experiment, caption(run));
            claims_table(run, &mut text);
            headline::rows(run, &mut text);
            if let Some(figure) = run.contract.figures.first() {
                let (title, file) = (escape(&figure.title), &figure.file);
                let _ = writeln!(text, "![{title}](results/summary/{}/{file})\n", run.run);
            }
            let _ = writeln!(text, "{}{}\n", links(run), events_told(run));
        }
        let others = runs.iter().enumerate().filter(|(place, _)| Some(*place) != newest);
        let others: Vec<String> = others.map(|(_, run)| other(run)).collect();
        if !others.is_empty() {
            let _ = writeln!(text, "Other runs on this GPU model:\n\n{}", others.concat());
        }
    }
    if text.is_empty() {
        text.push_str(NOTHING);
    }
    struck::elsewhere_table(elsewhere, &mut text);
    text.trim_end().to_owned() + "\n"
}

/// Where every value of a run is, and its other figures.
fn links(run: &PublishedRun) -> String {
    let file = |name: &str| format!("[{name}](results/summary/{}/{name})", run.run);
    let figures: Vec<String> = run.contract.figures.iter().skip(1).map(|figure| file(&figure.file)).collect();
    let figures = if figures.is_empty() { String::new() } else { format!("; other figures: {}", figures.join(", ")) };
    format!("Every value of the run: {}{figures}.", file("metrics.csv"))
}

/// A run that is not the newest one, in one line.
fn other(run: &PublishedRun) -> String {
    let claims: Vec<String> = run.claims.iter().map(|claim| outcome(run, claim)).collect();
    let mut told = vec![format!("judged under rules {}", run.rules), format!("profile {}", word(run.profile))];
    told.push(if claims.is_empty() { "no claims".to_owned() } else { claims.join(", ") });
    told.extend(shortcomings(run));
    let (id, events) = (&run.run, events_told(run));
    format!("- `{id}`: {}. [Values](results/summary/{id}/metrics.csv).{events}\n", told.join(", "))
}

/// A claim with its outcome, struck out where what it rests on is withdrawn.
fn outcome(run: &PublishedRun, claim: &ClaimResult) -> String {
    let name = word(claim.outcome);
    let name = struck::of_claim(run, &claim.id).map_or(name.clone(), |_| struck::strike(&name));
    format!("{} {name}", claim.id)
}

/// How a reader gets the events of a run that a newer one superseded.
fn events_told(run: &PublishedRun) -> String {
    let told = |commit: &String| {
        format!(" Its events left the tree: `git checkout {commit} -- results/events/{}` brings them back.", run.run)
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
        format!("clocks {}", word(run.clocks)),
        format!("profile {}", word(run.profile)),
        format!("judged under rules {}", run.rules),
        attempt(run),
    ];
    parts.extend(shortcomings(run));
    parts.join(", ") + ".\n\n"
}

/// What a reader must know before any number of the run: gates that were waived, what is withdrawn, remarks.
fn shortcomings(run: &PublishedRun) -> Vec<String> {
    let waived = (!run.waivers.is_empty()).then(|| format!("waived: {}", run.waivers.join(", ")));
    let withdrawn = run.withdrawn.iter().map(Withdrawal::told);
    let told = waived.into_iter().chain(withdrawn).chain(run.remarks.iter().cloned());
    told.map(|told| format!("**{}**", escape(told))).collect()
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
    text.push_str("| claim | outcome | value | threshold | why |\n|---|---|---|---|---|\n");
    for claim in &run.claims {
        let value = with_unit(&claim.value, &claim.unit);
        let threshold = with_unit(&claim.threshold, &claim.unit);
        let [outcome, value, why] = match struck::of_claim(run, &claim.id) {
            None => [word(claim.outcome), value, claim.why.clone()],
            Some(by) => {
                [struck::strike(&word(claim.outcome)), struck::strike(&value), format!("{}; {}", by.short(), claim.why)]
            }
        };
        let cells = [&claim.id, &outcome, &value, &threshold, &why].map(escape);
        let _ = writeln!(text, "| {} |", cells.join(" | "));
    }
    text.push('\n');
}

fn interval(m: &Metric) -> String {
    if m.lo.is_empty() || m.hi.is_empty() { "none".to_owned() } else { format!("{} to {}", m.lo, m.hi) }
}

fn escape(text: impl AsRef<str>) -> String {
    text.as_ref().replace('|', "\\|").replace(['\n', '\r'], " ")
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
