//! Each limit at the value itself and beside it, so that no rule can be moved by one without a test that says so.

use super::faults_of_data::{launches, spec};
use super::{YIELD, ask, bundled, refuses, set_at};
use crate::trial::{Registration, evidence, find};
use pure::gate::evidence::{DetachedFacts, Evidence, Facts, SanitizerEvidence};
use pure::gate::{all_passed, judge, lines};
use pure::trial::synthetic::{set_column, take_rows};
use schema::Digest;
use schema::build::Cubin;
use schema::bundle::{CarriedSass, FileFacts};
use schema::contract::{ProgramSpec, Recipe};
use schema::sanitize::{SanitizerVerdict, State, Tool};
use schema::verdict::GateResult;
use tables::Column;

const BASELINE: &str = "baseline/k=64,blocks=8";
const CALIBRATE: &str = "calibrate/k=64,blocks=4";
const COST: &str = "yield/cost,k=64,blocks=8,poll=1";

/// The result of one gate over the trial with a change.
fn gate_of(gate: &str, change: impl FnOnce(&mut Evidence, &mut Facts)) -> GateResult {
    let (mut evidence, mut facts) = evidence();
    change(&mut evidence, &mut facts);
    judge(&evidence, &facts).into_iter().find(|result| result.name == gate).unwrap()
}

fn passes(gate: &str, change: impl FnOnce(&mut Evidence, &mut Facts)) {
    let found = gate_of(gate, change);
    assert!(found.passed, "{gate}: {}", found.reason);
}

/// Everything the gates counted in the passing trial, so that a count that no refusal rests on is right as well.
#[test]
fn what_the_trial_counts() {
    let (evidence, facts) = evidence();
    let mut text = String::new();
    for gate in judge(&evidence, &facts) {
        for (key, value) in &gate.evidence {
            numbers(&format!("{} {key}", gate.name), value, &mut text);
        }
    }
    insta::assert_snapshot!(text);
}

fn numbers(path: &str, value: &serde_json::Value, text: &mut String) {
    match value {
        serde_json::Value::Object(of) => {
            of.iter().for_each(|(key, value)| numbers(&format!("{path} {key}"), value, text))
        }
        serde_json::Value::Number(_) | serde_json::Value::Null | serde_json::Value::Bool(_) => {
            *text += &format!("{path} = {value}\n");
        }
        _ => {}
    }
}

#[test]
fn lines_for_people_name_every_gate_and_what_to_do() {
    let gate = |name: &str, passed, reason: &str, remedy: &str| GateResult {
        name: name.to_owned(),
        passed,
        evidence: std::collections::BTreeMap::new(),
        reason: reason.to_owned(),
        remedy: remedy.to_owned(),
    };
    let gates = [gate("a", true, "", ""), gate("b", false, "why", "do"), gate("c", false, "why", "")];
    assert_eq!(lines(&gates), ["pass    a", "REFUSED b: why", "        do", "REFUSED c: why"]);
    assert!(all_passed(&gates[..1]) && !all_passed(&gates) && !all_passed(&[]));
}

#[test]
fn facts_are_taken_from_elsewhere_only_where_they_are_absent() {
    let facts = evidence().1;
    assert_eq!(Facts::default().or(facts.clone()), facts);
    assert_eq!(facts.clone().or(Facts::default()), facts);
    let of =
        |events, clock_launches, fault: &str| DetachedFacts { events, clock_launches, faults: vec![fault.to_owned()] };
    let both = DetachedFacts { faults: vec!["a".to_owned(), "b".to_owned()], ..of(5, 11, "") };
    assert_eq!(of(2, 4, "a").and(of(3, 7, "b")), both);
}

#[test]
fn a_hundred_events_with_block_rows_are_sampled() {
    let (mut evidence, _) = evidence();
    let sampled = evidence.sampled_events(Digest::of("manifest")).unwrap();
    assert_eq!(sampled.len(), 100);
    assert!(sampled.iter().all(|(cell, ..)| cell.starts_with("yield/k=")));
    evidence.cells.iter_mut().for_each(|cell| cell.data.record.files.clear());
    assert!(evidence.sampled_events(Digest::of("manifest")).unwrap().is_empty());
}

