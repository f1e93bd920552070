//! The GPU: device nodes, NVML, driver, architecture, MIG, and the toolkit that follows from them.

use super::{Check, DoctorOptions};
use crate::paths::Paths;
use crate::steps::provision::{BoxToolkit, DRIVER_NEEDED, Machine, box_toolkit};
use crate::world::container::device_nodes;
use crate::world::driver::{Driver, GpuFacts};
use crate::world::wheels::{Lock, Wheel};

pub(super) fn checks(
    paths: &Paths,
    options: &DoctorOptions,
    machine: &Machine,
    driver: &Result<Driver, String>,
) -> Vec<Check> {
    let nodes = device_nodes(&machine.root).len();
    let mut checks = vec![nvml(nodes > 0, driver)];
    let own = box_toolkit(machine);
    if let Ok(driver) = driver {
        checks.push(series(driver, own.as_ref()));
        checks.extend(driver.gpus.iter().map(architecture));
        checks.extend(driver.gpus.iter().map(mig));
    }
    checks.push(toolkit(paths, options, driver.as_ref().ok(), own.as_ref()));
    checks
}

fn nvml(nodes: bool, driver: &Result<Driver, String>) -> Check {
    match driver {
        Ok(driver) => Check::ok("gpu", format!("{} by driver {}", driver.gpus.len(), driver.version)),
        Err(said) if nodes => Check::warn(
            "gpu",
            format!("there are device nodes, but NVML does not answer: {said}"),
            "nvidia-smi; where it says version mismatch, reboot",
        ),
        Err(_) => Check::warn(
            "gpu",
            "none: nothing can be measured here",
            "cargo xtask reproduce still does what needs no GPU",
        ),
    }
}

fn series(driver: &Driver, own: Option<&BoxToolkit>) -> Check {
    let (major, minor) = (driver.cuda / 1000, driver.cuda % 1000 / 10);
    let found = format!("{}, runs CUDA up to {major}.{minor}", driver.version);
    if driver.series().is_some_and(|series| series >= DRIVER_NEEDED) {
        return Check::ok("driver", found);
    }
    let remedy =
        format!("install a driver of series {DRIVER_NEEDED} or newer, or a CUDA toolkit that this driver runs");
    let usable = own.is_some_and(|own| own.cuda / 1000 <= major);
    Check::missing("driver", !usable, format!("{found}; the pinned toolkit needs series {DRIVER_NEEDED}"), remedy)
}

fn architecture(gpu: &GpuFacts) -> Check {
    let number: u32 = gpu.arch.trim_start_matches("sm_").parse().unwrap_or(0);
    match number >= 80 {
        true => Check::ok("architecture", format!("{}: {}", gpu.name, gpu.arch)),
        false => Check::warn(
            "architecture",
            format!("{}: {}; the kernels need sm_80", gpu.name, gpu.arch),
            "use an Ampere or newer GPU",
        ),
    }
}

fn mig(gpu: &GpuFacts) -> Check {
    match gpu.mig {
        Some(true) => Check::warn(
            "mig",
            format!("{}: on; a slice cannot be published from", gpu.name),
            "rent a whole GPU, or let its owner turn MIG off",
        ),
        Some(false) => Check::ok("mig", format!("{}: off", gpu.name)),
        None => Check::ok("mig", format!("{}: it has no such mode", gpu.name)),
    }
}

/// Which toolkit `provision` takes outside of a container, and why.
fn toolkit(paths: &Paths, options: &DoctorOptions, driver: Option<&Driver>, own: Option<&BoxToolkit>) -> Check {
    const NAME: &str = "toolkit";
    let lock = match Lock::read(&paths.toolkit_lock()) {
        Ok(lock) => lock,
        Err(error) => return Check::missing(NAME, true, format!("{error:#}"), "git checkout -- docker/toolkit.lock"),
    };
    let boxed =
        own.map_or_else(|| "this box has none of its own".to_owned(), |own| format!("this box's own: {}", own.version));
    if driver.is_some_and(|driver| driver.cuda < 13_000) {
        return Check::ok(
            NAME,
            format!("the driver is too old for the pinned wheels: with docker the pinned base cuda12, without {boxed}"),
        );
    }
    let kept = paths.state().join("wheels");
    let absent = lock.wheels.iter().filter(|wheel| !kept.join(wheel.file_name()).exists());
    let absent: Vec<&Wheel> = absent.collect();
    let bytes: u64 = absent.iter().map(|wheel| wheel.bytes).sum();
    match absent.len() {
        0 => Check::ok(NAME, "the pinned wheels, all here"),
        n if options.offline => Check::missing(
            NAME,
            own.is_none(),
            format!("{n} wheels are not here and may not be fetched; {boxed}"),
            "cargo xtask provision where there is a network",
        ),
        n => Check::ok(NAME, format!("the pinned wheels, {n} to fetch ({} MB); {boxed}", bytes / 1_000_000)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ask::doctor::State;

    fn driver(version: &str, cuda: u32) -> Driver {
        Driver { version: version.into(), cuda, gpus: vec![] }
    }

    fn own(cuda: u32) -> BoxToolkit {
        BoxToolkit { root: "/c".into(), nvcc: "/c/bin/nvcc".into(), version: "v".into(), cuda, sanitizer: None }
    }

    #[test]
    fn an_old_driver_blocks_unless_the_box_has_a_toolkit_for_it() {
        assert_eq!(series(&driver("580.95.05", 13_000), None).state, State::Ok);
        assert_eq!(series(&driver("550.54.15", 12_040), None).state, State::Block);
        assert_eq!(series(&driver("550.54.15", 12_040), Some(&own(12_040))).state, State::Warn);
        assert_eq!(series(&driver("550.54.15", 12_040), Some(&own(13_000))).state, State::Block);
    }

    #[test]
    fn a_slice_and_an_old_gpu_warn() {
        let gpu = |arch: &str, mig| GpuFacts { name: "GPU".into(), arch: arch.into(), mig };
        assert_eq!(mig(&gpu("sm_90", Some(true))).state, State::Warn);
        assert_eq!(mig(&gpu("sm_90", None)).state, State::Ok);
        assert_eq!(architecture(&gpu("sm_75", None)).state, State::Warn);
        assert_eq!(architecture(&gpu("sm_120", None)).state, State::Ok);
    }

    #[test]
    fn nodes_without_nvml_are_a_finding_of_their_own() {
        let with = nvml(true, &Err("mismatch".into()));
        assert!(with.found.contains("mismatch") && with.remedy.contains("reboot"));
        assert!(nvml(false, &Err(String::new())).found.starts_with("none"));
    }
}
