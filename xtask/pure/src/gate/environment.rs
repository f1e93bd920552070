//! Gate `environment`: a real GPU, whole and healthy, driven by a pinned toolkit.
//!
//! If it cannot be observed whether the GPU was ours alone, the verdict says so and the run is not refused for it.
//! Every other query that went unanswered counts against the run.

use super::evidence::{Evidence, Facts};
use super::rule::{IN_REPOSITORY, Rule};
use super::table::working_cells;
use crate::identity::measured::measured_sass;
use crate::numbers::clock_class::measured_seconds;
use schema::bundle::CarriedSass;
use schema::environment::{Environment, NvmlFacts};
use schema::verdict::GateResult;
use std::collections::BTreeSet;
use words::gpu_state::against;
use words::pci;
use words::timekeeping::compare;
use words::wsl::is_wsl;

const WATCHED: &str = "measure again on an idle, healthy GPU that is ours alone: cargo xtask reproduce --fresh";
const HEALTHY: &str = "use a GPU without errors, or reset this one";

pub(super) fn judge(evidence: &Evidence, facts: &Facts) -> GateResult {
    let environment = &evidence.environment;
    let mut rule = Rule::new("environment");
    rule.count("device", &environment.device.name);
    rule.count("compute_capability", &environment.device.compute_capability);
    rule.count("runtime", &environment.runtime);
    rule.count("toolkit", &environment.toolkit);
    if environment.device.is_emulated() {
        rule.refuse("emulated device: its numbers are never published", "measure on a GPU: --device cuda:0");
        return rule.done();
    }
    let whole = !is_wsl(&environment.host.kernel);
    rule.require(whole, "the host is Linux inside Windows (WSL)", "measure on Linux itself");
    judge_time(&mut rule, environment);
    rule.refuse_all(unwatched(evidence), WATCHED);
    judge_device(&mut rule, evidence);
    judge_container(&mut rule, environment);
    judge_toolkit(&mut rule, evidence, facts);
    match &environment.nvml {
        Some(nvml) => judge_nvml(&mut rule, environment, nvml),
        None => rule.refuse("NVML was not at hand, so the GPU's health is unknown", "make libnvidia-ml.so.1 reachable"),
    }
    rule.done()
}

/// The host did not sleep and its clocks agree. A step of the wall clock is only recorded, since no duration is taken
/// from that clock.
fn judge_time(rule: &mut Rule, environment: &Environment) {
    const AGAIN: &str = "keep the host awake and measure again: cargo xtask reproduce --fresh";
    let kept = compare(environment.time.as_deref().unwrap_or_default());
    rule.count("clock_readings", kept.stamps);
    rule.count("wall_clock_steps_ms", kept.steps_ms);
    rule.refuse_all(kept.reasons, AGAIN);
}

/// Cells more than half of which was measured while nobody read the host's clocks and the GPU's state: what an
/// interrupted call left behind.
fn unwatched(evidence: &Evidence) -> Vec<String> {
    let planned = &evidence.contract.cells;
    let stamps = evidence.environment.time.as_deref().unwrap_or_default();
    let watched = |index: u32| -> i64 {
        let pairs = stamps.windows(2).filter(|pair| pair[0].cell == index);
        pairs.map(|pair| pair[1].monotonic_ms.saturating_sub(pair[0].monotonic_ms)).fold(0, i64::saturating_add)
    };
    let mut reasons = Vec::new();
    for cell in working_cells(evidence) {
        let record = &cell.data.record;
        let place = planned.iter().position(|cell| cell.phase == record.phase && cell.name == record.cell);
        let Some(index) = place.and_then(|place| u32::try_from(place + 1).ok()) else { continue };
        let Some(Ok(seconds)) = cell.data.launches.as_ref().map(measured_seconds) else { continue };
        let watched = watched(index) as f64 / 1e3;
        if watched < seconds / 2.0 {
            reasons.push(format!(
                "{}: {seconds:.3} s were measured, and telemetry covers {watched:.3} s of it",
                cell.name()
            ));
        }
    }
    reasons
}

