//! Withdrawn numbers: they stay in place, struck out, with the entry that withdraws them and its reason.

use super::{PublishedRun, escape, interval, with_unit};
use crate::book::{name_of, withdraws};
use schema::metrics::Metric;
use std::fmt::Write as _;

/// A retraction of a published run or of one metric of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Withdrawal {
    /// The notebook entry.
    pub entry: String,
    /// Why, in one line.
    pub reason: String,
    /// The metric, see [`withdraws`]; absent when all of the run is withdrawn.
    pub metric: Option<String>,
    /// Claims that rest on it.
    pub claims: Vec<String>,
    /// Everything else that rests on it; a metric among it, such as a ratio, is struck out too.
    pub rests: Vec<String>,
}

/// A retraction of something that is no number of a published run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Elsewhere {
    /// The notebook entry.
    pub entry: String,
    /// What is withdrawn.
    pub what: String,
    /// Why, in one line.
    pub reason: String,
}

impl Withdrawal {
    /// For a table's caption.
    pub(super) fn told(&self) -> String {
        match &self.metric {
            None => format!("retracted by {}: {}", self.entry, self.reason),
            Some(metric) => format!("{metric} retracted by {}: {}", self.entry, self.reason),
        }
    }

    /// For a row.
    pub(super) fn short(&self) -> String {
        format!("retracted by {}", self.entry)
    }

    fn covers(&self, m: &Metric) -> bool {
        let name = name_of(m);
        self.metric.as_ref().is_none_or(|metric| withdraws(metric, &name)) || self.rests.contains(&name)
    }
}

/// The retraction of all of a run, if any.
pub(super) fn whole(run: &PublishedRun) -> Option<&Withdrawal> {
    run.withdrawn.iter().find(|withdrawal| withdrawal.metric.is_none())
}

/// The retraction that a claim rests on, if any.
pub(super) fn of_claim<'a>(run: &'a PublishedRun, id: &str) -> Option<&'a Withdrawal> {
    let rests =
        |withdrawal: &&Withdrawal| withdrawal.metric.is_none() || withdrawal.claims.iter().any(|claim| claim == id);
    run.withdrawn.iter().find(rests)
}

/// A metric's value, interval and note, struck out where it is withdrawn. A number that does not stand has a word for its value.
pub(super) fn shown(run: &PublishedRun, m: &Metric) -> (String, String, String) {
    let value = if m.refused() { "refused".to_owned() } else { with_unit(&m.value, &m.unit) };
    match run.withdrawn.iter().find(|withdrawal| withdrawal.covers(m)) {
        None => (value, interval(m), m.note.clone()),
        Some(by) => {
            let note = if m.note.is_empty() { by.short() } else { format!("{}; {}", by.short(), m.note) };
            (strike(&value), strike(&interval(m)), note)
        }
    }
}

/// Struck out; nothing stays nothing.
pub(super) fn strike(text: &str) -> String {
    if text.is_empty() { String::new() } else { format!("~~{text}~~") }
}

/// The table of what was withdrawn elsewhere, if anything was.
pub(super) fn elsewhere_table(elsewhere: &[Elsewhere], text: &mut String) {
    if elsewhere.is_empty() {
        return;
    }
    text.push_str("\n## Retracted, and no number of a run above\n\n| what | why | entry |\n|---|---|---|\n");
    for Elsewhere { entry, what, reason } in elsewhere {
        let cells = [&strike(what), reason, entry].map(escape);
        let _ = writeln!(text, "| {} |", cells.join(" | "));
    }
}
