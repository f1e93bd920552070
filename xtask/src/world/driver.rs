//! The GPU driver as it can be asked without changing anything: version, CUDA, and each GPU's architecture and MIG mode.

use nvml_wrapper::Nvml;
use nvml_wrapper::error::NvmlError;

/// The driver and its GPUs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Driver {
    /// Its version, e.g. `580.95.05`.
    pub version: String,
    /// The newest CUDA it runs, as 1000 × major + 10 × minor.
    pub cuda: u32,
    /// Its GPUs.
    pub gpus: Vec<GpuFacts>,
}

/// One GPU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GpuFacts {
    /// Product name.
    pub name: String,
    /// Architecture, e.g. `sm_90`.
    pub arch: String,
    /// Whether MIG is on; absent when the GPU has no such mode.
    pub mig: Option<bool>,
}

impl Driver {
    /// Asks NVML.
    ///
    /// # Errors
    /// In words, when there is no NVML library or it does not answer.
    pub fn look() -> Result<Self, String> {
        look().map_err(|error| error.to_string())
    }

    /// The version's first number.
    pub fn series(&self) -> Option<u32> {
        self.version.split('.').next()?.parse().ok()
    }
}

fn look() -> Result<Driver, NvmlError> {
    let nvml = Nvml::init()?;
    let gpus = (0..nvml.device_count()?).map(|index| gpu(&nvml, index)).collect::<Result<_, _>>()?;
    let cuda = u32::try_from(nvml.sys_cuda_driver_version()?).unwrap_or(0);
    Ok(Driver { version: nvml.sys_driver_version()?, cuda, gpus })
}

fn gpu(nvml: &Nvml, index: u32) -> Result<GpuFacts, NvmlError> {
    let device = nvml.device_by_index(index)?;
    let capability = device.cuda_compute_capability()?;
    let mig = device.mig_mode().ok().map(|mode| mode.current != 0);
    Ok(GpuFacts { name: device.name()?, arch: format!("sm_{}{}", capability.major, capability.minor), mig })
}
