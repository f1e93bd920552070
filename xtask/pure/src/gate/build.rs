//! Gate `build`: every measured kernel built by the pinned toolkit, within its budget, its SASS known.

use super::evidence::{CounterEvidence, Evidence, Facts, KernelBudget};
use super::rule::{IN_REPOSITORY, Rule};
use crate::identity::occupancy::{Footprint, fits_in_slot, limits};
use crate::identity::sass::arch_number;
use crate::records::counters::contradictions;
use schema::Digest;
use schema::build::{BuildRecord, Cubin, Kernel};
use schema::cell::LaunchConfig;
use schema::contract::LaunchKind;
use schema::verdict::GateResult;
use std::collections::{BTreeMap, BTreeSet};

/// Key of the evidence that holds the compiler's advice.
pub const ADVICE: &str = "advice";
const REBUILD: &str = "cargo xtask build, then measure again";

pub(super) fn judge(evidence: &Evidence, facts: &Facts) -> GateResult {
    let mut rule = Rule::new("build");
    let arch = &evidence.environment.device.arch;
    let Some(build) = &evidence.build else {
        rule.refuse("build/resources.json is absent", REBUILD);
        return rule.done();
    };
    let kernels: Vec<&Kernel> = build.kernels.iter().filter(|kernel| kernel.arch == *arch).collect();
    rule.count("nvcc", &build.nvcc);
    rule.count("flags", build.flags.len());
    rule.must_count("kernels", kernels.len() as u64, REBUILD);
    rule.require(!build.nvcc.is_empty(), "the compiler's version is not recorded", REBUILD);
    let allowed = !build.flags.iter().any(|flag| flag.trim_start_matches('-') == "allow-unsupported-compiler");
    rule.require(allowed, "kernels were compiled with a host compiler that nvcc does not support", REBUILD);
    // Advice refuses nothing; it is shown beside the numbers.
    rule.count(ADVICE, advice(build, arch));
    rule.refuse_all(kernels.iter().flat_map(|kernel| overspent(kernel)).collect(), "lower the kernel's register use");
    judge_measured(&mut rule, evidence, build);
    rule.refuse_all(unlaunched(evidence), "measure again: cargo xtask run --fresh");
    judge_budgets(&mut rule, &kernels, facts);
    judge_residency(&mut rule, evidence, &kernels);
    rule.refuse_all(outgrown(evidence, &kernels), "lower what the kernel beside it uses, or leave more slots open");
    judge_counters(&mut rule, evidence, &kernels);
    rule.done()
}

/// Hardware counters are optional. If they were read, they must not contradict the build's own records.
fn judge_counters(rule: &mut Rule, evidence: &Evidence, kernels: &[&Kernel]) {
    let Some(CounterEvidence { report, faults }) = &evidence.counters else { return };
    let launches: usize = report.programs.iter().map(|program| program.launches.len()).sum();
    rule.count("counted_launches", launches);
    if let Some(why) = &report.unreadable {
        rule.count("counters_unreadable", why);
    }
    rule.refuse_all(faults.clone(), "measure again: cargo xtask reproduce --counters --fresh");
    rule.refuse_all(contradictions(report, kernels), REBUILD);
}

/// The compiler's advice on kernels of this architecture, one word each: number and function, where it has them.
fn advice(build: &BuildRecord, arch: &str) -> Vec<String> {
    let ours = build.advisories.iter().filter(|said| said.arch == arch && !said.file.starts_with("controls/"));
    let told = ours.map(|said| {
        let code = said.code.as_deref().unwrap_or("a warning");
        format!("{code} on {}", said.function.as_deref().unwrap_or(&said.file))
    });
    told.collect::<BTreeSet<String>>().into_iter().collect()
}

