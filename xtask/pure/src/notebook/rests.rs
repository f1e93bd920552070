//! What rests on a run, a metric or an entry: what a retraction must list. Only links that are written down are found: claim
//! terms, ratios, `about`, and runs and entries named in prose.

use super::{Notebook, Retracted};
use crate::claims::resolve;
use schema::claim::{Claim, ClaimFile, MetricRef};
use schema::metrics::Metric;
use schema::plan::{Plan, Slots};
use std::collections::BTreeSet;

/// A run's own records, where they are at hand.
#[derive(Clone, Debug)]
pub struct RunRecords {
    /// Its claims.
    pub claims: ClaimFile,
    /// What its device holds, which resolves the cells that claims name.
    pub slots: Slots,
    /// Its summary.
    pub metrics: Vec<Metric>,
}

/// What the tree registers today.
#[derive(Clone, Debug, Default)]
pub struct Registered {
    /// Claims of every experiment.
    pub claims: Vec<Claim>,
    /// Plans of every experiment, whole.
    pub plans: Vec<Plan>,
    /// Texts by file name, in which a run may be named.
    pub texts: Vec<(String, String)>,
}

/// What was found to rest on something.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Resting {
    /// Ids of claims, sorted.
    pub claims: Vec<String>,
    /// Everything, one line each: claims, ratios, entries, phases, files.
    pub lines: Vec<String>,
}

/// Splits `METRIC@PHASE/CELL`.
#[must_use]
pub fn metric_parts(text: &str) -> Option<(&str, &str, &str)> {
    let (metric, place) = text.split_once('@')?;
    let (phase, cell) = place.split_once('/')?;
    (!metric.is_empty() && !phase.is_empty() && !cell.is_empty()).then_some((metric, phase, cell))
}

/// Everything that rests on `what`.
#[must_use]
pub fn on(what: &Retracted, notebook: &Notebook, run: Option<&RunRecords>, tree: &Registered) -> Resting {
    let (mut claims, mut lines) = (BTreeSet::new(), Vec::new());
    let names = match what {
        Retracted::Run(id) | Retracted::Metric { run: id, .. } => {
            let metric = if let Retracted::Metric { metric, .. } = what { Some(metric.as_str()) } else { None };
            claims.extend(run.into_iter().flat_map(|run| claims_on(run, metric)));
            if metric.is_none() {
                let told = notebook.entries.iter().filter(|entry| entry.fields.run.as_ref() == Some(id));
                claims.extend(told.flat_map(|entry| entry.fields.claims.clone()));
            }
            lines.extend(run.into_iter().flat_map(|run| ratios_on(run, metric)));
            vec![id.clone()]
        }
        Retracted::Entry(id) => {
            claims.extend(tree.claims.iter().filter(|claim| claim.prediction == *id).map(|claim| claim.id.clone()));
            lines.extend(phases_on(id, tree));
            vec![id.clone()]
        }
        Retracted::Cited(cited) => vec![cited.quantity()],
    };
    let entries = entries_naming(notebook, names.clone());
    lines.extend(entries.iter().map(|id| format!("entry {id}")));
    let named = |text: &str| names.iter().any(|name| names_it(text, name));
    lines.extend(tree.texts.iter().filter(|(_, text)| named(text)).map(|(file, _)| format!("file {file}")));
    let claims: Vec<String> = claims.into_iter().collect();
    let lines = claims.iter().map(|id| format!("claim {id}")).chain(lines).collect();
    Resting { claims, lines }
}

/// The run's claims with a term on the metric; all of them without one.
fn claims_on(run: &RunRecords, metric: Option<&str>) -> Vec<String> {
    let rests = |claim: &&Claim| {
        let mut terms = claim.term.iter().flat_map(|term| std::iter::once(&term.value).chain(&term.over));
        metric.is_none_or(|metric| terms.any(|term| is_metric(term, metric, &run.slots)))
    };
    run.claims.claim.iter().filter(rests).map(|claim| claim.id.clone()).collect()
}

fn is_metric(term: &MetricRef, metric: &str, slots: &Slots) -> bool {
    let cell = resolve(&term.cell, slots).unwrap_or_default();
    format!("{}@{}/{cell}", term.metric, term.phase) == metric
}

/// The run's ratios of the metric, in its own cell or over a cell that the ratio's note names; all of them without one.
fn ratios_on(run: &RunRecords, metric: Option<&str>) -> Vec<String> {
    let ratios = run.metrics.iter().filter(|m| m.metric == "ratio");
    let rests = |m: &&Metric| {
        let Some(metric) = metric else { return true };
        let Some((name, phase, cell)) = metric_parts(metric) else { return false };
        let own = m.phase == phase && m.cell == cell;
        name == "host_e2e_us_p50" && (own || m.note.starts_with(&format!("{phase}/{cell} over ")))
    };
    ratios.filter(rests).map(|m| format!("ratio@{}/{}", m.phase, m.cell)).collect()
}

fn phases_on(id: &str, tree: &Registered) -> Vec<String> {
    let of_plan = |plan: &Plan| -> Vec<String> {
        let requires = plan.terms.iter().filter(|(_, terms)| terms.requires.iter().any(|required| required == id));
        requires.map(|(phase, _)| format!("phase {}/{}", plan.experiment, phase)).collect()
    };
    tree.plans.iter().flat_map(of_plan).collect()
}

/// Entries that speak of one of these, or of an entry that does, in order.
fn entries_naming(notebook: &Notebook, mut names: Vec<String>) -> Vec<String> {
    let mut found = Vec::new();
    for entry in &notebook.entries {
        let fields = &entry.fields;
        let linked = [&fields.run, &fields.about].into_iter().flatten().any(|target| names.contains(target));
        let text = format!("{}\n{}", entry.title, entry.prose);
        if !names.contains(&entry.id) && (linked || names.iter().any(|name| names_it(&text, name))) {
            names.push(entry.id.clone());
            found.push(entry.id.clone());
        }
    }
    found
}