/// CUDA measured on the GPU that NVML watched.
fn judge_identity(rule: &mut Rule, environment: &Environment, nvml: &NvmlFacts) {
    const AGAIN: &str = "name the GPU by its UUID and measure again: --device cuda:GPU-…";
    let device = &environment.device;
    let same_pci = matches!((&device.pci, &nvml.pci), (Some(a), Some(b)) if pci::same(a, b));
    rule.count("pci", &nvml.pci);
    rule.require(
        nvml.device.as_ref() == Some(&device.id) && same_pci,
        format!(
            "CUDA measured on GPU {} at {}, and NVML watched {} at {}",
            device.id,
            device.pci.as_deref().unwrap_or("an unknown address"),
            nvml.device.as_deref().unwrap_or("an unknown one"),
            nvml.pci.as_deref().unwrap_or("an unknown address"),
        ),
        AGAIN,
    );
}

fn judge_device(rule: &mut Rule, evidence: &Evidence) {
    let device = &evidence.environment.device;
    rule.require(device.libcuda.is_some(), "the digest of the loaded libcuda is not recorded", "measure again");
    let needed = evidence.build.as_ref().and_then(|build| toolkit_release(&build.nvcc));
    rule.count("driver_cuda", device.driver_cuda);
    match needed {
        Some(needed) => rule.require(
            device.driver_cuda >= needed,
            format!("the driver supports CUDA up to {}, and the toolkit is {needed}", device.driver_cuda),
            "update the driver, or build with an older toolkit",
        ),
        None => rule.refuse("the compiler's version is not recorded", "cargo xtask build"),
    }
}

/// `release 13.0` as the driver counts: `13000`.
fn toolkit_release(nvcc: &str) -> Option<u32> {
    let release = nvcc.split("release ").nth(1)?.split([',', ' ']).next()?;
    let (major, minor) = release.split_once('.')?;
    Some(major.parse::<u32>().ok()? * 1000 + minor.parse::<u32>().ok()? * 10)
}

fn judge_container(rule: &mut Rule, environment: &Environment) {
    const AGAIN: &str = "cargo xtask provision, then measure again";
    match (environment.runtime.as_str(), &environment.container) {
        ("docker", Some(container)) => {
            rule.count("base_digest", &container.base_digest);
            rule.require(!container.base_digest.is_empty(), "the base image has no digest", AGAIN);
            rule.require(!container.hardening.is_empty(), "no hardening of the container is recorded", AGAIN);
        }
        ("docker", None) => rule.refuse("the run was made in docker but records no container", AGAIN),
        ("host" | "inside", _) => {}
        (other, _) => rule.refuse(format!("the unknown runtime {other:?}"), AGAIN),
    }
}

fn judge_toolkit(rule: &mut Rule, evidence: &Evidence, facts: &Facts) {
    const AGAIN: &str = "cargo xtask provision && cargo xtask build, then measure again";
    let Some(build) = &evidence.build else {
        return rule.refuse("no build record, so the toolkit is unknown", AGAIN);
    };
    let lock = evidence.environment.toolkit_lock;
    rule.count("toolkit_lock", lock);
    rule.require(build.toolkit_lock == lock, "the build and the run name different toolkit locks", AGAIN);
    let at_commit = facts.history.as_ref().and_then(|history| history.toolkit_lock);
    match build.toolkit.as_str() {
        "box" => judge_box(rule, evidence),
        "wheels" | "image" | "bundle" => {
            if build.toolkit == "bundle" {
                rule.refuse_all(not_carried(evidence), "use the cubins that the bundle carries");
            }
            let remedy = if facts.history.is_some() { AGAIN } else { IN_REPOSITORY };
            rule.require(
                at_commit == Some(lock),
                "the toolkit lock is not the measured commit's docker/toolkit.lock",
                remedy,
            );
        }
        other => rule.refuse(format!("the toolkit is of the unknown origin {other:?}"), AGAIN),
    }
}