#[test]
fn attempts() {
    let began = |e: &mut Evidence, run: bool, when: &str| {
        let steps = e.manifest.predicate.steps.iter_mut().filter(|step| (step.name == "run") == run);
        steps.for_each(|step| step.began = when.to_owned());
    };
    refuses("attempts", "before the first launch", |e, _| began(e, true, "2025-12-31T00:00:00Z"));
    passes("attempts", |e, _| began(e, false, "2025-12-31T00:00:00Z"));
    let opened = evidence().0.manifest.predicate.attempts[0].opened.clone();
    passes("attempts", |e, _| began(e, true, &opened));
    refuses("attempts", "before the first launch", |e, _| began(e, true, "some day"));
}

#[test]
fn build_budgets() {
    let kernel = |e: &mut Evidence, registers, shared_bytes| {
        let kernel = &mut e.build.as_mut().unwrap().kernels[4];
        (kernel.registers, kernel.shared_bytes) = (registers, shared_bytes);
    };
    passes("build", |e, _| kernel(e, 96, 16_384));
    refuses("build", "97 registers, budget 96", |e, _| kernel(e, 97, 16_384));
    refuses("build", "16385 shared bytes, budget 16384", |e, _| kernel(e, 96, 16_385));
    refuses("build", "spills 1 bytes", |e, _| e.build.as_mut().unwrap().kernels[4].spill_bytes = 1);
    refuses("build", "uses 1 bytes of stack", |e, _| e.build.as_mut().unwrap().kernels[4].stack_bytes = 1);
    passes("build", |e, _| {
        let kernels = &mut e.build.as_mut().unwrap().kernels;
        let mut control = kernels[4].clone();
        (control.file, control.symbol, control.stack_bytes) = ("controls/race".into(), "control".into(), 16);
        kernels.push(control);
    });
    for change in [
        (|b: &mut pure::gate::evidence::KernelBudget| b.budget.symbol = "other".to_owned()) as fn(&mut _),
        |b| b.budget.file = "other".to_owned(),
        |b| b.folder = "other".to_owned(),
    ] {
        refuses("build", "preempt_yield_p1 has no budget", |_, f| {
            let budgets = &mut f.history.as_mut().unwrap().budgets;
            change(budgets.iter_mut().find(|b| b.budget.symbol == "preempt_yield_p1").unwrap());
        });
    }
}

#[test]
fn a_launch_from_a_cubin_that_is_not_for_measuring() {
    for (arch, flavor) in [("sm_90", "lineinfo"), ("sm_80", "measure")] {
        refuses("build", "from a cubin that is not in the build record", |e, _| {
            let cubin = other_cubin(e, arch, flavor, "preempt/yield");
            find(&mut e.cells, YIELD).record.configs[0].cubin = Some(cubin);
        });
    }
    refuses("build", "preempt_yield_p1 was launched but is not in", |e, _| {
        e.build.as_mut().unwrap().kernels[4].arch = "sm_80".to_owned();
    });
}

/// Adds a cubin to the build record; gives its digest.
fn other_cubin(evidence: &mut Evidence, arch: &str, flavor: &str, file: &str) -> Digest {
    let sha256 = Digest::of(format!("{arch} {flavor} {file}"));
    let (file, arch, flavor) = (file.to_owned(), arch.to_owned(), flavor.to_owned());
    let (path, foreign_paths) = ("cubins/x".to_owned(), 0);
    let cubin = Cubin { file, arch, flavor, path, sha256, foreign_paths };
    evidence.build.as_mut().unwrap().cubins.push(cubin);
    sha256
}

#[test]
fn clocks_that_an_observer_changed_or_a_lock_left() {
    let record = |e: &mut Evidence, mode: &str, restored, calls| {
        let clocks = &mut e.environment.clocks;
        (clocks.mode, clocks.restored, clocks.setter_calls) = (mode.to_owned(), restored, calls);
    };
    passes("clocks", |e, _| record(e, "observe", None, 0));
    passes("clocks", |e, _| record(e, "lock", Some(true), 2));
    for (mode, restored, calls) in [
        ("observe", None, 1),
        ("observe", Some(true), 1),
        ("observe", Some(false), 0),
        ("lock", None, 0),
        ("lock", Some(false), 2),
    ] {
        refuses("clocks", "not restored", |e, _| record(e, mode, restored, calls));
    }
}

