//! A made-up run summarized: every metric, and each rule that leaves one out or refuses.

use super::*;
use crate::trial::synthetic::{DELAY_NS, SLOTS, cells, plan, set_column, take_rows};
use schema::plan::ProfileName;
use schema::table::Column;

const FULL: u32 = 10_000;
const SMALL: u32 = 400;
const DEVICE: &str = "k=64,blocks=8,poll=1,set=device";
const HOST: &str = "k=64,blocks=8,poll=1,set=host";

fn metrics(plan: &Plan, cells: &[CellData]) -> Vec<Metric> {
    summarize(plan, &SLOTS, "r", cells).unwrap()
}

fn small() -> (Plan, Vec<CellData>) {
    let plan = plan(ProfileName::Full, SMALL);
    let cells = cells(&plan);
    (plan, cells)
}

fn row<'a>(metrics: &'a [Metric], cell: &str, metric: &str) -> Option<&'a Metric> {
    metrics.iter().find(|m| m.cell == cell && m.metric == metric)
}

fn value(metrics: &[Metric], cell: &str, metric: &str) -> String {
    row(metrics, cell, metric).unwrap_or_else(|| panic!("{cell} has no {metric}")).value.clone()
}

fn cell_mut<'a>(cells: &'a mut [CellData], name: &str) -> &'a mut CellData {
    cells.iter_mut().find(|data| data.record.cell == name).unwrap()
}

fn keep_events(data: &mut CellData, keep: impl Fn(usize) -> bool) {
    let rows: Vec<usize> = (0..data.events.rows()).filter(|i| keep(*i)).collect();
    data.events = take_rows(&data.events, &rows);
    data.record.events = rows.len() as u64;
}

fn error(plan: &Plan, cells: &[CellData]) -> String {
    format!("{:#}", summarize(plan, &SLOTS, "r", cells).unwrap_err())
}

#[test]
fn a_full_run_has_every_metric_in_plan_order_within_seconds() {
    let began = std::time::Instant::now();
    let plan = plan(ProfileName::Full, FULL);
    let mut cells = cells(&plan);
    let made = began.elapsed();
    let metrics = metrics(&plan, &cells);
    eprintln!("tables {made:?}, summary {:?}, {} rows", began.elapsed() - made, metrics.len());
    let lines: Vec<String> = metrics
        .iter()
        .map(|m| {
            format!(
                "{} {} {} = {} [{}, {}] {} n={} {}",
                m.phase, m.cell, m.metric, m.value, m.lo, m.hi, m.unit, m.n, m.note
            )
        })
        .collect();
    insta::assert_snapshot!(lines.join("\n"));
    cells.reverse();
    assert_eq!(summarize(&plan, &SLOTS, "r", &cells).unwrap(), metrics);
}

#[test]
fn values_are_the_nearest_rank_ones() {
    let plan = plan(ProfileName::Full, FULL);
    let cells = cells(&plan);
    let metrics = metrics(&plan, &cells);
    let data = cells.iter().find(|data| data.record.cell == DEVICE).unwrap();
    let mut ready = data.events.i64("last_ready_ns").unwrap().to_vec();
    ready.sort_unstable();
    let us = |ns: i64| format!("{}.{:03}", ns / 1000, ns % 1000);
    assert_eq!(value(&metrics, DEVICE, "preempt_latency_us_p50"), us(ready[4_999]));
    assert_eq!(value(&metrics, DEVICE, "preempt_latency_us_p99"), us(ready[9_899]));
    assert_eq!(row(&metrics, DEVICE, "preempt_latency_us_p999"), None);
}

#[test]
fn no_tail_without_enough_events_launches_or_profile() {
    let check = |profile, change: fn(&mut CellData), expected: bool| {
        let plan = plan(profile, FULL);
        let mut cells: Vec<CellData> = cells(&plan).into_iter().filter(|data| data.record.cell == DEVICE).collect();
        change(&mut cells[0]);
        let metrics = metrics(&plan, &cells);
        assert!(row(&metrics, DEVICE, "preempt_latency_us_p50").is_some());
        assert_eq!(row(&metrics, DEVICE, "preempt_latency_us_p99").is_some(), expected);
    };
    check(ProfileName::Full, |_| {}, true);
    check(ProfileName::Smoke, |_| {}, false);
    check(ProfileName::Full, |data| keep_events(data, |i| i != 77), false);
    check(
        ProfileName::Full,
        |data| {
            // All 10,000 events, but over 19 launches.
            let merge = |launch: &u32| if *launch == 21 { 20 } else { *launch };
            let launch: Vec<u32> = data.events.u32("launch").unwrap().iter().map(merge).collect();
            set_column(&mut data.events, "launch", Column::U32(launch));
            set_column(&mut data.events, "event", Column::U32((0..10_000).collect()));
        },
        false,
    );
    check(
        ProfileName::Full,
        |data| {
            let mut anomaly = vec![0; 10_000];
            anomaly[5] = 1;
            set_column(&mut data.events, "anomaly", Column::U32(anomaly));
        },
        false,
    );
}

#[test]
fn an_anomalous_event_is_counted_and_enters_no_quantile() {
    let (plan, mut cells) = small();
    let data = cell_mut(&mut cells, DEVICE);
    let mut ready = data.events.i64("last_ready_ns").unwrap().to_vec();
    ready.iter_mut().take(300).for_each(|ns| *ns = 1 << 40);
    set_column(&mut data.events, "last_ready_ns", Column::I64(ready));
    let anomaly = (0..SMALL).map(|i| u32::from(i < 300) * 8).collect();
    set_column(&mut data.events, "anomaly", Column::U32(anomaly));
    let metrics = metrics(&plan, &cells);
    assert_eq!(value(&metrics, DEVICE, "anomalous_events"), "300");
    let latency = row(&metrics, DEVICE, "preempt_latency_us_p50").unwrap();
    assert!(latency.value.parse::<f64>().unwrap() < 100.0);
    assert_eq!(latency.n, 100);
}

