//! Finds everything that rests on a run, a metric or an entry, which a retraction must list. Only links that are
//! written down are found: claim terms, ratios, `about`, and runs and entries named in prose.

use super::{Cited, Fields, Notebook};
use crate::book::claims::resolve;
use crate::book::{name_of, withdraws};
use schema::claim::{Claim, ClaimFile, MetricRef};
use schema::contract::{Contract, Expr, Q, Recipe};
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
    /// What it had to contain; empty for a run from before there were contracts.
    pub contract: Contract,
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

/// Everything that rests on what a retraction with these fields withdraws.
#[must_use]
pub fn on(what: &Fields, notebook: &Notebook, run: Option<&RunRecords>, tree: &Registered) -> Resting {
    let (mut claims, mut lines) = (BTreeSet::new(), Vec::new());
    let metric = what.metric.as_deref();
    if let Some(id) = &what.run {
        claims.extend(run.into_iter().flat_map(|run| claims_on(run, metric)));
        let told = notebook.entries.iter().filter(|entry| metric.is_none() && entry.fields.run.as_ref() == Some(id));
        claims.extend(told.flat_map(|entry| entry.fields.claims.clone()));
        lines.extend(run.into_iter().flat_map(|run| ratios_on(run, metric)));
    }
    if let Some(id) = &what.about {
        claims.extend(tree.claims.iter().filter(|claim| claim.prediction == *id).map(|claim| claim.id.clone()));
        lines.extend(phases_on(id, tree));
    }
    let cited = what.cited.as_ref().map(Cited::quantity);
    let names: Vec<String> = [what.run.clone(), what.about.clone(), cited].into_iter().flatten().collect();
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
    withdraws(metric, &format!("{}@{}/{cell}", term.metric, term.phase))
}

/// The run's ratios that are made of the metric; all of them without one.
fn ratios_on(run: &RunRecords, metric: Option<&str>) -> Vec<String> {
    let ratios = run.metrics.iter().filter(|m| m.metric == "ratio");
    let parts = |metric: &str| -> Vec<&Metric> {
        let covered = run.metrics.iter().filter(|m| withdraws(metric, &name_of(m)));
        covered.filter(|m| m.metric.ends_with(Q::P50.name())).collect()
    };
    let parts = metric.map(parts);
    let rests = |m: &&Metric| parts.as_ref().is_none_or(|parts| parts.iter().any(|part| is_made_of(run, m, part)));
    ratios.filter(rests).map(name_of).collect()
}

