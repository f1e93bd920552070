//! Every gate refuses: one planted fault a case, in a run that passes without it.

use crate::runs::history;
use crate::trial::{RUN, Registration, Trial, claims, evidence, find};
use preempt::plan::Residency;
use pure::book::notebook::{Entry, NewEntry, append, parse};
use pure::gate::{Evidence, Facts, judge, verdict};
use pure::numbers::derive::derive;
use pure::numbers::summary::CellData;
use pure::records::attempts::{Chain, Intent, MEASURED};
use pure::trial::synthetic::{set_column, take_rows};
use schema::Digest;
use schema::bundle::BundleRecord;
use schema::claim::Outcome;
use schema::environment::{NvmlFacts, Reading, Stamp};
use schema::plan::{ClockClass, ProfileName};
use schema::sanitize::{State, Tool};
use std::collections::{BTreeMap, BTreeSet};
use tables::Column;

mod audit;
mod captured;
mod counters;
mod faults_of_data;
mod limits;
mod standing;
mod timeline;

const YIELD: &str = "yield/k=64,blocks=8,poll=1,set=device";

/// Plants a fault and expects `gate` to refuse with a reason that holds `words`, and to say what to do.
fn refuses(gate: &str, words: &str, plant: impl FnOnce(&mut Evidence, &mut Facts)) {
    let (mut evidence, mut facts) = evidence();
    plant(&mut evidence, &mut facts);
    let gates = judge(&evidence, &facts);
    let found = gates.iter().find(|result| result.name == gate).unwrap();
    assert!(!found.passed && found.reason.contains(words), "{gate} should refuse for {words:?}: {found:?}");
    assert!(!found.remedy.is_empty(), "{gate} gives no remedy for {words:?}");
    assert!(!pure::gate::all_passed(&gates));
}

/// Computes again what follows from the cells, as it was sealed and as a gate finds it.
fn anew(evidence: &mut Evidence) {
    let cells: Vec<CellData> = evidence.cells.iter().map(|cell| cell.data.clone()).collect();
    evidence.recomputed = derive(&evidence.contract, &evidence.manifest.predicate.run, &cells);
    evidence.metrics_csv = Some(evidence.recomputed.metrics_csv.clone());
    evidence.figures = evidence.recomputed.figures.clone();
}

#[test]
fn the_trial_passes_every_gate_with_evidence_in_each() {
    let (evidence, facts) = evidence();
    for gate in judge(&evidence, &facts) {
        assert!(gate.passed, "{}: {}", gate.name, gate.reason);
        assert!(!gate.evidence.is_empty(), "{} counted nothing", gate.name);
    }
    let verdict = verdict(&evidence, &facts, Digest::of(b"")).unwrap();
    assert_eq!(verdict.claims[0].outcome, Outcome::Confirmed);
    let names: Vec<&str> = verdict.gates.iter().map(|gate| gate.name.as_str()).collect();
    let expected = "source environment build sanitizer numerics structure clocks samples instrument attempts registration recompute freshness";
    assert_eq!(names.join(" "), expected);
}

#[test]
fn source() {
    refuses("source", "not clean when the run began", |e, _| e.manifest.predicate.source.clean_before = false);
    refuses("source", "not clean when the run ended", |e, _| e.manifest.predicate.source.clean_after = false);
    refuses("source", "changed while", |e, _| e.manifest.predicate.source.digest_after = Digest::of(b"x"));
    refuses("source", "no commit", |e, _| e.manifest.predicate.source.commit = None);
    refuses("source", "unknown commit", |_, f| f.history.as_mut().unwrap().known = false);
    refuses("source", "not an ancestor", |_, f| f.history.as_mut().unwrap().in_history = false);
    refuses("source", "no git history", |_, f| f.history = None);
    refuses("source", "is not what commit", |_, f| {
        f.history.as_mut().unwrap().source = Some(Digest::of("another tree"))
    });
}

