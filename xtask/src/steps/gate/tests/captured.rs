//! What an H200 left behind of planted faults, put into a run that passes: each gate refuses what was captured.
//!
//! `testdata/audit/README.md` says how each capture was made. The run around it is made up; the rows are as they came.

use super::audit::locked;
use super::{YIELD, anew, refuses};
use crate::trial::{evidence, find};
use pure::gate::evidence::Evidence;
use pure::gate::judge;
use pure::trial::synthetic::set_column;
use schema::cell::CellRecord;
use std::path::PathBuf;
use tables::{Column, Table};

const BASELINE: &str = "baseline/k=64,blocks=8";
const CALIBRATE: &str = "calibrate/k=64,blocks=4";
const LEG: &str = "instrument/leg=host_to_set";

fn file(name: &str) -> PathBuf {
    PathBuf::from(format!("{}/testdata/audit/captured-h200-{name}", env!("CARGO_MANIFEST_DIR")))
}

fn text(name: &str) -> String {
    fs_err::read_to_string(file(name)).unwrap()
}

fn table(name: &str) -> Table {
    Table::read(&file(&format!("{name}.parquet"))).unwrap()
}

/// Puts a captured cell in the place of a made-up one, under that one's name.
fn put(evidence: &mut Evidence, cell: &str, name: &str) {
    let captured: CellRecord = serde_json::from_str(&text(&format!("{name}.json"))).unwrap();
    let cell = find(&mut evidence.cells, cell);
    cell.record.configs = captured.configs;
    cell.record.warmup_launches = captured.warmup_launches;
    cell.record.events = captured.events;
    cell.record.facts = captured.facts;
    cell.events = table(name);
    cell.launches = Some(table(&format!("{name}.launches")));
}

/// Calibrate launches that did not wait for their fills: outputs and counters were cleared behind or beside the grid.
#[test]
fn a_fill_that_a_launch_did_not_wait_for() {
    for (gate, words) in [
        ("numerics", "189547 tiles were never written"),
        ("structure", "4 launches did not execute exactly the tasks"),
        ("structure", "433475 tasks were not executed exactly once"),
    ] {
        refuses(gate, words, |e, _| put(e, CALIBRATE, "fill"));
    }
}

/// Every other pair of drains found one SM in eight taken; beside it, drains of the same run that found the GPU empty.
#[test]
fn a_grid_that_settles_in_one_of_two_placements() {
    let words = "its device_drain_ns falls into two states, 29 round 1298144 ns and 31 round 2634048 ns";
    refuses("samples", words, |e, _| put(e, BASELINE, "parked"));
    refuses("clocks", "launches drifted by -25.6 %", |e, _| put(e, BASELINE, "parked"));
    let one = reason("samples", |e| put(e, BASELINE, "parked-full"));
    assert!(one.contains("60 unique events") && !one.contains("two states"), "{one}");
}

/// What a gate says of a run with this in it; nothing when it passes.
fn reason(gate: &str, plant: impl FnOnce(&mut Evidence)) -> String {
    let (mut evidence, facts) = evidence();
    plant(&mut evidence);
    judge(&evidence, &facts).into_iter().find(|result| result.name == gate).unwrap().reason
}

/// A flag polled with a plain load: no event was ever observed.
#[test]
fn a_flag_that_is_polled_with_a_plain_load() {
    for (gate, words) in [
        ("numerics", "20 urgent tiles disagree with the oracle"),
        ("structure", "1 launches did not execute exactly the urgent tasks requested"),
        ("structure", "20 urgent tasks were not executed exactly once"),
        ("structure", "2 blocks hit their deadline"),
        ("structure", "20 events were never claimed"),
    ] {
        refuses(gate, words, |e, _| put(e, LEG, "flag"));
    }
}

