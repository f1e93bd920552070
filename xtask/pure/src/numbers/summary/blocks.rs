//! Whether event columns follow from the detached rows of blocks, as the contract says they must.

use anyhow::Context;
use schema::contract::{Derive, TableSpec};
use std::collections::{BTreeMap, BTreeSet};
use tables::Table;

/// The most disagreements that are told; one is enough to refuse.
const MOST_FAULTS: usize = 100;

/// The rows of a cell's blocks, taken in a piece at a time; what is kept grows with the events only.
pub struct BlockCheck<'a> {
    events: &'a Table,
    table: &'a TableSpec,
    expected: BTreeSet<(u32, u32)>,
    /// What each event's rows give, by derivation.
    derived: BTreeMap<(u32, u32), Vec<Option<i64>>>,
    current: Option<(u32, u32)>,
    blocks_of_current: BTreeSet<u32>,
    faults: Vec<String>,
}

/// Every disagreement between the events of a cell and its blocks' rows. Events with an anomaly are left out, since their rows
/// may be partial.
///
/// # Errors
/// When a table lacks a column.
pub fn check_blocks(events: &Table, table: &TableSpec, blocks: &Table) -> anyhow::Result<Vec<String>> {
    let mut check = BlockCheck::new(events, table)?;
    check.add(blocks)?;
    check.finish()
}

impl<'a> BlockCheck<'a> {
    /// Begins with the events of a cell.
    ///
    /// # Errors
    /// When the table lacks a column.
    pub fn new(events: &'a Table, table: &'a TableSpec) -> anyhow::Result<Self> {
        let keys = events.u32("launch")?.iter().copied().zip(events.u32("event")?.iter().copied());
        Ok(Self {
            events,
            table,
            expected: keys.collect(),
            derived: BTreeMap::new(),
            current: None,
            blocks_of_current: BTreeSet::new(),
            faults: Vec::new(),
        })
    }

    /// Takes in rows. Those of one event follow each other, as the harness writes them.
    ///
    /// # Errors
    /// When the table lacks a column, or the contract names no rows of blocks.
    pub fn add(&mut self, blocks: &Table) -> anyhow::Result<()> {
        let spec = self.table.blocks.as_ref().context("the contract names no rows of blocks")?;
        let [launch, event, block] = ["launch", "event", "block"].map(|name| blocks.u32(name));
        let (launch, event, block) = (launch?, event?, block?);
        let column = |how: &Derive| match how {
            Derive::Min(name) | Derive::Max(name) | Derive::MaxAfter(name) => blocks.u32(name).map(Some),
            Derive::Rows => Ok(None),
        };
        let columns = spec.derived.iter().map(|derived| column(&derived.how)).collect::<anyhow::Result<Vec<_>>>()?;
        for i in 0..blocks.rows() {
            let key = (launch[i], event[i]);
            if self.current != Some(key) {
                self.turn_to(key);
            }
            if !self.expected.contains(&key) {
                continue;
            }
            if !self.blocks_of_current.insert(block[i]) {
                self.fault(format!("block {} has two rows for event {} of launch {}", block[i], key.1, key.0));
            }
            let so_far = self.derived.entry(key).or_insert_with(|| vec![None; spec.derived.len()]);
            for ((so_far, derived), column) in so_far.iter_mut().zip(&spec.derived).zip(&columns) {
                *so_far = derive(&derived.how, *so_far, column.map(|column| signed(column[i])));
            }
        }
        Ok(())
    }

    fn turn_to(&mut self, key: (u32, u32)) {
        self.current = Some(key);
        self.blocks_of_current.clear();
        if !self.expected.contains(&key) {
            self.fault(format!("rows of blocks for event {} of launch {}, which is no event", key.1, key.0));
        } else if self.derived.contains_key(&key) {
            self.fault(format!("the rows of blocks for event {} of launch {} are not together", key.1, key.0));
        }
    }

    fn fault(&mut self, fault: String) {
        if self.faults.len() < MOST_FAULTS {
            self.faults.push(fault);
        }
    }

