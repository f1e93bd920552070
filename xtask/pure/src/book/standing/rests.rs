//! What a published number rests on: its cells, the kernels they launched, and their part of the plan.

use crate::book::claims::resolve;
use crate::book::{name_of, name_of_claim};
use anyhow::Result;
use schema::claim::ClaimFile;
use schema::contract::{CellSpec, Contract, Recipe};
use schema::metrics::Metric;
use schema::plan::{Plan, Slots};
use schema::verdict::ClaimResult;
use std::collections::{BTreeMap, BTreeSet};
use toml::{Table, Value};

/// What one number rests on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Basis {
    /// Its name within the run.
    pub id: String,
    /// Its value as printed.
    pub value: String,
    /// Its unit.
    pub unit: String,
    /// The kernels that its cells launched.
    pub kernels: BTreeSet<String>,
    /// How the plan of its cells differs today; empty when it does not.
    pub plan: BTreeSet<String>,
}

/// How a run was planned and what it launched, and what this tree plans now.
#[derive(Clone, Copy, Debug)]
pub struct Plans<'a> {
    /// As measured.
    pub measured: &'a Plan,
    /// As planned now; nothing where the plan cannot be frozen so any more.
    pub now: Option<&'a Plan>,
    /// What the run had to contain.
    pub contract: &'a Contract,
    /// The device's slots.
    pub slots: &'a Slots,
    /// The symbols that each cell launched, by `phase/cell`.
    pub launched: &'a BTreeMap<String, BTreeSet<String>>,
}

impl Plans<'_> {
    /// What each row of a run's metrics rests on, in order.
    #[must_use]
    pub fn of_metrics(&self, metrics: &[Metric]) -> Vec<Basis> {
        let one = |m: &Metric| self.basis(name_of(m), &m.value, &m.unit, &cells_of(m, self.contract));
        metrics.iter().map(one).collect()
    }

    /// What the value of each claim that has one rests on: every cell that one of its terms names.
    ///
    /// # Errors
    /// When a claim names a cell with an unknown placeholder.
    pub fn of_claims(&self, results: &[ClaimResult], claims: &ClaimFile, metrics: &[Metric]) -> Result<Vec<Basis>> {
        let mut found = Vec::new();
        for result in results.iter().filter(|result| !result.value.is_empty()) {
            let terms = claims.claim.iter().filter(|claim| claim.id == result.id).flat_map(|claim| &claim.term);
            let mut cells = Vec::new();
            for wanted in terms.flat_map(|term| std::iter::once(&term.value).chain(&term.over)) {
                let cell = resolve(&wanted.cell, self.slots)?;
                let named = |m: &&Metric| m.phase == wanted.phase && m.cell == cell && m.metric == wanted.metric;
                match metrics.iter().find(named) {
                    Some(metric) => cells.extend(cells_of(metric, self.contract)),
                    None => cells.extend(self.contract.cell(&wanted.phase, &cell)),
                }
            }
            found.push(self.basis(name_of_claim(&result.id), &result.value, &result.unit, &cells));
        }
        Ok(found)
    }

    fn basis(&self, id: String, value: &str, unit: &str, cells: &[&CellSpec]) -> Basis {
        let kernels = cells.iter().filter_map(|cell| self.launched.get(&cell.id())).flatten().cloned().collect();
        let plan = cells.iter().filter_map(|cell| self.replanned(cell)).collect();
        Basis { id, value: value.to_owned(), unit: unit.to_owned(), kernels, plan }
    }

    /// How a cell is planned differently now, if it is.
    fn replanned(&self, cell: &CellSpec) -> Option<String> {
        let Some(now) = self.now else { return Some("this tree's plan file no longer has such a run".to_owned()) };
        if now.clocks != self.measured.clocks {
            return Some("the plan requires another clock class".to_owned());
        }
        let settings = |plan: &'_ Plan| plan.profile.get(&cell.phase).and_then(Value::as_table).cloned();
        let Some((now, then)) = settings(now).zip(settings(self.measured)) else {
            return Some(format!("phase {} has no numbers in the plan any more", cell.phase));
        };
        let plain =
            |table: &Table| -> Table { table.clone().into_iter().filter(|(_, value)| !value.is_array()).collect() };
        if plain(&now) != plain(&then) {
            return Some(format!("the plan's numbers of phase {} differ", cell.phase));
        }
        // Another cell beside this one changes nothing in it; which cell an entry that is gone belonged to, only the
        // experiment's code knows.
        let kept = |(name, value): (&String, &Value)| {
            let found = now.get(name).and_then(Value::as_array);
            value.as_array().is_none_or(|list| found.is_some_and(|found| list.iter().all(|it| found.contains(it))))
        };
        (!then.iter().all(kept))
            .then(|| format!("the plan's lists of phase {} lack an entry that they had", cell.phase))
    }
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