fn bundled(evidence: &mut Evidence, facts: &mut Facts) {
    let predicate = &mut evidence.manifest.predicate;
    let history = facts.history.as_mut().unwrap();
    predicate.source.kind = "bundle".to_owned();
    let one = |digest| BTreeMap::from([("preempt".to_owned(), digest)]);
    evidence.bundle = Some(BundleRecord {
        format: 1,
        commit: predicate.source.commit.clone().unwrap(),
        source: predicate.source.digest,
        plans: one(history.plan.unwrap()),
        claims: one(evidence.claims_digest),
        notebook_head: predicate.notebook_head,
        sass: Vec::new(),
        files: BTreeMap::new(),
    });
}

#[test]
fn a_bundle_passes_only_where_history_knows_it() {
    let (mut evidence, mut facts) = evidence();
    bundled(&mut evidence, &mut facts);
    assert!(judge(&evidence, &facts)[0].passed);
    let plant = |change: fn(&mut Evidence, &mut Facts)| {
        move |e: &mut Evidence, f: &mut Facts| {
            bundled(e, f);
            change(e, f);
        }
    };
    refuses(
        "source",
        "a bundle this repository does not know",
        plant(|_, f| f.history.as_mut().unwrap().known = false),
    );
    refuses("source", "holds no bundle.json", plant(|e, _| e.bundle = None));
    refuses("source", "another commit", plant(|e, _| e.bundle.as_mut().unwrap().commit = "0".repeat(40)));
    refuses("source", "name different sources", plant(|e, _| e.bundle.as_mut().unwrap().source = Digest::of(b"x")));
    refuses("source", "other claims than the run", plant(|e, _| e.bundle.as_mut().unwrap().claims.clear()));
    refuses("source", "does not name the plan", plant(|e, _| e.bundle.as_mut().unwrap().plans.clear()));
    refuses("environment", "does not carry", plant(|e, _| e.build.as_mut().unwrap().toolkit = "bundle".to_owned()));
}

