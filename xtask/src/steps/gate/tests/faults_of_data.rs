//! Faults in the tables themselves: numerics, structure, clocks and samples.

use super::{YIELD, anew, refuses, set_at};
use crate::trial::{evidence, find};
use preempt::tables::anomaly;
use pure::gate::{all_passed, evidence::Evidence, judge, lines};
use pure::trial::synthetic::{set_column, take_rows};
use schema::contract::CellSpec;
use schema::metrics::Metric;
use schema::plan::ClockClass;
use std::collections::BTreeMap;
use tables::{Column, Table};

const CALIBRATE: &str = "calibrate/k=64,blocks=4";
const BASELINE: &str = "baseline/k=64,blocks=8";

pub(super) fn launches<'a>(evidence: &'a mut Evidence, cell: &str) -> &'a mut Table {
    find(&mut evidence.cells, cell).launches.as_mut().unwrap()
}

/// What the contract says of a cell.
pub(super) fn spec<'a>(evidence: &'a mut Evidence, cell: &str) -> &'a mut CellSpec {
    evidence.contract.cells.iter_mut().find(|spec| spec.id() == cell).expect("the contract names this cell")
}

fn without_row(table: &Table, row: usize) -> Table {
    take_rows(table, &(0..table.rows()).filter(|i| *i != row).collect::<Vec<_>>())
}

#[test]
fn numerics() {
    refuses("numerics", "1 tiles disagree", |e, _| set_at(launches(e, YIELD), "wrong_tiles", 5, 1));
    refuses("numerics", "1 tiles were never written", |e, _| set_at(launches(e, YIELD), "unwritten_tiles", 0, 1));
    refuses("numerics", "1 urgent tiles disagree", |e, _| set_at(launches(e, YIELD), "urgent_wrong", 5, 1));
    refuses("numerics", "missed the planted wrong element in 1 launches", |e, _| {
        set_at(launches(e, CALIBRATE), "wrong_tiles", 0, 0);
    });
    refuses("numerics", "poisoned_launches is 0", |e, _| {
        find(&mut e.cells, CALIBRATE).record.configs[1].mode = "calibrate".to_owned();
    });
    refuses("numerics", "1 launches with a planted wrong element were counted", |e, _| {
        set_at(launches(e, CALIBRATE), "config", 9, 1);
        set_at(launches(e, CALIBRATE), "wrong_tiles", 9, 1);
    });
    refuses("numerics", "refers to no configuration", |e, _| set_at(launches(e, CALIBRATE), "config", 0, 7));
    refuses("numerics", "missed a planted wrong element", |e, _| {
        find(&mut e.cells, YIELD).record.facts.set("poison_caught", false);
    });
    refuses("numerics", "poison_caught is 0", |e, _| {
        e.cells.iter_mut().for_each(|cell| cell.data.record.facts.set("poison_caught", ()));
    });
    refuses("numerics", "has no launches", |e, _| find(&mut e.cells, YIELD).launches = None);
}

#[test]
fn launches_that_get_slower_within_a_cell_refuse() {
    refuses("clocks", &format!("{YIELD}: launches drifted by 17.0 %"), |e, _| {
        let table = launches(e, YIELD);
        let n = table.rows();
        let walls = (0..n).map(|row| if row * 3 < n * 2 { 1_300_000 } else { 1_521_000 }).collect();
        set_column(table, "wall_ns", Column::U32(walls));
    });
}

#[test]
fn the_power_reading_is_named() {
    let (evidence, facts) = crate::trial::evidence();
    let gate = pure::gate::judge(&evidence, &facts).into_iter().find(|gate| gate.name == "clocks").unwrap();
    assert_eq!(gate.evidence["power_reading"], "nvmlDeviceGetPowerUsage");
    assert!(evidence.environment.nvml.is_some_and(|nvml| !nvml.driver.is_empty()), "and the driver that defines it");
}

