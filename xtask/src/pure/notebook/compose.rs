//! What `notebook predict` and `notebook outcome` write: entries from their parts, with the next free id.

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

/// A prediction of these claims with projected values, decimal strings by name.
#[must_use]
pub fn prediction(
    notebook: &Notebook,
    draft: Draft,
    claims: Vec<String>,
    values: BTreeMap<String, String>,
    informed: bool,
) -> NewEntry {
    let fields = Fields { claims, informed, ..Fields::new(Kind::Prediction, Status::Proposed) }.with_values(values);
    entry(notebook, draft, fields)
}

/// The outcome of a run: the draft's prose, a sentence for each claim, and the measured value of each that has one.
#[must_use]
pub fn outcome(notebook: &Notebook, draft: Draft, run: &str, results: &[ClaimResult]) -> NewEntry {
    let claims = results.iter().map(|result| result.id.clone()).collect();
    let valued = results.iter().filter(|result| !result.value.is_empty());
    let values = valued.map(|result| (result.id.clone(), result.value.clone())).collect();
    let fields = Fields { run: Some(run.to_owned()), claims, ..Fields::new(Kind::Outcome, status(results)) };
    let sentences: Vec<String> = results.iter().map(sentence).collect();
    let prose = format!("{}\n\n{}", draft.prose.trim(), sentences.join("\n"));
    entry(notebook, Draft { prose: prose.trim().to_owned(), ..draft }, fields.with_values(values))
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

fn entry(notebook: &Notebook, Draft { date, title, prose }: Draft, fields: Fields) -> NewEntry {
    NewEntry { date, id: notebook.next_id(fields.kind), title, prose, fields }
}
