//! A table of closed work in TOML, as `notebook close --table` reads it: one entry a row, as it stands.

use crate::failure::fail;
use anyhow::Context;
use schema::ExitCode;
use serde::Deserialize;
use std::collections::BTreeSet;

/// A table of closed work.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Table {
    /// Where the table stands.
    pub source: String,
    /// What is said of all rows.
    pub text: String,
    /// Its rows.
    pub work: Vec<Work>,
}

/// One piece of closed work. What its source does not state is told as `not stated`, never left out or made up.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Work {
    /// Its name, by which a plan that takes it up again is found.
    pub topic: String,
    /// What was seen, or where the evidence is kept or told.
    pub evidence: String,
    /// Why it was closed.
    pub reason: String,
    /// What is kept of it, and what must not be claimed.
    pub preservation: String,
    /// What would reopen it.
    pub reopens_when: String,
}

impl Table {
    /// Reads a table.
    ///
    /// # Errors
    /// Exit 2 when it is none, has no rows, or names a topic twice.
    pub fn parse(name: &str, text: &str) -> anyhow::Result<Self> {
        let wrong = |what: String| fail(ExitCode::Usage, format!("{name}: {what}"), format!("edit {name}"));
        let table: Self =
            toml::from_str(text).context("not a table of closed work").map_err(|e| wrong(format!("{e:#}")))?;
        let mut topics = BTreeSet::new();
        match table.work.iter().find(|work| !topics.insert(super::standing::folded(&work.topic))) {
            _ if table.work.is_empty() => Err(wrong("it has no rows".to_owned())),
            Some(twice) => Err(wrong(format!("it names {:?} twice", twice.topic))),
            None => Ok(table),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::failure::code_of;

    const ROW: &str = "[[work]]\ntopic = \"Early prefetch\"\nevidence = \"e\"\nreason = \"r\"\npreservation = \"p\"\nreopens_when = \"w\"\n";

    #[test]
    fn rows_are_read_as_they_stand_and_a_table_that_is_none_is_named() {
        let head = "source = \"a log\"\ntext = \"All rows.\"\n";
        let table = Table::parse("t.toml", &format!("{head}{ROW}")).unwrap();
        assert_eq!((table.work.len(), table.work[0].topic.as_str()), (1, "Early prefetch"));
        for (text, words) in [
            (head.to_owned(), "missing field `work`"),
            (format!("{head}work = []"), "it has no rows"),
            (format!("{head}{ROW}{}", ROW.replace("Early ", "early  ")), "twice"),
            (format!("{head}{}", ROW.replace("reopens_when", "reopens")), "unknown field `reopens`"),
            (format!("{head}{}", ROW.replace("reason = \"r\"\n", "")), "missing field `reason`"),
        ] {
            let error = Table::parse("t.toml", &text).unwrap_err();
            assert_eq!(code_of(&error), ExitCode::Usage);
            assert!(error.to_string().contains(words) && error.to_string().starts_with("t.toml: "), "{error}");
        }
    }
}
