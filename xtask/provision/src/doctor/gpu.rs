//! The GPU: device nodes, NVML, driver, architecture, MIG, clocks, and the toolkit that follows from them.

use super::machine::ask;
use super::{Check, DoctorOptions};
use crate::{BoxToolkit, DRIVER_NEEDED, Machine, box_toolkit};
use host::container::device_nodes;
use host::gpu::cuda::Cuda;
use host::gpu::driver::{Driver, GpuFacts, installed_libraries, loaded_module};
use host::gpu::lease::{self, Lease, Standing};
use host::gpu::nvml::{Answer, GpuError};
use host::paths::Paths;
use host::wheels::{Lock, Wheel};
use std::path::Path;

pub(super) fn checks(
    paths: &Paths,
    options: &DoctorOptions,
    machine: &Machine,
    driver: &Answer<Driver>,
    cuda: &anyhow::Result<Cuda>,
) -> Vec<Check> {
    let nodes = device_nodes(&machine.root).len();
    let mut checks = vec![nvml(&machine.root, nodes > 0, driver)];
    let own = box_toolkit(machine);
    if let Ok(driver) = driver {
        checks.push(series(driver, own.as_ref()));
        checks.extend(driver.gpus.iter().enumerate().filter_map(|(idx, gpu)| silent(idx, driver.gpus.len(), gpu)));
        for gpu in driver.gpus.iter().flatten() {
            checks.extend([architecture(gpu), mig(gpu), persistence(gpu)]);
            checks.extend(shared(gpu));
        }
    }
    checks.extend(cuda_check(driver, cuda).map(|check| match cuda {
        Ok(Cuda::Refuses { code: NOT_READY, .. }) => with_fabric(check, paths, machine),
        _ => check,
    }));
    checks.extend(wsl(&machine.root));
    checks.extend(clock_lease(&lease::path(paths)));
    checks.push(toolkit(paths, options, driver.as_ref().ok(), own.as_ref()));
    checks
}

/// Whether NVML answers, and where it does not, which of the known faults it is.
fn nvml(root: &Path, nodes: bool, driver: &Answer<Driver>) -> Check {
    const NAME: &str = "gpu";
    let error = match driver {
        Ok(driver) if driver.gpus.iter().any(Result::is_ok) => {
            return Check::ok(NAME, format!("{} by driver {}", driver.gpus.len(), driver.version));
        }
        Ok(driver) if driver.gpus.is_empty() && !nodes => return absent(),
        Err(GpuError::NotFound(_)) if !nodes => return absent(),
        Ok(driver) => &GpuError::Other(format!("none of {} GPUs answers", driver.gpus.len())),
        Err(error) => error,
    };
    let (found, remedy) = match error {
        GpuError::Mismatch => (
            format!("{error}: {}", versions(root)),
            "reboot, or have the owner of this machine reload the kernel module; Assay never does",
        ),
        GpuError::NoPermission => (
            format!("NVML may not open the GPU: {error}"),
            "the rights on /dev/nvidia*; in a container, start it with GPU access",
        ),
        GpuError::Lost => (format!("NVML: {error}"), "reset or reboot the machine, or rent another; dmesg may say why"),
        _ => (
            format!("NVML does not answer: {error}"),
            "the driver's log (dmesg); in a container that lost its GPU, start a fresh one",
        ),
    };
    Check::missing(NAME, true, found, remedy)
}

fn absent() -> Check {
    Check::warn("gpu", "none: nothing can be measured here", "cargo xtask reproduce still does what needs no GPU")
}