/// Telemetry is counted in the cell that it was taken in, by the cell's place in the plan.
#[test]
fn a_long_cell_without_samples_of_its_own() {
    let empty = |e: &mut Evidence, name: &str| {
        let place = e.contract.cells.iter().position(|cell| cell.id() == name).unwrap() + 1;
        let telemetry = e.telemetry.as_mut().unwrap();
        let cells = telemetry.u32("cell").unwrap().iter().map(|cell| if *cell as usize == place { 0 } else { *cell });
        let cells = Column::U32(cells.collect());
        set_column(telemetry, "cell", cells);
    };
    refuses("clocks", "1 cells longer than 2 s have fewer than 2 telemetry samples", |e, _| empty(e, BASELINE));
    passes("clocks", |e, _| empty(e, CALIBRATE));
    passes("clocks", |e, _| empty(e, COST));
}

fn carry(evidence: &mut Evidence, facts: &mut Facts) {
    bundled(evidence, facts);
    let build = evidence.build.as_ref().unwrap();
    let bundle = evidence.bundle.as_mut().unwrap();
    bundle.sass = build.kernels.iter().map(CarriedSass::of).collect();
    let file = |cubin: &Cubin| (cubin.path.clone(), FileFacts { bytes: 1, sha256: cubin.sha256 });
    bundle.files = build.cubins.iter().map(file).collect();
}

#[test]
fn a_bundle_s_cubins_are_those_it_carries() {
    let with = |e: &mut Evidence, f: &mut Facts| {
        carry(e, f);
        e.build.as_mut().unwrap().toolkit = "bundle".to_owned();
    };
    passes("environment", with);
    // What is not measured here need not be carried.
    passes("environment", |e, f| {
        with(e, f);
        other_cubin(e, "sm_90", "lineinfo", "preempt/yield");
        other_cubin(e, "sm_80", "measure", "preempt/yield");
    });
    refuses("environment", "does not carry the cubin of preempt/more", |e, f| {
        with(e, f);
        other_cubin(e, "sm_90", "measure", "preempt/more");
    });
    // Wheels of our own need no bundle.
    passes("environment", |e, _| {
        other_cubin(e, "sm_90", "measure", "preempt/more");
    });
}

#[test]
fn a_box_s_own_toolkit_rebuilds_every_carried_kernel() {
    let with = |e: &mut Evidence, f: &mut Facts| {
        carry(e, f);
        e.build.as_mut().unwrap().toolkit = "box".to_owned();
    };
    assert_eq!(gate_of("environment", with).evidence["box_rebuilt_equal"], 5);
    passes("environment", with);
    passes("environment", |e, f| {
        with(e, f);
        let sass = &mut e.bundle.as_mut().unwrap().sass;
        let other = CarriedSass { arch: "sm_80".to_owned(), sass_digest: Digest::of("x"), ..sass[0].clone() };
        sass.insert(0, other);
        let elsewhere = CarriedSass { symbol: "not_measured".to_owned(), ..sass[1].clone() };
        sass.push(elsewhere);
    });
    refuses("environment", "builds other SASS for preempt_yield_p1", |e, f| {
        with(e, f);
        e.bundle.as_mut().unwrap().sass[4].sass_digest = Digest::of("x");
    });
    for keep in [4, 1, 0] {
        refuses("environment", "did not rebuild every carried kernel", |e, f| {
            with(e, f);
            e.bundle.as_mut().unwrap().sass.truncate(keep);
        });
    }
    refuses("environment", "did not rebuild every carried kernel", |e, f| {
        with(e, f);
        e.build.as_mut().unwrap().kernels.clear();
    });
}

