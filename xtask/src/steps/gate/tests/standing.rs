//! The registration gate by the notebook of the measured commit: closed work, required decisions, missing provenance.

use crate::runs::history;
use crate::trial::{Trial, evidence};
use pure::book::notebook::{Flags, Kind, NewEntry, append, parse};
use pure::gate::judge;
use schema::plan::Terms;
use schema::reopened::Reopened;
use std::collections::{BTreeMap, BTreeSet};

/// An entry: its kind, and what its command is given.
type Entry = (Kind, &'static [(&'static str, &'static str)]);

const CLOSING: Entry = (
    Kind::Closed,
    &[
        ("topic", "early prefetch"),
        ("evidence", "not stated"),
        ("reason", "not stated"),
        ("preserve", "not stated"),
        ("reopens-when", "only with another pipeline"),
        ("text", "p"),
    ],
);
const DECIDING: Entry = (Kind::Decision, &[("phase", "preempt/yield"), ("title", "t"), ("text", "p")]);
const LACKING: Entry = (Kind::Missing, &[("item", "canonical inputs"), ("title", "t"), ("text", "p")]);

/// The notebook with this entry.
fn with(text: &str, (kind, flags): Entry) -> String {
    let flags: Flags = flags.iter().map(|(name, value)| (*name, vec![(*value).to_owned()])).collect();
    append(text, NewEntry::of(&parse(text).unwrap(), kind.row(), "2026-01-01".into(), &flags).unwrap()).unwrap()
}

/// Why the gate refuses a plan whose yield phase has these terms, by a notebook with this entry; empty when it passes.
fn refusal(terms: Terms, entry: Entry, in_measured_commit: bool, reopened: &[(&str, &str)]) -> String {
    let mut trial = Trial::passing();
    trial.terms = BTreeMap::from([("yield".to_owned(), terms)]);
    let (disk, _) = trial.repository();
    let text = fs_err::read_to_string(disk.paths.notebook()).unwrap();
    disk.put("NOTEBOOK.md", &with(&text, entry));
    if !in_measured_commit {
        disk.commit();
    }
    disk.put("harness/src/main.rs", "fn main() { }\n");
    let commit = disk.commit();
    let (mut evidence, mut facts) = evidence();
    facts.history =
        history::of_run(&disk.paths, &commit, &trial.frozen(), &trial.claims, &BTreeSet::from(["preempt".to_owned()]))
            .unwrap();
    evidence.manifest.predicate.source.commit = Some(commit);
    evidence.plan = trial.frozen();
    let taken = reopened.iter().map(|(entry, changed)| Reopened { entry: (*entry).into(), changed: (*changed).into() });
    evidence.reopened = taken.collect();
    let gate = judge(&evidence, &facts).into_iter().find(|gate| gate.name == "registration").unwrap();
    assert_eq!(gate.passed, gate.reason.is_empty());
    gate.reason
}

#[test]
fn closed_work_is_refused_unless_the_run_names_what_changed() {
    let terms = || Terms { work: vec!["Early prefetch".into()], ..Terms::default() };
    for in_measured_commit in [true, false] {
        let reason = refusal(terms(), CLOSING, in_measured_commit, &[]);
        assert!(reason.contains("phase preempt/yield is closed work (early prefetch, entry C-001)"), "{reason}");
    }
    assert!(refusal(terms(), CLOSING, false, &[("C-009", "x")]).contains("entry C-009 closes no work"));
    assert_eq!(refusal(terms(), CLOSING, false, &[("C-001", "two producers")]), "");
    assert_eq!(refusal(Terms::default(), CLOSING, false, &[]), "");
}

#[test]
fn a_decision_counts_only_when_it_is_older_than_the_measured_commit() {
    let terms = || Terms { requires: vec!["D-001".into()], ..Terms::default() };
    assert_eq!(refusal(terms(), DECIDING, false, &[]), "");
    for (entry, in_measured_commit) in [(DECIDING, true), (CLOSING, false)] {
        let reason = refusal(terms(), entry, in_measured_commit, &[]);
        assert!(reason.contains("requires decision D-001, and the notebook before this run holds no such"), "{reason}");
    }
}

#[test]
fn missing_provenance_is_refused() {
    let terms = || Terms { needs: vec!["canonical inputs".into()], ..Terms::default() };
    let reason = refusal(terms(), LACKING, true, &[]);
    assert!(
        reason.contains("phase preempt/yield needs canonical inputs, which entry M-001 records as missing"),
        "{reason}"
    );
    assert_eq!(refusal(Terms::default(), LACKING, true, &[]), "");
}