#[test]
fn structure() {
    refuses("structure", "not execute exactly the tasks", |e, _| set_at(launches(e, YIELD), "executed", 5, 2_599));
    refuses("structure", "not executed exactly once", |e, _| set_at(launches(e, YIELD), "not_once", 5, 1));
    refuses("structure", "urgent tasks requested", |e, _| set_at(launches(e, YIELD), "urgent_executed", 5, 499));
    refuses("structure", "urgent tasks were not executed", |e, _| set_at(launches(e, YIELD), "urgent_not_once", 5, 1));
    refuses("structure", "hit their deadline", |e, _| set_at(launches(e, YIELD), "deadline_hits", 5, 1));
    refuses("structure", "1 events were never claimed", |e, _| {
        set_at(&mut find(&mut e.cells, YIELD).events, "claims", 7, 0);
    });
    for cell in [BASELINE, "yield/cost,k=64,blocks=8,poll=1"] {
        refuses("structure", "1 launches have fewer rows than others", |e, _| {
            let cell = find(&mut e.cells, cell);
            cell.events = without_row(&cell.events, 17);
        });
    }
    refuses("structure", "another number of events", |e, _| {
        let cell = find(&mut e.cells, YIELD);
        cell.events = without_row(&cell.events, 17);
    });
}

/// A column that no rule knows may hold anything, and a rule about one that is gone holds of nothing.
#[test]
fn an_event_table_has_the_columns_of_its_contract() {
    let words = "its event table has other columns than the contract says";
    for cell in [YIELD, BASELINE, CALIBRATE, "yield/cost,k=64,blocks=8,poll=1"] {
        refuses("structure", words, |e, _| {
            let events = &mut find(&mut e.cells, cell).events;
            events.columns.push(("more".to_owned(), Column::U32(vec![0; events.rows()])));
        });
    }
    for change in [
        (|columns| drop(columns.remove(3))) as fn(&mut Vec<(String, Column)>),
        |columns| columns.swap(3, 4),
        |columns| columns[3].0 = "other".to_owned(),
        // `gap_ns`, stored in another way.
        |columns| columns[3].1 = Column::I64(vec![9_000; 10_000]),
    ] {
        refuses("structure", words, |e, _| change(&mut find(&mut e.cells, YIELD).events.columns));
    }
    refuses("structure", "the contract has no table \"yields\"", |e, _| drop(e.contract.tables.remove("yields")));
}

#[test]
fn an_unsteady_clock_in_nvml_alone() {
    refuses("clocks", "throttled in 1 of", |e, _| {
        let telemetry = e.telemetry.as_mut().unwrap();
        let mut bits = telemetry.opt_i64("throttle").unwrap().to_vec();
        bits[25] = Some(4);
        set_column(telemetry, "throttle", Column::OptI64(bits));
    });
    refuses("clocks", "NVML's SM clock", |e, _| {
        let telemetry = e.telemetry.as_mut().unwrap();
        let mut mhz = telemetry.opt_u32("sm_mhz").unwrap().to_vec();
        mhz[25] = Some(1_700);
        set_column(telemetry, "sm_mhz", Column::OptU32(mhz));
    });
    refuses("clocks", "no telemetry", |e, _| e.telemetry = None);
    refuses("clocks", "throttle", |e, _| e.telemetry.as_mut().unwrap().columns.retain(|(name, _)| name != "throttle"));
}

#[test]
fn an_unsteady_clock_in_band_alone() {
    refuses("clocks", "in-band clock left", |e, _| restless(e));
    refuses("clocks", "did not observe their clock", |e, _| set_at(launches(e, YIELD), "clock_windows", 5, 0));
}

#[test]
fn a_weaker_clock_than_the_plan_requires() {
    refuses("clocks", "not locked", |e, _| e.plan.clocks = ClockClass::Locked);
    refuses("clocks", "not restored", |e, _| e.environment.clocks.restored = Some(false));
    refuses("clocks", "not restored", |e, _| e.environment.clocks.setter_calls = 1);
    refuses("clocks", "not restored", |e, _| e.environment.clocks.mode = "lock".to_owned());
}

#[test]
fn no_plan_makes_unsteady_clocks_good_enough() {
    refuses("clocks", "in-band clock left", |e, _| {
        e.plan.clocks = ClockClass::Unsteady;
        restless(e);
    });
}

/// Two of three launches run off the clock, and no two neighbours at the same one.
fn restless(evidence: &mut Evidence) {
    for cell in &mut evidence.cells {
        let Some(launches) = &mut cell.data.launches else { continue };
        for column in ["clock_khz_min", "clock_khz_p50", "clock_khz_max"] {
            let khz = (0..launches.rows()).map(|row| (1_980_000.0 * [0.96, 1.0, 1.04][row % 3]) as u32);
            let khz = khz.collect();
            set_column(launches, column, Column::U32(khz));
        }
    }
    anew(evidence);
}

