//! Which device a run uses: a GPU by UUID, or the emulated one. Asks NVML and changes nothing.

use crate::failure::fail;
use crate::steps::build::default_archs;
use crate::world::driver::Driver;
use crate::world::nvml::{Gpu, GpuChoice, GpuError, Library, NvmlGpu, device_id};
use anyhow::{Context, Result};
use schema::ExitCode;
use std::path::Path;
use std::sync::Arc;

/// The oldest architecture that the kernels are written for.
const OLDEST: (u32, u32) = (8, 0);
/// Device files that a GPU's driver makes.
const DEVICE_NODE: &str = "/dev/nvidiactl";

/// A device.
#[derive(Clone)]
pub struct Device {
    /// As the harness is told it: a UUID, or `emulated`.
    pub selector: String,
    /// As records name it: a hash of the UUID, or `emulated`.
    pub id: String,
    /// Lower-case name for run ids.
    pub slug: String,
    /// The architecture whose cubins it runs; `emulated` otherwise.
    pub arch: String,
    /// The newest CUDA that the driver runs; absent without a driver.
    pub driver_cuda: Option<u32>,
    /// The GPU through NVML; absent on the emulated device.
    pub gpu: Option<Arc<NvmlGpu>>,
    /// How it came to this device, in words.
    pub why: String,
}

impl Device {
    /// Whether this is the emulated device.
    pub fn is_emulated(&self) -> bool {
        self.gpu.is_none()
    }
}

/// Finds the device that `wanted` names: `auto`, `cuda:N`, `cuda:UUID` or `emulated`.
///
/// # Errors
/// Exit 2 for another word; 17 when a GPU is asked for and there is none, or its architecture is too old.
pub fn choose(wanted: &str) -> Result<Device> {
    match wanted {
        "emulated" => Ok(emulated("asked for".to_owned())),
        "auto" => match first_gpu() {
            Ok(device) => Ok(device),
            Err(why) if !Path::new(DEVICE_NODE).exists() => Ok(emulated(format!("no GPU ({why:#})"))),
            Err(error) => Err(error),
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

fn choice(rest: &str) -> Result<GpuChoice> {
    if rest.starts_with("GPU-") {
        return Ok(GpuChoice::Uuid(rest.to_owned()));
    }
    rest.parse().map(GpuChoice::Index).map_err(|_| {
        fail(ExitCode::Usage, format!("cuda:{rest} names no GPU"), "--device cuda:0 or --device cuda:GPU-…")
    })
}

fn first_gpu() -> Result<Device> {
    gpu(&GpuChoice::Index(0), "the first GPU that NVML lists".to_owned())
}

fn gpu(choice: &GpuChoice, why: String) -> Result<Device> {
    let library = Library::open(None).map_err(|error| none(&error))?;
    let gpu = library.gpu(choice).map_err(|error| none(&error))?;
    let driver = Driver::look().map_err(|error| none(&GpuError::Other(error)))?;
    let name = gpu.name().map_err(|error| none(&error))?;
    let arch = arch_of(&driver, &name)?;
    let uuid = gpu.uuid().to_owned();
    let id = device_id(&uuid);
    let driver_cuda = Some(driver.cuda);
    Ok(Device {
        selector: format!("cuda:{uuid}"),
        id,
        slug: slug(&name),
        arch,
        driver_cuda,
        gpu: Some(Arc::new(gpu)),
        why,
    })
}

fn arch_of(driver: &Driver, name: &str) -> Result<String> {
    let facts = driver.gpus.iter().find(|gpu| gpu.name == name).with_context(|| format!("NVML lost {name}"))?;
    let number = facts.arch.trim_start_matches("sm_");
    let (major, minor) = number.split_at(number.len() - 1);
    let capability = (major.parse()?, minor.parse()?);
    if capability < OLDEST {
        let message = format!("{name} has compute capability {}.{}, and the kernels need 8.0 or newer", major, minor);
        return Err(fail(ExitCode::Measurement, message, "cargo xtask reproduce --device emulated"));
    }
    default_archs(Some(capability)).pop().context("an architecture without cubins")
}

fn none(error: &GpuError) -> anyhow::Error {
    let message = format!("no usable GPU: {error}");
    fail(ExitCode::Measurement, message, "cargo xtask doctor; without a GPU: --device emulated")
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
    use crate::failure::code_of;
    use crate::world::driver::GpuFacts;

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
        let gpu = |name: &str, arch: &str| GpuFacts { name: name.into(), arch: arch.into(), mig: None };
        let gpus = vec![gpu("Tesla T4", "sm_75"), gpu("NVIDIA GB10", "sm_121")];
        let driver = Driver { version: "580.95.05".into(), cuda: 13_000, gpus };
        let error = arch_of(&driver, "Tesla T4").unwrap_err();
        assert_eq!(code_of(&error), ExitCode::Measurement);
        assert!(error.to_string().contains("compute capability 7.5"), "{error}");
        assert_eq!(arch_of(&driver, "NVIDIA GB10").unwrap(), "sm_121");
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
