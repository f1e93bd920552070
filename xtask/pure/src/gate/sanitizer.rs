//! Gate `sanitizer`: every measured configuration ran clean under all four tools, on the very SASS that was measured.
//!
//! A verdict counts only with launches, site counters and a log that gives the same verdict when it is read again; a
//! tool counts only if it caught its planted fault on this machine.

use super::evidence::{Evidence, SanitizerEvidence};
use super::rule::Rule;
use crate::identity::measured::measured_sass;
use schema::Digest;
use schema::cell::LaunchConfig;
use schema::sanitize::{SanitizerVerdict, State, Tool};
use schema::verdict::GateResult;
use std::collections::{BTreeMap, BTreeSet};

const SANITIZE: &str = "cargo xtask sanitize";

/// What a sanitizer must have seen: launches that differ only in their grid are one configuration.
type Shape<'a> = (&'a str, &'a str, u32, u32);

fn shape(config: &LaunchConfig) -> Shape<'_> {
    (&config.symbol, &config.mode, config.block, config.shared_bytes)
}

pub(super) fn judge(evidence: &Evidence) -> GateResult {
    let mut rule = Rule::new("sanitizer");
    let arch = &evidence.environment.device.arch;
    let sass = evidence.build.as_ref().map(|build| measured_sass(build, arch)).unwrap_or_default();
    let shapes: BTreeSet<Shape<'_>> =
        evidence.cells.iter().flat_map(|cell| cell.data.record.configs.iter().map(shape)).collect();
    rule.must_count("configurations", shapes.len() as u64, "measure again");
    rule.must_count("verdicts", evidence.sanitizer.len() as u64, SANITIZE);
    rule.refuse_all(log_faults(evidence), SANITIZE);
    rule.refuse_all(mixed(evidence), SANITIZE);
    rule.must_count("programs", evidence.contract.programs.len() as u64, SANITIZE);
    rule.refuse_all(missing(evidence), SANITIZE);
    judge_controls(&mut rule, evidence);
    judge_findings(&mut rule, evidence);
    let uncovered: Vec<String> =
        Tool::ALL.iter().flat_map(|tool| shapes.iter().filter_map(|s| uncovered(evidence, &sass, *tool, *s))).collect();
    let (kept, lost): (Vec<_>, Vec<_>) = evidence.sanitizer.iter().partition(|s| s.verdict.printed.is_some());
    rule.count("outputs_kept", kept.len());
    let lost = lost.iter().map(|s| format!("{}: the output of the harness was not kept", s.name));
    rule.refuse_all(lost.collect(), SANITIZE);
    rule.count("covered", shapes.len() * Tool::ALL.len() - uncovered.len());
    rule.refuse_all(uncovered, SANITIZE);
    rule.done()
}

fn log_faults(evidence: &Evidence) -> Vec<String> {
    let faults = |s: &SanitizerEvidence| s.log_faults.iter().map(|f| format!("{}: {f}", s.name)).collect::<Vec<_>>();
    evidence.sanitizer.iter().flat_map(faults).collect()
}

/// Verdicts that do not belong together: made by more than one version of the tool, by another one than the
/// environment names, or from one output used twice.
fn mixed(evidence: &Evidence) -> Vec<String> {
    let verdicts = || evidence.sanitizer.iter().map(|s| &s.verdict);
    let mut reasons = Vec::new();
    let tools: BTreeSet<_> = verdicts().map(|v| (&v.tool_version, v.tool_digest)).collect();
    if tools.len() > 1 {
        reasons.push(format!("the verdicts are of {} compute-sanitizers", tools.len()));
    }
    if verdicts().any(|v| evidence.environment.sanitizer.as_ref() != Some(&v.tool_version)) {
        reasons.push("a verdict is of another compute-sanitizer than the environment names".to_owned());
    }
    let mut nonces = BTreeSet::new();
    let again = verdicts().filter(|v| v.printed.is_some() && !nonces.insert(&v.nonce));
    reasons.extend(again.map(|v| format!("{} of {} carries the nonce of another verdict", v.tool.name(), v.program)));
    reasons
}

fn programs(evidence: &Evidence, tool: Tool) -> impl Iterator<Item = &SanitizerVerdict> {
    let verdicts = evidence.sanitizer.iter().map(|s| &s.verdict);
    verdicts.filter(move |verdict| verdict.tool == tool && verdict.control_caught.is_none())
}

