//! A made-up run summarized: every metric, and each rule that leaves one out or refuses.

use super::*;
use crate::trial::synthetic::{DELAY_NS, cells, contract, plan, set_column, take_rows};
use preempt::plan::PreemptPlan;
use schema::compare::Band;
use schema::contract::{MetricSpec, Only, Q, Recipe, Unit};
use schema::plan::ProfileName;
use tables::Column;

const FULL: u32 = 10_000;
const SMALL: u32 = 400;
const DEVICE: &str = "k=64,blocks=8,poll=1,set=device";
const COST: &str = "cost,k=64,blocks=8,poll=1";
const HOST: &str = "k=64,blocks=8,poll=1,set=host";

fn metrics(plan: &PreemptPlan, cells: &[CellData]) -> Vec<Metric> {
    summarize(&contract(plan), "r", cells).unwrap()
}

fn small() -> (PreemptPlan, Vec<CellData>) {
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

fn error(plan: &PreemptPlan, cells: &[CellData]) -> String {
    format!("{:#}", summarize(&contract(plan), "r", cells).unwrap_err())
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
    assert_eq!(summarize(&contract(&plan), "r", &cells).unwrap(), metrics);
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
fn no_tail_without_enough_events_or_launches() {
    let check = |change: fn(&mut CellData), expected: bool| {
        let plan = plan(ProfileName::Full, FULL);
        let mut cells: Vec<CellData> = cells(&plan).into_iter().filter(|data| data.record.cell == DEVICE).collect();
        change(&mut cells[0]);
        let metrics = metrics(&plan, &cells);
        assert!(row(&metrics, DEVICE, "preempt_latency_us_p50").is_some());
        assert_eq!(row(&metrics, DEVICE, "preempt_latency_us_p99").is_some(), expected);
    };
    check(|_| {}, true);
    check(|data| keep_events(data, |i| i != 77), false);
    check(
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
    check(|cells| cell_mut(cells, HOST).record.cell = "k=65".to_owned(), "cell yield/k=65 is not in the contract");
    check(|cells| cells.push(cells[0].clone()), "given twice");
    check(|cells| cell_mut(cells, HOST).events.columns.truncate(3), "no column");
    check(|cells| keep_events(cell_mut(cells, COST), |i| i != 6), "quad 1 is not four launches");
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
    let mut contract = contract(&plan);
    let cell = contract.cells.iter_mut().find(|cell| cell.name == DEVICE).unwrap();
    let of = Expr::Column("visibility_ns".to_owned());
    cell.metrics.push(MetricSpec::plain(Recipe::quantiles("visibility", Unit::DeviceUs, of, &[Q::P50])));
    let metrics = summarize(&contract, "r", &cells).unwrap();
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
    for leg in preempt::plan::Leg::ALL {
        let shift = row(&metrics, &format!("leg={}", leg.name()), "leg_shift_ns").unwrap();
        let off = shift.value.parse::<i64>().unwrap() - i64::from(DELAY_NS);
        assert!(off.abs() <= 500, "{leg:?}: {shift:?}");
        assert_eq!((shift.n, &*shift.note), (80, "planted 2048 ns"));
    }
    let mut cells = cells;
    let cell = cell_mut(&mut cells, "leg=urgent");
    let launch = cell.events.u32("launch").unwrap();
    let of_first: Vec<usize> = (0..launch.len()).filter(|row| launch[*row] == launch[0]).collect();
    cell.events = take_rows(&cell.events, &of_first);
    cell.record.events = of_first.len() as u64;
    let shift = self::metrics(&plan, &cells);
    let shift = row(&shift, "leg=urgent", "leg_shift_ns").unwrap();
    let width = shift.hi.parse::<i64>().unwrap() - shift.lo.parse::<i64>().unwrap();
    assert!(width > 0 && width < 500, "one launch has an interval too: {shift:?}");
    set_column(&mut cell_mut(&mut cells, "leg=urgent").events, "delay_leg", Column::U32(vec![0; 20]));
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

/// The rows that a recipe gives in place of a cell's own.
fn of_recipe(recipe: Recipe, name: &str, change: impl FnOnce(&mut CellData)) -> Vec<Metric> {
    let (plan, mut cells) = small();
    change(cell_mut(&mut cells, name));
    let mut contract = contract(&plan);
    let cell = contract.cells.iter_mut().find(|cell| cell.name == name).unwrap();
    cell.metrics.truncate(1);
    cell.metrics[0].recipe = recipe;
    contract.check().unwrap();
    let mut metrics = summarize(&contract, "r", &cells).unwrap();
    metrics.retain(|m| m.cell == name);
    metrics
}

fn recipe_row(recipe: Recipe, name: &str, change: impl FnOnce(&mut CellData)) -> Option<Metric> {
    let metric = recipe.names().remove(0);
    row(&of_recipe(recipe, name, change), name, &metric).cloned()
}

fn rate(name: &str, peak: Option<&str>) -> Recipe {
    Recipe::Rate {
        name: name.to_owned(),
        work: vec!["tasks".to_owned(), "flop_per_tile".to_owned()],
        of: Expr::Column("wall_ns".to_owned()),
        by: "quad".to_owned(),
        only: Some(Only { column: "arm".to_owned(), is: 0 }),
        peak: peak.map(str::to_owned),
    }
}

/// Every drain of arm 0 takes as long, and every one of arm 1 half of that.
fn set_walls(data: &mut CellData, wall_ns: u32) {
    let walls = data.events.u32("arm").unwrap().iter().map(|arm| wall_ns / (1 + arm)).collect();
    set_column(&mut data.events, "wall_ns", Column::U32(walls));
}

#[test]
fn a_rate_is_work_over_a_median_and_a_share_is_that_of_a_peak() {
    // 2600 tasks of 2 x 64^3 operations each, in 1.3 ms: 1.049 x 10^12 a second, of a peak of 2.
    let check = |name: &str, peak, value: &str, unit: &str| {
        let found = recipe_row(rate(name, peak), COST, |data| set_walls(data, 1_300_000)).unwrap();
        assert_eq!((&*found.value, &*found.lo, &*found.hi, &*found.unit, found.n), (value, value, value, unit, 100));
    };
    check("throughput", None, "1.049", "1e12/s");
    check("throughput_tops", None, "1.049", "TOPS");
    check("peak_pct", Some("fp32_peak_tflops"), "52.429", "%");
}

#[test]
fn a_rate_has_the_interval_of_its_duration_turned_over() {
    let found = recipe_row(rate("throughput", None), COST, |_| {}).unwrap();
    let median = row(&metrics(&small().0, &small().1), COST, "poll_free_drain_ms_p50").unwrap().clone();
    let work = 2_600.0 * 524_288.0;
    let of = |ms: &str| work / (ms.parse::<f64>().unwrap() * 1e6) / 1e3;
    let near = |found: &str, expected: f64| assert!((found.parse::<f64>().unwrap() - expected).abs() < 6e-4, "{found}");
    near(&found.value, of(&median.value));
    near(&found.lo, of(&median.hi));
    near(&found.hi, of(&median.lo));
}

#[test]
fn a_rate_without_its_facts_or_of_no_time_is_absent() {
    let absent = |peak, change: fn(&mut CellData)| assert_eq!(recipe_row(rate("rate", peak), COST, change), None);
    absent(None, |data| data.record.facts.set("tasks", None::<u32>));
    absent(None, |data| set_walls(data, 0));
    absent(Some("fp32_peak_tflops"), |data| data.record.facts.set("fp32_peak_tflops", None::<f64>));
    absent(Some("fp32_peak_tflops"), |data| data.record.facts.set("fp32_peak_tflops", 0.0));
}

#[test]
fn a_cost_compares_the_arms_of_each_quad() {
    let abba = |against: Option<(&str, &str)>| Recipe::Abba {
        name: "cost_pct".to_owned(),
        quad: "quad".to_owned(),
        position: "position".to_owned(),
        arm: "arm".to_owned(),
        wall: "wall_ns".to_owned(),
        against: against.map(|(fact, words)| (fact.to_owned(), words.to_owned())),
    };
    let found = recipe_row(abba(None), COST, |data| set_walls(data, 1_300_000)).unwrap();
    let slower = Metric::REFERENCE_SLOWER;
    assert_eq!((&*found.value, &*found.unit, &*found.note, found.n), ("-50.000", "%", slower, 50));
    let told = recipe_row(abba(Some(("poll_free_blocks", "blocks without polls"))), COST, |_| {}).unwrap();
    assert_eq!(told.note, "against 8 blocks without polls");
    let untold = recipe_row(abba(Some(("gone", "blocks"))), COST, |_| {}).unwrap();
    assert_eq!(untold.note, "");
    assert!((told.value.parse::<f64>().unwrap() - 0.5).abs() < 0.05, "{told:?}");
}

#[test]
fn the_largest_value_counts_whatever_its_sign() {
    let largest = || Recipe::Largest {
        name: "offset_ns_max".to_owned(),
        column: "offset_ns".to_owned(),
        note: ("rtt_ns".to_owned(), "longest round trip".to_owned()),
    };
    let far = |data: &mut CellData| set_column(&mut data.events, "offset_ns", Column::I64(vec![0, -96, 64, 32]));
    let found = recipe_row(largest(), "timer", far).unwrap();
    assert_eq!((&*found.value, &*found.lo, &*found.hi, found.n), ("96", "", "", 4), "a reading has no interval");
    assert_eq!((&*found.unit, &*found.note), ("ns", "longest round trip 700 ns"));
    assert_eq!(recipe_row(largest(), "timer", |data| keep_events(data, |_| false)), None);
}

#[test]
fn a_ratio_over_a_cell_that_is_not_there_is_absent() {
    let (plan, mut cells) = small();
    cells.retain(|data| data.record.phase != "baseline");
    let metrics = metrics(&plan, &cells);
    assert!(row(&metrics, HOST, "host_e2e_us_p50").is_some());
    assert_eq!(row(&metrics, HOST, "ratio"), None);
}

#[test]
fn every_kind_of_metric_has_its_default_band_and_is_drawn_or_read() {
    let plan = plan(ProfileName::Full, SMALL);
    let rows = summarize_drawn(&contract(&plan), "r", &cells(&plan), Tails::All).unwrap();
    let check = |metric: &str, pct: f64, least: f64, drawing: Drawing| {
        let found: Vec<&Drawn> = rows.iter().filter(|row| row.metric.metric == metric).collect();
        assert!(!found.is_empty(), "{metric}");
        for row in found {
            assert_eq!((row.band, row.drawing), (Band { pct, least }, drawing), "{:?}", row.metric);
        }
    };
    use Drawing::{Chance, Reading, Sampled};
    check("timer_quantum_ns", 0.0, 0.0, Reading);
    check("sm_offset_ns_max", 0.0, 128.0, Reading);
    check("corrupt_events", 0.0, 0.0, Reading);
    check("once_violations", 0.0, 0.0, Reading);
    check("anomalous_events", 0.0, 0.0, Chance);
    check("clock_mhz_p50", 1.0, 0.0, Sampled);
    check("drain_ms_p50", 2.0, 0.0, Sampled);
    check("poll_free_drain_ms_p50", 2.0, 0.0, Sampled);
    check("tile_wall_us_p99", 10.0, 0.064, Sampled);
    check("preempt_latency_us_p50", 5.0, 0.064, Sampled);
    check("preempt_latency_us_p999", 10.0, 0.064, Sampled);
    check("urgent_wait_us_p99", 30.0, 0.5, Sampled);
    check("host_e2e_us_p50", 10.0, 0.5, Sampled);
    check("ratio", 10.0, 0.0, Sampled);
    check("poll_cost_pct", 0.0, 0.5, Sampled);
    check("fp32_peak_pct", 0.0, 1.0, Sampled);
    check("remaining_drain_corr", 0.0, 0.1, Sampled);
    check("leg_shift_ns", 2.0, 400.0, Sampled);
    check("leg_shift_error_ns", 0.0, 400.0, Sampled);
    check("leg_spread_ns", 25.0, 64.0, Sampled);
}