#[test]
fn what_nvml_says_alone() {
    type Nvml = schema::environment::NvmlFacts;
    let with =
        |change: fn(&mut Nvml)| move |e: &mut Evidence, _: &mut Facts| change(e.environment.nvml.as_mut().unwrap());
    passes("environment", with(|nvml| (nvml.ecc, nvml.ecc_uncorrected) = (Some(false), None)));
    passes("environment", with(|nvml| (nvml.ecc, nvml.ecc_uncorrected) = (None, None)));
    refuses("environment", "MIG slice", with(|nvml| nvml.mig = Some(true)));
    refuses("environment", "1 other processes", with(|nvml| nvml.other_processes_before = Some(1)));
    for unobservable in [(None, Some(0)), (Some(0), None), (None, None)] {
        let gate = gate_of("environment", |e, _| {
            let nvml = e.environment.nvml.as_mut().unwrap();
            (nvml.other_processes_before, nvml.other_processes_after) = unobservable;
        });
        assert!(gate.passed && gate.evidence["exclusive"] == "unobservable", "{gate:?}");
    }
    passes("environment", |e, _| e.environment.device.driver_cuda = 13_010);
}

#[test]
fn freshness_and_recompute() {
    let stale = gate_of("freshness", |_, f| {
        f.built.as_mut().unwrap().insert("preempt_drain".to_owned(), Digest::of(b"x"));
    });
    assert_eq!(stale.evidence["equal"], 4);
    assert!(!stale.reason.contains("preempt_urgent") && !stale.reason.contains(';'), "{}", stale.reason);
    passes("recompute", |e, f| {
        let mut first = true;
        for launches in e.cells.iter_mut().filter_map(|cell| cell.data.launches.as_mut()) {
            let windows = (0..launches.rows()).map(|_| u32::from(std::mem::take(&mut first))).collect();
            set_column(launches, "clock_windows", Column::U32(windows));
        }
        f.detached.as_mut().unwrap().clock_launches = 1;
    });
    refuses("recompute", "9999 events were derived again, and 10000 are there", |_, f| {
        f.detached.as_mut().unwrap().events -= 1;
    });
    refuses("recompute", "launches' clocks were derived again", |_, f| {
        f.detached.as_mut().unwrap().clock_launches += 1
    });
    refuses("recompute", "cannot be computed: broken", |e, _| e.recomputed.fault = "broken".to_owned());
    let first = evidence().0.figures.into_keys().next().unwrap();
    refuses("recompute", &format!("summary/{first} is not what the values give"), |e, _| {
        e.figures.get_mut(&first).unwrap().push(' ');
    });
    refuses("recompute", "summary/x.svg is no figure of this run", |e, _| {
        drop(e.figures.insert("x.svg".to_owned(), String::new()));
    });
}

#[test]
fn claim_and_prediction_that_both_came_with_the_measured_commit() {
    let gate = gate_of("registration", ask(Registration::Same, |_| {}));
    assert_eq!(gate.reason.matches("was committed with the measured commit itself").count(), 2, "{}", gate.reason);
    let both = gate_of("registration", |_, f| f.history.as_mut().unwrap().registered.clear());
    assert!(both.reason.contains("claim T-1 is not in the history"), "{}", both.reason);
}

#[test]
fn sms_without_a_round_have_no_offset() {
    let rounds = |e: &mut Evidence, rounds: [u32; 4]| {
        set_column(&mut find(&mut e.cells, "instrument/timer").events, "rounds", Column::U32(rounds.to_vec()));
    };
    passes("instrument", |e, _| rounds(e, [1, 1, 1, 1]));
    refuses("instrument", "offsets of 3 SMs", |e, _| rounds(e, [8, 8, 0, 8]));
}

/// A leg of the trial with this shift, and this error with its interval.
fn leg(evidence: &mut Evidence, leg: &str, shift: i64, error: (i64, i64, i64), spread: Option<i64>) {
    let cell = format!("leg={leg}");
    if spread.is_none() {
        evidence.recomputed.metrics.retain(|m| m.cell != cell || m.metric != "leg_spread_ns");
    }
    for metric in evidence.recomputed.metrics.iter_mut().filter(|m| m.cell == cell) {
        let (value, lo, hi) = match metric.metric.as_str() {
            "leg_shift_ns" => (shift, shift, shift),
            "leg_shift_error_ns" => error,
            "leg_spread_ns" => spread.map(|ns| (ns, ns, ns)).unwrap(),
            _ => continue,
        };
        (metric.value, metric.lo, metric.hi) = (value.to_string(), lo.to_string(), hi.to_string());
    }
}

