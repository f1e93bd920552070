//! Which device a run uses: a GPU by UUID, or the emulated one. Asks NVML and changes nothing.

use crate::steps::build::default_archs;
use anyhow::{Context, Result};
use host::failure::fail;
use host::gpu::cuda::Cuda;
use host::gpu::driver::{Driver, GpuFacts};
use host::gpu::nvml::{Gpu, GpuChoice, GpuError, Library, NvmlGpu, PATIENCE, device_id, within};
use host::ui::Ui;
use schema::ExitCode;
use std::path::Path;
use std::sync::Arc;

/// The oldest architecture that the kernels are written for.
const OLDEST: (u32, u32) = (8, 0);
/// Device files that the GPU driver creates.
const DEVICE_NODE: &str = "/dev/nvidiactl";

/// A device.
#[derive(Clone)]
pub struct Device {
    /// The name that the harness gets: a UUID, or `emulated`.
    pub selector: String,
    /// The name in records: a hash of the UUID, or `emulated`.
    pub id: String,
    /// Lower-case name for run ids.
    pub slug: String,
    /// The architecture whose cubins it runs; `emulated` otherwise.
    pub arch: String,
    /// The newest CUDA that the driver runs; absent without a driver.
    pub driver_cuda: Option<u32>,
    /// The GPU through NVML; absent on the emulated device.
    pub gpu: Option<Arc<NvmlGpu>>,
    /// Why this device was chosen, in words.
    pub why: String,
}

impl Device {
    /// Whether this is the emulated device.
    pub fn is_emulated(&self) -> bool {
        self.gpu.is_none()
    }
}

/// [`choose`], and says which it is and why.
///
/// # Errors
/// See [`choose`].
pub fn choose_and_say(ui: &Ui, wanted: &str) -> Result<Device> {
    let device = choose(wanted)?;
    ui.line(&format!("device {}: {}", device.slug, device.why));
    Ok(device)
}

/// Finds the device that `wanted` names: `auto`, `cuda:N`, `cuda:UUID` or `emulated`.
///
/// # Errors
/// Exit 2 for another word; 17 when a GPU is asked for and there is none, or its architecture is too old.
pub fn choose(wanted: &str) -> Result<Device> {
    match wanted {
        "emulated" => Ok(emulated("asked for".to_owned())),
        "auto" => match absent()? {
            Some(why) => Ok(emulated(format!("no GPU ({why})"))),
            None => gpu(&GpuChoice::Index(0), "the first GPU that NVML lists".to_owned()),
        },
        _ => match wanted.strip_prefix("cuda:") {
            Some(rest) => gpu(&choice(rest)?, format!("asked for as {wanted}")),
            None => Err(fail(
                ExitCode::Usage,
                format!("{wanted:?} is no device"),
                "--device auto, --device cuda:0 or --device emulated",
            )),
        },
    }
}

/// Why there is no GPU here; `None` also when there is one that does not work.
fn absent() -> Result<Option<String>> {
    if Path::new(DEVICE_NODE).exists() {
        return Ok(None);
    }
    Ok(match within(PATIENCE, || Library::open(None)?.uuids())? {
        // The loader's message names the last path it tried.
        Err(GpuError::NotFound(why)) if why.contains("libnvidia-ml") => Some("no NVIDIA driver here".to_owned()),
        Err(GpuError::NotFound(why)) => Some(why),
        Ok(uuids) if uuids.is_empty() => Some("NVML lists none".to_owned()),
        _ => None,
    })
}

fn choice(rest: &str) -> Result<GpuChoice> {
    if rest.starts_with("GPU-") {
        return Ok(GpuChoice::Uuid(rest.to_owned()));
    }
    rest.parse().map(GpuChoice::Index).map_err(|_| {
        fail(ExitCode::Usage, format!("cuda:{rest} names no GPU"), "--device cuda:0 or --device cuda:GPU-…")
    })
}

fn gpu(choice: &GpuChoice, why: String) -> Result<Device> {
    let wanted = choice.clone();
    let asked = within(PATIENCE, move || {
        let library = Library::open(None)?;
        Ok((library.gpu(&wanted)?, Driver::of(&library)?))
    })?;
    let (gpu, driver) = asked.map_err(|error| none(&error))?;
    let uuid = gpu.uuid().to_owned();
    let facts = driver.gpu(&uuid).map_err(|error| none(&error))?;
    not_shared(facts)?;
    let (name, arch) = (&facts.name, arch_of(facts)?);
    same_for_cuda(facts, &Cuda::look()?)?;
    let id = device_id(&uuid);
    let driver_cuda = Some(driver.cuda);
    Ok(Device {
        selector: format!("cuda:{uuid}"),
        id,
        slug: slug(name),
        arch,
        driver_cuda,
        gpu: Some(Arc::new(gpu)),
        why,
    })
}

