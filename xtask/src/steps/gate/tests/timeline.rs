//! Tables that contradict each other: rows copied under another name, taken from another cell, or edited in one place only.

use super::{YIELD, refuses};
use crate::trial::{evidence, find};
use pure::gate::evidence::Evidence;
use pure::gate::judge;
use pure::gate::timer_slack_ns;
use pure::trial::synthetic::{set_column, take_rows};
use tables::{Column, Table};

const BASELINE: &str = "baseline/k=64,blocks=8";
const CALIBRATE: &str = "calibrate/k=64,blocks=4";
const COST: &str = "yield/cost,k=64,blocks=8,poll=1";
const HOST: &str = "instrument/leg=host_to_set";

fn launches<'a>(evidence: &'a mut Evidence, cell: &str) -> &'a mut Table {
    find(&mut evidence.cells, cell).launches.as_mut().unwrap()
}

/// A column of whole numbers with every value changed by a function of its row.
fn changed(table: &mut Table, name: &str, change: impl Fn(usize, i64) -> i64) {
    let column = match &table.columns.iter().find(|(n, _)| n == name).unwrap().1 {
        Column::U32(v) => Column::U32(v.iter().enumerate().map(|(i, v)| change(i, i64::from(*v)) as u32).collect()),
        Column::I64(v) => Column::I64(v.iter().enumerate().map(|(i, v)| change(i, *v)).collect()),
        other => panic!("{name} is {other:?}"),
    };
    set_column(table, name, column);
}

/// A table with its last row once more.
fn with_last_again(table: &Table) -> Table {
    take_rows(table, &(0..table.rows()).chain([table.rows() - 1]).collect::<Vec<_>>())
}

#[test]
fn launches_follow_each_other() {
    let copied = |e: &mut Evidence| {
        let table = launches(e, YIELD);
        *table = with_last_again(table);
        let last = table.rows() - 1;
        changed(table, "launch", |row, launch| launch + i64::from(row == last));
    };
    refuses("structure", "1 launches begin before the one before them ended", |e, _| copied(e));
    refuses("structure", "launches begin before", |e, _| {
        changed(launches(e, BASELINE), "host_start_ns", |row, start| if row == 7 { start - 200_000 } else { start });
    });
    refuses("structure", "launches begin before", |e, _| {
        changed(launches(e, BASELINE), "launch", |row, launch| if row == 1 { 0 } else { launch });
    });
}

#[test]
fn launches_are_what_the_cell_s_name_promises() {
    refuses("structure", "20 launches are of a kernel or mode that the cell's name does not promise", |e, _| {
        let cell = find(&mut e.cells, YIELD);
        let mut other = cell.record.configs[0].clone();
        other.symbol = "preempt_yield_p4".to_owned();
        cell.record.configs.push(other);
        changed(cell.launches.as_mut().unwrap(), "config", |_, _| 1);
    });
}

#[test]
fn events_lie_inside_their_launch_one_after_the_other() {
    refuses("structure", "1 events do not lie inside their launch", |e, _| {
        let events = &mut find(&mut e.cells, YIELD).events;
        let last = events.rows() - 1;
        changed(events, "set_ns", |row, set| set + i64::from(row == last) * 1_000_000);
    });
    refuses("structure", "events do not lie inside their launch", |e, _| {
        changed(&mut find(&mut e.cells, YIELD).events, "set_ns", |row, set| if row == 0 { -1_000 } else { set });
    });
    refuses("structure", "1 events were not set after the one before them", |e, _| {
        let events = &mut find(&mut e.cells, YIELD).events;
        *events = with_last_again(events);
        let last = events.rows() - 1;
        changed(events, "event", |row, event| event + i64::from(row == last));
    });
}

#[test]
fn what_stands_in_two_tables_is_the_same_in_both() {
    refuses("structure", "1 rows took another time than their launch", |e, _| {
        changed(&mut find(&mut e.cells, BASELINE).events, "device_drain_ns", |row, ns| ns - i64::from(row == 3));
    });
    refuses("structure", "1 rows took another time than their launch", |e, _| {
        changed(&mut find(&mut e.cells, COST).events, "wall_ns", |row, ns| ns - i64::from(row == 3));
    });
    refuses("structure", "200 rows are of the other arm than their launch", |e, _| {
        changed(&mut find(&mut e.cells, COST).events, "arm", |_, arm| 1 - arm);
    });
    refuses("structure", "1 blocks took longer for their rows than their launch", |e, _| {
        changed(&mut find(&mut e.cells, CALIBRATE).events, "wall_ns", |row, ns| ns + i64::from(row == 3) * 3_000_000);
    });
}

