//! The classes of faults that the audit of an earlier GPU experiment recorded, each planted in a run that passes without it.
//!
//! `faults/audit.toml` names these tests. What only a compiler, a lost file or a hand-edited page can show is tested elsewhere.

use super::faults_of_data::launches;
use super::{YIELD, refuses, set_at};
use crate::trial::{evidence, find};
use preempt::tables::anomaly;
use pure::gate::evidence::Evidence;
use pure::gate::judge;
use pure::numbers::summary::summarize;
use pure::trial::synthetic::{cells, contract, plan, set_column, take_rows};
use schema::Digest;
use schema::environment::ClockRecord;
use schema::plan::{ClockClass, ProfileName};
use schema::sanitize::{State, Tool};
use tables::{Column, Table};

const BASELINE: &str = "baseline/k=64,blocks=8";
const COST: &str = "yield/cost,k=64,blocks=8,poll=1";

/// Clocks that were locked at `asked` and read back as `read_back`, put back afterwards.
pub(super) fn locked(evidence: &mut Evidence, asked: u32, read_back: u32) {
    evidence.plan.clocks = ClockClass::Locked;
    let clocks: &mut ClockRecord = &mut evidence.environment.clocks;
    clocks.mode = "lock".to_owned();
    (clocks.asked_mhz, clocks.read_back_mhz, clocks.restored) = (Some(asked), Some(read_back), Some(true));
    clocks.setter_calls = 2;
}

fn every_launch(evidence: &mut Evidence, khz: u32) {
    for launches in evidence.cells.iter_mut().filter_map(|cell| cell.data.launches.as_mut()) {
        for column in ["clock_khz_min", "clock_khz_p50", "clock_khz_max"] {
            set_column(launches, column, Column::U32(vec![khz; launches.rows()]));
        }
    }
}

fn telemetry(evidence: &mut Evidence, name: &str, column: Column) {
    set_column(evidence.telemetry.as_mut().unwrap(), name, column);
}

fn samples_of(evidence: &Evidence) -> usize {
    evidence.telemetry.as_ref().unwrap().rows()
}

/// Locked at 1980 MHz, and steady all along: at 1290 MHz, where the power cap holds it.
#[test]
fn a_lock_that_sags_under_the_power_cap() {
    let (mut holds, facts) = evidence();
    locked(&mut holds, 1980, 1980);
    every_launch(&mut holds, 1_980_000);
    let clocks = judge(&holds, &facts).into_iter().find(|gate| gate.name == "clocks").unwrap();
    assert!(clocks.passed, "{}", clocks.reason);
    let sag = |e: &mut Evidence| {
        locked(e, 1980, 1980);
        every_launch(e, 1_290_000);
        let n = samples_of(e);
        telemetry(e, "sm_mhz", Column::OptU32(vec![Some(1290); n]));
    };
    refuses("clocks", "of the locked 1980 MHz in 10264 of 10264 launches", |e, _| sag(e));
    refuses("clocks", "power cap", |e, _| {
        sag(e);
        let n = samples_of(e);
        telemetry(e, "throttle", Column::OptI64(vec![Some(4); n]));
    });
}

/// A lock that held on one part, taken to a box whose part reads back another clock.
#[test]
fn a_sag_of_one_part_on_another_box() {
    refuses("clocks", "not locked", |e, _| {
        locked(e, 1200, 1035);
        every_launch(e, 1_035_000);
        let n = samples_of(e);
        telemetry(e, "sm_mhz", Column::OptU32(vec![Some(1035); n]));
    });
    refuses("attempts", "another device", |e, _| e.environment.device.id = "f".repeat(16));
    refuses("samples", "another plan or device", |e, _| find(&mut e.cells, YIELD).record.device = "f".repeat(16));
}

/// A fill that waits for the kernel, or passes it, leaves outputs as the fill left them.
#[test]
fn a_fill_that_does_not_order_against_the_kernel() {
    let tasks = 2_600;
    refuses("numerics", "2600 tiles were never written", |e, _| {
        set_at(launches(e, YIELD), "unwritten_tiles", 5, tasks);
    });
    // Counters cleared while the kernel counts in them.
    refuses("structure", "not execute exactly the tasks", |e, _| set_at(launches(e, YIELD), "executed", 5, 0));
    // A stop flag set by a fill that waits for the kernel it is to stop.
    refuses("structure", "hit their deadline", |e, _| set_at(launches(e, YIELD), "deadline_hits", 5, 8));
}

