//! NOTEBOOK.md as text: entries, the chain that binds each to all bytes before it, and appending. Reads and writes no file.
//!
//! An entry is a heading `## YYYY-MM-DD ID: title`, prose, one fenced `toml` block with its [`Fields`], and a line
//! `chain: ` with the SHA-256 of every byte of the file before that line. A changed byte anywhere breaks the chain at the
//! first entry behind it. Cutting whole entries off the end leaves a valid notebook, so whoever remembers a head
//! (a manifest does) asks [`Notebook::extends`].

mod compose;
mod parse;

pub use compose::{Draft, outcome, prediction};
pub use parse::parse;

use crate::failure::fail;
use crate::pure::decimal::Decimal;
use anyhow::{Context, ensure};
use schema::{Digest, ExitCode};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;

/// A notebook whose chain holds.
#[derive(Clone, Debug, PartialEq)]
pub struct Notebook {
    /// Its entries in order.
    pub entries: Vec<Entry>,
    /// The last entry's chain digest; of the whole text while there is no entry.
    pub head: Digest,
}

/// One entry.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// The day it was written, `YYYY-MM-DD`. Order is proven by the chain and by git, never by this.
    pub date: String,
    /// Its id, e.g. `P-001`.
    pub id: String,
    /// Its title.
    pub title: String,
    /// What it says.
    pub prose: String,
    /// Its fields.
    pub fields: Fields,
    /// The digest on its chain line.
    pub chain: Digest,
}

/// An entry to append.
#[derive(Clone, Debug, PartialEq)]
pub struct NewEntry {
    /// The day, `YYYY-MM-DD`.
    pub date: String,
    /// Its id; [`Notebook::next_id`] gives a free one.
    pub id: String,
    /// Its title, one line.
    pub title: String,
    /// What it says: Markdown without headings, fences and chain lines.
    pub prose: String,
    /// Its fields.
    pub fields: Fields,
}

/// The fields of an entry, as its `toml` block holds them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fields {
    /// What sort of entry it is.
    pub kind: Kind,
    /// What has become of its subject.
    pub status: Status,
    /// The run it speaks of. An outcome needs one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run: Option<String>,
    /// The earlier entry it speaks of. A retraction needs this or a run, an amendment needs this.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub about: Option<String>,
    /// The one number of the run that a retraction withdraws, `METRIC@PHASE/CELL`; absent withdraws them all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metric: Option<String>,
    /// Ids of the claims it speaks of.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub claims: Vec<String>,
    /// Whether a prediction was filed after a look at such data.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub informed: bool,
    /// What would reopen closed work. A closing entry needs it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reopens_when: Option<String>,
    /// Named values, decimal strings. What they are follows from the kind: see [`Fields::projected`], [`Fields::measured`].
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    values: BTreeMap<String, String>,
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

/// A number somebody expects. It has no `Display`: it is printed only through [`Projected::as_projection`], which says so.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Projected(String);

/// A number a run gave.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Measured(String);

impl Projected {
    /// The number with what it is, e.g. `9 (projected)`.
    #[must_use]
    pub fn as_projection(&self) -> String {
        format!("{} (projected)", self.0)
    }
}

impl fmt::Display for Measured {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Kind {
    /// The letter that ids of this kind begin with.
    fn letter(self) -> char {
        match self {
            Self::Prediction => 'P',
            Self::Outcome => 'O',
            Self::Fault => 'F',
            Self::Retraction => 'R',
            Self::Amendment => 'A',
            Self::Closed => 'C',
            Self::Missing => 'M',
            Self::CarryOver => 'K',
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
            about: None,
            metric: None,
            claims: Vec::new(),
            informed: false,
            reopens_when: None,
            values: BTreeMap::new(),
        }
    }

    /// These fields with named values, which the kind makes projections or measurements.
    #[must_use]
    pub fn with_values(mut self, values: BTreeMap<String, String>) -> Self {
        self.values = values;
        self
    }

    /// The projections of a prediction; none of any other kind.
    #[must_use]
    pub fn projected(&self) -> BTreeMap<&str, Projected> {
        self.values_if(self.kind == Kind::Prediction, |value| Projected(value.to_owned()))
    }

