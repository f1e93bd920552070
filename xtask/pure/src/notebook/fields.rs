//! What an entry's `toml` block holds, which fields each kind must and may have, and which numbers they are.

use super::numbers::{Cited, Measured, Projected};
use crate::decimal::Decimal;
use anyhow::{Context, bail, ensure};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The fields of an entry, as its `toml` block holds them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fields {
    /// What sort of entry it is.
    pub kind: Kind,
    /// What has become of its subject.
    pub status: Status,
    /// The run it speaks of.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run: Option<String>,
    /// The metric of that run it speaks of, as `METRIC@PHASE/CELL`; all of the run unless given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metric: Option<String>,
    /// The earlier entry it speaks of.
    #[serde(skip_serializing_if = "Option::is_none")]
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
    #[serde(skip_serializing_if = "Option::is_none")]
    pub item: Option<String>,
    /// The name of closed work: an experiment, `EXPERIMENT/PHASE`, or a name that a plan gives its work.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub topic: Option<String>,
    /// What was seen of closed work, and where it is kept or told.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub evidence: Option<String>,
    /// Why it was closed, withdrawn or carried over.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// What of closed work is kept, and what must not be claimed of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub preservation: Option<String>,
    /// What would reopen closed work.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reopens_when: Option<String>,
    /// Everything that rested on what is withdrawn, when it was withdrawn.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rests: Vec<String>,
    /// A withdrawn number that is none of ours.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cited: Option<Cited>,
    /// Named values, decimal strings. What they are follows from the kind: see [`Fields::projected`], [`Fields::measured`].
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

impl Kind {
    /// The letter that ids of this kind begin with.
    pub(super) fn letter(self) -> char {
        match self {
            Self::Prediction => 'P',
            Self::Outcome => 'O',
            Self::Fault => 'F',
            Self::Retraction => 'R',
            Self::Amendment => 'A',
            Self::Decision => 'D',
            Self::Closed => 'C',
            Self::Missing => 'M',
            Self::CarryOver => 'K',
        }
    }

    /// The kind with its article, for messages.
    fn word(self) -> &'static str {
        match self {
            Self::Prediction => "a prediction",
            Self::Outcome => "an outcome",
            Self::Fault => "a fault",
            Self::Retraction => "a retraction",
            Self::Amendment => "an amendment",
            Self::Decision => "a decision",
            Self::Closed => "closed work",
            Self::Missing => "missing provenance",
            Self::CarryOver => "a carry-over",
        }
    }

    /// The fields it must have, and those it may have.
    fn fields(self) -> (&'static [&'static str], &'static [&'static str]) {
        match self {
            Self::Prediction => (&[], &["about", "claims", "informed", "values"]),
            Self::Outcome => (&["run"], &["about", "claims", "values"]),
            Self::Fault => (&[], &["run", "about", "claims"]),
            Self::Retraction => (&["reason"], &["run", "metric", "about", "claims", "rests", "cited", "values"]),
            Self::Amendment => (&["about"], &["run", "claims"]),
            Self::Decision => (&["phases"], &["run", "about"]),
            Self::Closed => (&["topic", "evidence", "reason", "preservation", "reopens_when"], &["run", "about"]),
            Self::Missing => (&["item"], &["run", "about", "claims"]),
            Self::CarryOver => (&["run", "reason"], &["about", "claims"]),
        }
    }
}

impl Fields {
    /// Fields with nothing but kind and status.
    #[must_use]
    pub fn new(kind: Kind, status: Status) -> Self {
        Self {
            kind,
            status,
            run: None,
            metric: None,
            about: None,
            claims: Vec::new(),
            informed: false,
            phases: Vec::new(),
            item: None,
            topic: None,
            evidence: None,
            reason: None,
            preservation: None,
            reopens_when: None,
            rests: Vec::new(),
            cited: None,
            values: BTreeMap::new(),
        }
    }

    /// Fields of a prediction with these projections.
    #[must_use]
    pub fn projecting(values: &BTreeMap<String, Projected>) -> Self {
        let values = values.iter().map(|(name, value)| (name.clone(), value.text().to_owned())).collect();
        Self { values, ..Self::new(Kind::Prediction, Status::Proposed) }
    }