#[test]
fn a_launch_off_the_clock_refuses_no_run() {
    let (mut evidence, facts) = evidence();
    set_at(launches(&mut evidence, YIELD), "clock_khz_min", 5, 1_900_000);
    anew(&mut evidence);
    let gates = judge(&evidence, &facts);
    assert!(all_passed(&gates), "{:?}", lines(&gates));
    let clocks = gates.iter().find(|gate| gate.name == "clocks").unwrap();
    assert_eq!(clocks.evidence["counts"]["launches_off_median"], 1);
    assert!(evidence.metrics_csv.unwrap().contains(" without 1 of 20 launches off the clock"));
}

/// A drift is the clock's where the launches say so: then it takes the numbers of its cell, and leaves what quads made.
#[test]
fn a_drift_that_the_clock_explains_refuses_the_numbers_of_its_cell() {
    const COST: &str = "yield/cost,k=64,blocks=8,poll=1";
    let slow_end = |e: &mut Evidence, clock: bool| {
        let table = launches(e, COST);
        let (rows, wall) = (table.rows(), table.u32("wall_ns").unwrap().to_vec());
        let late = |row: usize| row > rows * 3 / 4;
        let slower = wall.iter().enumerate().map(|(row, ns)| if late(row) { ns + ns / 25 } else { *ns }).collect();
        set_column(table, "wall_ns", Column::U32(slower));
        let number = table.u32("launch").unwrap().iter().copied();
        let walls: BTreeMap<u32, u32> = number.zip(table.u32("wall_ns").unwrap().iter().copied()).collect();
        for column in ["clock_khz_min", "clock_khz_p50", "clock_khz_max"].into_iter().filter(|_| clock) {
            let khz = table.u32(column).unwrap().iter().enumerate();
            let khz = khz.map(|(row, khz)| if late(row) { khz - khz / 26 } else { *khz }).collect();
            set_column(table, column, Column::U32(khz));
        }
        let events = &mut find(&mut e.cells, COST).events;
        let walls = events.u32("launch").unwrap().iter().map(|launch| walls[launch]).collect();
        set_column(events, "wall_ns", Column::U32(walls));
        anew(e);
    };
    refuses("clocks", "yield/cost,k=64,blocks=8,poll=1: launches drifted by 4.0 %", |e, _| slow_end(e, false));
    let (mut evidence, facts) = evidence();
    slow_end(&mut evidence, true);
    let gates = judge(&evidence, &facts);
    assert!(all_passed(&gates), "{:?}", lines(&gates));
    let of_cell = |m: &&Metric| format!("{}/{}", m.phase, m.cell) == COST;
    let row = |name: &str| evidence.recomputed.metrics.iter().filter(of_cell).find(|m| m.metric == name).unwrap();
    assert!(
        row("drain_ms_p50").note.starts_with("refused: launches of one kind drifted by 4.0 %"),
        "{:?}",
        row("drain_ms_p50")
    );
    assert!(!row("poll_cost_pct").value.is_empty(), "{:?}", row("poll_cost_pct"));
}

#[test]
fn too_few_events_behind_a_p99() {
    refuses("samples", "9999 unique events", |e, _| {
        let cell = find(&mut e.cells, YIELD);
        cell.events = without_row(&cell.events, 9_999);
        cell.record.events = 9_999;
        spec(e, YIELD).expects.events = 9_999;
    });
    refuses("samples", "9999 unique events over 9999 launches, and at least 10000", |e, _| {
        let cell = find(&mut e.cells, BASELINE);
        cell.events = without_row(&cell.events, 0);
        cell.record.events = 9_999;
        let expects = &mut spec(e, BASELINE).expects;
        (expects.events, expects.launches) = (9_999, 9_999);
    });
}

#[test]
fn a_tail_quantile_without_its_floor() {
    refuses("samples", "preempt_latency_us_p999: 10000 unique events", |e, _| {
        let p99 = e.recomputed.metrics.iter().find(|m| m.metric == "preempt_latency_us_p99").unwrap().clone();
        e.recomputed.metrics.push(schema::metrics::Metric { metric: "preempt_latency_us_p999".to_owned(), ..p99 });
    });
}

