//! The GPU driver as it can be asked without changing anything: version, CUDA, and each GPU's name, architecture and modes.

use super::nvml::{Answer, Gpu, GpuChoice, GpuError, Library};
use std::path::Path;
use words::driver_version::DriverVersion;

/// The driver and its GPUs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Driver {
    /// Its version, e.g. `580.95.05`.
    pub version: DriverVersion,
    /// The newest CUDA it runs, as 1000 × major + 10 × minor.
    pub cuda: u32,
    /// Its GPUs, in its own order; for one that does not answer, what was said instead.
    pub gpus: Vec<Answer<GpuFacts>>,
}

/// One GPU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GpuFacts {
    /// Its UUID.
    pub uuid: String,
    /// Its PCI address.
    pub pci: Answer<String>,
    /// Product name.
    pub name: String,
    /// Architecture, e.g. `sm_90`.
    pub arch: String,
    /// Whether MIG is on.
    pub mig: Answer<bool>,
    /// Whether it is a share of a GPU (a vGPU), or shares of it are given to others.
    pub shared: Answer<bool>,
    /// Whether the driver keeps its state when its last client goes.
    pub persistence: Answer<bool>,
}

impl Driver {
    /// Asks the library that the loader finds.
    ///
    /// # Errors
    /// When there is none, or it does not answer.
    pub fn look() -> Answer<Self> {
        Self::of(&Library::open(None)?)
    }

    /// Asks this library.
    ///
    /// # Errors
    /// When it does not answer.
    pub fn of(library: &Library) -> Answer<Self> {
        let version = library.driver_version()?.parse().map_err(|error| GpuError::Other(format!("{error:#}")))?;
        let gpus = library.uuids()?.into_iter().map(|uuid| gpu(library, uuid?)).collect();
        Ok(Self { version, cuda: library.cuda()?, gpus })
    }

    /// The GPU of this UUID.
    ///
    /// # Errors
    /// What it said instead of an answer; [`GpuError::NotFound`] when there is none such.
    pub fn gpu(&self, uuid: &str) -> Answer<&GpuFacts> {
        let found = self.gpus.iter().flatten().find(|gpu| gpu.uuid == uuid);
        found.ok_or_else(|| GpuError::NotFound(format!("{uuid} among {} GPUs", self.gpus.len())))
    }
}

fn gpu(library: &Library, uuid: String) -> Answer<GpuFacts> {
    let gpu = library.gpu(&GpuChoice::Uuid(uuid.clone()))?;
    Ok(GpuFacts {
        uuid,
        pci: gpu.pci(),
        name: gpu.name()?,
        arch: gpu.arch()?,
        mig: gpu.mig(),
        shared: gpu.is_shared(),
        persistence: gpu.persistence(),
    })
}

/// The version of the loaded kernel module; absent when none is loaded below `root`.
#[must_use]
pub fn loaded_module(root: &Path) -> Option<DriverVersion> {
    std::fs::read_to_string(root.join("sys/module/nvidia/version")).ok()?.parse().ok()
}

/// The versions of the management libraries below `root`, by their file names, sorted.
#[must_use]
pub fn installed_libraries(root: &Path) -> Vec<DriverVersion> {
    const FOLDERS: [&str; 5] =
        ["usr/lib/x86_64-linux-gnu", "usr/lib/aarch64-linux-gnu", "usr/lib64", "usr/lib", "usr/lib/wsl/lib"];
    let entries =
        FOLDERS.iter().flat_map(|folder| std::fs::read_dir(root.join(folder)).into_iter().flatten().flatten());
    let version = |name: &str| name.strip_prefix("libnvidia-ml.so.")?.parse().ok();
    let mut found: Vec<DriverVersion> =
        entries.filter_map(|entry| version(&entry.file_name().to_string_lossy())).collect();
    found.sort();
    found.dedup();
    found
}