#[test]
fn environment() {
    refuses("environment", "emulated device", |e, _| e.environment.device.id = "emulated".to_owned());
    refuses("environment", "NVML was not at hand", |e, _| e.environment.nvml = None);
    refuses("environment", "ECC", |e, _| e.environment.nvml.as_mut().unwrap().ecc_uncorrected = Some(1));
    refuses("environment", "row remap", |e, _| e.environment.nvml.as_mut().unwrap().remap_problem = Some(true));
    refuses("environment", "MIG", |e, _| e.environment.device.mig = Some(true));
    refuses("environment", "2 other processes", |e, _| {
        e.environment.nvml.as_mut().unwrap().other_processes_after = Some(2);
    });
    refuses("environment", "2 other processes", |e, _| {
        let nvml = e.environment.nvml.as_mut().unwrap();
        (nvml.other_processes_before, nvml.other_processes_after) = (Some(2), None);
    });
    refuses("environment", "could not be counted", |e, _| {
        e.environment.nvml.as_mut().unwrap().ecc_uncorrected = None;
    });
    type Planted = fn(&mut NvmlFacts);
    let planted: [(&str, Planted); 9] = [
        ("was not read right before", |n| n.watch = None),
        ("NVML watched other", |n| n.device = Some("other".to_owned())),
        ("at 00000000:0A:00.0", |n| n.pci = Some("00000000:0A:00.0".to_owned())),
        ("at an unknown address", |n| n.pci = None),
        ("after the run, something keeps", |n| n.watch.as_mut().unwrap().after.busy_pct = Reading::Value(100)),
        ("before the run, 2 other", |n| n.watch.as_mut().unwrap().before.processes = Reading::Value(2)),
        ("corrected during", |n| n.watch.as_mut().unwrap().after.ecc_corrected = Reading::Value(7_012_350_000)),
        ("lost during the run", |n| n.watch.as_mut().unwrap().lost = Some("the GPU is lost".to_owned())),
        ("could not be read", |n| {
            n.watch.as_mut().unwrap().after.memory_used_bytes = Reading::Failed("Unknown Error".to_owned());
        }),
    ];
    for (words, plant) in planted {
        refuses("environment", words, |e, _| plant(e.environment.nvml.as_mut().unwrap()));
    }
    refuses("environment", "CUDA measured on GPU", |e, _| e.environment.device.pci = None);
    refuses("environment", "Windows", |e, _| {
        e.environment.host.kernel = "5.15.167.4-microsoft-standard-WSL2".to_owned()
    });
    refuses("environment", "clocks were not read", |e, _| e.environment.time = None);
    refuses("environment", "slept for 60000 ms", |e, _| {
        e.environment.time.as_mut().unwrap()[1].boottime_ms += 60_000;
    });
    refuses("environment", "telemetry covers", |e, _| {
        let stamps = e.environment.time.as_mut().unwrap();
        *stamps = vec![stamps[0], *stamps.last().unwrap()];
    });
    refuses("environment", "telemetry covers", |e, _| {
        // The cells of a call that was interrupted: the next one only looks whether they are there.
        let stamps = e.environment.time.as_mut().unwrap();
        let last = stamps.len() - 2;
        let skipped = stamps[last].monotonic_ms - stamps[last - 1].monotonic_ms;
        assert!(skipped > 0);
        let clocks: [fn(&mut Stamp) -> &mut i64; 3] =
            [|stamp| &mut stamp.monotonic_ms, |stamp| &mut stamp.boottime_ms, |stamp| &mut stamp.wall_ms];
        for clock in clocks {
            let from = *clock(&mut stamps[last - 1]);
            stamps[last..].iter_mut().for_each(|stamp| *clock(stamp) = from);
        }
    });
    refuses("environment", "the driver supports CUDA up to 12090", |e, _| e.environment.device.driver_cuda = 12090);
    refuses("environment", "libcuda", |e, _| e.environment.device.libcuda = None);
    refuses("environment", "base image has no digest", |e, _| {
        e.environment.container.as_mut().unwrap().base_digest.clear();
    });
    refuses("environment", "no hardening", |e, _| e.environment.container.as_mut().unwrap().hardening.clear());
    refuses("environment", "unknown runtime", |e, _| e.environment.runtime = "podman".to_owned());
    refuses("environment", "compiler's version", |e, _| e.build.as_mut().unwrap().nvcc.clear());
    refuses("environment", "toolkit is unknown", |e, _| e.build = None);
    refuses("environment", "unknown origin", |e, _| e.build.as_mut().unwrap().toolkit = "found".to_owned());
    refuses("environment", "records no container", |e, _| e.environment.container = None);
    refuses("environment", "different toolkit locks", |e, _| e.environment.toolkit_lock = Digest::of(b"x"));
    refuses("environment", "measured commit's", |_, f| f.history.as_mut().unwrap().toolkit_lock = None);
    refuses("environment", "did not rebuild", |e, _| e.build.as_mut().unwrap().toolkit = "box".to_owned());
}

#[test]
fn a_run_whose_surroundings_were_not_watched_is_refused() {
    let strip: [fn(&mut Evidence); 4] = [
        |e| e.environment.time = None,
        |e| e.environment.device.pci = None,
        |e| e.environment.nvml.as_mut().unwrap().pci = None,
        |e| e.environment.nvml.as_mut().unwrap().watch = None,
    ];
    strip.iter().for_each(|strip| refuses("environment", "", |e, _| strip(e)));
    refuses("environment", "", |e, _| strip.iter().for_each(|strip| strip(e)));
}

