//! The made-up cells: those of the pure parts' tests, completed to what a harness writes.

use super::DEVICE;
use super::records::measured_cubin;
use crate::gate::evidence::CellEvidence;
use crate::numbers::summary::CellData;
use crate::trial::synthetic::{self, SLOTS, set_column};
use preempt::plan::{Leg, PreemptPlan, Setter, Work};
use preempt::tables::BLOCK_ROWS;
use schema::Digest;
use schema::build::BuildRecord;
use schema::cell::{CLOCK_ROWS, CellFile, CellRecord, LaunchConfig};
use std::collections::{BTreeMap, BTreeSet};
use tables::{Column, Table};

/// The cell with this name.
pub fn find<'a>(cells: &'a mut [CellEvidence], name: &str) -> &'a mut CellData {
    &mut cells.iter_mut().find(|cell| cell.name() == name).expect("the plan has this cell").data
}

pub fn cells(plan: &PreemptPlan, build: &BuildRecord) -> Vec<CellData> {
    let works = plan.cells(&SLOTS).into_iter().map(|cell| cell.work);
    let mut cells = synthetic::cells(plan);
    for (cell, work) in cells.iter_mut().zip(works) {
        cell.record.device = DEVICE.to_owned();
        cell.record.configs = configs(&work, build);
        if work != Work::Timer {
            cell.record.facts.set("poison_caught", true);
            cell.record.facts.set("max_relative_error", 1e-7);
        }
        if matches!(work, Work::Yield { .. } | Work::Delay(_)) {
            let observers = Column::U32(vec![2; cell.events.rows()]);
            set_column(&mut cell.events, "observers", observers.clone());
            set_column(&mut cell.events, "ready", observers);
        }
        if let Some(launches) = &mut cell.launches {
            complete(launches, &cell.events, matches!(work, Work::Yield { .. } | Work::Delay(_)));
            if matches!(work, Work::Calibrate { .. }) {
                spoil_first(launches);
            }
        }
    }
    cells
}

fn configs(work: &Work, build: &BuildRecord) -> Vec<LaunchConfig> {
    let pairs: &[(&str, &str)] = match work {
        Work::Timer => &[("preempt_timer_offset", "timer")],
        Work::Delay(Leg::HostToSet | Leg::DoneToHost) | Work::Yield { set: Setter::Host, .. } => {
            &[("preempt_yield_p1", "event_host")]
        }
        Work::Delay(_) | Work::Yield { .. } => &[("preempt_yield_p1", "event_device")],
        Work::Calibrate { .. } => &[("preempt_calibrate", "calibrate"), ("preempt_calibrate", "poison")],
        Work::Baseline { .. } => &[("preempt_drain", "baseline"), ("preempt_urgent", "urgent")],
        Work::Cost { .. } => &[("preempt_drain", "drain"), ("preempt_yield_p1", "drain")],
    };
    let config = |(symbol, mode): &(&str, &str)| LaunchConfig {
        symbol: (*symbol).to_owned(),
        mode: (*mode).to_owned(),
        grid: match work {
            Work::Calibrate { blocks, .. } => *blocks,
            _ => 8,
        },
        block: 128,
        shared_bytes: 0,
        cooperative: mode.starts_with("event_"),
        cubin: Some(measured_cubin(build, symbol)),
    };
    pairs.iter().map(config).collect()
}

/// Adds what the pure parts' tests leave out.
fn complete(launches: &mut Table, events: &Table, urgent: bool) {
    let mut per_launch: BTreeMap<u32, u32> = BTreeMap::new();
    for launch in events.u32("launch").unwrap().iter().filter(|_| urgent) {
        *per_launch.entry(*launch).or_default() += 1;
    }
    let names = launches.u32("launch").unwrap().to_vec();
    let served = Column::U32(names.iter().map(|launch| per_launch.get(launch).copied().unwrap_or(0)).collect());
    let p50 = launches.u32("clock_khz_p50").unwrap().to_vec();
    let all = |value: u32| Column::U32(vec![value; names.len()]);
    set_column(launches, "clock_windows", all(3));
    let walls = walls(events);
    let walls: Vec<u32> = names.iter().map(|launch| walls.get(launch).copied().unwrap_or(1_300_000)).collect();
    let starts = walls.iter().scan(0, |next, wall| {
        let start = *next;
        *next += i64::from(*wall) + 100_000;
        Some(start)
    });
    let starts = Column::I64(starts.collect());
    if let Ok(arm) = events.u32("arm") {
        let polls = events.u32("launch").unwrap().iter().zip(arm).filter(|(_, arm)| **arm == 1);
        let polls: BTreeSet<u32> = polls.map(|(launch, _)| *launch).collect();
        set_column(launches, "config", Column::U32(names.iter().map(|name| u32::from(polls.contains(name))).collect()));
    }
    let table = std::mem::take(launches);
    *launches = table
        .with("host_start_ns", starts)
        .with("wall_ns", Column::U32(walls))
        .with("tasks", all(2_600))
        .with("executed", all(2_600))
        .with("urgent_requested", served.clone())
        .with("urgent_executed", served)
        .with("deadline_hits", all(0))
        .with("sms", all(4))
        .with("clock_khz_min", Column::U32(p50.iter().map(|khz| khz - 100).collect()))
        .with("clock_khz_max", Column::U32(p50.iter().map(|khz| khz + 100).collect()));
}