/// Two quanta are 64 ns, and the interval may be a quarter of 2048 ns wide.
#[test]
fn a_leg_within_two_quanta_or_with_a_narrow_interval_that_reaches_them() {
    for (error, holds) in [
        ((64, 65, 65), true),
        ((65, 65, 65), false),
        ((-64, -65, -65), true),
        ((-65, -65, -65), false),
        ((65, 64, 65), true),
        ((65, 66, 66), false),
        ((-65, -65, -64), true),
        ((-66, -66, -66), false),
        ((65, 65 - 512, 65), true),
        ((65, 65 - 513, 65), false),
        ((500, 400, 600), false),
    ] {
        let gate = gate_of("instrument", |e, _| leg(e, "urgent", 2_048, error, Some(0)));
        assert_eq!(gate.passed, holds, "{error:?}: {}", gate.reason);
    }
    for (shift, holds) in [(1_024, false), (1_025, true)] {
        let gate = gate_of("instrument", |e, _| leg(e, "urgent", shift, (0, 0, 0), Some(0)));
        assert_eq!(gate.passed, holds, "{shift}: {}", gate.reason);
    }
}

#[test]
fn only_a_host_leg_is_known_to_its_own_spread() {
    for (name, error, spread, holds) in [
        ("host_to_set", 300, Some(300), true),
        ("host_to_set", 301, Some(300), false),
        ("done_to_host", 300, Some(300), true),
        ("host_to_set", 64, Some(3), true),
        ("host_to_set", 64, None, true),
        ("host_to_set", 65, None, false),
        ("urgent", 300, Some(300), false),
    ] {
        let gate = gate_of("instrument", |e, _| leg(e, name, 2_048, (error, error, error), spread));
        assert_eq!(gate.passed, holds, "{name} {error} {spread:?}: {}", gate.reason);
    }
}

#[test]
fn a_planted_delay_is_longer_than_two_quanta() {
    let words = "is below two quanta";
    let planted = |e: &mut Evidence, ns: u32| {
        for metric in e.contract.cells.iter_mut().flat_map(|cell| &mut cell.metrics) {
            if let Recipe::PlantedDelay { planted_ns, .. } = &mut metric.recipe {
                *planted_ns = ns;
            }
        }
    };
    let reason = |ns| gate_of("instrument", |e, _| planted(e, ns)).reason;
    assert!(reason(64).contains(words) && !reason(65).contains(words));
}

#[test]
fn a_device_time_under_two_quanta_is_said_to_be_a_bound() {
    let valued = |name: &'static str, value: &'static str, note: &'static str| {
        move |e: &mut Evidence, _: &mut Facts| {
            let metric = e.recomputed.metrics.iter_mut().find(|m| m.metric == name).unwrap();
            (metric.value, metric.note) = (value.to_owned(), note.to_owned());
        }
    };
    passes("instrument", valued("first_observer_us_p50", "0.064", ""));
    refuses("instrument", "not shown as a bound", valued("first_observer_us_p50", "0.063", ""));
    passes("instrument", valued("first_observer_us_p50", "0.063", "bound: under two quanta"));
    passes("instrument", valued("urgent_wait_us_p50", "0.001", ""));
    passes("instrument", valued("drain_ms_p50", "0.001", ""));
    let bounds = |e: &mut Evidence, f: &mut Facts| valued("first_observer_us_p50", "0.063", "bound")(e, f);
    let before = gate_of("instrument", |_, _| {}).evidence["bounds"].as_u64().unwrap();
    assert_eq!(gate_of("instrument", bounds).evidence["bounds"], before + 1);
}