#[test]
fn a_half_watched_cell_is_refused_and_one_watched_by_half_is_not() {
    let refused = |share: f64| {
        let (mut evidence, facts) = evidence();
        let cell = find(&mut evidence.cells, YIELD);
        let measured: f64 =
            cell.launches.as_ref().map(|l| pure::numbers::clock_class::measured_seconds(l).unwrap()).unwrap();
        let (phase, name) = (cell.record.phase.clone(), cell.record.cell.clone());
        let planned = &evidence.contract.cells;
        let index = 1 + planned.iter().position(|p| p.phase == phase && p.name == name).unwrap() as u32;
        let stamps = evidence.environment.time.as_mut().unwrap();
        // Every later stamp moves with it, so that no other cell is watched for less.
        let first = stamps.iter().position(|stamp| stamp.cell == index).unwrap();
        let was = stamps[first + 1].monotonic_ms - stamps[first].monotonic_ms;
        let by = (measured * share * 1e3).round() as i64 - was;
        for stamp in &mut stamps[first + 1..] {
            (stamp.monotonic_ms, stamp.boottime_ms, stamp.wall_ms) =
                (stamp.monotonic_ms + by, stamp.boottime_ms + by, stamp.wall_ms + by);
        }
        let gate = judge(&evidence, &facts).into_iter().find(|gate| gate.name == "environment").unwrap();
        gate.reason.contains("telemetry covers")
    };
    assert_eq!([0.0, 0.4, 0.6, 1.0].map(refused), [true, true, false, false]);
}

#[test]
fn a_step_of_the_wall_clock_is_a_label_and_no_refusal() {
    let (mut evidence, facts) = evidence();
    evidence.environment.time.as_mut().unwrap().iter_mut().skip(2).for_each(|stamp| stamp.wall_ms -= 1_145);
    let gate = judge(&evidence, &facts).into_iter().find(|gate| gate.name == "environment").unwrap();
    assert!(gate.passed, "{gate:?}");
    assert_eq!(gate.evidence["wall_clock_steps_ms"], serde_json::json!([-1_145]));
}

#[test]
fn build() {
    refuses("build", "is absent", |e, _| e.build = None);
    refuses("build", "kernels is 0", |e, _| e.build.as_mut().unwrap().kernels.clear());
    refuses("build", "compiler's version", |e, _| e.build.as_mut().unwrap().nvcc.clear());
    refuses("build", "budgets are not available", |_, f| f.history = None);
    refuses("build", "launched_symbols is 0", |e, _| {
        e.cells.iter_mut().for_each(|cell| cell.data.record.configs.clear());
    });
    refuses("build", "host compiler that nvcc does not support", |e, _| {
        e.build.as_mut().unwrap().flags.push("-allow-unsupported-compiler".to_owned());
    });
    refuses("build", "spills 8 bytes", |e, _| e.build.as_mut().unwrap().kernels[4].spill_bytes = 8);
    refuses("build", "of stack", |e, _| e.build.as_mut().unwrap().kernels[4].stack_bytes = 16);
    refuses("build", "registers, budget", |e, _| e.build.as_mut().unwrap().kernels[4].registers = 97);
    refuses("build", "blocks per SM, budget", |e, _| e.build.as_mut().unwrap().kernels[4].blocks_per_sm = 1);
    refuses("build", "has no budget", |_, f| f.history.as_mut().unwrap().budgets.clear());
    refuses("build", "the kernel's resources allow", |e, _| {
        e.environment.device.slots = e.environment.device.slots.clone().with("yield_per_sm", 3)
    });
    refuses("build", "baseline/k=64,blocks=8 lists no launch in mode urgent", |e, _| {
        find(&mut e.cells, "baseline/k=64,blocks=8").record.configs.truncate(1);
    });
    refuses("build", "lists no launch in mode timer", |e, _| {
        find(&mut e.cells, "instrument/timer").record.configs.clear();
    });
    refuses("build", "lists no launch of 8 blocks in mode event_device of a kernel …_p1", |e, _| {
        find(&mut e.cells, YIELD).record.configs[0].grid = 1;
    });
    refuses("build", "is not the cubin that the build record names", |e, _| {
        e.manifest.subject.retain(|subject| !subject.name.ends_with("drain.sm_90.cubin"));
    });
    refuses("build", "is not the cubin that the build record names", |e, _| {
        let file = e.manifest.subject.iter_mut().find(|subject| subject.name.ends_with("drain.sm_90.cubin"));
        file.unwrap().digest.sha256 = Digest::of("another cubin");
    });
    refuses("build", "not in the build record", |e, _| {
        find(&mut e.cells, YIELD).record.configs[0].cubin = Some(Digest::of(b"x"));
    });
}