    /// Every disagreement, up to a hundred.
    ///
    /// # Errors
    /// When the table of events lacks a column.
    pub fn finish(mut self) -> anyhow::Result<Vec<String>> {
        let events = self.events;
        let spec = self.table.blocks.as_ref().context("the contract names no rows of blocks")?;
        let (launch, event) = (events.u32("launch")?, events.u32("event")?);
        let anomaly = self.table.anomaly().map(|name| events.u32(name)).transpose()?;
        let said = spec.derived.iter().map(|derived| super::numbers(events, &derived.event));
        let said = said.collect::<anyhow::Result<Vec<_>>>()?;
        for i in (0..events.rows()).filter(|i| anomaly.is_none_or(|anomaly| anomaly[*i] == 0)) {
            let name = format!("event {} of launch {}", event[i], launch[i]);
            let Some(found) = self.derived.get(&(launch[i], event[i])) else {
                self.fault(format!("{name} has no rows of blocks"));
                continue;
            };
            let mut wrong = spec.derived.iter().zip(found).zip(&said).filter(|((_, found), said)| said[i] != **found);
            if let Some(((derived, found), said)) = wrong.next() {
                let shown = |value: Option<i64>| value.map_or("none".to_owned(), |value| value.to_string());
                let (said, found) = (shown(said[i]), shown(*found));
                self.fault(format!("{name} says {} = {said}, and its blocks say {found}", derived.event));
            }
        }
        Ok(self.faults)
    }
}

/// What one more row makes of a derived value.
fn derive(how: &Derive, so_far: Option<i64>, value: Option<i64>) -> Option<i64> {
    match how {
        Derive::Min(_) => so_far.into_iter().chain(value).min(),
        Derive::Max(_) => so_far.max(value),
        // An instant equal to the event's own is not after it.
        Derive::MaxAfter(_) => so_far.max(value.filter(|ns| *ns > 0)),
        Derive::Rows => Some(so_far.unwrap_or(0) + 1),
    }
}

