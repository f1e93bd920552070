//! Which toolkit: the pinned wheels, or the box's own where wheels cannot be had or the driver is too old for them.

use super::choose::Machine;
use super::{ProvisionOptions, Provisioned, hostenv};
use anyhow::Result;
use host::container::HostRuntime;
use host::failure::{Denied, fail};
use host::gpu::toolkit::Toolkit;
use host::paths::Paths;
use host::process::{Child, find_program};
use host::wheels::{Fetcher, Lock, Unpacker, is_installed};
use schema::{Digest, ExitCode};
use std::path::{Path, PathBuf};
use std::time::Duration;
pub(super) use words::nvcc::cuda_of;

/// The oldest driver series whose CUDA runs what the pinned wheels compile.
pub const DRIVER_NEEDED: u32 = 580;

/// The CUDA of the pinned wheels, as drivers count: 13.0.
const WHEELS_CUDA: u32 = 13_000;

/// A toolkit that the machine came with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BoxToolkit {
    /// Its root.
    pub root: PathBuf,
    /// The compiler.
    pub nvcc: PathBuf,
    /// Its version line.
    pub version: String,
    /// Its CUDA, as 1000 × major + 10 × minor.
    pub cuda: u32,
    /// compute-sanitizer, where there is one.
    pub sanitizer: Option<PathBuf>,
}

/// Runtime and toolkit without a container.
pub(super) fn provision_here(
    paths: &Paths,
    options: &ProvisionOptions,
    machine: &Machine,
    runtime: &'static str,
    why: &str,
) -> Result<Provisioned> {
    let lock = Lock::read(&paths.toolkit_lock())?;
    let chosen = choose(paths, options, machine, &lock)?;
    let env = hostenv::for_programs(machine, &chosen.toolkit.root);
    let key = match chosen.toolkit.origin.as_str() {
        "wheels" => Digest::of(format!("{runtime}\nwheels\n{}", lock.digest)),
        _ => Digest::of(format!("{runtime}\nbox\n{}", Digest::of_file(&chosen.toolkit.nvcc)?)),
    };
    Ok(Provisioned {
        runtime: Box::new(HostRuntime { name: runtime, env }),
        runtime_why: why.to_owned(),
        toolkit: chosen.toolkit,
        toolkit_why: chosen.why,
        container: None,
        key,
        cached: chosen.cached,
    })
}

/// A toolkit and how it came to be chosen.
struct Chosen {
    toolkit: Toolkit,
    why: String,
    cached: bool,
}

fn choose(paths: &Paths, options: &ProvisionOptions, machine: &Machine, lock: &Lock) -> Result<Chosen> {
    let own = |why: String| -> Option<Chosen> {
        let found = box_toolkit(machine)?;
        let fits = options.driver_cuda.is_none_or(|driver| found.cuda / 1000 <= driver / 1000);
        fits.then(|| Chosen {
            why: format!("{why}; this box's own: {}", found.version),
            toolkit: found.toolkit(lock),
            cached: true,
        })
    };
    if let Some(why) = too_old(options.driver_cuda) {
        return own(why.clone()).ok_or_else(|| no_older_toolkit(&why));
    }
    match wheels(paths, options, machine, lock) {
        Ok((root, cached)) => {
            Ok(Chosen { toolkit: from_wheels(&root, lock), why: "the wheels of docker/toolkit.lock".into(), cached })
        }
        Err(Denied::Refused(error)) => Err(error),
        Err(Denied::Cannot(error)) => own(format!("the pinned wheels cannot be had ({error:#})")).ok_or(error),
    }
}

/// Why the driver rules the wheels out, if it does.
pub(super) fn too_old(driver_cuda: Option<u32>) -> Option<String> {
    let driver = driver_cuda.filter(|cuda| *cuda < WHEELS_CUDA)?;
    let (major, minor) = (driver / 1000, driver % 1000 / 10);
    Some(format!(
        "this driver runs CUDA up to {major}.{minor}, and the pinned wheels need 13.0 (driver {DRIVER_NEEDED} or newer)"
    ))
}

/// No wheels carry an older compiler.
pub(super) fn no_older_toolkit(why: &str) -> anyhow::Error {
    fail(
        ExitCode::Environment,
        format!("{why}; and there is no older nvcc on this box (looked on PATH and in /usr/local/cuda)"),
        "install a driver of series 580 or newer, or a CUDA 12.9 toolkit, or take the pinned CUDA 12.9 image: \
         --runtime docker --base cuda12",
    )
}