/// Whether one of a ratio's two medians is this one: of its own cell, or of the cell that it is taken over.
fn is_made_of(run: &RunRecords, ratio: &Metric, part: &Metric) -> bool {
    let place = |m: &Metric| format!("{}/{}", m.phase, m.cell);
    let own = place(ratio) == place(part);
    let Some(spec) = run.contract.metric(&ratio.phase, &ratio.cell, &ratio.metric) else {
        // A run from before there were contracts names both medians alike, and its ratio's note the other cell.
        let over = ratio.note.split(" over ").next().unwrap_or_default();
        let has = |at: &str| run.metrics.iter().any(|m| place(m) == at && m.metric == part.metric && m.unit == "us");
        return (own || over == place(part)) && has(over) && has(&place(ratio));
    };
    let Recipe::Ratio { over, over_of, of } = &spec.recipe else { return false };
    let found = run.contract.metric(&part.phase, &part.cell, &part.metric).map(|spec| &spec.recipe);
    let is_time = |wanted: &Expr| matches!(found, Some(Recipe::Quantiles { of, .. }) if of == wanted);
    (own && is_time(of)) || (*over == place(part) && is_time(over_of))
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
    use crate::book::notebook::{Kind, NewEntry, Status, append, parse};
    use crate::numbers::summary::summarize;
    use crate::trial::synthetic::{self, SLOTS, cells, plan};
    use schema::plan::{ProfileName, Terms};
    use std::collections::BTreeMap;

    const RUN: &str = "20260101T000000Z-h200-00000000";

    fn notebook() -> Notebook {
        let mut text = "# Notebook\n".to_owned();
        let mut add = |kind: Kind, prose: &str, change: &dyn Fn(&mut Fields)| {
            let mut fields = Fields::new(kind, Status::ResearchRetained);
            change(&mut fields);
            let (date, title, id) = ("2026-01-01".into(), "t".into(), parse(&text).unwrap().next_id(kind));
            text = append(&text, NewEntry { date, id, title, prose: prose.into(), fields }).unwrap();
        };
        add(Kind::Prediction, "It was 16.631 ms, not 116.631 ms.", &|_| ());
        add(Kind::Outcome, "p", &|fields| fields.run = Some(RUN.into()));
        add(Kind::Amendment, "p", &|fields| fields.about = Some("O-001".into()));
        add(Kind::Fault, "Found when reading A-001.", &|_| ());
        add(Kind::Prediction, "O-0011 and RO-001 are others.", &|_| ());
        parse(&text).unwrap()
    }

    fn withdrawing(change: impl Fn(&mut Fields)) -> Fields {
        let mut fields = Fields::new(Kind::Retraction, Status::Retracted);
        change(&mut fields);
        fields
    }

    fn run() -> Fields {
        withdrawing(|fields| fields.run = Some(RUN.into()))
    }

    fn entry(id: &str) -> Fields {
        withdrawing(|fields| fields.about = Some(id.into()))
    }

    fn records() -> RunRecords {
        let plan = plan(ProfileName::Full, 400);
        let contract = synthetic::contract(&plan);
        let metrics = summarize(&contract, RUN, &cells(&plan)).unwrap();
        RunRecords { claims: crate::trial::claims("1000"), slots: SLOTS.clone(), metrics, contract }
    }

    fn lines(what: &Fields, tree: &Registered) -> Vec<String> {
        on(what, &notebook(), Some(&records()), tree).lines
    }

    fn of_metric(metric: &str) -> Vec<String> {
        lines(&Fields { metric: Some(metric.into()), ..run() }, &Registered::default())
    }

    #[test]
    fn all_that_names_a_run_or_an_entry_that_does_rests_on_it() {
        let texts = vec![
            ("FINDINGS.md".to_owned(), format!("As run {RUN} shows.")),
            ("README.md".to_owned(), format!("As run {RUN}0 shows.")),
        ];
        let tree = Registered { texts, ..Registered::default() };
        let entries = ["entry O-001", "entry A-001", "entry F-001", "file FINDINGS.md"];
        let found = lines(&run(), &tree);
        assert_eq!(found, [&["claim T-1", "ratio@yield/k=64,blocks=8,poll=1,set=host"][..], &entries].concat());
        // For a run that is not here, only the notebook tells what rests on it.
        assert_eq!(on(&run(), &notebook(), None, &tree).lines, entries);
    }

    #[test]
    fn a_metric_carries_the_claims_and_ratios_made_of_it() {
        let entries = ["entry O-001", "entry A-001", "entry F-001"].map(str::to_owned);
        let ratio = "ratio@yield/k=64,blocks=8,poll=1,set=host".to_owned();
        let baseline = records().metrics.iter().find(|m| m.metric == "ratio").unwrap().note.clone();
        let baseline = baseline.split(" over ").next().unwrap().to_owned();
        let host = "yield/k=64,blocks=8,poll=1,set=host";
        for cell in [host, &baseline] {
            assert_eq!(
                of_metric(&format!("host_e2e_us_p50@{cell}")),
                [&[ratio.clone()][..], &entries].concat(),
                "{cell}"
            );
        }
        // The same with and without a contract.
        let old = RunRecords { contract: Contract::default(), ..records() };
        for run in [&records(), &old] {
            let ratios = |metric: String| ratios_on(run, Some(&metric));
            assert_eq!(ratios(format!("host_e2e_us_p50@{host}")), [ratio.as_str()]);
            assert_eq!(ratios(format!("host_e2e_us_p50@{baseline}")), [ratio.as_str()]);
            for other in [
                format!("preempt_latency_us_p50@{host}"),
                format!("urgent_wait_us_p50@{baseline}"),
                format!("clock_mhz_p50@{host}"),
                format!("host_e2e_us_p99@{host}"),
                "host_e2e_us_p50@yield/k=64,blocks=8,poll=1,set=device".to_owned(),
            ] {
                assert!(ratios(other.clone()).is_empty(), "{other}");
            }
        }
        assert_eq!(of_metric("timer_quantum_ns@instrument/timer"), entries);
        assert_eq!(of_metric("timer_*"), entries);
        assert_eq!(of_metric("host_e2e_us_*"), of_metric(&format!("host_e2e_us_p50@{baseline}")));
        let term = &records().claims.claim[0].term[0].value;
        let cell = resolve(&term.cell, &SLOTS).unwrap();
        let metric = format!("{}@{}/{cell}", term.metric, term.phase);
        assert_eq!(of_metric(&metric)[0], "claim T-1");
    }

    #[test]
    fn an_entry_carries_its_claims_its_phases_and_what_speaks_of_it() {
        let terms = Terms { requires: vec!["D-001".into()], ..Terms::default() };
        let terms = BTreeMap::from([("yield".to_owned(), terms)]);
        let plan = Plan { terms, ..synthetic::frozen(&plan(ProfileName::Full, 400)) };
        let claims = records().claims.claim;
        let tree = Registered { claims, plans: vec![plan], texts: Vec::new() };
        assert_eq!(lines(&entry("P-001"), &tree), ["claim T-1"]);
        assert_eq!(lines(&entry("D-001"), &tree), ["phase preempt/yield"]);
        assert_eq!(lines(&entry("O-001"), &tree), ["entry A-001", "entry F-001"]);
        let cited = |value: &str| {
            let cited = Cited { value: value.into(), unit: "ms".into(), source: "s".into() };
            withdrawing(|fields| fields.cited = Some(cited.clone()))
        };
        assert_eq!(lines(&cited("16.631"), &tree), ["entry P-001"]);
        assert!(lines(&cited("6.631"), &tree).is_empty());
    }
}