fn control(evidence: &mut Evidence, tool: Tool) -> &mut SanitizerVerdict {
    let is_control = |s: &&mut SanitizerEvidence| s.verdict.tool == tool && s.verdict.control_caught.is_some();
    &mut evidence.sanitizer.iter_mut().find(is_control).unwrap().verdict
}

fn program(evidence: &mut Evidence, tool: Tool) -> &mut SanitizerVerdict {
    let is_program = |s: &&mut SanitizerEvidence| s.verdict.tool == tool && s.verdict.control_caught.is_none();
    &mut evidence.sanitizer.iter_mut().find(is_program).unwrap().verdict
}

#[test]
fn a_control_is_caught_by_its_own_tool_with_a_finding() {
    for tool in Tool::ALL {
        let words = format!("{} did not catch", tool.name());
        passes("sanitizer", |e, _| control(e, tool).findings = Some(1));
        refuses("sanitizer", &words, |e, _| control(e, tool).findings = Some(0));
        refuses("sanitizer", &words, |e, _| control(e, tool).findings = None);
        refuses("sanitizer", &words, |e, _| control(e, tool).program = "another".to_owned());
        refuses("sanitizer", &words, |e, _| {
            let mut again = e.sanitizer.iter().find(|s| s.verdict == *control(&mut e.clone(), tool)).unwrap().clone();
            again.verdict.control_caught = Some(false);
            e.sanitizer.push(again);
        });
    }
}

#[test]
fn a_clean_verdict_rests_on_every_witness() {
    let tool = Tool::Initcheck;
    let refused = |change: &dyn Fn(&mut SanitizerVerdict)| {
        refuses("sanitizer", "shows no launch that ran clean", |e, _| change(program(e, tool)));
    };
    refused(&|v| v.exit_code = Some(1));
    refused(&|v| v.exit_code = None);
    refused(&|v| v.findings = Some(1));
    refused(&|v| v.findings = None);
    refused(&|v| v.state = State::Inconclusive);
    refused(&|v| v.tool_version.clear());
    refused(&|v| v.sites.retain(|site, _| site != "yield"));
    let one = |v: &mut SanitizerVerdict| {
        v.launches = 1;
        v.sites.values_mut().for_each(|times| *times = 1);
    };
    passes("sanitizer", |e, _| one(program(e, tool)));
    let launches = gate_of("sanitizer", |e, _| one(program(e, tool)));
    assert_eq!(launches.evidence["launches"]["initcheck"], 1);
}

/// The bytes that a sanitizer saw are of the kernel's own file, for the device's architecture.
#[test]
fn a_sanitized_cubin_of_another_file_or_architecture() {
    for (arch, file) in [("sm_90", "preempt/drain"), ("sm_80", "preempt/yield")] {
        refuses("sanitizer", "shows no launch that ran clean", |e, _| {
            let cubin = other_cubin(e, arch, "lineinfo", file);
            let configs = &mut program(e, Tool::Memcheck).configs;
            configs.iter_mut().filter(|c| c.mode == "event_device").for_each(|c| c.cubin = Some(cubin));
        });
    }
    passes("sanitizer", |e, _| {
        let cubin = other_cubin(e, "sm_90", "lineinfo", "preempt/yield");
        let configs = &mut program(e, Tool::Memcheck).configs;
        configs.iter_mut().filter(|c| c.symbol == "preempt_yield_p1").for_each(|c| c.cubin = Some(cubin));
    });
}

/// Every program that the contract names, under every tool.
#[test]
fn a_program_of_the_contract_that_did_not_run() {
    let named = |name: &str| ProgramSpec { name: name.to_owned(), sites: Vec::new() };
    for tool in Tool::ALL {
        let words = format!("program everything did not run under {}", tool.name());
        refuses("sanitizer", &words, |e, _| program(e, tool).program = "another".to_owned());
        let words = format!("program more did not run under {}", tool.name());
        refuses("sanitizer", &words, |e, _| e.contract.programs.push(named("more")));
    }
    // A control that was caught is no program that ran clean.
    refuses("sanitizer", "program control_out_of_bounds did not run under memcheck", |e, _| {
        let caught = control(e, Tool::Memcheck).program.clone();
        e.contract.programs.push(named(&caught));
    });
    refuses("sanitizer", "programs is 0", |e, _| e.contract.programs.clear());
}