fn overspent(kernel: &Kernel) -> Vec<String> {
    let mut reasons = Vec::new();
    if kernel.spill_bytes > 0 {
        reasons.push(format!("{} spills {} bytes", kernel.symbol, kernel.spill_bytes));
    }
    if kernel.stack_bytes > 0 && !kernel.file.starts_with("controls/") {
        reasons.push(format!("{} uses {} bytes of stack", kernel.symbol, kernel.stack_bytes));
    }
    reasons
}

/// Every launched symbol is in the build record, and the driver was given one of its cubins.
fn judge_measured(rule: &mut Rule, evidence: &Evidence, build: &BuildRecord) {
    let arch = &evidence.environment.device.arch;
    let symbols: BTreeSet<&str> = build.kernels.iter().filter(|k| k.arch == *arch).map(|k| k.symbol.as_str()).collect();
    let cubins: BTreeSet<_> = build
        .cubins
        .iter()
        .filter(|cubin| cubin.arch == *arch && cubin.flavor == "measure")
        .map(|cubin| cubin.sha256)
        .collect();
    let (mut reasons, mut launched) = (BTreeSet::new(), BTreeSet::new());
    for cell in &evidence.cells {
        for config in &cell.data.record.configs {
            launched.insert(config.symbol.as_str());
            if !symbols.contains(config.symbol.as_str()) {
                reasons.insert(format!("{} was launched but is not in the build record", config.symbol));
            }
            if config.cubin.is_none_or(|digest| !cubins.contains(&digest)) {
                reasons.insert(format!("{} was launched from a cubin that is not in the build record", config.symbol));
            }
        }
    }
    rule.must_count("launched_symbols", launched.len() as u64, "measure again");
    rule.refuse_all(reasons.into_iter().collect(), REBUILD);
    rule.refuse_all(unsealed(evidence, build), REBUILD);
}

/// Cubins of the build record that are not the files of that name in the run.
fn unsealed(evidence: &Evidence, build: &BuildRecord) -> Vec<String> {
    let subjects = evidence.manifest.subject.iter();
    let sealed: BTreeMap<&str, Digest> = subjects.map(|s| (s.name.as_str(), s.digest.sha256)).collect();
    let is_sealed = |cubin: &&Cubin| sealed.get(format!("build/{}", cubin.path).as_str()) == Some(&cubin.sha256);
    let other = build.cubins.iter().filter(|cubin| !is_sealed(cubin));
    other.map(|cubin| format!("build/{} is not the cubin that the build record names", cubin.path)).collect()
}

/// Cells whose header lacks a launch that the contract promises. A launch that is not listed is neither sanitized nor
/// tied to a cubin.
fn unlaunched(evidence: &Evidence) -> Vec<String> {
    let mut reasons = Vec::new();
    for cell in &evidence.cells {
        let promised = cell.spec(&evidence.contract).map(|spec| spec.launches.as_slice()).unwrap_or_default();
        for launch in promised {
            if !cell.data.record.configs.iter().any(|config| fits(config, launch)) {
                let LaunchKind { mode, grid, symbol_end, .. } = launch;
                let blocks = grid.map_or_else(String::new, |grid| format!(" of {grid} blocks"));
                reasons
                    .push(format!("{} lists no launch{blocks} in mode {mode} of a kernel …{symbol_end}", cell.name()));
            }
        }
    }
    reasons
}

/// Whether a launch is of such a kind.
pub(super) fn fits(config: &LaunchConfig, kind: &LaunchKind) -> bool {
    let grid = kind.grid.is_none_or(|grid| config.grid == grid);
    config.mode == kind.mode && grid && config.symbol.ends_with(&kind.symbol_end)
}

fn judge_budgets(rule: &mut Rule, kernels: &[&Kernel], facts: &Facts) {
    let Some(history) = &facts.history else {
        return rule.refuse("the measured commit's budgets are not available", IN_REPOSITORY);
    };
    let mut reasons = Vec::new();
    let mut held = 0_u64;
    for kernel in kernels.iter().filter(|kernel| !kernel.file.starts_with("controls/")) {
        match history.budgets.iter().find(|budget| speaks_of(budget, kernel)) {
            None => reasons.push(format!("{} has no budget", kernel.symbol)),
            Some(budget) => {
                let over = over_budget(&budget.budget, kernel);
                held += u64::from(over.is_empty());
                reasons.extend(over);
            }
        }
    }
    rule.count("budgets_held", held);
    rule.refuse_all(reasons, "cargo xtask build says which kernel exceeds what");
}

