//! What several rules read from launch tables: the launches that count, without warm-up.

use super::evidence::{CellEvidence, Evidence};
use schema::contract::POISON_MODE;
use std::collections::BTreeSet;
use tables::Table;

/// A column's sum; an absent column is a reason, not a zero.
pub(super) fn sum(table: &Table, column: &str) -> Result<u64, String> {
    let values = table.u32(column).map_err(|error| format!("{error:#}"))?;
    Ok(values.iter().map(|value| u64::from(*value)).sum())
}

/// For each launch of a cell, whether a wrong output was planted in it.
pub(super) fn poisoned(cell: &CellEvidence, launches: &Table) -> Result<Vec<bool>, String> {
    let configs = &cell.data.record.configs;
    let mode = |config: &u32| configs.get(*config as usize).map(|config| config.mode == POISON_MODE);
    let known = u32s(launches, "config")?.iter().map(mode).collect::<Option<Vec<bool>>>();
    known.ok_or_else(|| "a launch refers to no configuration".to_owned())
}

/// A column's sum over the launches for which `counts` holds.
pub(super) fn sum_where(table: &Table, column: &str, counts: &[bool]) -> Result<u64, String> {
    let values = u32s(table, column)?.iter().zip(counts);
    Ok(values.filter(|(_, counts)| **counts).map(|(value, _)| u64::from(*value)).sum())
}

/// The launches of a cell that were discarded as warm-up.
pub(super) fn warmup(launches: &Table) -> Result<BTreeSet<u32>, String> {
    let (launch, warmup) = (u32s(launches, "launch")?, u32s(launches, "warmup")?);
    Ok(launch.iter().zip(warmup).filter(|(_, warm)| **warm != 0).map(|(launch, _)| *launch).collect())
}

/// An unsigned column.
pub(super) fn u32s<'a>(table: &'a Table, column: &str) -> Result<&'a [u32], String> {
    table.u32(column).map_err(|error| format!("{error:#}"))
}

/// The cells whose launches make outputs, which is every cell but the timer's.
pub(super) fn working_cells(evidence: &Evidence) -> impl Iterator<Item = &CellEvidence> {
    evidence.cells.iter().filter(|cell| cell.spec(&evidence.contract).is_none_or(|spec| spec.outputs))
}

/// Runs `look` over every cell that must have launches; its errors become reasons that name the cell.
pub(super) fn over_launches<'a>(
    cells: impl Iterator<Item = &'a CellEvidence>,
    mut look: impl FnMut(&CellEvidence, &Table) -> Result<Vec<String>, String>,
) -> Vec<String> {
    let mut reasons = Vec::new();
    for cell in cells {
        let name = cell.name();
        let found = match &cell.data.launches {
            Some(launches) if launches.rows() > 0 => look(cell, launches),
            _ => Ok(vec!["it has no launches".to_owned()]),
        };
        let found = found.unwrap_or_else(|error| vec![error]);
        reasons.extend(found.into_iter().map(|reason| format!("{name}: {reason}")));
    }
    reasons
}