/// A time from the event's instant modulo 2^32: what is above 2^31 lies before it.
fn signed(ns: u32) -> i64 {
    i64::from(ns.cast_signed())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trial::synthetic;
    use preempt::tables::BLOCK_ROWS;
    use schema::plan::ProfileName;
    use tables::Column;

    fn table() -> TableSpec {
        synthetic::contract(&synthetic::plan(ProfileName::Smoke, 400)).tables["yields"].clone()
    }

    fn blocks(rows: &[[u32; 7]]) -> Table {
        let column = |(i, name): (usize, &&str)| ((*name).to_owned(), Column::U32(rows.iter().map(|r| r[i]).collect()));
        Table { columns: BLOCK_ROWS.iter().enumerate().map(column).collect() }
    }

    fn event(first: i64, last: i64, ready: i64, visibility: Option<i64>, n: u32) -> Table {
        Table::new()
            .with("launch", Column::U32(vec![3]))
            .with("event", Column::U32(vec![0]))
            .with("first_observer_ns", Column::I64(vec![first]))
            .with("last_observer_ns", Column::I64(vec![last]))
            .with("last_ready_ns", Column::I64(vec![ready]))
            .with("visibility_ns", Column::OptI64(vec![visibility]))
            .with("observers", Column::U32(vec![n]))
            .with("ready", Column::U32(vec![n]))
            .with("anomaly", Column::U32(vec![0]))
    }

    const ROWS: [[u32; 7]; 3] =
        [[3, 0, 1, 9, 700, 900, u32::MAX - 99], [3, 0, 2, 8, 650, 7000, 400], [3, 0, 3, 7, 5000, 5100, 380]];

    /// What is wrong with these rows of these events.
    fn faults(events: &Table, rows: &[[u32; 7]]) -> Vec<String> {
        check_blocks(events, &table(), &blocks(rows)).unwrap()
    }

    #[test]
    fn columns_that_follow_from_the_rows_pass() {
        assert!(faults(&event(650, 5000, 7000, Some(400), 3), &ROWS).is_empty());
        assert!(faults(&event(700, 700, 900, None, 1), &ROWS[..1]).is_empty());
        let at_the_instant = [3, 0, 1, 9, 700, 900, 0];
        assert!(faults(&event(700, 700, 900, None, 1), &[at_the_instant]).is_empty());
    }

    #[test]
    fn a_derivation_takes_in_one_row_after_the_other() {
        let check = |how: &Derive, values: &[i64], expected: Option<i64>| {
            let found = values.iter().fold(None, |so_far, value| derive(how, so_far, Some(*value)));
            assert_eq!(found, expected, "{how:?} of {values:?}");
        };
        let column = || "ns".to_owned();
        check(&Derive::Min(column()), &[5, -3, 7], Some(-3));
        check(&Derive::Max(column()), &[-5, -3, -7], Some(-3));
        check(&Derive::MaxAfter(column()), &[-5, 3, 2], Some(3));
        check(&Derive::MaxAfter(column()), &[-5, 0], None);
        for how in [Derive::Min(column()), Derive::Max(column()), Derive::MaxAfter(column())] {
            check(&how, &[], None);
        }
        assert_eq!((0..3).fold(None, |so_far, _| derive(&Derive::Rows, so_far, None)), Some(3));
    }

    #[test]
    fn a_table_without_rows_of_blocks_has_none_to_check() {
        let bare = TableSpec { blocks: None, ..table() };
        let error = check_blocks(&event(650, 5000, 7000, None, 3), &bare, &blocks(&ROWS)).unwrap_err();
        assert!(error.to_string().contains("names no rows of blocks"), "{error}");
    }

    #[test]
    fn rows_of_an_event_with_an_anomaly_may_be_partial() {
        let mut events = event(650, 5000, 7000, Some(400), 3);
        synthetic::set_column(&mut events, "anomaly", Column::U32(vec![1]));
        assert!(faults(&events, &ROWS[..2]).is_empty() && faults(&events, &[]).is_empty());
    }

    #[test]
    fn every_disagreement_is_found() {
        let check = |event: &Table, rows: &[[u32; 7]], expected: &str| {
            let problems = faults(event, rows);
            assert!(problems.iter().any(|p| p.contains(expected)), "{problems:?} lacks {expected}");
        };
        check(&event(651, 5000, 7000, Some(400), 3), &ROWS, "says");
        check(&event(650, 5000, 6999, Some(400), 3), &ROWS, "says");
        check(&event(650, 5000, 7000, None, 3), &ROWS, "says");
        check(&event(650, 5000, 7000, Some(400), 3), &ROWS[..2], "says");
        check(&event(650, 5000, 7000, Some(400), 3), &[], "no rows");
        check(&event(650, 5000, 7000, Some(400), 3), &[ROWS[0], ROWS[0]], "two rows");
        check(&event(650, 5000, 7000, Some(400), 3), &[ROWS[0], [4, 0, 0, 0, 0, 0, 0]], "no event");
        check(&event(650, 5000, 7000, Some(400), 3), &[ROWS[0], [4, 0, 0, 0, 0, 0, 0], ROWS[1]], "not together");
    }

    #[test]
    fn rows_in_pieces_say_what_they_say_at_once() {
        let events = event(650, 5000, 7000, Some(400), 3);
        let table = table();
        let mut check = BlockCheck::new(&events, &table).unwrap();
        ROWS.iter().for_each(|row| check.add(&blocks(&[*row])).unwrap());
        assert!(check.finish().unwrap().is_empty());
    }

    #[test]
    fn endless_rows_for_nothing_are_told_a_hundred_times_at_most() {
        let rows: Vec<[u32; 7]> = (0..1000).map(|event| [9, event, 0, 0, 0, 0, 0]).collect();
        let events = event(650, 5000, 7000, Some(400), 3);
        let table = table();
        let mut check = BlockCheck::new(&events, &table).unwrap();
        check.add(&blocks(&rows)).unwrap();
        assert!(check.derived.is_empty());
        assert_eq!(check.finish().unwrap().len(), MOST_FAULTS);
    }
}