#[test]
fn duplicate_and_lost_events() {
    refuses("samples", "1 duplicate events", |e, _| {
        let events = &mut find(&mut e.cells, YIELD).events;
        let (launch, event) = (events.u32("launch").unwrap()[0], events.u32("event").unwrap()[0]);
        set_at(events, "launch", 1, launch);
        set_at(events, "event", 1, event);
    });
    refuses("samples", "9999 unique events of 10000 planned", |e, _| {
        let cell = find(&mut e.cells, YIELD);
        cell.events = without_row(&cell.events, 3);
    });
    refuses("samples", "1 anomalous events", |e, _| {
        set_at(&mut find(&mut e.cells, YIELD).events, "anomaly", 3, anomaly::LOST);
    });
    refuses("structure", "1 events have first_observer_ns before their own instant", |e, _| {
        let events = &mut find(&mut e.cells, YIELD).events;
        let mut first = events.i64("first_observer_ns").unwrap().to_vec();
        first[3] = -500;
        set_column(events, "first_observer_ns", Column::I64(first));
    });
    refuses("structure", "1 events have done_ns before start_ns", |e, _| {
        let events = &mut find(&mut e.cells, BASELINE).events;
        let start = events.u32("start_ns").unwrap()[3];
        set_at(events, "done_ns", 3, start - 500);
    });
}

#[test]
fn a_contract_that_is_not_the_plan_s() {
    refuses("samples", "the contract is another experiment's than the plan", |e, _| {
        e.contract.experiment = "other".to_owned();
    });
    refuses("samples", "the contract has no cell of phase baseline", |e, _| {
        e.contract.cells.retain(|cell| cell.phase != "baseline");
        e.cells.retain(|cell| cell.data.record.phase != "baseline");
    });
    refuses("samples", "cells_planned is 0", |e, _| e.contract.cells.clear());
}

#[test]
fn a_dropped_or_foreign_cell() {
    refuses("samples", "was planned and is not there", |e, _| e.cells.retain(|cell| cell.name() != YIELD));
    refuses("samples", "was not planned", |e, _| {
        let cell = find(&mut e.cells, YIELD);
        cell.record.cell = "k=64,blocks=9,poll=1,set=device".to_owned();
    });
    refuses("samples", "another plan or device", |e, _| find(&mut e.cells, YIELD).record.device = "other".to_owned());
    refuses("samples", "is not the file that the header names", |e, _| {
        e.cells[0].faults.push("x is not the file that the header names".to_owned());
    });
}

#[test]
fn a_schedule_that_somebody_chose() {
    refuses("samples", "its schedule is not the one that follows from this run's id", |e, _| {
        find(&mut e.cells, BASELINE).record.seed = "0123456789abcdef".to_owned();
    });
}

#[test]
fn warm_up_is_discarded_by_rule_only() {
    refuses("samples", "discarded as warm-up", |e, _| set_at(launches(e, YIELD), "warmup", 9, 1));
    refuses("samples", "2022 launches discarded as warm-up", |e, _| {
        let warmup = (0..10_002).map(|i| u32::from(i < 2 || i % 5 == 0 || i % 500 == 1)).collect();
        set_column(launches(e, BASELINE), "warmup", Column::U32(warmup));
        find(&mut e.cells, BASELINE).record.warmup_launches = 2_022;
    });
    refuses("samples", "discarded as warm-up", |e, _| set_at(launches(e, YIELD), "warmup", 0, 0));
    refuses("samples", "8 launches discarded as warm-up", |e, _| {
        (9..15).for_each(|row| set_at(launches(e, YIELD), "warmup", row, 1));
        find(&mut e.cells, YIELD).record.warmup_launches = 8;
    });
    for cell in [CALIBRATE, "yield/cost,k=64,blocks=8,poll=1", "instrument/leg=urgent"] {
        refuses("samples", "3 launches discarded as warm-up", |e, _| {
            set_at(launches(e, cell), "warmup", 5, 1);
            find(&mut e.cells, cell).record.warmup_launches = if cell.contains("leg=") { 2 } else { 3 };
        });
    }
}

#[test]
fn a_launch_off_the_clock_is_never_discarded() {
    refuses("samples", "3 launches discarded as warm-up", |e, _| {
        find(&mut e.cells, CALIBRATE).record.warmup_launches = 3;
        set_at(launches(e, CALIBRATE), "warmup", 5, 1);
        set_at(launches(e, CALIBRATE), "clock_khz_min", 5, 1_900_000);
    });
}
