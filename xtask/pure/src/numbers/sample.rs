//! The full block rows of a hundred events, chosen by the manifest's digest, that are published from the detached
//! tables.
//!
//! Since the digest is known only after the run is sealed, nobody can choose the events, and anybody can check the
//! choice.

use anyhow::Result;
use schema::Digest;
use std::collections::BTreeSet;
use tables::{Column, Table};

/// How many events are published with all their block rows.
pub const EVENTS: usize = 100;
/// What ends the name of such a table, instead of `.blocks.parquet`.
pub const SUFFIX: &str = ".sample.parquet";

/// An event: its cell's `phase/cell`, launch and index.
pub type Event = (String, u32, u32);

/// Whether a file is such a table.
#[must_use]
pub fn is_sample(name: &str) -> bool {
    name.starts_with("cells/") && name.ends_with(SUFFIX)
}

/// The events to publish: those whose digest together with the manifest's comes first.
#[must_use]
pub fn choose(manifest: Digest, events: impl IntoIterator<Item = Event>) -> BTreeSet<Event> {
    let rank = |event: &Event| Digest::of(format!("{manifest} {} {} {}", event.0, event.1, event.2));
    let mut ranked: Vec<(Digest, Event)> = events.into_iter().map(|event| (rank(&event), event)).collect();
    ranked.sort_unstable();
    ranked.into_iter().take(EVENTS).map(|(_, event)| event).collect()
}

/// The rows of `table` that belong to a chosen event of this cell.
///
/// # Errors
/// When the table names no events.
pub fn rows_of(table: &Table, cell: &str, chosen: &BTreeSet<Event>) -> Result<Table> {
    let (launch, event) = (table.u32("launch")?, table.u32("event")?);
    let kept: Vec<usize> =
        (0..table.rows()).filter(|row| chosen.contains(&(cell.to_owned(), launch[*row], event[*row]))).collect();
    let pick = |column: &Column| match column {
        Column::U32(v) => Column::U32(kept.iter().map(|row| v[*row]).collect()),
        Column::OptU32(v) => Column::OptU32(kept.iter().map(|row| v[*row]).collect()),
        Column::I64(v) => Column::I64(kept.iter().map(|row| v[*row]).collect()),
        Column::OptI64(v) => Column::OptI64(kept.iter().map(|row| v[*row]).collect()),
        Column::F64(v) => Column::F64(kept.iter().map(|row| v[*row]).collect()),
    };
    Ok(Table { columns: table.columns.iter().map(|(name, column)| (name.clone(), pick(column))).collect() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn events() -> Vec<Event> {
        (0..1000).map(|i| ("yield/a".to_owned(), i % 20, i / 20)).collect()
    }

    #[test]
    fn the_choice_depends_on_the_manifest_alone() {
        let chosen = choose(Digest::of(b"a"), events());
        assert_eq!(chosen.len(), EVENTS);
        assert_eq!(chosen, choose(Digest::of(b"a"), events().into_iter().rev()));
        assert_ne!(chosen, choose(Digest::of(b"b"), events()));
    }

    #[test]
    fn only_rows_of_chosen_events_are_kept() {
        let chosen = BTreeSet::from([("yield/a".to_owned(), 1, 0)]);
        let table = Table::new()
            .with("launch", Column::U32(vec![0, 1, 1]))
            .with("event", Column::U32(vec![0, 0, 1]))
            .with("block", Column::U32(vec![7, 8, 9]));
        assert_eq!(rows_of(&table, "yield/a", &chosen).unwrap().u32("block").unwrap(), [8]);
        assert_eq!(rows_of(&table, "yield/b", &chosen).unwrap().rows(), 0);
    }
}
