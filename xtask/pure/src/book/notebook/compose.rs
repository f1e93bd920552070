//! New entries from what a person gives: the flags of the kind's command. What comes from a run is added by
//! [`NewEntry::tell`] and [`NewEntry::strike`].

use super::kinds::{Flag, Given, Row};
use super::numbers::{Cited, Measured};
use super::rests::Resting;
use super::{Fields, Kind, NewEntry, Notebook, Status};
use crate::book::with_unit;
use crate::numbers::decimal::Decimal;
use crate::records::json::word;
use anyhow::{Context, Result, ensure};
use schema::ExitCode;
use schema::claim::Outcome;
use schema::metrics::Metric;
use schema::verdict::ClaimResult;
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};
use toml::{Table, Value};
use words::failure::fail;

/// The flags that a person gave, by name, each with its values in order.
pub type Flags = BTreeMap<&'static str, Vec<String>>;

impl NewEntry {
    /// The entry that these flags make, with the next free id of its kind.
    ///
    /// # Errors
    /// Exit 2 when a flag's value is none.
    pub fn of(notebook: &Notebook, row: &Row, date: String, flags: &Flags) -> Result<Self> {
        let first = |name| flags.get(name).and_then(|values| values.first());
        let mut fields = Table::new();
        for flag in &row.flags {
            if let (Some(field), Some(values)) = (flag.field(), flags.get(flag.name.as_str())) {
                fields.insert(field.to_owned(), flag.read(values)?);
            }
        }
        if let (Some(quantity), Some(source)) = (first("cited"), first("source")) {
            let (value, unit) = quantity.split_once(' ').unwrap_or((quantity, "1"));
            let [value, unit, source] = [value, unit, source.as_str()].map(str::to_owned);
            fields.insert("cited".to_owned(), Value::try_from(Cited { value, unit, source })?);
        }
        let status = if flags.contains_key("reject") { Status::Rejected } else { row.status };
        let title = first("title").cloned();
        let title = title.or_else(|| Some(format!("closed: {}", first("topic")?))).unwrap_or_default();
        let prose = first("text").cloned().unwrap_or_default();
        let fields = Fields::of(row.kind, status, fields)?;
        Ok(Self { date, id: notebook.next_id(row.kind), title, prose, fields })
    }

    /// Makes an outcome of what its run gave: a sentence and the value of each claim, and further values by name. An outcome
    /// with an invalid claim is invalid.
    pub fn tell(&mut self, results: &[ClaimResult], metrics: BTreeMap<String, Measured>) {
        if results.iter().any(|result| result.outcome == Outcome::Invalid) {
            self.fields.status = Status::Invalid;
        }
        self.fields.claims = results.iter().map(|result| result.id.clone()).collect();
        self.fields.measure(metrics);
        self.fields.measure(results.iter().filter_map(|result| Some((result.id.clone(), Measured::of_claim(result)?))));
        let sentences: Vec<String> = results.iter().map(sentence).collect();
        self.prose = format!("{}\n\n{}", self.prose.trim(), sentences.join("\n")).trim().to_owned();
    }

    /// Makes a retraction say what it withdraws, struck out, with the reason and what rests on it. A withdrawn metric keeps
    /// its value.
    pub fn strike(&mut self, metric: Option<&Metric>, resting: Resting) {
        let fields = &mut self.fields;
        if let Some(metric) = metric {
            fields.measure([(fields.metric.clone().unwrap_or_default(), Measured::of_metric(metric))]);
        }
        (fields.claims, fields.rests) = (resting.claims, resting.lines);
        let struck = match (&fields.run, &fields.metric, metric, &fields.about, &fields.cited) {
            (Some(run), Some(name), Some(metric), ..) => {
                format!("{} ({name} of run {run})", with_unit(&metric.value, &metric.unit))
            }
            (Some(run), Some(name), None, ..) => format!("every {name} of run {run}"),
            (Some(run), ..) => format!("run {run}"),
            (.., Some(about), _) => format!("entry {about}"),
            (.., Some(cited)) => format!("{} ({})", cited.quantity(), cited.source),
            _ => String::new(),
        };
        let rested = match fields.rests.as_slice() {
            [] => "Nothing was found that rests on it.".to_owned(),
            rests => format!("On it rest: {}.", rests.join("; ")),
        };
        let reason = fields.reason.as_deref().unwrap_or_default().trim_end_matches('.');
        self.prose = format!("~~{struck}~~: {reason}.\n{rested}\n\n{}", self.prose.trim()).trim().to_owned();
    }
}

impl Flag {
    /// The value of the field that the flag fills.
    fn read(&self, values: &[String]) -> Result<Value> {
        Ok(match self.given {
            Given::Switch => true.into(),
            Given::Often if self.field() == Some("values") => {
                Value::Table(values.iter().map(|text| projected(text)).collect::<Result<_>>()?)
            }
            Given::Often | Given::AtLeastOnce => Value::from(values.to_vec()),
            _ => values.first().cloned().unwrap_or_default().into(),
        })
    }
}

/// A name with a value that somebody expects.
fn projected(text: &str) -> Result<(String, Value)> {
    let wrong = |what: String| fail(ExitCode::Usage, what, "--value latency_us_p50=9");
    let (name, value) = text.split_once('=').ok_or_else(|| wrong(format!("{text:?} is not NAME=DECIMAL")))?;
    value.parse::<Decimal>().map_err(|error| wrong(format!("value {name}: {error:#}")))?;
    Ok((name.to_owned(), value.into()))
}

fn sentence(result: &ClaimResult) -> String {
    let ClaimResult { id, outcome, unit, threshold, why, .. } = result;
    format!("{id} is {} against {}: {why}.", word(outcome), with_unit(threshold, unit))
}

/// A table of closed work, as `notebook close --table` reads it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ClosedWork {
    /// Where the table stands.
    source: String,
    /// What is said of all rows.
    text: String,
    /// Its rows, each with the fields of closed work.
    work: Vec<BTreeMap<String, String>>,
}

/// The flags that each row of a table of closed work stands for. What a row does not state is told as `not stated`, never left
/// out or made up.
///
/// # Errors
/// Exit 2 when it is no such table, has no rows, or names a topic twice.
pub fn closed_work(name: &str, text: &str) -> Result<Vec<Flags>> {
    let read = || -> Result<Vec<Flags>> {
        let table: ClosedWork = toml::from_str(text).context("not a table of closed work")?;
        ensure!(!table.work.is_empty(), "it has no rows");
        let prose = format!("{}\nSource: {}.", table.text.trim(), table.source.trim_end_matches('.'));
        let mut topics = BTreeSet::new();
        let row = |work: BTreeMap<String, String>| {
            let topic = work.get("topic").map(String::as_str).unwrap_or_default();
            ensure!(topics.insert(super::standing::folded(topic)), "it names {topic:?} twice");
            let mut flags = Flags::from([("text", vec![prose.clone()])]);
            for (name, said) in work {
                let flag = Kind::Closed.row().flags.iter().find(|flag| flag.field() == Some(&name));
                flags.insert(&flag.with_context(|| format!("unknown field `{name}`"))?.name, vec![said]);
            }
            Ok(flags)
        };
        table.work.into_iter().map(row).collect()
    };
    read().map_err(|error| fail(ExitCode::Usage, format!("{name}: {error:#}"), format!("edit {name}")))
}