/// Whether a text holds a name as a word of its own.
fn names_it(text: &str, name: &str) -> bool {
    let part = |c: char| c.is_ascii_alphanumeric() || c == '-';
    text.match_indices(name).any(|(at, _)| {
        let (before, after) = (text[..at].chars().next_back(), text[at + name.len()..].chars().next());
        !before.is_some_and(part) && !after.is_some_and(part)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::notebook::{Cited, Draft, Measured, amendment, append, fault, outcome, parse, prediction};
    use crate::summary::summarize;
    use crate::trial::synthetic::{SLOTS, cells, plan};
    use schema::plan::{Phase, ProfileName, Terms};
    use std::collections::BTreeMap;

    const RUN: &str = "20260101T000000Z-h200-00000000";

    fn notebook() -> Notebook {
        let draft = |prose: &str| Draft { date: "2026-01-01".into(), title: "t".into(), prose: prose.into() };
        let mut text = "# Notebook\n".to_owned();
        let mut add = |make: &dyn Fn(&Notebook) -> crate::notebook::NewEntry| {
            text = append(&text, make(&parse(&text).unwrap())).unwrap();
        };
        add(&|book| prediction(book, draft("It was 16.631 ms, not 116.631 ms."), vec![], &BTreeMap::new(), false));
        add(&|book| outcome(book, draft("p"), RUN, &[], BTreeMap::new()));
        add(&|book| amendment(book, draft("p"), "O-001".into(), vec![]));
        add(&|book| fault(book, draft("Found when reading A-001."), None, None, vec![]));
        add(&|book| prediction(book, draft("O-0011 and RO-001 are others."), vec![], &BTreeMap::new(), true));
        parse(&text).unwrap()
    }

    fn records() -> RunRecords {
        let plan = plan(ProfileName::Full, 400);
        let metrics = summarize(&plan, &SLOTS, RUN, &cells(&plan)).unwrap();
        RunRecords { claims: crate::trial::claims("1000"), slots: SLOTS.clone(), metrics }
    }

    fn lines(what: &Retracted, tree: &Registered) -> Vec<String> {
        on(what, &notebook(), Some(&records()), tree).lines
    }

    fn of_metric(metric: &str) -> Vec<String> {
        let value = Measured::of_metric(&records().metrics[0]);
        let what = Retracted::Metric { run: RUN.into(), metric: metric.into(), value, unit: "us".into() };
        lines(&what, &Registered::default())
    }

    #[test]
    fn all_that_names_a_run_or_an_entry_that_does_rests_on_it() {
        let texts = vec![
            ("FINDINGS.md".to_owned(), format!("As run {RUN} shows.")),
            ("README.md".to_owned(), format!("As run {RUN}0 shows.")),
        ];
        let tree = Registered { texts, ..Registered::default() };
        let entries = ["entry O-001", "entry A-001", "entry F-001", "file FINDINGS.md"];
        let found = lines(&Retracted::Run(RUN.into()), &tree);
        assert_eq!(found, [&["claim T-1", "ratio@yield/k=64,blocks=8,poll=1,set=host"][..], &entries].concat());
        // Of a run that is not at hand, what the notebook says is all there is.
        assert_eq!(on(&Retracted::Run(RUN.into()), &notebook(), None, &tree).lines, entries);
    }

    #[test]
    fn a_metric_carries_the_claims_and_ratios_made_of_it() {
        let entries = ["entry O-001", "entry A-001", "entry F-001"].map(str::to_owned);
        let ratio = "ratio@yield/k=64,blocks=8,poll=1,set=host".to_owned();
        let baseline = records().metrics.iter().find(|m| m.metric == "ratio").unwrap().note.clone();
        let baseline = baseline.split(" over ").next().unwrap().to_owned();
        for cell in ["yield/k=64,blocks=8,poll=1,set=host", &baseline] {
            assert_eq!(
                of_metric(&format!("host_e2e_us_p50@{cell}")),
                [&[ratio.clone()][..], &entries].concat(),
                "{cell}"
            );
        }
        assert_eq!(of_metric("timer_quantum_ns@instrument/timer"), entries);
        let term = &records().claims.claim[0].term[0].value;
        let cell = resolve(&term.cell, &SLOTS).unwrap();
        let metric = format!("{}@{}/{cell}", term.metric, term.phase);
        assert_eq!(of_metric(&metric)[0], "claim T-1");
    }

    #[test]
    fn an_entry_carries_its_claims_its_phases_and_what_speaks_of_it() {
        let terms = Terms { requires: vec!["D-001".into()], ..Terms::default() };
        let plan = Plan { terms: BTreeMap::from([(Phase::Yield, terms)]), ..plan(ProfileName::Full, 400) };
        let claims = records().claims.claim;
        let tree = Registered { claims, plans: vec![plan], texts: Vec::new() };
        assert_eq!(lines(&Retracted::Entry("P-001".into()), &tree), ["claim T-1"]);
        assert_eq!(lines(&Retracted::Entry("D-001".into()), &tree), ["phase preempt/yield"]);
        assert_eq!(lines(&Retracted::Entry("O-001".into()), &tree), ["entry A-001", "entry F-001"]);
        let cited = |value: &str| Cited { value: value.into(), unit: "ms".into(), source: "s".into() };
        assert_eq!(lines(&Retracted::Cited(cited("16.631")), &tree), ["entry P-001"]);
        assert!(lines(&Retracted::Cited(cited("6.631")), &tree).is_empty());
    }
}