/// A claim by a load and a store: several blocks took one task, and the events after it never came.
#[test]
fn a_claim_that_is_no_exchange() {
    for (gate, words) in [
        ("numerics", "491 urgent tiles disagree with the oracle"),
        ("structure", "4 launches did not execute exactly the urgent tasks requested"),
        ("structure", "396 urgent tasks were not executed exactly once"),
        ("structure", "2640 blocks hit their deadline"),
        ("structure", "events were met by fewer blocks than others"),
    ] {
        refuses(gate, words, |e, _| put(e, YIELD, "claim"));
    }
}

/// Events of a captured baseline whose urgent task began in the last hundredth of the drain beside it, or later.
fn waited_for_the_drain(name: &str) -> usize {
    let events = table(name);
    let (start, drain) = (events.i64("device_start_ns").unwrap(), events.i64("device_drain_ns").unwrap());
    start.iter().zip(drain).filter(|(start, drain)| **start * 100 >= **drain * 99).count()
}

/// An urgent kernel of 167 registers beside a drain that left one slot of 96 open, and the one that fits it.
#[test]
fn an_urgent_kernel_that_outgrew_its_slot() {
    let measured = |name: &'static str| {
        move |e: &mut Evidence| {
            put(e, BASELINE, name);
            e.build = Some(serde_json::from_str(&text(&format!("{name}.resources.json"))).unwrap());
        }
    };
    let words = "preempt_urgent does not fit the slot that a block of preempt_drain leaves";
    refuses("build", words, |e, _| measured("grown")(e));
    assert_eq!(waited_for_the_drain("grown"), 60);
    let fits = reason("build", measured("fits"));
    assert!(!fits.contains("does not fit the slot"), "{fits}");
    assert_eq!(waited_for_the_drain("fits"), 1);
}

/// The rows of a captured CSV.
fn csv<Row>(name: &str, row: impl Fn(&[&str]) -> Row) -> Vec<Row> {
    let text = text(&format!("{name}.csv"));
    text.lines().skip(1).map(|line| row(&line.split(',').map(str::trim).collect::<Vec<_>>())).collect()
}

/// The in-band clock of every launch, as captured: over and over where a cell has more launches.
fn in_band(evidence: &mut Evidence) {
    let captured = csv("heat", |row| [row[2], row[3], row[4]].map(|khz| khz.parse::<u32>().unwrap()));
    for launches in evidence.cells.iter_mut().filter_map(|cell| cell.data.launches.as_mut()) {
        for (i, column) in ["clock_khz_min", "clock_khz_p50", "clock_khz_max"].into_iter().enumerate() {
            let khz = captured.iter().map(|launch| launch[i]).cycle().take(launches.rows()).collect();
            set_column(launches, column, Column::U32(khz));
        }
    }
    anew(evidence);
}

/// What NVML said of the clock and what holds it down, as captured.
fn telemetry(evidence: &mut Evidence) {
    let hex = |text: &str| i64::from_str_radix(text.trim_start_matches("0x"), 16).unwrap();
    let mhz = |text: &str| text.trim_end_matches(" MHz").parse::<u32>().unwrap();
    let captured = csv("heat-nvidia-smi", |row| (Some(mhz(row[1])), Some(hex(row[5]))));
    let telemetry = evidence.telemetry.as_mut().unwrap();
    let rows = captured.iter().copied().cycle().take(telemetry.rows());
    let (sm_mhz, throttle) = rows.unzip();
    set_column(telemetry, "sm_mhz", Column::OptU32(sm_mhz));
    set_column(telemetry, "throttle", Column::OptI64(throttle));
}

/// Six seconds of tensor cores and FMA units at the power cap. No clock was locked there; a lock at the GPU's highest clock
/// is added here, and each of the two witnesses refuses by itself.
#[test]
fn a_clock_that_sags_at_the_power_cap() {
    refuses("clocks", "in-band clock left 1 % of the run's median", |e, _| in_band(e));
    refuses("clocks", "of the locked 1980 MHz in 10264 of 10264 launches", |e, _| {
        locked(e, 1980, 1980);
        in_band(e);
    });
    refuses("clocks", "samples: power cap", |e, _| telemetry(e));
    refuses("clocks", "NVML's SM clock differed from its median by more than 1 %", |e, _| telemetry(e));
}