/// Measured cubins that the bundle's record does not name.
fn not_carried(evidence: &Evidence) -> Vec<String> {
    let arch = &evidence.environment.device.arch;
    let carried: BTreeSet<_> =
        evidence.bundle.iter().flat_map(|bundle| bundle.files.values()).map(|file| file.sha256).collect();
    let cubins = evidence.build.iter().flat_map(|build| &build.cubins);
    let measured = cubins.filter(|cubin| cubin.arch == *arch && cubin.flavor == "measure");
    let strange = measured.filter(|cubin| !carried.contains(&cubin.sha256));
    strange.map(|cubin| format!("the bundle does not carry the cubin of {}", cubin.file)).collect()
}

/// A machine's own toolkit is accepted if it rebuilds every SASS digest that the bundle carries.
fn judge_box(rule: &mut Rule, evidence: &Evidence) {
    let arch = &evidence.environment.device.arch;
    let rebuilt = evidence.build.as_ref().map(|build| measured_sass(build, arch)).unwrap_or_default();
    let carried = evidence.bundle.iter().flat_map(|bundle| &bundle.sass).filter(|carried| carried.arch == *arch);
    let (mut equal, mut different) = (0_u64, Vec::new());
    for CarriedSass { symbol, sass_digest, .. } in carried {
        match rebuilt.get(symbol) {
            Some(digest) if digest == sass_digest => equal += 1,
            Some(_) => different.push(format!("this machine's own toolkit builds other SASS for {symbol}")),
            None => {}
        }
    }
    rule.count("box_rebuilt_equal", equal);
    let all = equal == rebuilt.len() as u64 && equal > 0;
    rule.require(
        all || !different.is_empty(),
        "the box's own toolkit did not rebuild every carried kernel",
        "use a bundle's cubins",
    );
    rule.refuse_all(different, "measure with the pinned toolkit, or with a bundle's cubins");
}

fn judge_nvml(rule: &mut Rule, environment: &Environment, nvml: &NvmlFacts) {
    rule.count("driver", &nvml.driver);
    rule.count("ecc", nvml.ecc);
    rule.count("ecc_uncorrected", nvml.ecc_uncorrected);
    rule.require(nvml.ecc_uncorrected.is_none_or(|n| n == 0), "the GPU has uncorrected ECC errors", HEALTHY);
    let counted = nvml.ecc != Some(true) || nvml.ecc_uncorrected.is_some();
    rule.require(counted, "ECC is on and its errors could not be counted", HEALTHY);
    rule.require(nvml.remap_problem != Some(true), "a row remap is pending or has failed", HEALTHY);
    judge_identity(rule, environment, nvml);
    match &nvml.watch {
        Some(watch) => {
            rule.count("watch", watch);
            rule.refuse_all(against(watch), WATCHED);
        }
        None => rule.refuse("the GPU's state was not read right before and after the run", WATCHED),
    }
    let slice = environment.device.mig == Some(true) || nvml.mig == Some(true);
    rule.require(!slice, "the GPU is a MIG slice", "use a whole GPU");
    let exclusive = match (nvml.other_processes_before, nvml.other_processes_after) {
        (Some(0), Some(0)) => "yes",
        (None | Some(0), None | Some(0)) => "unobservable",
        (before, after) => {
            let most = before.unwrap_or_default().max(after.unwrap_or_default());
            rule.refuse(format!("{most} other processes were on the GPU"), "end the other processes and measure again");
            "no"
        }
    };
    rule.count("exclusive", exclusive);
}

#[cfg(test)]
mod tests {
    use super::toolkit_release;

    #[test]
    fn a_release_is_read_as_the_driver_counts() {
        for (line, expected) in [
            ("Cuda compilation tools, release 13.0, V13.0.88", Some(13000)),
            ("Cuda compilation tools, release 12.9, V12.9.1", Some(12090)),
            ("clang 19", None),
        ] {
            assert_eq!(toolkit_release(line), expected);
        }
    }
}