/// The loaded module beside the libraries, since a mismatch is told by comparing them.
fn versions(root: &Path) -> String {
    let module = loaded_module(root);
    let shown = module.as_ref().map_or_else(|| "unreadable".to_owned(), ToString::to_string);
    let libraries = installed_libraries(root);
    let names: Vec<String> = libraries.iter().map(ToString::to_string).collect();
    let names = if names.is_empty() { "not found".to_owned() } else { names.join(", ") };
    let agrees = module.is_some_and(|module| libraries.iter().any(|library| library.agrees_with(&module)));
    let other = if agrees { "; another copy of the library must have been loaded" } else { "" };
    format!("the loaded kernel module is {shown}, the installed library {names}{other}")
}

/// A GPU that is counted and does not answer.
fn silent(idx: usize, count: usize, gpu: &Answer<GpuFacts>) -> Option<Check> {
    let error = gpu.as_ref().err()?;
    Some(Check::warn(
        "gpu",
        format!("GPU {idx} of {count} does not answer: {error}"),
        "use another by its UUID (--device cuda:GPU-…), and have this one reset",
    ))
}

fn series(driver: &Driver, own: Option<&BoxToolkit>) -> Check {
    let (major, minor) = (driver.cuda / 1000, driver.cuda % 1000 / 10);
    let found = format!("{}, runs CUDA up to {major}.{minor}", driver.version);
    if driver.version.series() >= DRIVER_NEEDED {
        return Check::ok("driver", found);
    }
    let remedy =
        format!("install a driver of series {DRIVER_NEEDED} or newer, or a CUDA toolkit that this driver runs");
    let usable = own.is_some_and(|own| own.cuda / 1000 <= major);
    Check::missing("driver", !usable, format!("{found}; the pinned toolkit needs series {DRIVER_NEEDED}"), remedy)
}

/// Whether CUDA itself works, and means the same GPUs as NVML. Without either there is nothing to say.
fn cuda_check(driver: &Answer<Driver>, cuda: &anyhow::Result<Cuda>) -> Option<Check> {
    const NAME: &str = "cuda";
    let cuda = match cuda {
        Ok(cuda) => cuda,
        Err(error) => return Some(Check::warn(NAME, format!("could not be asked: {error:#}"), "run doctor again")),
    };
    let gpus: Vec<&GpuFacts> = driver.iter().flat_map(|driver| driver.gpus.iter().flatten()).collect();
    // A slice has names of its own in CUDA.
    let whole = gpus.iter().filter(|gpu| gpu.mig != Ok(true));
    let wrong = whole.filter_map(|gpu| cuda.against(&gpu.uuid, gpu.pci.as_deref().ok())).next();
    match (wrong, cuda) {
        (Some((found, remedy)), _) => Some(Check::missing(NAME, true, found, remedy)),
        (None, Cuda::Absent(_)) => None,
        (None, Cuda::Works(seen)) => Some(Check::ok(NAME, format!("initialises, and lists {} GPUs", seen.len()))),
        (None, _) => {
            let (found, remedy) = cuda.against("", None)?;
            Some(Check::warn(NAME, found, remedy))
        }
    }
}

/// `CUDA_ERROR_SYSTEM_NOT_READY` of cuda.h.
const NOT_READY: u32 = 802;

/// Adds what can be learned of the fabric manager: whether its service runs, and its version, which must be the driver's.
fn with_fabric(check: Check, paths: &Paths, machine: &Machine) -> Check {
    let first = |program: &str, args: &[&str]| {
        let ended = ask(machine, paths, program, args)?;
        ended.stdout.lines().next().map(|line| line.trim().to_owned()).filter(|line| !line.is_empty())
    };
    let version = first("nv-fabricmanager", &["--version"]).unwrap_or_else(|| "not installed here".to_owned());
    let service = first("systemctl", &["is-active", "nvidia-fabricmanager"]).unwrap_or_else(|| "unknown".to_owned());
    Check { found: format!("{}; fabric manager: {version}, its service: {service}", check.found), ..check }
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
    match &gpu.mig {
        Ok(true) => Check::warn(
            "mig",
            format!("{}: on; a run on a slice cannot be published", gpu.name),
            "rent a whole GPU, or let its owner turn MIG off",
        ),
        Ok(false) => Check::ok("mig", format!("{}: off", gpu.name)),
        Err(GpuError::Unsupported) => Check::ok("mig", format!("{}: it has no such mode", gpu.name)),
        Err(error) => Check::warn(
            "mig",
            format!("{}: could not be asked: {error}", gpu.name),
            "a run whose GPU may be a slice is refused: use another GPU",
        ),
    }
}

