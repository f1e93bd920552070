//! What a published number rests on: its cells, the kernels they launched, and their part of the plan.

use crate::book::claims::resolve;
use anyhow::Result;
use schema::claim::ClaimFile;
use schema::contract::{CellSpec, Contract, Recipe};
use schema::metrics::Metric;
use schema::plan::{Plan, Slots};
use schema::verdict::ClaimResult;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// Where the value of a claim stands, in place of a cell.
pub const CLAIM: &str = "claim";

/// The name of a number within its run, `METRIC@PHASE/CELL`; of a claim's value, `CLAIM-ID@claim`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct NumberId {
    /// The metric, or the claim's id.
    pub metric: String,
    /// `PHASE/CELL`, or [`CLAIM`].
    pub place: String,
}

impl NumberId {
    /// The name of a row of `metrics.csv`.
    #[must_use]
    pub fn of_metric(metric: &Metric) -> Self {
        Self { metric: metric.metric.clone(), place: format!("{}/{}", metric.phase, metric.cell) }
    }

    /// The name of a claim's value.
    #[must_use]
    pub fn of_claim(claim: &str) -> Self {
        Self { metric: claim.to_owned(), place: CLAIM.to_owned() }
    }
}

impl fmt::Display for NumberId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{}", self.metric, self.place)
    }
}

/// What one number rests on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Basis {
    /// Its name.
    pub id: NumberId,
    /// Its value as printed.
    pub value: String,
    /// Its unit.
    pub unit: String,
    /// The kernels that its cells launched.
    pub kernels: BTreeSet<String>,
    /// How the plan of its cells differs today; empty when it does not.
    pub plan: Vec<String>,
}

/// The plan a run was measured with, and what this tree plans now (nothing where it cannot be frozen so any more).
#[derive(Clone, Copy, Debug)]
pub struct Plans<'a> {
    /// As measured.
    pub measured: &'a Plan,
    /// As planned now.
    pub now: Option<&'a Plan>,
    /// What the run had to contain.
    pub contract: &'a Contract,
    /// The device's slots.
    pub slots: &'a Slots,
}

/// What each row of a run's metrics rests on, in order; `launched` are the symbols by `phase/cell`.
#[must_use]
pub fn of_metrics(metrics: &[Metric], launched: &BTreeMap<String, BTreeSet<String>>, plans: Plans<'_>) -> Vec<Basis> {
    let one = |metric: &Metric| {
        let cells = cells_of(metric, plans.contract);
        basis(NumberId::of_metric(metric), &metric.value, &metric.unit, &cells, launched, plans)
    };
    metrics.iter().map(one).collect()
}

/// What the value of each claim that has one rests on: every cell that one of its terms names.
///
/// # Errors
/// When a claim names a cell with an unknown placeholder.
pub fn of_claims(
    results: &[ClaimResult],
    claims: &ClaimFile,
    metrics: &[Metric],
    launched: &BTreeMap<String, BTreeSet<String>>,
    plans: Plans<'_>,
) -> Result<Vec<Basis>> {
    let mut found = Vec::new();
    for result in results.iter().filter(|result| !result.value.is_empty()) {
        let terms = claims.claim.iter().filter(|claim| claim.id == result.id).flat_map(|claim| &claim.term);
        let mut cells = Vec::new();
        for wanted in terms.flat_map(|term| std::iter::once(&term.value).chain(&term.over)) {
            let cell = resolve(&wanted.cell, plans.slots)?;
            let named = |m: &&Metric| m.phase == wanted.phase && m.cell == cell && m.metric == wanted.metric;
            match metrics.iter().find(named) {
                Some(metric) => cells.extend(cells_of(metric, plans.contract)),
                None => cells.extend(plans.contract.cell(&wanted.phase, &cell)),
            }
        }
        let id = NumberId::of_claim(&result.id);
        found.push(basis(id, &result.value, &result.unit, &cells, launched, plans));
    }
    Ok(found)
}

/// The cells that a row was computed from.
fn cells_of<'a>(metric: &Metric, contract: &'a Contract) -> Vec<&'a CellSpec> {
    let mut cells: Vec<&CellSpec> = contract.cell(&metric.phase, &metric.cell).into_iter().collect();
    let recipe = contract.metric(&metric.phase, &metric.cell, &metric.metric).map(|spec| &spec.recipe);
    if let Some(Recipe::Ratio { over, .. }) = recipe {
        cells.extend(contract.cells.iter().find(|cell| cell.id() == *over));
    }
    // A value that the timer cannot resolve is printed as a multiple of its quantum.
    if metric.note.contains("bound:") {
        cells.extend(contract.timer());
    }
    cells
}

fn basis(
    id: NumberId,
    value: &str,
    unit: &str,
    cells: &[&CellSpec],
    launched: &BTreeMap<String, BTreeSet<String>>,
    plans: Plans<'_>,
) -> Basis {
    let mut kernels = BTreeSet::new();
    let mut plan = BTreeSet::new();
    for cell in cells {
        kernels.extend(launched.get(&cell.id()).into_iter().flatten().cloned());
        plan.extend(replanned(cell, plans));
    }
    Basis { id, value: value.to_owned(), unit: unit.to_owned(), kernels, plan: plan.into_iter().collect() }
}

/// How a cell is planned differently now, if it is.
fn replanned(cell: &CellSpec, plans: Plans<'_>) -> Option<String> {
    let Some(now) = plans.now else { return Some("this tree's plan file no longer has such a run".to_owned()) };
    if now.clocks != plans.measured.clocks {
        return Some("the plan requires another clock class".to_owned());
    }
    let settings = |plan: &Plan| plan.profile.get(&cell.phase).and_then(toml::Value::as_table).cloned();
    let Some((now, then)) = settings(now).zip(settings(plans.measured)) else {
        return Some(format!("phase {} has no numbers in the plan any more", cell.phase));
    };
    let plain = |table: &toml::Table| table.clone().into_iter().filter(|(_, value)| !value.is_array()).collect();
    let (plain_now, plain_then): (toml::Table, toml::Table) = (plain(&now), plain(&then));
    if plain_now != plain_then {
        return Some(format!("the plan's numbers of phase {} differ", cell.phase));
    }
    (!lists_hold(&then, &now)).then(|| format!("the plan's lists of phase {} lack an entry that they had", cell.phase))
}

/// Whether the lists that cells are made from still hold what they held. Another cell beside this one changes nothing in it;
/// which cell an entry that is gone belonged to, only the experiment's code knows.
fn lists_hold(then: &toml::Table, now: &toml::Table) -> bool {
    let kept = |(name, list): (&String, &Vec<toml::Value>)| {
        let found = now.get(name).and_then(toml::Value::as_array);
        found.is_some_and(|found| list.iter().all(|entry| found.contains(entry)))
    };
    then.iter().filter_map(|(name, value)| value.as_array().map(|list| (name, list))).all(kept)
}