    /// The measurements of an entry that is no prediction.
    #[must_use]
    pub fn measured(&self) -> BTreeMap<&str, Measured> {
        self.values_if(self.kind != Kind::Prediction, |value| Measured(value.to_owned()))
    }

    fn values_if<T>(&self, wanted: bool, make: impl Fn(&str) -> T) -> BTreeMap<&str, T> {
        let values = self.values.iter().filter(|_| wanted);
        values.map(|(name, value)| (name.as_str(), make(value))).collect()
    }

    /// Refuses fields that their kind does not allow or that lack what it needs.
    fn check(&self) -> anyhow::Result<()> {
        for (name, value) in &self.values {
            value.parse::<Decimal>().with_context(|| format!("value {name}"))?;
        }
        let kind = self.kind;
        ensure!(kind != Kind::Outcome || self.run.is_some(), "an outcome names its run");
        ensure!(kind != Kind::Amendment || self.about.is_some(), "an amendment names the entry it is about");
        let retracts = self.about.is_some() || self.run.is_some();
        ensure!(kind != Kind::Retraction || retracts, "a retraction names the entry or the run it withdraws");
        ensure!(kind != Kind::Closed || self.reopens_when.is_some(), "closed work says what reopens it (reopens_when)");
        ensure!(!self.informed || kind == Kind::Prediction, "only a prediction is marked informed");
        let measured = self.values.is_empty() || kind == Kind::Prediction || self.run.is_some();
        ensure!(measured, "measured values name the run that gave them");
        Ok(())
    }
}

impl Notebook {
    /// The entry with this id.
    #[must_use]
    pub fn entry(&self, id: &str) -> Option<&Entry> {
        self.entries.iter().find(|entry| entry.id == id)
    }

    /// Whether this notebook has grown from the one whose head was `head`.
    #[must_use]
    pub fn extends(&self, head: &Digest) -> bool {
        self.head == *head || self.entries.iter().any(|entry| entry.chain == *head)
    }

    /// The next free id of a kind, e.g. `P-003`.
    #[must_use]
    pub fn next_id(&self, kind: Kind) -> String {
        let letter = kind.letter();
        let number = |entry: &Entry| entry.id.strip_prefix(letter)?.strip_prefix('-')?.parse::<u32>().ok();
        let last = self.entries.iter().filter_map(number).max().unwrap_or(0);
        format!("{letter}-{:03}", last + 1)
    }
}

/// The notebook's text with one more entry at its end.
///
/// # Errors
/// When the chain of `text` does not hold, the id is taken, the entry is about one that is not there, or the new entry
/// could not be read back as it was given.
pub fn append(text: &str, entry: NewEntry) -> anyhow::Result<String> {
    let before = parse(text)?;
    let refuse = |what: String| fail(ExitCode::Usage, format!("entry {}: {what}", entry.id), "");
    if before.entry(&entry.id).is_some() {
        return Err(refuse(format!("the id is taken; {} is free", before.next_id(entry.fields.kind))));
    }
    entry.fields.check().map_err(|e| refuse(format!("{e:#}")))?;
    let NewEntry { date, id, title, prose, fields } = &entry;
    let block = toml::to_string(fields).context("failed to write the fields as TOML")?;
    let mut after = format!("{text}\n## {date} {id}: {title}\n\n{}\n\n```toml\n{block}```\n\n", prose.trim());
    let chain = Digest::of(&after);
    after.push_str(&format!("chain: {chain}\n"));
    let read = parse(&after).map_err(|e| refuse(format!("{e:#}")))?;
    let Some(last) = read.entries.last().filter(|_| read.entries.len() == before.entries.len() + 1) else {
        return Err(refuse("its prose reads as several entries".to_owned()));
    };
    let same = (&last.date, &last.id, &last.title, last.prose.as_str(), &last.fields)
        == (date, id, title, prose.trim(), fields);
    if same { Ok(after) } else { Err(refuse("it would not be read back as it was given".to_owned())) }
}

#[cfg(test)]
mod tests;