/// Numbers are made of what the header says, too.
#[test]
fn the_header_says_what_the_launches_say() {
    refuses("structure", "200 launches had another number of tasks than the cell's header says", |e, _| {
        find(&mut e.cells, COST).record.facts.set("tasks", 2_601);
    });
    refuses("structure", "1 header compares with another number of blocks", |e, _| {
        find(&mut e.cells, COST).record.facts.set("poll_free_blocks", 7);
    });
    for peak in [1.9, 2.1] {
        refuses("structure", "1 fp32 peak does not follow", |e, _| {
            find(&mut e.cells, COST).record.facts.set("fp32_peak_tflops", peak);
        });
    }
    let absent = serde_json::Value::Null;
    for fact in ["tasks", "poll_free_blocks"] {
        refuses("structure", &format!("does not say {fact}"), |e, _| {
            find(&mut e.cells, COST).record.facts.set(fact, absent.clone());
        });
    }
    refuses("structure", "1 fp32 peak does not follow", |e, _| {
        find(&mut e.cells, COST).record.facts.set("fp32_peak_tflops", absent.clone());
    });
    let (mut evidence, facts) = evidence();
    evidence.environment.device.fp32_lanes_per_sm = 0;
    find(&mut evidence.cells, COST).record.facts.set("fp32_peak_tflops", absent);
    let gates = judge(&evidence, &facts);
    let structure = gates.iter().find(|gate| gate.name == "structure").unwrap();
    assert!(structure.passed, "a device of unknown lanes has no peak: {structure:?}");
}

/// An event without an end enters no quantile: whoever leaves out the slow ones has a better median.
#[test]
fn no_event_of_the_host_lacks_an_end() {
    for column in ["host_issue_ns", "host_done_ns"] {
        refuses("structure", &format!("1 events lack {column}"), |e, _| {
            let events = &mut find(&mut e.cells, HOST).events;
            let mut ends = events.opt_i64(column).unwrap().to_vec();
            ends[5] = None;
            set_column(events, column, Column::OptI64(ends));
        });
    }
    let (mut evidence, _) = evidence();
    let device = find(&mut evidence.cells, YIELD).events.opt_i64("host_done_ns").unwrap().to_vec();
    assert!(device.iter().all(Option::is_none), "events that the device sets have no end there");
}

/// What two timers of one device may disagree by, from its own timer cell.
#[test]
fn the_slack_is_the_largest_offset_and_two_quanta() {
    let (mut evidence, _) = evidence();
    let timer = find(&mut evidence.cells, "instrument/timer");
    timer.record.facts.set("timer_quantum_ns", 32);
    let offsets = (0..timer.events.rows()).map(|row| if row == 1 { -96 } else { 64 }).collect();
    set_column(&mut timer.events, "offset_ns", Column::I64(offsets));
    assert_eq!(timer_slack_ns(&evidence), 96 + 2 * 32);
    find(&mut evidence.cells, "instrument/timer").record.facts.set("timer_quantum_ns", ());
    assert_eq!(timer_slack_ns(&evidence), 96);
    evidence.cells.retain(|cell| cell.data.record.cell != "timer");
    assert_eq!(timer_slack_ns(&evidence), 0);
}

/// Refused or not, with an event moved so that it begins `before` its launch, or ends `after` it.
fn outside(before: Option<i64>, after: Option<i64>) -> bool {
    let (mut evidence, facts) = evidence();
    let cell = find(&mut evidence.cells, YIELD);
    let wall = cell.launches.as_ref().unwrap().u32("wall_ns").unwrap().last().copied().map(i64::from).unwrap();
    let events = &mut cell.events;
    let (last, ready, done) = (
        events.rows() - 1,
        events.i64("last_ready_ns").unwrap().to_vec(),
        events.i64("urgent_done_ns").unwrap().to_vec(),
    );
    changed(events, "set_ns", |row, set| match (before, after) {
        (Some(before), _) if row == 0 => -before,
        (_, Some(after)) if row == last => wall + after - ready[last].max(done[last]),
        _ => set,
    });
    let structure = judge(&evidence, &facts).into_iter().find(|gate| gate.name == "structure").unwrap();
    structure.reason.contains("events do not lie inside their launch")
}

#[test]
fn an_event_may_leave_its_launch_by_what_timers_disagree_and_no_more() {
    let slack = timer_slack_ns(&evidence().0);
    assert_eq!((outside(Some(slack), None), outside(Some(slack + 1), None)), (false, true));
    assert_eq!((outside(None, Some(slack)), outside(None, Some(slack + 1))), (false, true));
}