/// CUDA must work and mean the same GPU before anything is built for it or its clocks are touched. If this machine
/// has no CUDA library, the container that measures may still have one, and the harness there reports what it finds.
/// CUDA and NVML name a MIG slice differently.
fn same_for_cuda(facts: &GpuFacts, cuda: &Cuda) -> Result<()> {
    if matches!(cuda, Cuda::Absent(_)) || facts.mig == Ok(true) {
        return Ok(());
    }
    let pci = facts.pci.as_deref().ok();
    match cuda.against(&facts.uuid, pci) {
        None => Ok(()),
        Some((found, remedy)) => Err(fail(ExitCode::Environment, found, remedy)),
    }
}

/// On a vGPU, work of other users cannot be seen and distorts every number. A MIG slice is recognized, and no run on
/// one passes the gate. If neither can be queried, the GPU may be either.
fn not_shared(facts: &GpuFacts) -> Result<()> {
    const WHOLE: &str = "rent a whole GPU (bare metal or passed through); cargo xtask doctor";
    let unknown = |what: &str, error: &GpuError| {
        let message = format!("whether {} is {what} cannot be asked: {error}", facts.name);
        Err(fail(ExitCode::Environment, message, WHOLE))
    };
    match (&facts.shared, &facts.mig) {
        (Ok(true), _) => {
            let message = format!(
                "{} is shared (a vGPU, or a GPU that hosts vGPUs), so work of other users on it cannot be seen",
                facts.name
            );
            Err(fail(ExitCode::Environment, message, WHOLE))
        }
        (Err(error), _) if *error != GpuError::Unsupported => unknown("shared (a vGPU)", error),
        (_, Err(error)) if *error != GpuError::Unsupported => unknown("a slice (MIG)", error),
        _ => Ok(()),
    }
}

fn arch_of(GpuFacts { name, arch, .. }: &GpuFacts) -> Result<String> {
    let number = arch.trim_start_matches("sm_");
    let (major, minor) = number.split_at(number.len() - 1);
    let capability = (major.parse()?, minor.parse()?);
    if capability < OLDEST {
        let message = format!("{name} has compute capability {major}.{minor}, and the kernels need 8.0 or newer");
        return Err(fail(ExitCode::Measurement, message, "cargo xtask reproduce --device emulated"));
    }
    default_archs(Some(capability)).pop().context("an architecture without cubins")
}

fn none(error: &GpuError) -> anyhow::Error {
    const DOCTOR: &str = "cargo xtask doctor; without a GPU: --device emulated";
    match error {
        GpuError::NotFound(_) => fail(ExitCode::Measurement, format!("no usable GPU: {error}"), DOCTOR),
        _ => fail(ExitCode::Environment, format!("the GPU does not work: {error}"), DOCTOR),
    }
}

fn emulated(why: String) -> Device {
    let word = || "emulated".to_owned();
    Device { selector: word(), id: word(), slug: word(), arch: word(), driver_cuda: None, gpu: None, why }
}

/// `NVIDIA H200` as `h200`, `NVIDIA GeForce RTX 4090` as `rtx-4090`: what a run id may hold.
fn slug(name: &str) -> String {
    let words = name.split_whitespace().filter(|word| !["NVIDIA", "GeForce", "Tesla"].contains(word));
    let joined: Vec<String> = words.map(str::to_lowercase).collect();
    let kept: String = joined.join("-").chars().filter(|c| c.is_ascii_alphanumeric() || *c == '-').collect();
    if kept.is_empty() { "gpu".to_owned() } else { kept }
}

#[cfg(test)]
mod tests {
    use super::*;
    use host::failure::code_of;

    #[test]
    fn names_become_slugs() {
        for (name, expected) in
            [("NVIDIA H200", "h200"), ("NVIDIA GeForce RTX 4090", "rtx-4090"), ("NVIDIA", "gpu"), ("A/../B", "ab")]
        {
            assert_eq!(slug(name), expected);
        }
    }

    #[test]
    fn a_gpu_that_the_kernels_do_not_run_on_is_refused() {
        let gpu = |name: &str, arch: &str| GpuFacts {
            uuid: format!("GPU-{arch}"),
            pci: Err(GpuError::Unsupported),
            name: name.into(),
            arch: arch.into(),
            mig: Err(GpuError::Unsupported),
            shared: Err(GpuError::Unsupported),
            persistence: Ok(true),
        };
        let error = arch_of(&gpu("Tesla T4", "sm_75")).unwrap_err();
        assert_eq!(code_of(&error), ExitCode::Measurement);
        assert!(error.to_string().contains("compute capability 7.5"), "{error}");
        assert_eq!(arch_of(&gpu("NVIDIA GB10", "sm_121")).unwrap(), "sm_121");
        not_shared(&gpu("NVIDIA GB10", "sm_121")).unwrap();
    }

    #[test]
    fn another_word_is_a_usage_error_and_a_gpu_that_is_not_there_is_named() {
        assert_eq!(code_of(&choose("gpu0").err().unwrap()), ExitCode::Usage);
        assert_eq!(code_of(&choose("cuda:first").err().unwrap()), ExitCode::Usage);
        if Path::new(DEVICE_NODE).exists() {
            eprintln!("skipped: this machine has a GPU");
            return;
        }
        assert_eq!(code_of(&choose("cuda:0").err().unwrap()), ExitCode::Measurement);
        assert!(choose("auto").unwrap().is_emulated());
    }
}
