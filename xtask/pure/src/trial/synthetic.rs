//! A made-up run for the tests of the pure parts: every kind of cell, with tables as a harness would write them.

use crate::numbers::summary::CellData;
use preempt::plan::{
    BaselinePlan, CalibratePlan, Cell, InstrumentPlan, Leg, Phase, PreemptPlan, Profile, Residency, Setter, Work,
    YieldCell, YieldPlan,
};
use schema::cell::{CellRecord, Facts};
use schema::compare::Bands;
use schema::contract::{Contract, ProgramSpec};
use schema::plan::{ClockClass, Plan, ProfileName, Slots};
use schema::timer::delayed_event;
use schema::{Digest, FORMAT};
use std::sync::LazyLock;
use tables::{Column, Table};

/// A device of four SMs with two blocks of each kernel on each.
pub static SLOTS: LazyLock<Slots> =
    LazyLock::new(|| Slots::of_sms(4).with("calibrate_per_sm", 2).with("drain_per_sm", 2).with("yield_per_sm", 2));
/// The step of its timer.
pub const QUANTUM_NS: u32 = 32;
/// The delay planted in each leg.
pub const DELAY_NS: u32 = 2_048;
const LAUNCHES: u32 = 20;

/// A plan with one cell of each kind, sized as `events` of phase 2 and 3.
pub fn plan(profile_name: ProfileName, events: u32) -> PreemptPlan {
    let yield_cell = |set, cost| YieldCell { blocks: Residency::Full, poll: 1, set, cost };
    PreemptPlan {
        experiment: "preempt".to_owned(),
        profile_name,
        phases: Phase::ALL.to_vec(),
        profile: Profile {
            instrument: InstrumentPlan { offset_rounds: 8, delay_events: 80, delay_ns: DELAY_NS },
            calibrate: CalibratePlan {
                k: vec![32, 64],
                max_blocks_per_sm: 2,
                launches: LAUNCHES,
                tiles: events / LAUNCHES / 4,
                warmup_tiles: 4,
                tail_tiles: 4,
            },
            baseline: BaselinePlan { k: 64, blocks: vec![Residency::Full], events, warmup_launches: 2, drain_us: 1300 },
            yields: YieldPlan {
                k: 64,
                cells: vec![yield_cell(Setter::Device, true), yield_cell(Setter::Host, false)],
                events,
                launches: LAUNCHES,
                warmup_launches: 2,
                cost_quads: 50,
                drain_us: 1300,
            },
        },
    }
}

/// The plan as a run carries it.
pub fn frozen(plan: &PreemptPlan) -> Plan {
    Plan {
        format: FORMAT,
        experiment: plan.experiment.clone(),
        program: None,
        profile_name: plan.profile_name,
        clocks: ClockClass::Stable,
        phases: plan.phases.iter().map(|phase| phase.name().to_owned()).collect(),
        terms: std::collections::BTreeMap::new(),
        compare: Bands::new(),
        profile: toml::Table::try_from(&plan.profile).unwrap(),
    }
}

/// What a run of the plan must contain; one made-up program stands for all.
pub fn contract(plan: &PreemptPlan) -> Contract {
    let sites = ["claim", "copy", "yield"].map(str::to_owned).into();
    let everything = ProgramSpec { name: "everything".to_owned(), sites };
    Contract { programs: vec![everything], ..plan.contract(&SLOTS, 6.0) }
}

/// Every cell of the plan, in its order.
pub fn cells(plan: &PreemptPlan) -> Vec<CellData> {
    plan.cells(&SLOTS).iter().map(|cell| cell_data(plan, cell)).collect()
}

fn cell_data(plan: &PreemptPlan, cell: &Cell) -> CellData {
    let profile = &plan.profile;
    let spread = |events: u32, launches: u32| (0..events).map(|i| 2 + i % launches).collect::<Vec<u32>>();
    let (events, n_launches) = match cell.work {
        Work::Timer => (timer(), None),
        Work::Delay(leg) => (yields(&spread(profile.instrument.delay_events, 4), Setter::Host, Some(leg)), Some(6)),
        Work::Calibrate { k, blocks } => (tiles(4 * profile.calibrate.tiles, k, blocks), Some(2 + LAUNCHES)),
        Work::Baseline { .. } => (baseline(profile.baseline.events), Some(2 + profile.baseline.events)),
        Work::Yield { set, .. } => (yields(&spread(profile.yields.events, LAUNCHES), set, None), Some(2 + LAUNCHES)),
        Work::Cost { .. } => (cost(profile.yields.cost_quads), Some(2 + 4 * profile.yields.cost_quads)),
    };
    CellData { record: record(cell, events.rows() as u64), events, launches: n_launches.map(launches) }
}

