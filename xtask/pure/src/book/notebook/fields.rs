//! What an entry's `toml` block holds. Which fields each kind must and may have is in the table of kinds.

use super::numbers::{Cited, Measured};
use crate::numbers::decimal::Decimal;
use anyhow::{Context, bail, ensure};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use toml::{Table, Value};

/// The fields of an entry, as its `toml` block holds them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fields {
    /// What sort of entry it is.
    pub kind: Kind,
    /// What has become of its subject.
    pub status: Status,
    /// The run it speaks of.
    pub run: Option<String>,
    /// The metric of that run it speaks of, as `METRIC@PHASE/CELL`, or with a `*` all that begin so; all of the run unless given.
    pub metric: Option<String>,
    /// The earlier entry it speaks of.
    pub about: Option<String>,
    /// Ids of the claims it speaks of.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub claims: Vec<String>,
    /// Whether a prediction was filed after a look at such data.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub informed: bool,
    /// The phases that a decision speaks of, as `EXPERIMENT/PHASE`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub phases: Vec<String>,
    /// The name of the provenance that is missing; what names it as a need is blocked.
    pub item: Option<String>,
    /// The name of closed work: an experiment, `EXPERIMENT/PHASE`, or a name that a plan gives its work.
    pub topic: Option<String>,
    /// What was seen of closed work, and where it is kept or told.
    pub evidence: Option<String>,
    /// Why it was closed, withdrawn or carried over.
    pub reason: Option<String>,
    /// What of closed work is kept, and what must not be claimed of it.
    pub preservation: Option<String>,
    /// What would reopen closed work.
    pub reopens_when: Option<String>,
    /// Everything that rested on what is withdrawn, when it was withdrawn.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rests: Vec<String>,
    /// A withdrawn number that another reports.
    pub cited: Option<Cited>,
    /// Named values, decimal strings: projected in a prediction, measured in any other kind. [`Fields::measured`] is the only
    /// way to them, so that no code can print a projection as a result.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) values: BTreeMap<String, String>,
}

/// What sort of entry it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// Numbers expected of a run that has not been made.
    Prediction,
    /// What a run gave.
    Outcome,
    /// Something that went wrong.
    Fault,
    /// An earlier statement withdrawn.
    Retraction,
    /// An earlier statement corrected.
    Amendment,
    /// Work allowed or turned down.
    Decision,
    /// Work ended, with its reopening rule.
    Closed,
    /// Provenance that is missing and stays so.
    Missing,
    /// A number kept although what it was measured on has changed.
    CarryOver,
}

/// What has become of an entry's subject.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// Put forward.
    Proposed,
    /// Allowed to run.
    Authorized,
    /// Kept for research.
    ResearchRetained,
    /// Turned down.
    Rejected,
    /// Does not count.
    Invalid,
    /// Withdrawn.
    Retracted,
}

impl Fields {
    /// Fields with nothing but kind and status.
    ///
    /// # Panics
    /// Never: all other fields may be absent.
    #[must_use]
    pub fn new(kind: Kind, status: Status) -> Self {
        Self::of(kind, status, Table::new()).expect("all other fields may be absent")
    }

    /// Fields of a kind from their TOML.
    pub(super) fn of(kind: Kind, status: Status, mut fields: Table) -> anyhow::Result<Self> {
        fields.insert("kind".to_owned(), Value::try_from(kind)?);
        fields.insert("status".to_owned(), Value::try_from(status)?);
        Ok(fields.try_into()?)
    }

    /// Adds what a run gave, by name.
    ///
    /// # Panics
    /// When this is a prediction, which has projections only.
    pub fn measure(&mut self, values: impl IntoIterator<Item = (String, Measured)>) {
        assert!(self.kind != Kind::Prediction, "a prediction measures nothing");
        self.values.extend(values.into_iter().map(|(name, value)| (name, value.to_string())));
    }

    /// The measurements of an entry; a prediction has none.
    #[must_use]
    pub fn measured(&self) -> BTreeMap<&str, Measured> {
        let values = self.values.iter().filter(|_| self.kind != Kind::Prediction);
        values.map(|(name, value)| (name.as_str(), Measured::read(value))).collect()
    }

    /// Refuses fields that their kind does not allow or that lack what it needs.
    pub(super) fn check(&self) -> anyhow::Result<()> {
        let (kind, row) = (self.kind, self.kind.row());
        let is_blank = |value: &Value| value.as_str().is_some_and(|text| text.trim().is_empty());
        let mut present = Table::try_from(self)?;
        present.retain(|name, _| !["kind", "status"].contains(&name));
        for (name, value) in &present {
            ensure!(row.may(name), "{} cannot have the field `{name}`", row.word);
            let blank = is_blank(value) || value.as_array().is_some_and(|list| list.iter().any(is_blank));
            ensure!(!blank, "its field `{name}` is blank");
        }
        if let Some(name) = row.must().find(|name| !present.contains_key(*name)) {
            bail!("{} must have the field `{name}`", row.word);
        }
        for (name, value) in &self.values {
            value.parse::<Decimal>().with_context(|| format!("value {name}"))?;
        }
        let measured = self.values.is_empty() || kind == Kind::Prediction || self.run.is_some();
        ensure!(measured, "an entry with measured values must name their run");
        ensure!(self.metric.is_none() || self.run.is_some(), "an entry with a metric must name its run");
        if let Some(cited) = &self.cited {
            cited.check()?;
        }
        let targets = [self.about.is_some(), self.run.is_some(), self.cited.is_some()];
        ensure!(
            kind != Kind::Retraction || targets.into_iter().filter(|named| *named).count() == 1,
            "a retraction must withdraw exactly one thing: an entry, a run or a cited number"
        );
        let decides = matches!(self.status, Status::Authorized | Status::Rejected);
        ensure!(kind != Kind::Decision || decides, "the status of a decision must be authorized or rejected");
        ensure!(
            kind != Kind::Retraction || self.status == Status::Retracted,
            "the status of a retraction must be retracted"
        );
        Ok(())
    }
}