/// A share of a GPU says nothing of what others do on the rest.
fn shared(gpu: &GpuFacts) -> Option<Check> {
    const WHOLE: &str = "rent a whole GPU (bare metal or passed through)";
    match &gpu.shared {
        Ok(false) | Err(GpuError::Unsupported) => None,
        Ok(true) => Some(Check::missing(
            "vgpu",
            true,
            format!(
                "{}: shared (a vGPU, or a GPU that hosts vGPUs), so work of other users on it cannot be seen",
                gpu.name
            ),
            WHOLE,
        )),
        Err(error) => Some(Check::missing("vgpu", true, format!("{}: could not be asked: {error}", gpu.name), WHOLE)),
    }
}

/// Without persistence the driver drops a clock lock when its last client goes; our holder stays one until it restores.
fn persistence(gpu: &GpuFacts) -> Check {
    const NAME: &str = "persistence";
    match &gpu.persistence {
        Ok(true) => Check::ok(NAME, format!("{}: on", gpu.name)),
        Ok(false) => Check::ok(NAME, format!("{}: off; a clock lock lasts as long as Assay holds the GPU", gpu.name)),
        Err(error) => Check::ok(NAME, format!("{}: unknown: {error}", gpu.name)),
    }
}

/// Linux inside Windows (WSL): its clocks can only be set from Windows, and the GPU is shared with it.
fn wsl(root: &Path) -> Option<Check> {
    let version = std::fs::read_to_string(root.join("proc/version")).ok()?;
    words::wsl::is_wsl(&version).then(|| {
        Check::warn(
            "wsl",
            "this Linux runs inside Windows (WSL): clocks can only be set from Windows, and no run is publishable",
            "--clocks observe to try things out; measure on Linux itself to publish",
        )
    })
}