/// A program must pass the sites that the contract names for it, and no others.
#[test]
fn sites_are_those_of_the_program() {
    // Launches of some modes run in a program of their own, which names these sites and passed them so often.
    let split = |e: &mut Evidence, mode: fn(&str) -> bool, named: &[&str], passed: [u64; 3]| {
        let program_of = |name: &str| ProgramSpec {
            name: name.to_owned(),
            sites: named.iter().map(|site| (*site).to_owned()).collect(),
        };
        e.contract.programs.push(program_of("own"));
        for tool in Tool::ALL {
            let verdict = program(e, tool);
            let mut own =
                SanitizerEvidence { name: "own".to_owned(), verdict: verdict.clone(), log_faults: Vec::new() };
            verdict.configs.retain(|config| !mode(&config.mode));
            own.verdict.configs.retain(|config| mode(&config.mode));
            own.verdict.program = "own".to_owned();
            own.verdict.nonce = format!("own {}", tool.name());
            own.verdict.sites = ["yield", "claim", "copy"].map(str::to_owned).into_iter().zip(passed).collect();
            e.sanitizer.push(own);
        }
    };
    let events: fn(&str) -> bool = |mode| mode.starts_with("event_");
    passes("sanitizer", |e, _| split(e, |mode| mode == "timer", &[], [0, 0, 0]));
    passes("sanitizer", |e, _| split(e, |mode| !mode.starts_with("event_"), &["copy"], [0, 0, 1]));
    passes("sanitizer", |e, _| split(e, events, &["claim", "copy", "yield"], [1, 1, 1]));
    for sites in [[0, 1, 1], [1, 0, 1], [1, 1, 0]] {
        let words = "shows no launch that ran clean";
        refuses("sanitizer", words, |e, _| split(e, events, &["claim", "copy", "yield"], sites));
    }
}

#[test]
fn events_met_and_rows_written() {
    passes("structure", |e, _| {
        let events = &mut find(&mut e.cells, YIELD).events;
        let one = Column::U32(vec![1; events.rows()]);
        set_column(events, "observers", one);
    });
    refuses("structure", "yield/k=64,blocks=8,poll=1,set=device: it has no launches", |e, _| {
        let cell = find(&mut e.cells, YIELD);
        cell.launches = Some(take_rows(cell.launches.as_ref().unwrap(), &[]));
    });
    refuses("structure", "1 cell whose blocks make -100.0 % of throughput more than its launches", |e, _| {
        let cell = find(&mut e.cells, CALIBRATE);
        cell.events = take_rows(&cell.events, &[]);
    });
    refuses("structure", "1 launches recorded another number of events", |e, _| {
        let cell = find(&mut e.cells, YIELD);
        let of_others = cell.events.u32("launch").unwrap().iter().enumerate().filter(|(_, launch)| **launch != 7);
        let of_others: Vec<usize> = of_others.map(|(row, _)| row).collect();
        cell.events = take_rows(&cell.events, &of_others);
        set_at(launches(e, YIELD), "urgent_requested", 7, 1);
    });
}

#[test]
fn a_cell_of_one_launch_is_looked_at() {
    let one = gate_of("numerics", |e, _| {
        let cell = find(&mut e.cells, YIELD);
        cell.launches = Some(take_rows(cell.launches.as_ref().unwrap(), &[5]));
    });
    assert!(one.passed, "{}", one.reason);
}

