//! Whether the event-level columns follow from the detached rows of blocks.

use schema::cell::BLOCK_ROWS;
use schema::table::Table;
use std::collections::{BTreeMap, BTreeSet};

/// What the rows of one event's blocks say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Derived {
    first_observer_ns: i64,
    last_observer_ns: i64,
    last_ready_ns: i64,
    visibility_ns: Option<i64>,
    observers: u32,
}

/// The most disagreements that are told; one is enough to refuse.
const MOST_FAULTS: usize = 100;

/// The rows of a yield cell's blocks, taken in a piece at a time; what is kept grows with the events only.
pub struct BlockCheck<'a> {
    events: &'a Table,
    expected: BTreeSet<(u32, u32)>,
    derived: BTreeMap<(u32, u32), Derived>,
    current: Option<(u32, u32)>,
    blocks_of_current: BTreeSet<u32>,
    faults: Vec<String>,
}

/// Every disagreement between the events of a yield cell and its blocks' rows: one row a block that observed the event.
/// Events with an anomaly are left out, since their rows may be partial.
///
/// # Errors
/// When a table lacks a column.
pub fn check_blocks(events: &Table, blocks: &Table) -> anyhow::Result<Vec<String>> {
    let mut check = BlockCheck::new(events)?;
    check.add(blocks)?;
    check.finish()
}

impl<'a> BlockCheck<'a> {
    /// Begins with the events of a cell.
    ///
    /// # Errors
    /// When the table lacks a column.
    pub fn new(events: &'a Table) -> anyhow::Result<Self> {
        let keys = events.u32("launch")?.iter().copied().zip(events.u32("event")?.iter().copied());
        Ok(Self {
            events,
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
    /// When the table lacks a column.
    pub fn add(&mut self, blocks: &Table) -> anyhow::Result<()> {
        let [launch, event, block, _, observed, ready, last_old] = columns(blocks)?;
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
            let observed = signed(observed[i]);
            let row = Derived {
                first_observer_ns: observed,
                last_observer_ns: observed,
                last_ready_ns: signed(ready[i]),
                // A poll that began at the very instant was not after it.
                visibility_ns: Some(signed(last_old[i])).filter(|ns| *ns > 0),
                observers: 1,
            };
            self.derived.entry(key).and_modify(|all| all.join(&row)).or_insert(row);
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
        let (launch, event, anomaly) = (events.u32("launch")?, events.u32("event")?, events.u32("anomaly")?);
        let (first, last) = (events.i64("first_observer_ns")?, events.i64("last_observer_ns")?);
        let (last_ready, visibility) = (events.i64("last_ready_ns")?, events.opt_i64("visibility_ns")?);
        let (observers, ready) = (events.u32("observers")?, events.u32("ready")?);
        for i in (0..events.rows()).filter(|i| anomaly[*i] == 0) {
            let said = Derived {
                first_observer_ns: first[i],
                last_observer_ns: last[i],
                last_ready_ns: last_ready[i],
                visibility_ns: visibility[i],
                observers: observers[i],
            };
            let name = format!("event {} of launch {}", event[i], launch[i]);
            match self.derived.get(&(launch[i], event[i])).copied() {
                None => self.fault(format!("{name} has no rows of blocks")),
                Some(found) if found != said => self.fault(format!("{name} says {said:?}, its blocks say {found:?}")),
                Some(found) if found.observers != ready[i] => {
                    self.fault(format!("{name} says {} blocks were ready, {} have rows", ready[i], found.observers));
                }
                Some(_) => {}
            }
        }
        Ok(self.faults)
    }
}

impl Derived {
    fn join(&mut self, row: &Self) {
        self.first_observer_ns = self.first_observer_ns.min(row.first_observer_ns);
        self.last_observer_ns = self.last_observer_ns.max(row.last_observer_ns);
        self.last_ready_ns = self.last_ready_ns.max(row.last_ready_ns);
        self.visibility_ns = self.visibility_ns.max(row.visibility_ns);
        self.observers = self.observers.saturating_add(row.observers);
    }
}

fn columns(blocks: &Table) -> anyhow::Result<[&[u32]; 7]> {
    let columns: Vec<&[u32]> = BLOCK_ROWS.iter().map(|name| blocks.u32(name)).collect::<anyhow::Result<_>>()?;
    Ok(columns.try_into().expect("BLOCK_ROWS names seven columns"))
}

/// A time from the set instant modulo 2^32: what is above 2^31 lies before it.
fn signed(ns: u32) -> i64 {
    i64::from(ns.cast_signed())
}

#[cfg(test)]
mod tests {
    use super::*;
    use schema::table::Column;

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

    #[test]
    fn columns_that_follow_from_the_rows_pass() {
        assert!(check_blocks(&event(650, 5000, 7000, Some(400), 3), &blocks(&ROWS)).unwrap().is_empty());
        assert!(check_blocks(&event(700, 700, 900, None, 1), &blocks(&ROWS[..1])).unwrap().is_empty());
        let at_the_instant = [3, 0, 1, 9, 700, 900, 0];
        assert!(check_blocks(&event(700, 700, 900, None, 1), &blocks(&[at_the_instant])).unwrap().is_empty());
    }

    #[test]
    fn every_disagreement_is_found() {
        let check = |event: &Table, rows: &[[u32; 7]], expected: &str| {
            let problems = check_blocks(event, &blocks(rows)).unwrap();
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
        let mut check = BlockCheck::new(&events).unwrap();
        ROWS.iter().for_each(|row| check.add(&blocks(&[*row])).unwrap());
        assert!(check.finish().unwrap().is_empty());
    }

    #[test]
    fn endless_rows_for_nothing_are_told_a_hundred_times_at_most() {
        let rows: Vec<[u32; 7]> = (0..1000).map(|event| [9, event, 0, 0, 0, 0, 0]).collect();
        let events = event(650, 5000, 7000, Some(400), 3);
        let mut check = BlockCheck::new(&events).unwrap();
        check.add(&blocks(&rows)).unwrap();
        assert!(check.derived.is_empty());
        assert_eq!(check.finish().unwrap().len(), MOST_FAULTS);
    }
}