/// How long launches took, where their events say it.
fn walls(events: &Table) -> BTreeMap<u32, u32> {
    let of_row = |row: usize| -> Option<i64> {
        let long = |name: &str| events.i64(name).ok().map(|column| column[row]);
        let done = || Some(long("last_ready_ns")?.max(long("urgent_done_ns")?) + long("set_ns")?);
        let drain = || Some(i64::from(events.u32("arm").and_then(|_| events.u32("wall_ns")).ok()?[row]));
        drain().or(long("device_drain_ns")).or_else(done)
    };
    if events.u32("tile").is_ok() {
        return tile_walls(events);
    }
    let mut walls = BTreeMap::new();
    for (row, launch) in events.u32("launch").unwrap_or_default().iter().enumerate() {
        let wall = walls.entry(*launch).or_default();
        *wall = of_row(row).map_or(*wall, |ns| (ns as u32).max(*wall));
    }
    walls.retain(|_, wall| *wall > 0);
    walls
}

/// How long launches of 2,600 tiles took whose blocks went on as their recorded tiles did.
fn tile_walls(events: &Table) -> BTreeMap<u32, u32> {
    let [launch, block, wall] = ["launch", "block", "wall_ns"].map(|name| events.u32(name).unwrap());
    let mut took: BTreeMap<u32, BTreeMap<u32, (f64, f64)>> = BTreeMap::new();
    for row in 0..events.rows() {
        let (tiles, ns) = took.entry(launch[row]).or_default().entry(block[row]).or_default();
        *tiles += 1.0;
        *ns += f64::from(wall[row]);
    }
    let rate = |blocks: &BTreeMap<u32, (f64, f64)>| blocks.values().map(|(tiles, ns)| tiles / ns).sum::<f64>();
    took.iter().map(|(launch, blocks)| (*launch, (2_600.0 / rate(blocks)) as u32)).collect()
}

/// The first launch is the one whose output was spoiled on purpose.
fn spoil_first(launches: &mut Table) {
    let first = Column::U32((0..launches.rows()).map(|row| u32::from(row == 0)).collect());
    set_column(launches, "config", first.clone());
    set_column(launches, "wrong_tiles", first);
}

/// Twenty quiet samples in every cell.
pub fn telemetry(cells: u32) -> Table {
    let n = cells * 20;
    let column = |f: fn(u32) -> u32| Column::OptU32((0..n).map(|i| Some(f(i))).collect());
    let counter = || Column::OptI64(vec![Some(0); n as usize]);
    Table::new()
        .with("t_ms", Column::I64((0..n).map(|i| i64::from(i) * 500).collect()))
        .with("cell", Column::U32((0..n).map(|i| 1 + i / 20).collect()))
        .with("sm_mhz", column(|_| 1980))
        .with("memory_mhz", column(|_| 2619))
        .with("power_mw", column(|i| 400_000 + i))
        .with("temperature_c", column(|_| 55))
        .with("throttle", counter())
        .with("power_violation_ns", counter())
        .with("thermal_violation_ns", counter())
}

/// Two block rows an event, from which its columns follow.
fn blocks_of(events: &Table) -> Table {
    let (launch, event) = (events.u32("launch").unwrap(), events.u32("event").unwrap());
    let (first, last) = (events.i64("first_observer_ns").unwrap(), events.i64("last_observer_ns").unwrap());
    let (ready, seen) = (events.i64("last_ready_ns").unwrap(), events.opt_i64("visibility_ns").unwrap());
    let mut rows: [Vec<u32>; 7] = Default::default();
    for i in 0..events.rows() {
        for (block, observed) in [(0, first[i]), (1, last[i])] {
            let old = seen[i].map_or(u32::MAX, |ns| ns as u32);
            let row = [launch[i], event[i], block, block, observed as u32, ready[i] as u32, old];
            rows.iter_mut().zip(row).for_each(|(column, value)| column.push(value));
        }
    }
    Table { columns: BLOCK_ROWS.iter().zip(rows).map(|(name, v)| ((*name).to_owned(), Column::U32(v))).collect() }
}

/// Three windows a launch, from which its clock columns follow.
fn clock_of(launches: &Table) -> Table {
    let (launch, min) = (launches.u32("launch").unwrap(), launches.u32("clock_khz_min").unwrap());
    let (p50, max) = (launches.u32("clock_khz_p50").unwrap(), launches.u32("clock_khz_max").unwrap());
    let mut rows: [Vec<u32>; 4] = Default::default();
    for i in 0..launches.rows() {
        for khz in [min[i], p50[i], max[i]] {
            rows.iter_mut().zip([launch[i], 0, khz, 1_000_000]).for_each(|(column, value)| column.push(value));
        }
    }
    Table { columns: CLOCK_ROWS.iter().zip(rows).map(|(name, v)| ((*name).to_owned(), Column::U32(v))).collect() }
}

/// A cell's header, and its tables by what follows the cell's name in their files' names.
pub fn files(cell: &CellData, plan: Digest) -> (CellRecord, Vec<(&'static str, Vec<u8>)>) {
    let mut tables = vec![(".parquet", cell.events.clone())];
    if let Some(launches) = &cell.launches {
        tables.push((".launches.parquet", launches.clone()));
        tables.push((".clock.parquet", clock_of(launches)));
    }
    if cell.record.phase == "yield" && cell.events.u32("observers").is_ok() {
        tables.push((".blocks.parquet", blocks_of(&cell.events)));
    }
    let mut record = cell.record.clone();
    record.plan = plan;
    record.events = cell.events.rows() as u64;
    let tables: Vec<_> = tables.into_iter().map(|(suffix, table)| (suffix, table.to_bytes().unwrap())).collect();
    record.files.extend(tables.iter().map(|(suffix, bytes)| CellFile {
        suffix: (*suffix).to_owned(),
        sha256: Digest::of(bytes),
        bytes: bytes.len() as u64,
    }));
    (record, tables)
}