    /// Fields of an entry of a run with these measurements.
    ///
    /// # Panics
    /// When the kind is a prediction, which has projections.
    #[must_use]
    pub fn measuring(kind: Kind, status: Status, run: &str, values: &BTreeMap<String, Measured>) -> Self {
        assert!(kind != Kind::Prediction, "a prediction measures nothing");
        let values = values.iter().map(|(name, value)| (name.clone(), value.to_string())).collect();
        Self { run: Some(run.to_owned()), values, ..Self::new(kind, status) }
    }

    /// The projections of a prediction; none of any other kind.
    #[must_use]
    pub fn projected(&self) -> BTreeMap<&str, Projected> {
        self.values_if(self.kind == Kind::Prediction, Projected::read)
    }

    /// The measurements of an entry that is no prediction.
    #[must_use]
    pub fn measured(&self) -> BTreeMap<&str, Measured> {
        self.values_if(self.kind != Kind::Prediction, Measured::read)
    }

    fn values_if<T>(&self, wanted: bool, make: impl Fn(&str) -> T) -> BTreeMap<&str, T> {
        let values = self.values.iter().filter(|_| wanted);
        values.map(|(name, value)| (name.as_str(), make(value))).collect()
    }

    /// Refuses fields that their kind does not allow or that lack what it needs.
    pub(super) fn check(&self) -> anyhow::Result<()> {
        let kind = self.kind;
        let (must, may) = kind.fields();
        let present = self.present();
        if let Some((name, _)) = present.iter().find(|(_, blank)| *blank) {
            bail!("its {name} is blank");
        }
        if let Some(name) = must.iter().find(|name| !present.iter().any(|(there, _)| there == *name)) {
            bail!("{} names its {name}", kind.word());
        }
        if let Some((name, _)) = present.iter().find(|(name, _)| !must.contains(name) && !may.contains(name)) {
            bail!("{} has no {name}", kind.word());
        }
        for (name, value) in &self.values {
            value.parse::<Decimal>().with_context(|| format!("value {name}"))?;
        }
        let measured = self.values.is_empty() || kind == Kind::Prediction || self.run.is_some();
        ensure!(measured, "measured values name the run that gave them");
        ensure!(self.metric.is_none() || self.run.is_some(), "a metric is one of a run");
        if let Some(cited) = &self.cited {
            cited.check()?;
        }
        let targets = [self.about.is_some(), self.run.is_some(), self.cited.is_some()];
        let targets = targets.into_iter().filter(|named| *named).count();
        ensure!(
            kind != Kind::Retraction || targets == 1,
            "a retraction names one thing that it withdraws: an entry, a run or a cited number"
        );
        let decides = matches!(self.status, Status::Authorized | Status::Rejected);
        ensure!(kind != Kind::Decision || decides, "a decision is authorized or rejected");
        ensure!(kind != Kind::Retraction || self.status == Status::Retracted, "a retraction's status is retracted");
        Ok(())
    }

    /// The fields that are there beside kind and status, and whether one is blank.
    fn present(&self) -> Vec<(&'static str, bool)> {
        let words = [
            ("run", &self.run),
            ("metric", &self.metric),
            ("about", &self.about),
            ("item", &self.item),
            ("topic", &self.topic),
            ("evidence", &self.evidence),
            ("reason", &self.reason),
            ("preservation", &self.preservation),
            ("reopens_when", &self.reopens_when),
        ];
        let lists = [("claims", &self.claims), ("phases", &self.phases), ("rests", &self.rests)];
        let words = words.into_iter().filter_map(|(name, word)| Some((name, word.as_ref()?.trim().is_empty())));
        let lists = lists.into_iter().filter(|(_, list)| !list.is_empty());
        let lists = lists.map(|(name, list)| (name, list.iter().any(|word| word.trim().is_empty())));
        let others =
            [("informed", self.informed), ("cited", self.cited.is_some()), ("values", !self.values.is_empty())];
        let others = others.into_iter().filter(|(_, there)| *there).map(|(name, _)| (name, false));
        words.chain(lists).chain(others).collect()
    }
}