/// The unpacked wheels: their folder, and whether it was there already.
pub(super) fn wheels(
    paths: &Paths,
    options: &ProvisionOptions,
    machine: &Machine,
    lock: &Lock,
) -> Result<(PathBuf, bool), Denied> {
    let dir = paths.root().join("target/toolkit").join(lock.digest.short());
    if is_installed(&lock.digest, &dir) {
        return Ok((dir, true));
    }
    let env = hostenv::for_pip(machine);
    let fetcher =
        Fetcher { dir: paths.state().join("wheels"), env: env.clone(), offline: options.offline, quiet: options.quiet };
    let files = fetcher.fetch(lock)?;
    if !options.quiet {
        host::tell!("unpacking {} wheels into {}", files.len(), dir.display());
    }
    Unpacker { env }.unpack(lock, &files, &dir)?;
    Ok((dir, false))
}

/// The toolkit in unpacked wheels.
fn from_wheels(dir: &Path, lock: &Lock) -> Toolkit {
    let root = dir.join("nvidia/cu13");
    let sanitizer = sanitizer_below(&root);
    Toolkit { origin: "wheels".into(), nvcc: root.join("bin/nvcc"), sanitizer, root, lock: lock.digest }
}

/// compute-sanitizer below a toolkit: its own folder before the wrapper in `bin`.
pub(super) fn sanitizer_below(root: &Path) -> Option<PathBuf> {
    ["compute-sanitizer/compute-sanitizer", "bin/compute-sanitizer"]
        .map(|path| root.join(path))
        .into_iter()
        .find(|p| p.is_file())
}

impl BoxToolkit {
    fn toolkit(self, lock: &Lock) -> Toolkit {
        Toolkit { origin: "box".into(), root: self.root, nvcc: self.nvcc, sanitizer: self.sanitizer, lock: lock.digest }
    }
}

/// The toolkit that the machine came with: `CUDA_HOME`, then /usr/local/cuda, then nvcc on PATH.
pub fn box_toolkit(machine: &Machine) -> Option<BoxToolkit> {
    let search = machine.var("PATH").unwrap_or_default();
    let stated = machine.var("CUDA_HOME").map(|home| Path::new(home).join("bin/nvcc"));
    let usual = machine.root.join("usr/local/cuda/bin/nvcc");
    let on_path = find_program(Path::new("nvcc"), search);
    let nvcc = stated.into_iter().chain([usual]).chain(on_path).find(|nvcc| nvcc.is_file())?;
    let version = version_line(machine, &nvcc)?;
    let nvcc = nvcc.canonicalize().ok()?;
    let root = nvcc.parent()?.parent()?.to_owned();
    let sanitizer = sanitizer_below(&root).or_else(|| find_program(Path::new("compute-sanitizer"), search));
    Some(BoxToolkit { cuda: cuda_of(&version)?, root, nvcc, version, sanitizer })
}

fn version_line(machine: &Machine, nvcc: &Path) -> Option<String> {
    let child = Child {
        program: nvcc.to_owned(),
        args: vec!["--version".into()],
        env: hostenv::for_programs(machine, nvcc.parent()?.parent()?),
        dir: "/".into(),
        deadline: Duration::from_secs(20),
        hold_stdin: false,
    };
    release_line(&child.run(&mut |_| {}).ok()?.stdout)
}

/// The line of `nvcc --version` that names the release.
pub(super) fn release_line(text: &str) -> Option<String> {
    text.lines().map(str::trim).find(|line| line.contains(", release ")).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_release_line_gives_the_cuda_that_drivers_count_by() {
        // From nvcc 13.0.88.
        let text = "nvcc: NVIDIA (R) Cuda compiler driver\nCuda compilation tools, release 13.0, V13.0.88\n";
        assert_eq!(cuda_of(&release_line(text).unwrap()), Some(13_000));
        assert_eq!(release_line("nvcc: command not found"), None);
    }

    #[test]
    fn only_a_driver_older_than_the_wheels_rules_them_out() {
        assert!(too_old(Some(12_080)).unwrap().contains("12.8"));
        assert_eq!((too_old(Some(13_000)), too_old(None)), (None, None));
    }
}
