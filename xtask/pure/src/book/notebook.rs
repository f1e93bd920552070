//! NOTEBOOK.md as text: entries, the chain that binds each to all bytes before it, and appending. Reads and writes no file.
//!
//! An entry is a heading `## YYYY-MM-DD ID: title`, prose, one fenced `toml` block with its [`Fields`], and a line
//! `chain: ` with the SHA-256 of every byte of the file before that line. A changed byte anywhere breaks the chain at the
//! first entry behind it. A notebook that lost whole entries at its end still holds by itself; manifests remember heads, and
//! [`Notebook::extends`] compares with one.

mod compose;
mod fields;
pub mod kinds;
mod numbers;
mod parse;
pub mod rests;
pub mod standing;

pub use compose::{Flags, closed_work};
pub use fields::{Fields, Kind, Status};
pub use numbers::{Cited, Measured};
pub use parse::parse;

use anyhow::Context;
use schema::{Digest, ExitCode};
use std::collections::BTreeSet;
use words::failure::fail;

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

    /// The retraction that withdraws an entry and stands itself, if any.
    #[must_use]
    pub fn retraction_of(&self, id: &str) -> Option<&Entry> {
        // An entry is only about an earlier one, so this ends.
        let about = |entry: &&Entry| entry.fields.about.as_deref() == Some(id);
        self.of_kind(Kind::Retraction).filter(about).find(|entry| self.retraction_of(&entry.id).is_none())
    }

    /// The entries that nobody has withdrawn, in order.
    pub fn standing(&self) -> impl Iterator<Item = &Entry> {
        self.entries.iter().filter(|entry| self.retraction_of(&entry.id).is_none())
    }

    /// The entries of one kind that nobody has withdrawn, in order.
    pub fn standing_of(&self, kind: Kind) -> impl Iterator<Item = &Entry> {
        self.standing().filter(move |entry| entry.fields.kind == kind)
    }

    /// The entries of one kind, in order.
    pub fn of_kind(&self, kind: Kind) -> impl Iterator<Item = &Entry> {
        self.entries.iter().filter(move |entry| entry.fields.kind == kind)
    }

    /// Ids of the outcomes of runs that were refused before `run` and speak of one of its claims; runs in `known` are left out.
    /// Run ids begin with their UTC time.
    #[must_use]
    pub fn refused_before(&self, run: &str, claims: &[&str], known: &[&str]) -> Vec<String> {
        let refused = |entry: &&Entry| {
            let fields = &entry.fields;
            let counts = matches!(fields.status, Status::Invalid | Status::Rejected | Status::Retracted);
            let earlier = fields.run.as_deref().filter(|other| time(other) < time(run) && !known.contains(other));
            counts && earlier.is_some() && fields.claims.iter().any(|claim| claims.contains(&claim.as_str()))
        };
        let mut runs = BTreeSet::new();
        let first = self.of_kind(Kind::Outcome).filter(refused).filter(|entry| runs.insert(&entry.fields.run));
        first.map(|entry| entry.id.clone()).collect()
    }

    /// The next free id of a kind, e.g. `P-003`.
    #[must_use]
    pub fn next_id(&self, kind: Kind) -> String {
        let letter = kind.row().letter;
        let number = |entry: &Entry| entry.id.strip_prefix(letter)?.strip_prefix('-')?.parse::<u32>().ok();
        let last = self.entries.iter().filter_map(number).max().unwrap_or(0);
        format!("{letter}-{:03}", last + 1)
    }
}

/// The time that a run's id begins with.
fn time(run: &str) -> &str {
    run.split('-').next().unwrap_or(run)
}

/// The notebook's text with one more entry at its end.
///
/// # Errors
/// When the chain of `text` does not hold, the id is taken, the entry is about one that does not exist, or it could not be
/// read back as it was given.
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
    if same { Ok(after) } else { Err(refuse("it could not be read back as it was given".to_owned())) }
}

#[cfg(test)]
mod tests;