/// Host and device clocks related on an idle GPU, 10 us off under load: no duration spans both, and the legs that have an end
/// on each side are known by a delay planted under load.
#[test]
fn a_calibration_taken_idle() {
    let plan = plan(ProfileName::Full, 10_000);
    let (mut measured, contract) = (cells(&plan), contract(&plan));
    let before = summarize(&contract, "r", &measured).unwrap();
    for cell in measured.iter_mut().filter(|cell| cell.record.phase == "yield") {
        if let Ok(set) = cell.events.i64("set_ns") {
            let moved = Column::I64(set.iter().map(|ns| ns + 10_000).collect());
            set_column(&mut cell.events, "set_ns", moved);
        }
    }
    assert_eq!(summarize(&contract, "r", &measured).unwrap(), before, "a published number spans two clocks");
    for leg in ["host_to_set", "done_to_host"] {
        refuses("instrument", &format!("leg {leg} moved by"), |e, _| {
            let of_leg =
                |m: &&mut schema::metrics::Metric| m.cell == format!("leg={leg}") && m.metric == "leg_shift_error_ns";
            let error = e.recomputed.metrics.iter_mut().find(of_leg).unwrap();
            (error.value, error.lo, error.hi) = ("10000".to_owned(), "9900".to_owned(), "10100".to_owned());
        });
    }
}

/// One register more, one block fewer on each SM: the blocks beyond wait for the others to end.
#[test]
fn occupancy_lost_to_registers() {
    refuses("build", "preempt_yield_p1: 1 blocks per SM, budget 2", |e, _| {
        e.build.as_mut().unwrap().kernels[4].blocks_per_sm = 1;
    });
    refuses("build", "yield: the device reported 2 blocks per SM, and the kernel's resources allow 1", |e, _| {
        e.build.as_mut().unwrap().kernels[4].blocks_per_sm = 1;
    });
    refuses("structure", "met by fewer blocks", |e, _| {
        set_at(&mut find(&mut e.cells, YIELD).events, "observers", 7, 1);
    });
    refuses("samples", "1 anomalous events", |e, _| {
        set_at(&mut find(&mut e.cells, YIELD).events, "anomaly", 7, anomaly::UNOBSERVED);
    });
}

#[test]
fn a_spill_that_fakes_a_cost() {
    refuses("build", "preempt_yield_p1 spills 4 bytes", |e, _| e.build.as_mut().unwrap().kernels[4].spill_bytes = 4);
    refuses("build", "preempt_yield_p1 uses 8 bytes of stack", |e, _| {
        e.build.as_mut().unwrap().kernels[4].stack_bytes = 8;
    });
}

/// Every other drain 12 % longer: a grid that settles in one of two placements.
#[test]
fn a_bistable_grid() {
    let slower = |ns: i64, i: usize| if i % 4 < 2 { ns } else { ns + ns * 12 / 100 };
    refuses("samples", "its device_drain_ns falls into two states, 5000 round", |e, _| {
        let events = &mut find(&mut e.cells, BASELINE).events;
        let drains = events.i64("device_drain_ns").unwrap().iter().enumerate();
        let drains = Column::I64(drains.map(|(i, ns)| slower(*ns, i)).collect());
        set_column(events, "device_drain_ns", drains);
    });
    refuses("samples", "its wall_ns in arm 1 falls into two states, 50 round", |e, _| {
        let events = &mut find(&mut e.cells, COST).events;
        let wall = events.u32("wall_ns").unwrap().to_vec();
        let arm = events.u32("arm").unwrap().to_vec();
        let of_arm = |i: usize| arm[..i].iter().filter(|a| **a == 1).count();
        let wall = wall.iter().enumerate().map(|(i, ns)| match arm[i] {
            1 => u32::try_from(slower(i64::from(*ns), of_arm(i))).unwrap(),
            _ => *ns,
        });
        let wall = Column::U32(wall.collect());
        set_column(events, "wall_ns", wall);
    });
}