#[test]
fn the_compiler_s_advice_refuses_nothing_and_stands_in_the_evidence() {
    let (mut evidence, facts) = evidence();
    let advice = |evidence: &Evidence| {
        let gates = judge(evidence, &facts);
        let build = gates.into_iter().find(|gate| gate.name == "build").unwrap();
        assert!(build.passed, "{}", build.reason);
        build.evidence.get(pure::gate::ADVICE).cloned()
    };
    assert_eq!(advice(&evidence), Some(serde_json::json!([])));
    let said = |arch: &str, function: Option<&str>, code: Option<&str>| schema::build::Advisory {
        file: "preempt/yield".to_owned(),
        arch: arch.to_owned(),
        function: function.map(str::to_owned),
        code: code.map(str::to_owned),
        text: "words".to_owned(),
    };
    evidence.build.as_mut().unwrap().advisories = vec![
        said("sm_90", Some("preempt_yield_p1"), Some("C7510")),
        said("sm_90", None, None),
        said("sm_80", Some("elsewhere"), Some("C7519")),
    ];
    assert_eq!(advice(&evidence), Some(serde_json::json!(["C7510 on preempt_yield_p1", "a warning on preempt/yield"])));
}

#[test]
fn sanitizer() {
    let program = |e: &mut Evidence, tool: Tool| {
        e.sanitizer.iter().position(|s| s.verdict.tool == tool && s.verdict.control_caught.is_none()).unwrap()
    };
    let control = |e: &mut Evidence, tool: Tool| {
        e.sanitizer.iter().position(|s| s.verdict.tool == tool && s.verdict.control_caught.is_some()).unwrap()
    };
    for (gate, words) in [
        ("sanitizer", "configurations is 0"),
        ("samples", "cells_recorded is 0"),
        ("structure", "launches is 0"),
        ("numerics", "launches is 0"),
    ] {
        refuses(gate, words, |e, _| e.cells.clear());
    }
    refuses("sanitizer", "is not clean: 3 findings", |e, _| {
        let at = program(e, Tool::Racecheck);
        let verdict = &mut e.sanitizer[at].verdict;
        (verdict.state, verdict.findings, verdict.why) = (State::Finding, Some(3), "3 findings".to_owned());
    });
    refuses("sanitizer", "verdicts is 0", |e, _| e.sanitizer.clear());
    refuses("sanitizer", "the verdicts are of 2 compute-sanitizers", |e, _| {
        e.sanitizer[3].verdict.tool_digest = Digest::of("another toolkit's");
    });
    refuses("sanitizer", "another compute-sanitizer than the environment names", |e, _| {
        e.environment.sanitizer = Some("Version 2024.1.0.0".to_owned());
    });
    refuses("sanitizer", "the output of the harness was not kept", |e, _| e.sanitizer[0].verdict.printed = None);
    refuses("sanitizer", "carries the nonce of another verdict", |e, _| {
        e.sanitizer[1].verdict.nonce = e.sanitizer[0].verdict.nonce.clone();
    });
    for tool in Tool::ALL {
        refuses("sanitizer", "no verdict for this configuration", |e, _| {
            let at = program(e, tool);
            e.sanitizer.remove(at);
        });
        refuses("sanitizer", "the verdict is for other SASS", |e, _| {
            let at = program(e, tool);
            e.sanitizer[at].verdict.sass[0].1 = Digest::of(b"x");
        });
        refuses("sanitizer", "no verdict for this configuration", |e, _| {
            let at = program(e, tool);
            e.sanitizer[at].verdict.configs.iter_mut().for_each(|config| config.block += 32);
        });
        refuses("sanitizer", "did not catch its planted fault", |e, _| {
            let at = control(e, tool);
            e.sanitizer[at].verdict.control_caught = Some(false);
        });
        refuses("sanitizer", "did not catch its planted fault", |e, _| {
            let at = control(e, tool);
            e.sanitizer.remove(at);
        });
        refuses("sanitizer", "shows no launch that ran clean", |e, _| {
            let at = program(e, tool);
            e.sanitizer[at].verdict.launches = 0;
        });
        refuses("sanitizer", "shows no launch that ran clean", |e, _| {
            let at = program(e, tool);
            e.sanitizer[at].verdict.sites.insert("claim".to_owned(), 0);
        });
        refuses("sanitizer", "shows no launch that ran clean", |e, _| {
            let at = program(e, tool);
            e.sanitizer[at].verdict.sites.insert("copy".to_owned(), 0);
        });
        refuses("sanitizer", "shows no launch that ran clean", |e, _| {
            let at = program(e, tool);
            e.sanitizer[at].verdict.configs.iter_mut().for_each(|config| config.cubin = Some(Digest::of(b"x")));
        });
    }
    refuses("sanitizer", "its log", |e, _| e.sanitizer[0].log_faults.push("its log says otherwise".to_owned()));
}

