//! What is sanitized and then run: the built harness with its cubins, a plan and a device.

use schema::Digest;
use schema::build::{BuildRecord, Cubin, Kernel};
use std::path::{Path, PathBuf};

/// The built harness on one device: what is sanitized, and what is run.
#[derive(Clone, Debug)]
pub struct Program {
    /// The harness.
    pub harness: PathBuf,
    /// Digest of the harness.
    pub harness_digest: Digest,
    /// The folder of cubins, `<arch>/<flavor>/…`.
    pub cubins: PathBuf,
    /// The frozen plan.
    pub plan: PathBuf,
    /// Kernels of the device's architecture.
    pub kernels: Vec<Kernel>,
    /// Cubins of the device's architecture, both flavors.
    pub built: Vec<Cubin>,
    /// The architecture, or `emulated`.
    pub arch: String,
    /// The device as the harness is told it, or `emulated`.
    pub device: String,
}

impl Program {
    /// The part of a build that runs on one architecture.
    pub fn new(record: &BuildRecord, cubins: &Path, harness: &Path, plan: &Path, arch: &str, device: &str) -> Self {
        Self {
            harness: harness.to_owned(),
            harness_digest: record.harness,
            cubins: cubins.to_owned(),
            plan: plan.to_owned(),
            kernels: record.kernels.iter().filter(|kernel| kernel.arch == arch).cloned().collect(),
            built: record.cubins.iter().filter(|cubin| cubin.arch == arch).cloned().collect(),
            arch: arch.to_owned(),
            device: device.to_owned(),
        }
    }

    /// Whether it runs on the emulated device.
    pub fn is_emulated(&self) -> bool {
        self.device == "emulated"
    }

    /// The cubins of one flavor.
    pub fn flavor<'a>(&'a self, flavor: &'a str) -> impl Iterator<Item = &'a Cubin> {
        self.built.iter().filter(move |cubin| cubin.flavor == flavor)
    }
}
