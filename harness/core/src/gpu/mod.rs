//! A real GPU, driven through the CUDA driver API: opened with a list of cubins, its timer, its planted faults, its
//! memory.
//!
//! Opening loads every cubin that it is given, so that nothing is loaded beside a resident grid. It does not decide
//! what is measured, and writes no file.

pub mod abi;
mod choice;
pub mod clock;
mod control;
mod driver;
mod facts;
pub mod memory;
mod module;
mod preflight;
pub mod records;
mod timer;

pub use driver::Stream;
pub use module::{Arg, Kernel, Shape};
pub use preflight::missing_symbols_are_errors;

use cudarc::driver::sys::CUdevice_attribute as Attribute;
use driver::Driver;
use module::Module;
use schema::Digest;
use schema::cell::DeviceFacts;
use std::path::Path;
use std::time::Instant;

/// The timer's kernels, which every experiment uses.
const TIMER: &str = "common/timer";
/// Threads of the kernels in which one thread works.
const WARP: u32 = 32;
/// Timer steps assumed until the timer is measured (NVIDIA: 32 ns from GH100 on, 1.024 us before).
const FINE_QUANTUM_NS: u32 = 32;
/// See [`FINE_QUANTUM_NS`].
const COARSE_QUANTUM_NS: u32 = 1024;
/// Compute capability from which the timer is fine.
const FINE_SINCE: u32 = 9;

/// A GPU with cubins loaded.
pub struct Gpu {
    modules: Vec<Module>,
    quantum: Kernel,
    offset: Kernel,
    controls: Vec<Kernel>,
    facts: DeviceFacts,
    quantum_ns: u32,
    slowed: bool,
    opened: Instant,
    driver: Driver,
}

impl Gpu {
    /// Opens the GPU that `selector` names (`cuda:N`, `cuda:GPU-…` or a UUID) with the cubins `files` in
    /// `cubin_dir/<arch>/<flavor>/`, where `flavor` is `measure` or `lineinfo`, and with those that every experiment shares.
    ///
    /// # Errors
    /// When there is no driver, no such GPU, or no cubins for its architecture.
    pub fn open(selector: &str, cubin_dir: &Path, flavor: &str, files: &[&'static str]) -> anyhow::Result<Self> {
        let driver = Driver::open(selector)?;
        let major = driver.attribute(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)?;
        let minor = driver.attribute(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?;
        let (arch, folder) = choice::arch_folder(cubin_dir, flavor, (major, minor))?;
        let mut modules = files.iter().map(|file| Module::load(&folder, file)).collect::<anyhow::Result<Vec<_>>>()?;
        let timer = Module::load(&folder, TIMER)?;
        let (quantum, offset) =
            (timer.kernel("preempt_timer_quantum", WARP)?, timer.kernel("preempt_timer_offset", WARP)?);
        modules.push(timer);
        let mut controls = Vec::new();
        for control in &control::CONTROLS {
            let module = Module::load(&folder, control.file)?;
            controls.push(module.kernel(control.symbol, control.threads)?);
            modules.push(module);
        }
        Ok(Self {
            modules,
            quantum,
            offset,
            controls,
            facts: facts::describe(&driver, arch, (major, minor))?,
            quantum_ns: if major >= FINE_SINCE { FINE_QUANTUM_NS } else { COARSE_QUANTUM_NS },
            slowed: flavor == "lineinfo",
            opened: Instant::now(),
            driver,
        })
    }

    /// What the GPU says about itself; its slots hold the number of SMs and no kernel.
    #[must_use]
    pub fn facts(&self) -> &DeviceFacts {
        &self.facts
    }

    /// Streaming multiprocessors.
    #[must_use]
    pub fn sms(&self) -> u32 {
        self.facts.slots.sms()
    }

    /// A kernel of a loaded cubin.
    ///
    /// # Errors
    /// When the cubin was not given to [`Gpu::open`], or lacks the kernel.
    pub fn kernel(&self, file: &str, symbol: &'static str, threads: u32) -> anyhow::Result<Kernel> {
        let module = self.modules.iter().find(|module| module.file() == file);
        module.ok_or_else(|| anyhow::anyhow!("{file} was not loaded when the GPU was opened"))?.kernel(symbol, threads)
    }

    /// Cubins handed to the driver, by file stem.
    #[must_use]
    pub fn cubins(&self) -> Vec<(String, Digest)> {
        self.modules.iter().map(Module::identity).collect()
    }

    /// The step of the global timer in nanoseconds: as measured, or until then what this architecture's is said to be.
    #[must_use]
    pub fn quantum_ns(&self) -> u32 {
        self.quantum_ns
    }

    /// Whether a sanitizer may be slowing the kernels, by up to two orders of magnitude: they are the lineinfo cubins.
    #[must_use]
    pub fn is_slowed(&self) -> bool {
        self.slowed
    }

    /// Host monotonic nanoseconds since the device was opened.
    #[must_use]
    pub fn host_ns(&self) -> i64 {
        i64::try_from(self.opened.elapsed().as_nanos()).unwrap_or(i64::MAX)
    }

    /// The stream for grids that may run long.
    #[must_use]
    pub fn background(&self) -> Stream {
        self.driver.background
    }

    /// The stream of the highest priority.
    #[must_use]
    pub fn priority(&self) -> Stream {
        self.driver.priority
    }

    /// Makes the context current on this thread; before any other call that reaches the GPU.
    ///
    /// # Errors
    /// When the driver refuses.
    pub fn bind(&self) -> anyhow::Result<()> {
        self.driver.bind()
    }

    /// Waits until all work is done, that of fills and copies included, and reports any fault of it.
    ///
    /// Fills run on the default stream, and our streams do not wait for it: a launch that did not wait here would race with
    /// the fill of its own counters.
    ///
    /// # Errors
    /// When a kernel failed, or did not end in time.
    pub fn finish(&self, what: &str) -> anyhow::Result<()> {
        self.driver.finish(what)
    }

    /// Refuses a grid that is empty or that the GPU cannot hold at once.
    ///
    /// # Errors
    /// When `blocks` is 0 or more than fit; says how many do.
    pub fn check_residency(&self, kernel: &Kernel, blocks: u32) -> anyhow::Result<()> {
        choice::check_residency(kernel.symbol, blocks, kernel.per_sm, self.sms())
    }
}