#[test]
fn instrument() {
    refuses("instrument", "timer_quantum_ns is 0", |e, _| {
        find(&mut e.cells, "instrument/timer").record.facts.set("timer_quantum_ns", ());
    });
    refuses("instrument", "offsets of 3 SMs", |e, _| {
        let timer = find(&mut e.cells, "instrument/timer");
        timer.events = take_rows(&timer.events, &[0, 1, 2]);
    });
    let shift = |e: &mut Evidence, value: &str, lo: &str, hi: &str| {
        let metric = e.recomputed.metrics.iter_mut().find(|m| m.cell == "leg=urgent" && m.metric == "leg_shift_ns");
        let metric = metric.unwrap();
        (metric.value, metric.lo, metric.hi) = (value.to_owned(), lo.to_owned(), hi.to_owned());
    };
    refuses("instrument", "leg urgent moved by 0 ns", |e, _| shift(e, "0", "-32", "32"));
    refuses("instrument", "leg urgent moved by 1024 ns", |e, _| shift(e, "1024", "-4000", "4000"));
    refuses("instrument", "no planted delay was seen", |e, _| shift(e, "", "", ""));
    refuses("instrument", "not shown as a bound", |e, _| {
        let metric = e.recomputed.metrics.iter_mut().find(|m| m.metric == "first_observer_us_p50").unwrap();
        metric.value = "0.032".to_owned();
    });
}

