//! What the `notebook` commands write: entries from their parts, with the next free id.

use super::numbers::{Cited, Measured, Projected};
use super::{Fields, Kind, NewEntry, Notebook, Status};
use schema::claim::Outcome;
use schema::verdict::ClaimResult;
use std::collections::BTreeMap;

/// What a person gives of an entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Draft {
    /// The day, `YYYY-MM-DD`.
    pub date: String,
    /// Its title, one line.
    pub title: String,
    /// What it says.
    pub prose: String,
}

/// What a retraction withdraws.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Retracted {
    /// All numbers of a run.
    Run(String),
    /// One metric of a run, with the value it had.
    Metric {
        /// The run.
        run: String,
        /// `METRIC@PHASE/CELL`.
        metric: String,
        /// The value.
        value: Measured,
        /// Its unit.
        unit: String,
    },
    /// An earlier entry.
    Entry(String),
    /// A number that is none of ours.
    Cited(Cited),
}

/// A prediction of these claims with projected values by name.
#[must_use]
pub fn prediction(
    notebook: &Notebook,
    draft: Draft,
    claims: Vec<String>,
    values: &BTreeMap<String, Projected>,
    informed: bool,
) -> NewEntry {
    entry(notebook, draft, Fields { claims, informed, ..Fields::projecting(values) })
}

/// The outcome of a run: the draft's prose, a sentence for each claim, the measured value of each that has one, and further
/// measured values by name.
#[must_use]
pub fn outcome(
    notebook: &Notebook,
    draft: Draft,
    run: &str,
    results: &[ClaimResult],
    metrics: BTreeMap<String, Measured>,
) -> NewEntry {
    let mut values = metrics;
    values.extend(results.iter().filter_map(|result| Some((result.id.clone(), Measured::of_claim(result)?))));
    let claims = results.iter().map(|result| result.id.clone()).collect();
    let fields = Fields { claims, ..Fields::measuring(Kind::Outcome, status(results), run, &values) };
    let sentences: Vec<String> = results.iter().map(sentence).collect();
    let prose = format!("{}\n\n{}", draft.prose.trim(), sentences.join("\n"));
    entry(notebook, Draft { prose: prose.trim().to_owned(), ..draft }, fields)
}

/// A run whose claims do not count is recorded as such.
fn status(results: &[ClaimResult]) -> Status {
    let invalid = results.iter().any(|result| result.outcome == Outcome::Invalid);
    if invalid { Status::Invalid } else { Status::ResearchRetained }
}

fn sentence(result: &ClaimResult) -> String {
    let ClaimResult { id, outcome, unit, threshold, why, .. } = result;
    let outcome = match outcome {
        Outcome::Confirmed => "CONFIRMED",
        Outcome::Falsified => "FALSIFIED",
        Outcome::Inconclusive => "INCONCLUSIVE",
        Outcome::Invalid => "INVALID",
    };
    let unit = if unit == "1" { String::new() } else { format!(" {unit}") };
    format!("{id} is {outcome} against {threshold}{unit}: {why}.")
}

/// Something that went wrong.
#[must_use]
pub fn fault(
    notebook: &Notebook,
    draft: Draft,
    run: Option<String>,
    about: Option<String>,
    claims: Vec<String>,
) -> NewEntry {
    entry(notebook, draft, Fields { run, about, claims, ..Fields::new(Kind::Fault, Status::Invalid) })
}

/// A retraction: what it withdraws stays told, struck out, with the reason and everything that rests on it.
#[must_use]
pub fn retraction(
    notebook: &Notebook,
    draft: Draft,
    what: Retracted,
    reason: String,
    claims: Vec<String>,
    rests: Vec<String>,
) -> NewEntry {
    let plain =
        Fields { claims, reason: Some(reason.clone()), rests, ..Fields::new(Kind::Retraction, Status::Retracted) };
    let (struck, fields) = match what {
        Retracted::Run(run) => (format!("run {run}"), Fields { run: Some(run), ..plain }),
        Retracted::Metric { run, metric, value, unit } => {
            let unit = if unit == "1" { String::new() } else { format!(" {unit}") };
            let struck = format!("{value}{unit} ({metric} of run {run})");
            let values = BTreeMap::from([(metric.clone(), value)]);
            let measured = Fields::measuring(Kind::Retraction, Status::Retracted, &run, &values);
            let Fields { claims, reason, rests, .. } = plain;
            (struck, Fields { metric: Some(metric), claims, reason, rests, ..measured })
        }
        Retracted::Entry(about) => (format!("entry {about}"), Fields { about: Some(about), ..plain }),
        Retracted::Cited(cited) => {
            (format!("{} ({})", cited.quantity(), cited.source), Fields { cited: Some(cited), ..plain })
        }
    };
    let rested = match fields.rests.as_slice() {
        [] => "Nothing was found that rests on it.".to_owned(),
        rests => format!("On it rest: {}.", rests.join("; ")),
    };
    let prose = format!("~~{struck}~~: {}.\n{rested}\n\n{}", reason.trim_end_matches('.'), draft.prose.trim());
    entry(notebook, Draft { prose: prose.trim().to_owned(), ..draft }, fields)
}

/// A correction of an earlier entry, which stays as it is.
#[must_use]
pub fn amendment(notebook: &Notebook, draft: Draft, about: String, claims: Vec<String>) -> NewEntry {
    let fields = Fields { about: Some(about), claims, ..Fields::new(Kind::Amendment, Status::ResearchRetained) };
    entry(notebook, draft, fields)
}

/// Phases allowed to run, or turned down.
#[must_use]
pub fn decision(notebook: &Notebook, draft: Draft, phases: Vec<String>, authorized: bool) -> NewEntry {
    let status = if authorized { Status::Authorized } else { Status::Rejected };
    entry(notebook, draft, Fields { phases, ..Fields::new(Kind::Decision, status) })
}

/// Work ended, with what is kept of it and what would reopen it.
#[must_use]
pub fn closed(notebook: &Notebook, draft: Draft, work: super::table::Work) -> NewEntry {
    let super::table::Work { topic, evidence, reason, preservation, reopens_when } = work;
    let fields = Fields {
        topic: Some(topic),
        evidence: Some(evidence),
        reason: Some(reason),
        preservation: Some(preservation),
        reopens_when: Some(reopens_when),
        ..Fields::new(Kind::Closed, Status::ResearchRetained)
    };
    entry(notebook, draft, fields)
}

/// Provenance that is missing, by the name under which plans and claims need it.
#[must_use]
pub fn missing(notebook: &Notebook, draft: Draft, item: String, run: Option<String>, claims: Vec<String>) -> NewEntry {
    let fields = Fields { item: Some(item), run, claims, ..Fields::new(Kind::Missing, Status::Invalid) };
    entry(notebook, draft, fields)
}

/// A published run whose numbers are kept although sources have changed, with what shows that its identity did not.
#[must_use]
pub fn carry_over(notebook: &Notebook, draft: Draft, run: String, reason: String) -> NewEntry {
    let kept = Fields::new(Kind::CarryOver, Status::ResearchRetained);
    entry(notebook, draft, Fields { run: Some(run), reason: Some(reason), ..kept })
}

fn entry(notebook: &Notebook, Draft { date, title, prose }: Draft, fields: Fields) -> NewEntry {
    NewEntry { date, id: notebook.next_id(fields.kind), title, prose, fields }
}