/// Half of the launches give garbage, as blocks do whose warps passed two different barriers.
#[test]
fn warps_split_by_a_missing_barrier() {
    refuses("numerics", "10 tiles disagree with the oracle", |e, _| {
        (2..12).for_each(|row| set_at(launches(e, YIELD), "wrong_tiles", row, 1));
    });
    for tool in [Tool::Synccheck, Tool::Racecheck] {
        refuses("sanitizer", "is not clean: Barrier error", |e, _| {
            let found = e.sanitizer.iter_mut().find(|s| s.verdict.tool == tool && s.verdict.control_caught.is_none());
            let verdict = &mut found.unwrap().verdict;
            (verdict.state, verdict.findings) = (State::Finding, Some(1));
            verdict.why = "Barrier error detected".to_owned();
        });
    }
}

/// A flag that is never seen, or seen too early: some block works on what is not there yet.
#[test]
fn an_unsynchronised_flag() {
    refuses("structure", "1 events were never claimed", |e, _| {
        set_at(&mut find(&mut e.cells, YIELD).events, "claims", 7, 0);
    });
    refuses("structure", "1 urgent tasks were not executed exactly once", |e, _| {
        set_at(launches(e, YIELD), "urgent_not_once", 5, 1);
    });
    refuses("numerics", "1 urgent tiles disagree", |e, _| set_at(launches(e, YIELD), "urgent_wrong", 5, 1));
    refuses("sanitizer", "racecheck did not catch its planted fault", |e, _| {
        let control = |s: &&mut pure::gate::evidence::SanitizerEvidence| {
            s.verdict.tool == Tool::Racecheck && s.verdict.control_caught.is_some()
        };
        e.sanitizer.iter_mut().find(control).unwrap().verdict.control_caught = Some(false);
    });
}

/// Events that no block met, or not all: they count among the events, and show nothing.
#[test]
fn events_that_never_met_the_hazard() {
    let met = |e: &mut Evidence, observers: &dyn Fn(usize) -> u32| {
        let events = &mut find(&mut e.cells, YIELD).events;
        let column = Column::U32((0..events.rows()).map(observers).collect());
        set_column(events, "observers", column);
    };
    refuses("structure", "7500 events were met by fewer blocks", |e, _| met(e, &|i| if i % 4 == 0 { 2 } else { 1 }));
    refuses("structure", "10000 events were met by fewer blocks", |e, _| met(e, &|_| 0));
    refuses("sanitizer", "shows no launch that ran clean", |e, _| {
        e.sanitizer.iter_mut().for_each(|s| s.verdict.sites.retain(|site, _| site != "yield"));
    });
    refuses("structure", "another number of events", |e, _| {
        let cell = find(&mut e.cells, YIELD);
        cell.events = take_rows(&cell.events, &(1..cell.events.rows()).collect::<Vec<_>>());
    });
}

/// The slot left open is one of 64 registers a thread and 8 KiB; the urgent kernel takes more.
#[test]
fn an_urgent_kernel_that_outgrows_its_reservation() {
    let urgent = |e: &mut Evidence, registers: u32, shared_bytes: u32, block: u32| {
        let kernels = &mut e.build.as_mut().unwrap().kernels;
        // Background blocks that fill an SM: eight of 64 registers and 128 threads take all of 65,536.
        kernels.iter_mut().find(|k| k.symbol == "preempt_drain").unwrap().blocks_per_sm = 8;
        let kernel = kernels.iter_mut().find(|k| k.symbol == "preempt_urgent").unwrap();
        (kernel.registers, kernel.shared_bytes) = (registers, shared_bytes);
        find(&mut e.cells, BASELINE).record.configs[1].block = block;
    };
    let words = "preempt_urgent does not fit the slot that a block of preempt_drain leaves";
    let judged = |change: &dyn Fn(&mut Evidence)| {
        let (mut evidence, facts) = evidence();
        change(&mut evidence);
        judge(&evidence, &facts).into_iter().find(|gate| gate.name == "build").unwrap().reason
    };
    refuses("build", words, |e, _| urgent(e, 255, 8_192, 256));
    refuses("build", words, |e, _| urgent(e, 64, 8_192, 1024));
    refuses("build", words, |e, _| urgent(e, 64, 228 * 1024, 128));
    refuses("build", words, |e, _| {
        urgent(e, 64, 8_192, 128);
        find(&mut e.cells, BASELINE).record.configs[1].shared_bytes = 228 * 1024;
    });
    assert_eq!(judged(&|e| urgent(e, 64, 8_192, 128)), "");
    refuses("build", "the limits of an SM of sm_75 are not known", |e, _| {
        e.environment.device.arch = "sm_75".to_owned();
        e.build.as_mut().unwrap().kernels.iter_mut().for_each(|kernel| kernel.arch = "sm_75".to_owned());
    });
}

