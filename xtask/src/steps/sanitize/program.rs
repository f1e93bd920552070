//! What is sanitized and then run: the built harness with its cubins, a plan and a device.

use crate::steps::build::Built;
use schema::Digest;
use schema::build::{Cubin, Kernel};
#[cfg(test)]
use std::path::Path;
use std::path::PathBuf;

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
    pub fn new(built: &Built, plan: PathBuf, arch: &str, device: &str) -> Self {
        let record = &built.record;
        Self {
            harness: built.harness(),
            harness_digest: record.harness,
            cubins: built.cubins_dir(),
            plan,
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

    /// A program that nobody runs: a plan in `dir`, one kernel and its cubins.
    #[cfg(test)]
    pub(crate) fn made_up(dir: &Path, symbol: &str) -> Self {
        let plan = dir.join("plan.toml");
        fs_err::write(&plan, "plan").unwrap();
        let cubin = |flavor: &str| Cubin {
            file: "preempt/yield".into(),
            arch: "sm_90".into(),
            flavor: flavor.into(),
            path: format!("{flavor}/yield.cubin"),
            sha256: Digest::of(flavor),
            foreign_paths: 0,
        };
        let kernel = Kernel {
            file: "preempt/yield".into(),
            symbol: symbol.into(),
            arch: "sm_90".into(),
            sass_digest: Digest::of("sass"),
            registers: 32,
            spill_bytes: 0,
            stack_bytes: 0,
            shared_bytes: 0,
            max_threads: 64,
            blocks_per_sm: 4,
        };
        Self {
            harness: dir.join("harness"),
            harness_digest: Digest::of("harness"),
            cubins: dir.to_owned(),
            plan,
            kernels: vec![kernel],
            built: vec![cubin("measure"), cubin("lineinfo")],
            arch: "sm_90".into(),
            device: "GPU-1".into(),
        }
    }

    /// The cubins of one flavor.
    pub fn flavor<'a>(&'a self, flavor: &'a str) -> impl Iterator<Item = &'a Cubin> {
        self.built.iter().filter(move |cubin| cubin.flavor == flavor)
    }
}
