//! Refuses a contract that contradicts itself, or that is weaker than any contract may be. Judges no run.

use super::{CellSpec, Check, Contract, Derive, Expr, Recipe, Role, TableSpec};
use anyhow::{Context, ensure};
use std::collections::BTreeSet;

/// Columns of every launch table, before and after those that an experiment adds.
const COMMON_BEFORE: [&str; 5] = ["launch", "config", "warmup", "host_start_ns", "wall_ns"];
const COMMON_AFTER: [&str; 5] = ["sms", "clock_windows", "clock_khz_min", "clock_khz_p50", "clock_khz_max"];

impl Contract {
    /// Parses and checks a contract.
    ///
    /// # Errors
    /// When the bytes are no contract, its format is newer than ours, or as [`Contract::check`] says.
    pub fn parse(bytes: &[u8]) -> anyhow::Result<Self> {
        crate::check_format_of_json("the contract", bytes)?;
        let contract: Self = serde_json::from_slice(bytes).context("the contract does not parse")?;
        contract.check()?;
        Ok(contract)
    }

    /// Every column of the launch tables, in order.
    #[must_use]
    pub fn all_launch_columns(&self) -> Vec<&str> {
        let mut columns = COMMON_BEFORE.to_vec();
        columns.extend(self.launch_columns());
        columns.extend(COMMON_AFTER);
        columns
    }

    /// Refuses a contract that contradicts itself, or that leaves out what none may: the timer, the oracle and its planted
    /// wrong element, and the sanitizer's programs.
    ///
    /// # Errors
    /// Names the first rule that is broken, and where.
    pub fn check(&self) -> anyhow::Result<()> {
        let timers = self.cells.iter().filter(|cell| cell.table == crate::timer::TABLE).count();
        ensure!(timers == 1, "a contract has one cell of the timer, and this one has {timers}");
        ensure!(
            self.tables.get(crate::timer::TABLE) == Some(&crate::timer::table()),
            "the timer's table has columns of its own"
        );
        ensure!(
            self.cells.iter().any(|cell| cell.poison),
            "no cell plants a wrong element, so nothing shows that the oracle works"
        );
        ensure!(!self.programs.is_empty(), "no sanitizer program is named");
        ensure!(!self.launches.work.is_empty(), "no launch column counts work done");
        let poison = self.launches.poison.as_ref();
        let known = poison.is_some_and(|column| self.launches.wrong.iter().any(|tally| tally.column == *column));
        ensure!(known, "launches.poison names no column of launches.wrong");
        unique("launch columns", &self.all_launch_columns())?;
        unique("cells", &self.cells.iter().map(CellSpec::id).collect::<Vec<_>>())?;
        for (name, table) in &self.tables {
            table.check().with_context(|| format!("table {name}"))?;
        }
        for cell in &self.cells {
            self.check_cell(cell).with_context(|| format!("cell {}", cell.id()))?;
        }
        Ok(())
    }

    fn check_cell(&self, cell: &CellSpec) -> anyhow::Result<()> {
        let table = self.table(cell).with_context(|| format!("it fills a table {:?} that is not there", cell.table))?;
        let timer = cell.table == crate::timer::TABLE;
        ensure!(cell.outputs != timer, "every cell but the timer's makes outputs that the oracle checks");
        ensure!(!cell.launches.is_empty(), "it promises no launch");
        ensure!(timer || cell.expects.launches > 0, "it expects no launch");
        let slots = cell.launches.iter().filter_map(|launch| launch.slot.as_ref());
        for slot in slots {
            ensure!(self.slots.contains_key(slot), "slot {slot:?} is not one of the contract's");
        }
        for check in &cell.checks {
            let of_launches = self.check_launch_columns(check);
            table
                .check_columns(&check_columns(check))
                .and(of_launches)
                .with_context(|| format!("check {}", check.kind()))?;
        }
        for spec in &cell.metrics {
            let names = spec.recipe.names().join(", ");
            for expr in spec.recipe.expressions() {
                table.check_expr(expr).with_context(|| names.clone())?;
            }
            table.check_columns(&recipe_columns(&spec.recipe)).with_context(|| names.clone())?;
            if let Recipe::Ratio { over, over_of, .. } = &spec.recipe {
                let other = self.cells.iter().find(|other| other.id() == *over);
                let other = other.with_context(|| format!("the ratio is taken over {over}, which is no cell"))?;
                self.tables
                    .get(&other.table)
                    .context("no such table")?
                    .check_expr(over_of)
                    .with_context(|| names.clone())?;
            }
        }
        Ok(())
    }