fn judge_controls(rule: &mut Rule, evidence: &Evidence) {
    let mut caught = BTreeMap::new();
    for tool in Tool::ALL {
        let controls =
            evidence.sanitizer.iter().map(|s| &s.verdict).filter(|v| v.tool == tool && v.control_caught.is_some());
        let (mut seen, mut missed) = (0_u64, 0_u64);
        for control in controls {
            let real = control.program == tool.control() && control.findings.is_some_and(|n| n > 0);
            let hit = control.control_caught == Some(true) && real;
            seen += u64::from(hit);
            missed += u64::from(!hit);
        }
        let holds = seen > 0 && missed == 0;
        rule.require(holds, format!("{} did not catch its planted fault {}", tool.name(), tool.control()), SANITIZE);
        caught.insert(tool.name(), seen);
    }
    rule.count("controls_caught", caught);
}

fn judge_findings(rule: &mut Rule, evidence: &Evidence) {
    let (mut reasons, mut launches) = (Vec::new(), BTreeMap::new());
    for tool in Tool::ALL {
        for verdict in programs(evidence, tool) {
            *launches.entry(tool.name()).or_insert(0_u64) += verdict.launches;
            if verdict.state != State::Clean {
                reasons.push(format!("{} of {} is not clean: {}", tool.name(), verdict.program, verdict.why));
            }
        }
    }
    rule.count("launches", launches);
    rule.refuse_all(reasons, SANITIZE);
}

/// Why no clean verdict of `tool` covers a measured configuration; absent when one does.
fn uncovered(evidence: &Evidence, sass: &BTreeMap<String, Digest>, tool: Tool, shape: Shape<'_>) -> Option<String> {
    let what =
        format!("{} ({}, {} threads, {} shared bytes) under {}", shape.0, shape.1, shape.2, shape.3, tool.name());
    let Some(measured) = sass.get(shape.0) else {
        return Some(format!("{what}: the measured SASS is not known"));
    };
    let ran: Vec<_> = programs(evidence, tool).filter(|v| v.configs.iter().any(|c| self::shape(c) == shape)).collect();
    if ran.is_empty() {
        return Some(format!("{what}: no verdict for this configuration"));
    }
    let same_sass =
        |v: &&&SanitizerVerdict| v.sass.iter().any(|(symbol, digest)| symbol == shape.0 && digest == measured);
    let on_it: Vec<_> = ran.iter().filter(same_sass).collect();
    if on_it.is_empty() {
        return Some(format!("{what}: the verdict is for other SASS"));
    }
    let cubins = cubins_of(evidence, shape.0);
    (!on_it.iter().any(|verdict| is_positive(evidence, verdict, shape, &cubins)))
        .then(|| format!("{what}: the verdict shows no launch that ran clean"))
}

/// The cubins of either flavor that were built from a kernel's file.
fn cubins_of(evidence: &Evidence, symbol: &str) -> BTreeSet<Digest> {
    let arch = &evidence.environment.device.arch;
    let Some(build) = &evidence.build else { return BTreeSet::new() };
    let files: BTreeSet<&String> =
        build.kernels.iter().filter(|k| k.arch == *arch && k.symbol == symbol).map(|k| &k.file).collect();
    build.cubins.iter().filter(|c| c.arch == *arch && files.contains(&c.file)).map(|c| c.sha256).collect()
}

/// A clean verdict must show that something ran: launches, from a cubin of this build, through every site that the
/// contract names for the program.
fn is_positive(evidence: &Evidence, verdict: &SanitizerVerdict, shape: Shape<'_>, cubins: &BTreeSet<Digest>) -> bool {
    let spec = evidence.contract.programs.iter().find(|program| program.name == verdict.program);
    let sites = spec.map(|program| program.sites.as_slice()).unwrap_or_default();
    let passed = spec.is_some() && sites.iter().all(|site| verdict.sites.get(site).is_some_and(|times| *times > 0));
    let built = |config: &LaunchConfig| config.cubin.is_some_and(|cubin| cubins.contains(&cubin));
    let launched = verdict.configs.iter().any(|config| self::shape(config) == shape && built(config));
    let clean = verdict.state == State::Clean && verdict.findings == Some(0) && verdict.exit_code == Some(0);
    clean && passed && launched && verdict.launches > 0 && !verdict.tool_version.is_empty()
}

/// Programs of the contract that did not run under a tool.
fn missing(evidence: &Evidence) -> Vec<String> {
    let mut reasons = Vec::new();
    for tool in Tool::ALL {
        let ran: BTreeSet<&str> = programs(evidence, tool).map(|verdict| verdict.program.as_str()).collect();
        let missing = evidence.contract.programs.iter().filter(|program| !ran.contains(program.name.as_str()));
        reasons.extend(missing.map(|program| format!("program {} did not run under {}", program.name, tool.name())));
    }
    reasons
}