#[test]
fn samples_short_by_one() {
    for (drop_rows, words) in [(1, "199 unique events of 200 planned"), (1, "199 launches of 200 planned")] {
        refuses("samples", words, |e, _| {
            let cell = find(&mut e.cells, COST);
            cell.events = take_rows(&cell.events, &(drop_rows..cell.events.rows()).collect::<Vec<_>>());
        });
    }
    // Twenty launches stand behind a p99, not nineteen.
    for words in
        ["10000 unique events over 19 launches, and at least", "preempt_latency_us_p99: 10000 unique events over 19"]
    {
        refuses("samples", words, |e, _| {
            let events = &mut find(&mut e.cells, YIELD).events;
            let launch = events.u32("launch").unwrap().iter().map(|launch| (*launch).min(20)).collect();
            let event = (0..events.rows() as u32).collect();
            set_column(events, "launch", Column::U32(launch));
            set_column(events, "event", Column::U32(event));
            spec(e, YIELD).expects.launches = 19;
        });
    }
    refuses("samples", "its header counts 9999 events and 10000 are there", |e, _| {
        find(&mut e.cells, YIELD).record.events = 9_999;
    });
    // A launch discarded as warm-up takes its events with it.
    refuses("samples", "9999 unique events of 10000 planned", |e, _| {
        set_at(launches(e, BASELINE), "warmup", 9, 1);
        find(&mut e.cells, BASELINE).record.warmup_launches = 3;
    });
}

/// Blocks that were alone for a while, when others had left, took less time for a tile than they do in a full launch.
#[test]
fn walls_that_do_not_make_the_throughput() {
    let scaled = |by: f64| {
        move |e: &mut Evidence, _: &mut Facts| {
            let events = &mut find(&mut e.cells, CALIBRATE).events;
            let walls = events.u32("wall_ns").unwrap().iter().map(|ns| (f64::from(*ns) / by) as u32).collect();
            set_column(events, "wall_ns", Column::U32(walls));
        }
    };
    for by in [0.985, 1.015] {
        passes("structure", scaled(by));
    }
    refuses("structure", "1 cell whose blocks make +17.4 % of throughput more than its launches", scaled(1.174));
    refuses("structure", "1 cell whose blocks make -2.5 % of throughput", scaled(0.975));
    passes("structure", |e, f| {
        e.environment.device.id = "emulated".to_owned();
        scaled(1.5)(e, f);
    });
}

/// Launches may be discarded by rule alone, and as many as the rule says.
#[test]
fn warm_up_at_its_limits() {
    for (cell, all, by_rule) in
        [(YIELD, 5, true), (YIELD, 6, false), (BASELINE, 1_000, true), (BASELINE, 1_001, false), (COST, 1, false)]
    {
        let gate = gate_of("samples", |e, _| {
            (5..5 + all).for_each(|row| set_at(launches(e, cell), "warmup", row, 1));
            find(&mut e.cells, cell).record.warmup_launches = 2 + all as u32;
        });
        let refused = gate.reason.contains("discarded as warm-up");
        assert_eq!(!refused, by_rule, "{cell}: {all} discarded: {}", gate.reason);
    }
}

/// Two timers of the trial disagree by 64 ns at most, and its quantum is 32: a leg may end 128 ns before it begins.
#[test]
fn a_negative_interval_counts_beyond_the_timers_own_disagreement() {
    let first = |e: &mut Evidence, ns: i64| {
        let events = &mut find(&mut e.cells, YIELD).events;
        let mut first = events.i64("first_observer_ns").unwrap().to_vec();
        first[0] = ns;
        set_column(events, "first_observer_ns", Column::I64(first));
    };
    let words = "1 events have first_observer_ns before their own instant";
    passes("structure", |e, _| first(e, -128));
    refuses("structure", words, |e, _| first(e, -129));
    let timer = |e: &mut Evidence| find(&mut e.cells, "instrument/timer").record.facts.set("timer_quantum_ns", ());
    refuses("structure", words, |e, _| {
        first(e, -65);
        timer(e);
    });
    let offsets = |e: &mut Evidence| {
        find(&mut e.cells, "instrument/timer").events.columns.retain(|(name, _)| name != "offset_ns");
    };
    refuses("structure", words, |e, _| {
        first(e, -65);
        offsets(e);
    });
    refuses("structure", "1 events have host_done_ns before host_issue_ns", |e, _| {
        let events = &mut find(&mut e.cells, "instrument/leg=host_to_set").events;
        let mut done = events.opt_i64("host_done_ns").unwrap().to_vec();
        done[0] = events.opt_i64("host_issue_ns").unwrap()[0].map(|issue| issue - 500);
        set_column(events, "host_done_ns", Column::OptI64(done));
    });
}
