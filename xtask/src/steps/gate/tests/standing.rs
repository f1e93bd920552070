//! The registration gate by the notebook of the measured commit: closed work, required decisions, missing provenance.

use crate::runs::history;
use crate::trial::{Trial, evidence};
use pure::gate::judge;
use pure::notebook::table::Work;
use pure::notebook::{Draft, NewEntry, Notebook, append, closed, decision, missing, parse};
use schema::plan::{Phase, Terms};
use schema::reopened::Reopened;
use std::collections::{BTreeMap, BTreeSet};

type Make<'a> = &'a dyn Fn(&Notebook) -> NewEntry;

fn draft() -> Draft {
    Draft { date: "2026-01-01".into(), title: "t".into(), prose: "p".into() }
}

fn closing(book: &Notebook) -> NewEntry {
    let said = || "not stated".to_owned();
    let (topic, reopens_when) = ("early prefetch".to_owned(), "only with another pipeline".to_owned());
    closed(book, draft(), Work { topic, evidence: said(), reason: said(), preservation: said(), reopens_when })
}

fn deciding(book: &Notebook) -> NewEntry {
    decision(book, draft(), vec!["preempt/yield".into()], true)
}

/// Why the gate refuses a plan whose yield phase has these terms, by a notebook with this entry; empty when it passes.
fn refusal(terms: Terms, make: Make<'_>, in_measured_commit: bool, reopened: &[(&str, &str)]) -> String {
    let mut trial = Trial::passing();
    trial.plan.terms = BTreeMap::from([(Phase::Yield, terms)]);
    let (disk, _) = trial.repository();
    let text = fs_err::read_to_string(disk.paths.notebook()).unwrap();
    disk.put("NOTEBOOK.md", &append(&text, make(&parse(&text).unwrap())).unwrap());
    if !in_measured_commit {
        disk.commit();
    }
    disk.put("harness/src/main.rs", "fn main() { }\n");
    let commit = disk.commit();
    let (mut evidence, mut facts) = evidence();
    facts.history =
        history::of_run(&disk.paths, &commit, &trial.plan, &trial.claims, &BTreeSet::from(["preempt".to_owned()]))
            .unwrap();
    evidence.manifest.predicate.source.commit = Some(commit);
    evidence.plan = trial.plan;
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
        let reason = refusal(terms(), &closing, in_measured_commit, &[]);
        assert!(reason.contains("phase preempt/yield is closed work (early prefetch, entry C-001)"), "{reason}");
    }
    assert!(refusal(terms(), &closing, false, &[("C-009", "x")]).contains("entry C-009 closes no work"));
    assert_eq!(refusal(terms(), &closing, false, &[("C-001", "two producers")]), "");
    assert_eq!(refusal(Terms::default(), &closing, false, &[]), "");
}

#[test]
fn a_decision_counts_only_when_it_is_older_than_the_measured_commit() {
    let terms = || Terms { requires: vec!["D-001".into()], ..Terms::default() };
    assert_eq!(refusal(terms(), &deciding, false, &[]), "");
    for (make, in_measured_commit) in [(&deciding as Make<'_>, true), (&closing, false)] {
        let reason = refusal(terms(), make, in_measured_commit, &[]);
        assert!(reason.contains("requires decision D-001, and the notebook before this run holds no such"), "{reason}");
    }
}

#[test]
fn missing_provenance_is_refused() {
    let lacking = |book: &Notebook| missing(book, draft(), "canonical inputs".into(), None, vec![]);
    let terms = || Terms { needs: vec!["canonical inputs".into()], ..Terms::default() };
    let reason = refusal(terms(), &lacking, true, &[]);
    assert!(
        reason.contains("phase preempt/yield needs canonical inputs, which entry M-001 records as missing"),
        "{reason}"
    );
    assert_eq!(refusal(Terms::default(), &lacking, true, &[]), "");
}
