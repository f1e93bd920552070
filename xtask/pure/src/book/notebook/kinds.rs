//! The table of kinds, `kinds.toml`: for each kind its command, the command's flags, and the fields of its entries.
//!
//! Command line, composing and checking follow this table, so a new kind of entry is a variant of [`Kind`] and a row
//! there. What a kind takes from a run or must find in the tree is added by `cli/notebook.rs` of `xtask`.

use super::{Kind, Status};
use serde::Deserialize;
use std::sync::LazyLock;

/// A kind of entry.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Row {
    /// The kind.
    pub kind: Kind,
    /// The letter that its ids begin with.
    pub(super) letter: char,
    /// The kind with its article, for messages.
    pub(super) word: String,
    /// The status of a new entry.
    pub(super) status: Status,
    /// The command that writes it.
    pub command: String,
    /// What the command does.
    pub help: String,
    /// The command's flags, in the order of its help.
    pub flags: Vec<Flag>,
    /// Fields that such an entry may have and that no flag fills by itself.
    also: Vec<String>,
}

/// A flag of a command.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Flag {
    /// Its name.
    pub name: String,
    /// What its value is called in the help.
    pub value: String,
    /// The field that it fills: the one of its own name unless given, none where empty.
    field: Option<String>,
    /// What it says in the help.
    pub help: String,
    /// How often it is given.
    pub given: Given,
    /// Another flag that must be given with it.
    pub with: Option<String>,
}

/// How often a flag is given.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Given {
    /// Once, always.
    Once,
    /// At most once.
    AtMostOnce,
    /// Any number of times.
    Often,
    /// At least once.
    AtLeastOnce,
    /// Without a value, or not at all.
    Switch,
    /// Exactly one of the flags of this sort is given, once.
    OneOfThese,
    /// In place of all other flags.
    Alone,
}

/// Every kind, in the order of the command's help.
pub static KINDS: LazyLock<Vec<Row>> = LazyLock::new(|| {
    #[derive(Deserialize)]
    struct Table {
        kind: Vec<Row>,
    }
    let table: Table = toml::from_str(include_str!("kinds.toml")).expect("kinds.toml is a table of kinds");
    table.kind
});

impl Kind {
    /// The kind's row.
    ///
    /// # Panics
    /// Never: every kind has a row.
    #[must_use]
    pub fn row(self) -> &'static Row {
        KINDS.iter().find(|row| row.kind == self).expect("every kind has a row")
    }
}

impl Flag {
    /// The field that the flag fills by itself.
    pub(super) fn field(&self) -> Option<&str> {
        Some(self.field.as_deref().unwrap_or(&self.name)).filter(|field| !field.is_empty())
    }
}

impl Row {
    /// The fields that an entry of this kind must have.
    pub(super) fn must(&self) -> impl Iterator<Item = &str> {
        let always = self.flags.iter().filter(|flag| matches!(flag.given, Given::Once | Given::AtLeastOnce));
        always.filter_map(Flag::field)
    }

    /// Whether an entry of this kind may have a field.
    pub(super) fn may(&self, field: &str) -> bool {
        self.flags.iter().any(|flag| flag.field() == Some(field)) || self.also.iter().any(|also| also == field)
    }
}