fn record(cell: &Cell, events: u64) -> CellRecord {
    CellRecord {
        format: FORMAT,
        experiment: "preempt".to_owned(),
        phase: cell.phase.name().to_owned(),
        cell: cell.name.clone(),
        plan: Digest::of("plan"),
        device: "emulated".to_owned(),
        configs: Vec::new(),
        seed: "00".to_owned(),
        warmup_launches: 2,
        events,
        files: Vec::new(),
        facts: Facts::default()
            .with("timer_quantum_ns", (cell.work == Work::Timer).then_some(QUANTUM_NS))
            .with("fp32_peak_tflops", 2.0)
            .with("tasks", 2_600)
            .with("poll_free_blocks", 8)
            .with("flop_per_tile", 2 * 64 * 64 * 64),
    }
}

/// Launches 0 and 1 are warm-up, the rest count.
fn launches(n: u32) -> Table {
    let zero = ["config", "wrong_tiles", "unwritten_tiles", "not_once", "urgent_wrong", "urgent_not_once"];
    let column = |f: fn(u32) -> u32| Column::U32((0..n).map(f).collect());
    let mut table = Table::new()
        .with("launch", column(|i| i))
        .with("warmup", column(|i| u32::from(i < 2)))
        .with("clock_windows", column(|_| 9))
        .with("clock_khz_p50", column(|i| 1_980_000 + noise(i) % 700));
    for name in zero {
        table = table.with(name, column(|_| 0));
    }
    table
}

fn timer() -> Table {
    Table::new()
        .with("sm", Column::U32((0..4).collect()))
        .with("offset_ns", Column::I64(vec![0, -32, 64, 32]))
        .with("rtt_ns", Column::U32(vec![700; 4]))
        .with("rounds", Column::U32(vec![8; 4]))
}

fn tiles(per_launch: u32, k: u32, blocks: u32) -> Table {
    let n = per_launch * LAUNCHES;
    let column = |f: &dyn Fn(u32) -> u32| Column::U32((0..n).map(f).collect());
    Table::new()
        .with("launch", column(&|i| 2 + i / per_launch))
        .with("block", column(&|i| i % per_launch % blocks))
        .with("sm", column(&|i| i % 4))
        .with("tile", column(&|i| i % per_launch / blocks))
        .with("wall_ns", column(&|i| k * blocks * 12 + steps(i, 20)))
}

fn baseline(events: u32) -> Table {
    let column = |f: &dyn Fn(u32) -> u32| Column::U32((0..events).map(f).collect());
    let long = |f: &dyn Fn(u32) -> i64| Column::I64((0..events).map(f).collect());
    let issue = |i: u32| noise(i) % 1_300_000;
    let start = |i: u32| 1_310_000 + noise(i + 7) % 9_000;
    Table::new()
        .with("launch", column(&|i| 2 + i))
        .with("arrival_ns", column(&issue))
        .with("issue_ns", column(&issue))
        .with("start_ns", column(&start))
        .with("done_ns", column(&|i| start(i) + 8_000))
        .with("drain_done_ns", column(&|_| 1_312_000))
        .with("device_start_ns", long(&|i| i64::from(start(i))))
        .with("device_done_ns", long(&|i| i64::from(start(i)) + 6_000))
        .with("device_drain_ns", long(&|i| 1_300_000 + i64::from(steps(i, 60))))
        .with("anomaly", column(&|_| 0))
}

