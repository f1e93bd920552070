//! What launches off the clock do to numbers of the made-up run.

use super::*;
use crate::numbers::derive::derive;
use crate::trial::cells::cells;
use crate::trial::records::build;
use crate::trial::synthetic::{contract, plan, set_column};
use schema::metrics::Metric;
use schema::plan::ProfileName;
use tables::{Column, Table};

const YIELD: &str = "yield/k=64,blocks=8,poll=1,set=device";
const BASELINE: &str = "baseline/k=64,blocks=8";
const COST: &str = "yield/cost,k=64,blocks=8,poll=1";

/// The rows of the made-up run after a change to one of its cells.
fn rows(cell: &str, change: impl FnOnce(&mut CellData)) -> Vec<Metric> {
    let plan = plan(ProfileName::Full, 10_000);
    let (contract, mut cells) = (contract(&plan), cells(&plan, &build()));
    let of = |data: &&mut CellData| format!("{}/{}", data.record.phase, data.record.cell) == cell;
    change(cells.iter_mut().find(of).unwrap());
    let derived = derive(&contract, "r", &cells);
    assert_eq!(derived.fault, "");
    let refused = derived.metrics.iter().filter(|metric| metric.refused()).count();
    assert_eq!(derived.drawn.len() + refused, derived.metrics.len(), "what is refused is compared with nothing");
    derived.metrics
}

fn row<'a>(rows: &'a [Metric], cell: &str, metric: &str) -> &'a Metric {
    rows.iter().find(|m| format!("{}/{}", m.phase, m.cell) == cell && m.metric == metric).unwrap()
}

/// The launches for which `slow` gives a share run that much slower, by their own clock and in these columns of the events.
fn slow(cell: &mut CellData, times: &[&str], share: impl Fn(usize) -> f64) {
    let table = cell.launches.as_mut().unwrap();
    let by_launch: Vec<f64> = (0..table.rows()).map(share).collect();
    let scaled = |table: &Table, name: &str, by: &dyn Fn(usize) -> f64| {
        let scale = |(row, value): (usize, f64)| value * by(row);
        match table.columns.iter().find(|(n, _)| n == name).map(|(_, column)| column).unwrap() {
            Column::U32(v) => {
                Column::U32(v.iter().map(|v| f64::from(*v)).enumerate().map(|r| scale(r) as u32).collect())
            }
            Column::I64(v) => Column::I64(v.iter().map(|v| *v as f64).enumerate().map(|r| scale(r) as i64).collect()),
            other => panic!("{other:?}"),
        }
    };
    for name in ["clock_khz_min", "clock_khz_p50", "clock_khz_max"] {
        let column = scaled(table, name, &|row| 1.0 - by_launch[row]);
        set_column(table, name, column);
    }
    let launch = cell.events.u32("launch").unwrap().to_vec();
    for name in times {
        let column = scaled(&cell.events, name, &|row| 1.0 / (1.0 - by_launch[launch[row] as usize]));
        set_column(&mut cell.events, name, column);
    }
}

#[test]
fn a_run_on_its_clock_says_nothing() {
    let rows = rows(YIELD, |cell| slow(cell, &["last_ready_ns"], |launch| if launch == 7 { 0.009 } else { 0.0 }));
    assert!(rows.iter().all(|row| !row.refused() && !row.note.contains("off the clock")));
}

#[test]
fn a_number_that_such_launches_hardly_move_stands_with_both_values() {
    let rows = rows(YIELD, |cell| slow(cell, &["last_ready_ns"], |launch| if launch == 7 { 0.015 } else { 0.0 }));
    let p50 = row(&rows, YIELD, "preempt_latency_us_p50");
    let beside = " without 1 of 20 launches off the clock";
    assert!(p50.note.strip_suffix(beside).is_some_and(|value| value.parse::<f64>().is_ok()), "{p50:?}");
    assert!(!p50.value.is_empty() && !p50.lo.is_empty() && !p50.hi.is_empty(), "{p50:?}");
    let counts = row(&rows, YIELD, "anomalous_events");
    assert!(counts.note.is_empty() && row(&rows, BASELINE, "drain_ms_p50").note.is_empty(), "{counts:?}");
}

#[test]
fn a_number_that_they_move_too_far_is_refused_by_itself() {
    let rows = rows(YIELD, |cell| slow(cell, &["last_ready_ns"], |launch| if launch == 7 { 0.4 } else { 0.0 }));
    let p99 = row(&rows, YIELD, "preempt_latency_us_p99");
    assert!(p99.refused() && p99.value.is_empty() && p99.lo.is_empty() && p99.hi.is_empty(), "{p99:?}");
    let words = [" with all launches, ", " without 1 of 20 launches off the clock: further apart than "];
    assert!(words.iter().all(|words| p99.note.contains(words)), "{p99:?}");
    assert!(!row(&rows, YIELD, "first_observer_us_p99").refused(), "its times were not moved");
}

#[test]
fn a_number_of_a_cell_most_of_whose_launches_are_off_is_refused_unmoved() {
    let off = |cell: &mut CellData, of: usize| slow(cell, &[], |launch| if launch < of { 0.02 } else { 0.0 });
    // Two warm-up launches come first.
    for (of, refused) in [(12, false), (13, true)] {
        let rows = rows(YIELD, |cell| off(cell, of));
        let p50 = row(&rows, YIELD, "preempt_latency_us_p50");
        assert_eq!(p50.refused(), refused, "{p50:?}");
    }
}

#[test]
fn a_ratio_rests_on_the_launches_of_both_its_cells() {
    let host = "yield/k=64,blocks=8,poll=1,set=host";
    let rows = rows(BASELINE, |cell| slow(cell, &["done_ns"], |launch| if launch % 9 == 5 { 0.015 } else { 0.0 }));
    let ratio = row(&rows, host, "ratio");
    assert!(ratio.note.contains(" without 1111 of 10000 launches off the clock"), "{ratio:?}");
    assert!(row(&rows, host, "host_e2e_us_p50").note.is_empty());
}

#[test]
fn a_cost_survives_a_wander_that_a_time_does_not() {
    // Four launches of a quad run at one clock; from quad to quad it falls by 0.05 %, ten per cent in all.
    let wander = |cell: &mut CellData| slow(cell, &["wall_ns"], |launch| f64::from(launch as u32 / 4) * 0.0005);
    let rows = rows(COST, wander);
    let cost = row(&rows, COST, "poll_cost_pct");
    assert!(!cost.refused() && !cost.note.contains("off the clock"), "{cost:?}");
    let drain = row(&rows, COST, "drain_ms_p50");
    assert!(drain.refused(), "{drain:?}");
}

#[test]
fn a_cost_is_compared_without_the_quads_in_which_a_launch_is_off() {
    let rows = rows(COST, |cell| slow(cell, &["wall_ns"], |launch| if launch == 41 { 0.02 } else { 0.0 }));
    let cost = row(&rows, COST, "poll_cost_pct");
    assert!(!cost.refused() && cost.note.ends_with(" without 4 of 200 launches off the clock"), "{cost:?}");
    let rows = self::rows(COST, |cell| slow(cell, &["wall_ns"], |launch| if launch % 7 == 1 { 0.02 } else { 0.0 }));
    let cost = row(&rows, COST, "poll_cost_pct");
    assert!(cost.refused() && cost.note.contains(" of 200 launches off the clock"), "{cost:?}");
}