/// Built for sm_80, run on sm_90, and every step said that it was done.
#[test]
fn a_wrong_architecture_under_green_markers() {
    refuses("build", "kernels is 0", |e, _| {
        let build = e.build.as_mut().unwrap();
        build.kernels.iter_mut().for_each(|kernel| kernel.arch = "sm_80".to_owned());
        build.cubins.iter_mut().for_each(|cubin| cubin.arch = "sm_80".to_owned());
    });
    refuses("build", "from a cubin that is not in the build record", |e, _| {
        e.build.as_mut().unwrap().cubins.iter_mut().for_each(|cubin| cubin.arch = "sm_80".to_owned());
    });
    refuses("structure", "launches is 0", |e, _| {
        let none = |launches: &Table| take_rows(launches, &[]);
        let all = e.cells.iter_mut().filter_map(|cell| cell.data.launches.as_mut());
        all.for_each(|launches| *launches = none(launches));
    });
}

/// The kernels changed, and what guards them still speaks of those before.
#[test]
fn a_guard_whose_baseline_went_stale() {
    let other = || Digest::of("what the kernel was before");
    refuses("freshness", "preempt_yield_p1: measured", |_, f| {
        f.built.as_mut().unwrap().insert("preempt_yield_p1".to_owned(), other());
    });
    refuses("sanitizer", "the verdict is for other SASS", |e, _| {
        for sanitized in &mut e.sanitizer {
            sanitized.verdict.sass.iter_mut().for_each(|(_, digest)| *digest = other());
        }
    });
    refuses("build", "has no budget", |_, f| f.history.as_mut().unwrap().budgets.clear());
    refuses("registration", "differ from those of the measured commit", |_, f| {
        f.history.as_mut().unwrap().claims = Some(other());
    });
}

/// The box is gone, and with it the block rows; or all but the summary.
#[test]
fn raw_data_lost_with_the_box() {
    refuses("recompute", "the block rows are not at hand", |_, f| f.detached = None);
    refuses("samples", "cells_recorded is 0", |e, _| e.cells.clear());
    refuses("samples", "was planned and is not there", |e, _| e.cells.retain(|cell| cell.name() != BASELINE));
    refuses("structure", "it has no launches", |e, _| find(&mut e.cells, YIELD).launches = None);
}

/// Every check ended well and counted nothing.
#[test]
fn a_check_whose_output_said_nothing() {
    refuses("sanitizer", "shows no launch that ran clean", |e, _| {
        for sanitized in &mut e.sanitizer {
            sanitized.verdict.launches = 0;
        }
    });
    refuses("sanitizer", "verdicts is 0", |e, _| e.sanitizer.clear());
    refuses("numerics", "poisoned_launches is 0", |e, _| {
        for cell in &mut e.cells {
            cell.data.record.configs.retain(|config| config.mode != "poison");
            if let Some(launches) = &mut cell.data.launches {
                set_column(launches, "config", Column::U32(vec![0; launches.rows()]));
            }
        }
    });
    refuses("clocks", "did not observe their clock", |e, _| {
        let launches = launches(e, YIELD);
        set_column(launches, "clock_windows", Column::U32(vec![0; launches.rows()]));
    });
    refuses("recompute", "no launch's clock", |_, f| f.detached.as_mut().unwrap().clock_launches = 0);
    refuses("registration", "claims is 0", |e, _| e.claims.claim.clear());
}