#[test]
fn warm_up_launches_do_not_count_but_their_wrong_tiles_do() {
    let (plan, mut cells) = small();
    let data = cell_mut(&mut cells, DEVICE);
    let mut launch = data.events.u32("launch").unwrap().to_vec();
    launch[0] = 1;
    set_column(&mut data.events, "launch", Column::U32(launch));
    let launches = data.launches.as_mut().unwrap();
    let wrong = (0..launches.rows()).map(|i| u32::from(i == 0)).collect();
    set_column(launches, "wrong_tiles", Column::U32(wrong));
    let metrics = metrics(&plan, &cells);
    assert_eq!(row(&metrics, DEVICE, "preempt_latency_us_p50").unwrap().n, u64::from(SMALL) - 1);
    assert_eq!(row(&metrics, DEVICE, "clock_mhz_p50").unwrap().n, 20);
    assert_eq!(value(&metrics, DEVICE, "corrupt_events"), "1");
}

#[test]
fn what_does_not_add_up_is_an_error() {
    let check = |change: fn(&mut Vec<CellData>), expected: &str| {
        let (plan, mut cells) = small();
        change(&mut cells);
        let error = error(&plan, &cells);
        assert!(error.contains(expected), "{error:?} lacks {expected:?}");
    };
    check(
        |cells| {
            let data = cell_mut(cells, DEVICE);
            let mut event = data.events.u32("event").unwrap().to_vec();
            event[20] = event[0];
            set_column(&mut data.events, "event", Column::U32(event));
        },
        "occurs twice",
    );
    check(
        |cells| {
            let data = cell_mut(cells, "k=64,blocks=8");
            let mut launch = data.events.u32("launch").unwrap().to_vec();
            launch[0] = 5_000;
            set_column(&mut data.events, "launch", Column::U32(launch));
        },
        "launch 5000, which has no row",
    );
    check(|cells| cell_mut(cells, HOST).record.events += 1, "400 rows of events, but its header says 401");
    check(|cells| cell_mut(cells, HOST).record.cell = "k=65".to_owned(), "cell yield/k=65 is not in the plan");
    check(|cells| cells.push(cells[0].clone()), "given twice");
    check(|cells| cell_mut(cells, HOST).events.columns.truncate(3), "no column");
    check(|cells| keep_events(cell_mut(cells, "cost,k=64,blocks=8,poll=1"), |i| i != 6), "quad 1 is not four drains");
}

#[test]
fn a_missing_cell_gives_no_rows() {
    let (plan, mut cells) = small();
    cells.retain(|data| data.record.cell != DEVICE);
    let metrics = metrics(&plan, &cells);
    assert!(metrics.iter().all(|m| m.cell != DEVICE));
    assert!(row(&metrics, HOST, "ratio").is_some());
}

#[test]
fn a_value_under_two_quanta_is_a_bound() {
    let (plan, cells) = small();
    let metrics = metrics(&plan, &cells);
    let visibility = row(&metrics, DEVICE, "visibility_us_p50").unwrap();
    assert_eq!((&*visibility.value, &*visibility.lo, &*visibility.hi), ("0.064", "0.000", "0.064"));
    assert_eq!(visibility.note, "bound: under two quanta; absent in 40 of 400 events");
    let observer = row(&metrics, DEVICE, "first_observer_us_p50").unwrap();
    assert_eq!(observer.note, "");
}

#[test]
fn a_planted_delay_moves_its_leg_by_itself() {
    let (plan, cells) = small();
    let metrics = metrics(&plan, &cells);
    for leg in schema::plan::Leg::ALL {
        let shift = row(&metrics, &format!("leg={}", leg.name()), "leg_shift_ns").unwrap();
        let off = shift.value.parse::<i64>().unwrap() - i64::from(DELAY_NS);
        assert!(off.abs() <= 500, "{leg:?}: {shift:?}");
        assert_eq!((shift.n, &*shift.note), (80, "planted 2048 ns"));
    }
    let mut cells = cells;
    set_column(&mut cell_mut(&mut cells, "leg=urgent").events, "delay_leg", Column::U32(vec![0; 80]));
    assert!(error(&plan, &cells).contains("says leg 0, not 5"));
}

#[test]
fn the_ratio_has_equal_end_points_and_the_widest_interval() {
    let (plan, cells) = small();
    let metrics = metrics(&plan, &cells);
    let parse = |text: &str| text.parse::<f64>().unwrap();
    let baseline = metrics.iter().find(|m| m.phase == "baseline" && m.metric == "host_e2e_us_p50").unwrap();
    let host = row(&metrics, HOST, "host_e2e_us_p50").unwrap();
    let ratio = row(&metrics, HOST, "ratio").unwrap();
    let check = |found: &str, over: &str, under: &str| {
        assert!((parse(found) - parse(over) / parse(under)).abs() < 1e-3, "{found} {over} {under}");
    };
    check(&ratio.value, &baseline.value, &host.value);
    check(&ratio.lo, &baseline.lo, &host.hi);
    check(&ratio.hi, &baseline.hi, &host.lo);
    assert_eq!(row(&metrics, DEVICE, "ratio"), None);
    assert_eq!(row(&metrics, DEVICE, "host_e2e_us_p50"), None);
}