#[test]
fn attempts() {
    refuses("attempts", "holds no attempts.jsonl", |e, _| e.attempts_log = None);
    refuses("attempts", "chain of attempts does not hold", |e, _| {
        let log = e.attempts_log.as_mut().unwrap();
        *log = log.lines().skip(1).map(|line| format!("{line}\n")).collect();
    });
    refuses("attempts", "does not list every attempt", |e, _| {
        let own = e.manifest.predicate.attempts[0].clone();
        let intent = |run: &str| Intent {
            run: run.to_owned(),
            plan: own.plan,
            sass: own.sass,
            device: own.device.clone(),
            contract: own.contract.unwrap(),
        };
        let (mut chain, mut log) = (Chain::default(), String::new());
        for (run, outcome) in [("earlier", "failed: the figures did not please"), (RUN, MEASURED)] {
            let (opened, line) = chain.open(intent(run), own.opened.clone()).unwrap();
            log += &line;
            log += &chain.close(opened.n, outcome).unwrap().1;
        }
        e.attempts_log = Some(log);
    });
    refuses("attempts", "another plan", |e, _| e.manifest.predicate.attempts[0].plan = Digest::of(b"x"));
    for other in [Some(Digest::of(b"x")), None] {
        refuses("attempts", "another contract", |e, _| e.contract_digest = other);
        refuses("attempts", "another contract", |e, _| e.manifest.predicate.attempts[0].contract = other);
    }
    refuses("attempts", "another contract", |e, _| {
        (e.contract_digest, e.manifest.predicate.attempts[0].contract) = (None, None);
    });
    refuses("attempts", "ended as \"open\"", |e, _| e.manifest.predicate.attempts[0].outcome = "open".to_owned());
    refuses("attempts", "attempts is 0", |e, _| e.manifest.predicate.attempts.clear());
    refuses("attempts", "another device", |e, _| e.environment.device.id = "f".repeat(16));
    refuses("attempts", "other SASS", |e, _| e.build.as_mut().unwrap().kernels[0].sass_digest = Digest::of(b"x"));
    refuses("attempts", "is of run other", |e, _| e.manifest.predicate.attempts[0].run = "other".to_owned());
    refuses("attempts", "before the first launch", |e, _| {
        e.manifest.predicate.steps.iter_mut().for_each(|step| step.began = "2025-12-31T00:00:00Z".to_owned());
    });
}

/// Asks a repository whose claims entered history at another time, or changed since.
fn ask(registration: Registration, edit: impl FnOnce(&crate::trial::OnDisk)) -> impl FnOnce(&mut Evidence, &mut Facts) {
    let trial = Trial { registration, ..Trial::passing() };
    let (disk, commit) = trial.repository();
    edit(&disk);
    let folders = BTreeSet::from(["preempt".to_owned()]);
    let history = history::of_run(&disk.paths, &commit, &trial.frozen(), &trial.claims, &folders).unwrap();
    move |evidence, facts| {
        evidence.manifest.predicate.source.commit = Some(commit);
        facts.history = history;
    }
}

#[test]
fn registration() {
    refuses("registration", "was written after the data", ask(Registration::After, |_| {}));
    refuses("registration", "was committed with the measured commit itself", ask(Registration::Same, |_| {}));
    refuses(
        "registration",
        "this tree holds another threshold or term",
        ask(Registration::Before, |disk| {
            let edited = toml::to_string(&claims("9999")).unwrap();
            disk.put("harness/experiments/preempt/claims.toml", &edited);
        }),
    );
    refuses("registration", "differ from those of the measured commit", |e, _| e.claims_digest = Digest::of(b"x"));
    refuses("registration", "no git history", |_, f| f.history = None);
    refuses("registration", "different claim file", |e, _| e.manifest.predicate.claims = Digest::of(b"x"));
    refuses("registration", "different plan", |e, _| e.manifest.predicate.plan = Digest::of(b"x"));
    refuses("registration", "different plan", |e, _| e.manifest.predicate.profile = ProfileName::Smoke);
    refuses("registration", "different plan", |e, _| e.manifest.predicate.experiment = "other".to_owned());
    refuses("registration", "plan file gives", |_, f| f.history.as_mut().unwrap().planned = false);
    refuses("registration", "claims is 0", |e, _| e.claims.claim.clear());
    let (mut evidence, mut facts) = evidence();
    ask(Registration::Before, |_| {})(&mut evidence, &mut facts);
    assert!(judge(&evidence, &facts).iter().any(|gate| gate.name == "registration" && gate.passed));
}