fn yields(launch: &[u32], set: Setter, delayed: Option<Leg>) -> Table {
    let n = launch.len() as u32;
    let per_launch = launch.iter().collect::<std::collections::BTreeSet<_>>().len() as u32;
    let planted = |i: u32| delayed.filter(|_| delayed_event(i / per_launch));
    let delay =
        |i: u32, legs: &[Leg]| if planted(i).is_some_and(|l| legs.contains(&l)) { i64::from(DELAY_NS) } else { 0 };
    let column = |f: &dyn Fn(u32) -> u32| Column::U32((0..n).map(f).collect());
    let long = |f: &dyn Fn(u32) -> i64| Column::I64((0..n).map(f).collect());
    let host = |f: &dyn Fn(u32) -> i64| Column::OptI64((0..n).map(|i| (set == Setter::Host).then(|| f(i))).collect());
    let seen = |i: u32| 640 + i64::from(steps(i, 8)) + delay(i, &[Leg::SetToObserved]);
    let ready = |i: u32| seen(i) + 5_000 + i64::from(steps(i + 3, 90)) + delay(i, &[Leg::ObservedToReady]);
    let start = |i: u32| ready(i) + 320 + delay(i, &[Leg::ReadyToUrgent]);
    let done = |i: u32| start(i) + 4_000 + i64::from(steps(i + 5, 10)) + delay(i, &[Leg::Urgent]);
    let issue = |i: u32| i64::from(i) * 60_000;
    // The device's clock starts apart from the host's, by another offset in each launch.
    let set_at = |i: u32| issue(i) + 900 + 100_000 * i64::from(2 + i % per_launch) + delay(i, &[Leg::HostToSet]);
    let back = |i: u32| issue(i) + 900 + delay(i, &[Leg::HostToSet]) + done(i) + 1_500 + delay(i, &[Leg::DoneToHost]);
    Table::new()
        .with("launch", Column::U32(launch.to_vec()))
        .with("event", column(&|i| i / per_launch))
        .with("set_ns", long(&set_at))
        .with("gap_ns", column(&|_| 9_000))
        .with("first_observer_ns", long(&seen))
        .with("last_observer_ns", long(&|i| ready(i) - 96))
        .with("last_ready_ns", long(&ready))
        .with(
            "visibility_ns",
            Column::OptI64((0..n).map(|i| (i % 10 != 0).then(|| i64::from(steps(i, 2)).max(1))).collect()),
        )
        .with("observers", column(&|_| 7))
        .with("ready", column(&|_| 7))
        .with("claimer", column(&|i| i % 8))
        .with("claimer_observed_ns", long(&seen))
        .with("claimer_ready_ns", long(&ready))
        .with("urgent_start_ns", long(&start))
        .with("urgent_done_ns", long(&done))
        .with("claims", column(&|_| 1))
        .with("host_issue_ns", host(&issue))
        .with("host_done_ns", host(&back))
        .with("delay_leg", column(&|i| planted(i).map_or(0, |leg| leg as u32)))
        .with("delay_ns", long(&|i| planted(i).map_or(0, |_| i64::from(DELAY_NS))))
        .with("anomaly", column(&|_| 0))
}

fn cost(quads: u32) -> Table {
    let column = |f: fn(u32) -> u32| Column::U32((0..4 * quads).map(f).collect());
    let arm = |i: u32| u32::from(matches!(i % 4, 1 | 2));
    Table::new()
        .with("launch", column(|i| 2 + i))
        .with("quad", column(|i| i / 4))
        .with("position", column(|i| i % 4))
        .with("arm", Column::U32((0..4 * quads).map(arm).collect()))
        .with("wall_ns", column(|i| 1_300_000 + 6_500 * u32::from(matches!(i % 4, 1 | 2)) + steps(i, 40)))
}

/// Up to `n` steps of the timer.
fn steps(i: u32, n: u32) -> u32 {
    noise(i) % n * QUANTUM_NS
}

/// The `i`-th of a fixed sequence without a pattern that a statistic would see.
fn noise(i: u32) -> u32 {
    let x = u64::from(i).wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    ((x ^ (x >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 40) as u32
}

/// Replaces a column of a table.
pub fn set_column(table: &mut Table, name: &str, column: Column) {
    let place = table.columns.iter_mut().find(|(n, _)| n == name).expect("the column exists");
    place.1 = column;
}

/// The given rows of a table.
pub fn take_rows(table: &Table, rows: &[usize]) -> Table {
    let pick = |column: &Column| match column {
        Column::U32(v) => Column::U32(rows.iter().map(|i| v[*i]).collect()),
        Column::OptU32(v) => Column::OptU32(rows.iter().map(|i| v[*i]).collect()),
        Column::I64(v) => Column::I64(rows.iter().map(|i| v[*i]).collect()),
        Column::OptI64(v) => Column::OptI64(rows.iter().map(|i| v[*i]).collect()),
        Column::F64(v) => Column::F64(rows.iter().map(|i| v[*i]).collect()),
    };
    Table { columns: table.columns.iter().map(|(name, column)| (name.clone(), pick(column))).collect() }
}
