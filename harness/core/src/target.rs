//! Opens the device that the command line names.

use crate::emulated::{self, Clock};
use crate::failure::fail;
use crate::gpu::Gpu;
use crate::launch::TimerTrace;
use schema::ExitCode;
use schema::cell::DeviceFacts;
use schema::plan::Slots;
use std::path::Path;

/// SMs that an emulation has.
const EMULATED_SMS: u32 = 2;
/// Blocks that each of them holds, of any kernel.
pub const EMULATED_PER_SM: u32 = 2;
/// Memory that plans may size their buffers by in an emulation.
const EMULATED_MEMORY_BYTES: u64 = 256 << 20;

/// An open device.
pub enum Target {
    /// Threads of this machine, which an experiment makes its blocks of, and the clock that they read.
    Emulated(Clock),
    /// A GPU with an experiment's cubins loaded.
    Gpu(Box<Gpu>),
}

impl Target {
    /// Opens `emulated`, `cuda:N` or `cuda:GPU-<uuid>`, and loads the cubins `files` of `flavor` below `cubins`.
    ///
    /// # Errors
    /// Ends with [`ExitCode::Usage`] for any other word; otherwise as the device says.
    pub fn open(selector: &str, cubins: Option<&Path>, flavor: &str, files: &[&'static str]) -> anyhow::Result<Self> {
        if selector == "emulated" {
            return Ok(Self::Emulated(Clock::start()));
        }
        if !selector.starts_with("cuda:") {
            let message = format!("{selector:?} is no device; give emulated, cuda:N or cuda:GPU-<uuid>");
            return Err(fail(ExitCode::Usage, message));
        }
        let cubins =
            cubins.ok_or_else(|| fail(ExitCode::Usage, "a GPU needs --cubins, the folder that the build made"))?;
        Ok(Self::Gpu(Box::new(Gpu::open(selector, cubins, flavor, files)?)))
    }

    /// What the device is, before an experiment adds the slots of its kernels.
    #[must_use]
    pub fn facts(&self) -> DeviceFacts {
        match self {
            Self::Emulated(_) => emulated_facts(),
            Self::Gpu(gpu) => gpu.facts().clone(),
        }
    }

    /// Measures the global timer: its step, and each SM's offset to the SM of block 0.
    ///
    /// # Errors
    /// When a launch fails or hits its deadline.
    pub fn timer(&mut self, rounds: u32) -> anyhow::Result<TimerTrace> {
        match self {
            Self::Emulated(clock) => Ok(emulated::timer(*clock, EMULATED_SMS, rounds)),
            Self::Gpu(gpu) => gpu.timer(rounds),
        }
    }

    /// The GPU; absent in an emulation.
    pub fn gpu(&mut self) -> Option<&mut Gpu> {
        match self {
            Self::Emulated(_) => None,
            Self::Gpu(gpu) => Some(gpu),
        }
    }
}

/// What the emulated device is.
#[must_use]
pub fn emulated_facts() -> DeviceFacts {
    DeviceFacts {
        id: "emulated".to_owned(),
        name: "emulated".to_owned(),
        slug: "emulated".to_owned(),
        compute_capability: "0.0".to_owned(),
        arch: "emulated".to_owned(),
        slots: Slots::of_sms(EMULATED_SMS),
        max_threads_per_sm: EMULATED_PER_SM,
        fp32_lanes_per_sm: 0,
        memory_bytes: EMULATED_MEMORY_BYTES,
        l2_bytes: 0,
        driver_cuda: 0,
        kernel_timeout: false,
        mig: None,
        libcuda: None,
        pci: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::failure::code_of;

    #[test]
    fn words_that_name_no_device_are_refused() {
        for word in ["gpu", "", "0", "cuda:0"] {
            let refusal = Target::open(word, None, "measure", &[]).err().unwrap();
            assert_eq!(code_of(&refusal), ExitCode::Usage, "{word}");
        }
        assert!(Target::open("emulated", None, "measure", &[]).unwrap().facts().is_emulated());
    }
}