/// Clocks that somebody holds, or that a killed process left locked.
fn clock_lease(path: &Path) -> Option<Check> {
    const NAME: &str = "clock-lease";
    let found = match Lease::read(path).and_then(|lease| lease.map(|l| Ok((l.standing()?, l.holder.pid))).transpose()) {
        Ok(None) => return None,
        Ok(Some((Standing::Held, pid))) => format!("process {pid} holds the clocks"),
        Ok(Some((Standing::Stale, pid))) => format!("process {pid} was killed and may have left the clocks locked"),
        Ok(Some((Standing::Rebooted, _))) => return None,
        Err(error) => format!("cannot be read: {error:#}"),
    };
    Some(Check::warn(NAME, found, "cargo xtask clocks restore; the next lock does it by itself"))
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
    use crate::doctor::State;
    use host::gpu::cuda::CudaGpu;

    fn driver(version: &str, cuda: u32) -> Driver {
        Driver { version: version.parse().unwrap(), cuda, gpus: vec![] }
    }

    fn gpu(arch: &str, mig: Answer<bool>) -> GpuFacts {
        let pci = Ok("00000000:3B:00.0".into());
        GpuFacts {
            uuid: "GPU-1".into(),
            pci,
            name: "GPU".into(),
            arch: arch.into(),
            mig,
            shared: Ok(false),
            persistence: Ok(true),
        }
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
    fn a_slice_an_old_gpu_and_an_unknown_mode_warn() {
        assert_eq!(mig(&gpu("sm_90", Ok(true))).state, State::Warn);
        assert_eq!(mig(&gpu("sm_90", Err(GpuError::Unsupported))).state, State::Ok);
        let share = |answer| shared(&GpuFacts { shared: answer, ..gpu("sm_90", Ok(false)) }).map(|check| check.state);
        assert_eq!((share(Ok(false)), share(Err(GpuError::Unsupported))), (None, None));
        assert_eq!((share(Ok(true)), share(Err(GpuError::NoPermission))), (Some(State::Block), Some(State::Block)));
        let unknown = mig(&gpu("sm_90", Err(GpuError::Other("unknown".into()))));
        assert_eq!(unknown.state, State::Warn, "an error is not the absence of the mode");
        assert_eq!(architecture(&gpu("sm_75", Ok(false))).state, State::Warn);
        assert_eq!(architecture(&gpu("sm_120", Ok(false))).state, State::Ok);
    }

    #[test]
    fn each_way_in_which_nvml_fails_blocks_with_a_remedy_of_its_own() {
        let root = Path::new("/nonexistent");
        let cases = [
            (GpuError::Mismatch, "mismatch", "reboot"),
            (GpuError::NoPermission, "no permission", "rights on /dev/nvidia*"),
            (GpuError::Lost, "lost", "reset or reboot"),
            (GpuError::Other("Unknown Error".into()), "Unknown Error", "start a fresh one"),
        ];
        for (error, words, remedy) in cases {
            for nodes in [false, true] {
                let check = nvml(root, nodes, &Err(error.clone()));
                assert_eq!(check.state, State::Block, "{error}");
                assert!(check.found.contains(words) && check.remedy.contains(remedy), "{check:?}");
            }
        }
        let no_library = || Err(GpuError::NotFound("no library".into()));
        assert_eq!(nvml(root, true, &no_library()).state, State::Block);
        assert!(nvml(root, false, &no_library()).found.starts_with("none"));
        assert_eq!(nvml(root, false, &Ok(driver("580.95.05", 13_000))).state, State::Warn);
        assert_eq!(nvml(root, true, &Ok(driver("580.95.05", 13_000))).state, State::Block);
    }

    #[test]
    fn a_mismatch_shows_the_module_beside_the_library() {
        let root = tempfile::tempdir().unwrap();
        let put = |name: &str, text: &str| {
            let path = root.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        let said = || nvml(root.path(), true, &Err(GpuError::Mismatch)).found;
        assert!(said().contains("module is unreadable, the installed library not found"), "{}", said());
        put("sys/module/nvidia/version", "570.124.06\n");
        put("usr/lib/x86_64-linux-gnu/libnvidia-ml.so.570.133.20", "");
        put("usr/lib/x86_64-linux-gnu/libnvidia-ml.so.1", "");
        assert!(said().ends_with("kernel module is 570.124.06, the installed library 570.133.20"), "{}", said());
        put("sys/module/nvidia/version", "570.133.20\n");
        assert!(said().contains("another copy"), "{}", said());
    }

    #[test]
    fn one_lost_gpu_does_not_hide_the_others() {
        let mut driver = driver("580.95.05", 13_000);
        driver.gpus = vec![Ok(gpu("sm_90", Ok(false))), Err(GpuError::Lost)];
        assert_eq!(nvml(Path::new("/"), true, &Ok(driver.clone())).state, State::Ok);
        assert!(silent(0, 2, &driver.gpus[0]).is_none());
        let lost = silent(1, 2, &driver.gpus[1]).unwrap();
        assert!(lost.found.contains("GPU 1 of 2") && lost.found.contains("lost"), "{lost:?}");
        driver.gpus = vec![Err(GpuError::Lost)];
        assert_eq!(nvml(Path::new("/"), true, &Ok(driver)).state, State::Block);
    }

    #[test]
    fn nvml_alone_is_not_enough_when_cuda_does_not_work_or_means_another_gpu() {
        let mut driver = driver("580.95.05", 13_000);
        driver.gpus = vec![Ok(gpu("sm_90", Ok(false)))];
        let sees = |pci: &str| Cuda::Works(vec![CudaGpu { uuid: "GPU-1".into(), pci: pci.into() }]);
        let check = |cuda| cuda_check(&Ok(driver.clone()), &Ok(cuda)).unwrap();
        assert_eq!(check(sees("0000:3b:00.0")).state, State::Ok);
        for (cuda, words) in [
            (sees("0000:0a:00.0"), "for NVML"),
            (Cuda::Works(vec![]), "none of them"),
            (Cuda::Refuses { code: 802, call: "cuInit".into() }, "fabric manager"),
            (Cuda::Absent("no such file".into()), "no CUDA driver library"),
            (Cuda::Broken("crashed".into()), "not usable"),
        ] {
            let check = check(cuda);
            assert_eq!(check.state, State::Block, "{check:?}");
            assert!(check.found.contains(words) && !check.remedy.is_empty(), "{check:?}");
        }
        let none = Err(GpuError::NotFound("no library".into()));
        assert!(cuda_check(&none, &Ok(Cuda::Absent("none".into()))).is_none(), "a machine without a GPU");
        let odd = cuda_check(&none, &Ok(Cuda::Refuses { code: 34, call: "cuInit".into() })).unwrap();
        assert!(odd.state == State::Warn && odd.found.contains("stub"), "{odd:?}");
    }

    #[test]
    fn a_system_that_is_not_ready_is_shown_with_its_fabric_manager() {
        use host::container::EngineState;
        use std::os::unix::fs::PermissionsExt;
        let root = tempfile::tempdir().unwrap();
        let path = root.path().display().to_string();
        let env = vec![("PATH".to_owned(), path)];
        let machine = Machine { root: "/".into(), env, engine: None, state: EngineState::Absent, inside: None };
        let look = || {
            let check = Check::missing("cuda", true, "802", "type this");
            with_fabric(check, &Paths::new(root.path()), &machine).found
        };
        assert_eq!(look(), "802; fabric manager: not installed here, its service: unknown");
        for (name, text) in
            [("nv-fabricmanager", "echo Fabric Manager version is : 570.124.06"), ("systemctl", "echo failed; exit 3")]
        {
            let file = root.path().join(name);
            std::fs::write(&file, format!("#!/bin/sh\n{text}\n")).unwrap();
            std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o755)).unwrap();
        }
        assert_eq!(look(), "802; fabric manager: Fabric Manager version is : 570.124.06, its service: failed");
    }

    #[test]
    fn windows_linux_is_known_by_its_kernel() {
        let root = tempfile::tempdir().unwrap();
        std::fs::create_dir(root.path().join("proc")).unwrap();
        assert!(wsl(root.path()).is_none());
        let file = root.path().join("proc/version");
        std::fs::write(&file, "Linux version 6.1.0-31-amd64 (gcc-12)").unwrap();
        assert!(wsl(root.path()).is_none());
        std::fs::write(&file, "Linux version 5.15.167.4-microsoft-standard-WSL2 (root@x)").unwrap();
        assert_eq!(wsl(root.path()).unwrap().state, State::Warn);
    }

    #[test]
    fn clocks_that_a_killed_process_left_are_found() {
        use host::gpu::lease::{Before, Process};
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("clocks.lease");
        assert!(clock_lease(&path).is_none());
        let holder = Process { start_ticks: 1, ..Process::this().unwrap() };
        let before = Before { sm_mhz: None, memory_mhz: None, throttle: None };
        Lease { format: schema::FORMAT, gpu: "GPU-1".to_owned(), holder, before }.create(&path).unwrap();
        let check = clock_lease(&path).unwrap();
        assert!(check.found.contains("was killed") && check.remedy.contains("clocks restore"), "{check:?}");
        std::fs::write(&path, "{").unwrap();
        assert!(clock_lease(&path).unwrap().found.contains("cannot be read"));
    }
}