fn speaks_of(budget: &KernelBudget, kernel: &Kernel) -> bool {
    format!("{}/{}", budget.folder, budget.budget.file) == kernel.file && budget.budget.symbol == kernel.symbol
}

fn over_budget(budget: &schema::build::Budget, kernel: &Kernel) -> Vec<String> {
    let fewest = budget.blocks_per_sm_on.get(&kernel.arch).copied().unwrap_or(budget.blocks_per_sm);
    let symbol = &kernel.symbol;
    let checks = [
        (
            kernel.registers > budget.registers,
            format!("{symbol}: {} registers, budget {}", kernel.registers, budget.registers),
        ),
        (
            kernel.shared_bytes > budget.shared_bytes,
            format!("{symbol}: {} shared bytes, budget {}", kernel.shared_bytes, budget.shared_bytes),
        ),
        (kernel.blocks_per_sm < fewest, format!("{symbol}: {} blocks per SM, budget {fewest}", kernel.blocks_per_sm)),
    ];
    checks.into_iter().filter(|(over, _)| *over).map(|(_, reason)| reason).collect()
}

/// The residency from which the grids of cells were made must be what the kernels' resources allow.
fn judge_residency(rule: &mut Rule, evidence: &Evidence, kernels: &[&Kernel]) {
    for (slot, stem) in &evidence.contract.slots {
        let per_sm = evidence.environment.device.slots.per_sm(slot);
        let of_file = kernels.iter().filter(|kernel| kernel.file.rsplit('/').next() == Some(stem));
        let Some(fewest) = of_file.map(|kernel| kernel.blocks_per_sm).min() else { continue };
        rule.count(&format!("{stem}_blocks_per_sm"), fewest);
        let reason =
            format!("{stem}: the device reported {per_sm} blocks per SM, and the kernel's resources allow {fewest}");
        rule.require(per_sm > 0 && per_sm <= fewest, reason, REBUILD);
    }
}

/// Kernels that do not fit the slot left for them, or the slot that a block of the background kernel leaves: they
/// wait for more than one slot, so the cell would not measure the reservation that its name states.
fn outgrown(evidence: &Evidence, kernels: &[&Kernel]) -> Vec<String> {
    let arch = &evidence.environment.device.arch;
    let Ok(limits) = arch_number(arch).and_then(limits) else {
        return vec![format!("the limits of an SM of {arch} are not known")];
    };
    let mut reasons = BTreeSet::new();
    for cell in &evidence.cells {
        let Some(beside) = cell.spec(&evidence.contract).and_then(|spec| spec.guest.as_ref()) else { continue };
        let in_mode = |mode: &str| cell.data.record.configs.iter().find(|config| config.mode == mode);
        let (Some(host), Some(guest)) = (in_mode(&beside.host), in_mode(&beside.guest)) else { continue };
        let found = |config: &LaunchConfig| kernels.iter().find(|kernel| kernel.symbol == config.symbol);
        let (Some(host_kernel), Some(guest_kernel)) = (found(host), found(guest)) else { continue };
        let [host_takes, guest_takes] =
            [(host, host_kernel), (guest, guest_kernel)].map(|(config, kernel)| Footprint {
                registers: kernel.registers,
                shared_bytes: kernel.shared_bytes.saturating_add(config.shared_bytes),
                block_threads: config.block,
            });
        if !fits_in_slot(limits, host_takes, host_kernel.blocks_per_sm, guest_takes) {
            reasons.insert(format!("{} does not fit the slot that a block of {} leaves", guest.symbol, host.symbol));
        }
    }
    reasons.into_iter().collect()
}