/// The prediction is written anew, chain and all, in the commit that is measured.
#[test]
fn a_prediction_rewritten_after_a_look() {
    let trial = Trial::passing();
    let (disk, before) = trial.repository();
    let ask = |commit: &str| {
        let history = history::of_run(&disk.paths, commit, &trial.frozen(), &trial.claims, &BTreeSet::new());
        history.unwrap().unwrap().registered["T-1"].prediction_since.clone().unwrap()
    };
    assert_ne!(ask(&before), before);
    let mut entry = parse(&fs_err::read_to_string(disk.paths.notebook()).unwrap()).unwrap().entries.remove(0);
    entry.prose = "As it came out.".to_owned();
    let Entry { date, id, title, prose, fields, .. } = entry;
    disk.put("NOTEBOOK.md", &append("# Notebook\n", NewEntry { date, id, title, prose, fields }).unwrap());
    let rewritten = disk.commit();
    assert_eq!(ask(&rewritten), rewritten);
}

/// A plan in the run that the committed plan file does not give: another cell, another number of events, weaker clocks.
#[test]
fn a_plan_that_was_never_committed() {
    let weaken: [fn(&mut Trial); 3] = [
        |trial| trial.plan.profile.baseline.blocks = vec![Residency::Sms],
        |trial| trial.plan.profile.yields.events = 10_001,
        |trial| trial.clocks = ClockClass::Unsteady,
    ];
    let (disk, commit) = Trial::passing().repository();
    for weaken in weaken {
        let mut trial = Trial::passing();
        weaken(&mut trial);
        let history = history::of_run(&disk.paths, &commit, &trial.frozen(), &trial.claims, &BTreeSet::new()).unwrap();
        assert!(!history.unwrap().planned);
    }
}

#[test]
fn recompute() {
    refuses("recompute", "summary/metrics.csv line 2", |e, _| {
        let csv = e.metrics_csv.as_mut().unwrap();
        *csv = csv.replacen(",32,", ",31,", 1);
    });
    refuses("recompute", "metrics.csv is absent", |e, _| e.metrics_csv = None);
    refuses("recompute", "is no figure of this run", |e, _| drop(e.figures.insert("x.svg".to_owned(), String::new())));
    refuses("recompute", "not at hand", |_, f| f.detached = None);
    refuses("recompute", "no launch's clock", |_, f| f.detached.as_mut().unwrap().clock_launches = 0);
    refuses("recompute", "event 3", |_, f| f.detached.as_mut().unwrap().faults.push("event 3 differs".to_owned()));
}

#[test]
fn freshness() {
    refuses("freshness", "this tree builds", |_, f| {
        f.built.as_mut().unwrap().insert("preempt_drain".to_owned(), Digest::of(b"x"));
    });
    refuses("freshness", "builds no such kernel", |_, f| {
        let _ = f.built.as_mut().unwrap().remove("preempt_drain");
    });
    refuses("freshness", "was not built", |_, f| f.built = None);
    refuses("freshness", "kernels is 0", |e, _| e.build = None);
}

#[test]
fn a_measurement_that_does_not_count_makes_every_claim_invalid() {
    let (mut evidence, facts) = evidence();
    find(&mut evidence.cells, YIELD).record.facts.set("poison_caught", false);
    let verdict = verdict(&evidence, &facts, Digest::of(b"")).unwrap();
    assert_eq!(verdict.claims[0].outcome, Outcome::Invalid);
}

#[test]
fn facts_survive_being_stored_in_a_verdict() {
    let (evidence, facts) = evidence();
    assert_eq!(Facts::stored(&judge(&evidence, &facts)), facts);
    assert!(facts.history.is_some() && facts.built.is_some() && facts.detached.is_some());
}

fn column_with(table: &tables::Table, name: &str, row: usize, value: u32) -> Column {
    let mut values = table.u32(name).unwrap().to_vec();
    values[row] = value;
    Column::U32(values)
}

fn set_at(table: &mut tables::Table, name: &str, row: usize, value: u32) {
    let column = column_with(table, name, row, value);
    set_column(table, name, column);
}