    /// A rule names only launch columns that are there.
    fn check_launch_columns(&self, check: &Check) -> anyhow::Result<()> {
        let (Check::LaunchesHaveFact { column, .. } | Check::RowsAsAsked { column }) = check else { return Ok(()) };
        ensure!(self.all_launch_columns().contains(&column.as_str()), "the launch tables have no column {column:?}");
        Ok(())
    }
}

impl TableSpec {
    fn check(&self) -> anyhow::Result<()> {
        unique("columns", &self.columns.iter().map(|column| column.name.as_str()).collect::<Vec<_>>())?;
        ensure!((1..=3).contains(&self.key.len()), "a key has one to three columns");
        self.check_columns(&self.key.iter().map(String::as_str).collect::<Vec<_>>())?;
        if let Some(blocks) = &self.blocks {
            ensure!(
                blocks.columns.iter().take(3).eq(["launch", "event", "block"]),
                "rows of blocks begin with launch, event, block"
            );
            self.check_columns(&blocks.derived.iter().map(|derived| derived.event.as_str()).collect::<Vec<_>>())?;
            for derived in &blocks.derived {
                let (Derive::Min(from) | Derive::Max(from) | Derive::MaxAfter(from)) = &derived.how else { continue };
                ensure!(blocks.columns.contains(from), "rows of blocks have no column {from:?}");
            }
        }
        Ok(())
    }

    fn check_columns(&self, names: &[&str]) -> anyhow::Result<()> {
        let missing = names.iter().find(|name| self.column(name).is_none());
        ensure!(missing.is_none(), "the table has no column {:?}", missing.unwrap_or(&""));
        Ok(())
    }

    /// Both ends of a difference are on one clock.
    fn check_expr(&self, expr: &Expr) -> anyhow::Result<()> {
        self.check_columns(&expr.columns())?;
        if let Expr::Between(from, to) | Expr::Rest(from, to, _) = expr {
            let role = |name: &String| self.column(name).map(|column| column.role);
            let one_clock = role(from) == role(to) && matches!(role(to), Some(Role::DeviceInstant | Role::HostInstant));
            ensure!(one_clock, "{from:?} and {to:?} are not two instants of one clock");
        }
        Ok(())
    }
}

/// Columns of the event table that a rule names.
fn check_columns(check: &Check) -> Vec<&str> {
    match check {
        Check::Ordered { from, to } => from.iter().chain([to]).map(String::as_str).collect(),
        Check::InsideLaunch { begin, ends } => [begin].into_iter().chain(ends).map(String::as_str).collect(),
        Check::AddUpWithinLaunch { column, by } | Check::MakeThroughput { column, by, .. } => vec![column, by],
        Check::OneState { column, by } => [column].into_iter().chain(by).map(String::as_str).collect(),
        Check::Increasing { column }
        | Check::Present { column }
        | Check::TakesLaunch { column }
        | Check::ArmOfLaunch { column, .. }
        | Check::Positive { column, .. }
        | Check::SameForAll { column, .. } => vec![column],
        Check::LaunchesHaveFact { .. }
        | Check::GridIsFact { .. }
        | Check::PeakOfDevice { .. }
        | Check::EqualRows
        | Check::RowsAsAsked { .. } => Vec::new(),
    }
}

/// Columns of the event table that a recipe names outside of an expression.
fn recipe_columns(recipe: &Recipe) -> Vec<&str> {
    match recipe {
        Recipe::Quantiles { by, only, .. } | Recipe::Rate { by, only, .. } => {
            [by].into_iter().chain(only.iter().map(|only| &only.column)).map(String::as_str).collect()
        }
        Recipe::Abba { quad, position, arm, wall, .. } => vec![quad, position, arm, wall],
        Recipe::PlantedDelay { column, spent, .. } => vec![column, spent],
        Recipe::Largest { column, note, .. } => vec![column, &note.0],
        Recipe::Ratio { .. } | Recipe::Correlation { .. } | Recipe::Anomalies | Recipe::Fact { .. } => Vec::new(),
    }
}

fn unique<T: AsRef<str>>(what: &str, names: &[T]) -> anyhow::Result<()> {
    let mut seen = BTreeSet::new();
    for name in names.iter().map(AsRef::as_ref) {
        ensure!(seen.insert(name), "{what}: {name:?} comes twice");
    }
    Ok(())
}

#[cfg(test)]
mod tests;
