//! A real GPU, driven through the CUDA driver API.
//!
//! Opening loads every kernel; each call of the trait makes its launches, waits for them, compares the outputs with the
//! oracle on the device, and hands back raw records. It decides nothing about a phase and writes no file.

mod abi;
mod baseline;
mod choice;
mod clock;
mod control;
mod drain;
mod driver;
mod events;
mod memory;
mod preflight;
mod timer;
mod work;

pub use preflight::missing_symbols_are_errors;

use super::{
    BaselineLaunch, BaselineRaw, CalibrateLaunch, CalibrateRaw, Device, DrainLaunch, LaunchRaw, PreemptLaunch,
    PreemptRaw, TimerRaw,
};
use anyhow::Context as _;
use cudarc::driver::sys::CUdevice_attribute as Attribute;
use driver::{Gpu, Kernel, Module};
use schema::Digest;
use schema::cell::DeviceFacts;
use schema::plan::{POLL_PERIODS, Slots};
use schema::progress::Sites;
use std::path::Path;
use std::time::Instant;

/// Threads of the tile kernels (`kThreads` in `tile.cuh`).
const TILE_THREADS: u32 = 128;
/// Threads of the comparison (`kCheckThreads` in `check.cu`).
const CHECK_THREADS: u32 = 256;
/// Threads of the kernels in which one thread works.
const WARP: u32 = 32;
/// Timer steps assumed until the timer is measured (NVIDIA: 32 ns from GH100 on, 1.024 us before).
const FINE_QUANTUM_NS: u32 = 32;
/// See [`FINE_QUANTUM_NS`].
const COARSE_QUANTUM_NS: u32 = 1024;
/// Compute capability from which the timer is fine.
const FINE_SINCE: u32 = 9;

/// A GPU with the kernels loaded.
pub struct CudaDevice {
    work: work::Work,
    events: events::EventMemory,
    kernels: Kernels,
    modules: Vec<Module>,
    facts: DeviceFacts,
    sites: Sites,
    quantum_ns: u32,
    /// Whether a sanitizer may be slowing the kernels: they are the lineinfo cubins.
    sanitized: bool,
    opened: Instant,
    // Last: memory and modules go before the context they live in.
    gpu: Gpu,
}

/// Every kernel, resolved.
struct Kernels {
    calibrate: Kernel,
    drain: Kernel,
    yields: Vec<(u32, Kernel)>,
    setter: Kernel,
    urgent: Kernel,
    quantum: Kernel,
    offset: Kernel,
    check: Kernel,
    controls: Vec<Kernel>,
}

impl Kernels {
    /// The yield kernel of a poll period.
    fn polling(&self, period: u32) -> anyhow::Result<Kernel> {
        let found = self.yields.iter().find(|(p, _)| *p == period).map(|(_, kernel)| *kernel);
        found.with_context(|| format!("no yield kernel polls every {period} tiles; built for {POLL_PERIODS:?}"))
    }
}

impl CudaDevice {
    /// Opens the GPU that `selector` names (`cuda:N`, `cuda:GPU-…` or a UUID) with the cubins in
    /// `cubin_dir/<arch>/<flavor>/`, where `flavor` is `measure` or `lineinfo`.
    ///
    /// # Errors
    /// When there is no driver, no such GPU, or no cubins for its architecture.
    pub fn open(selector: &str, cubin_dir: &Path, flavor: &str) -> anyhow::Result<Self> {
        let gpu = Gpu::open(selector)?;
        let major = gpu.attribute(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)?;
        let minor = gpu.attribute(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?;
        let (arch, folder) = choice::arch_folder(cubin_dir, flavor, (major, minor))?;
        let (modules, kernels) = load_kernels(&folder)?;
        let facts = describe(&gpu, &kernels, arch, (major, minor))?;
        let quantum_ns = if major >= FINE_SINCE { FINE_QUANTUM_NS } else { COARSE_QUANTUM_NS };
        Ok(Self {
            work: work::Work::new()?,
            events: events::EventMemory::default(),
            kernels,
            modules,
            facts,
            sites: Sites::default(),
            quantum_ns,
            sanitized: flavor == "lineinfo",
            opened: Instant::now(),
            gpu,
        })
    }

    /// The UUID of the GPU, in the clear: for choosing it again, never for records.
    #[must_use]
    pub fn uuid(&self) -> &str {
        &self.gpu.uuid
    }

    /// Host monotonic nanoseconds since the device was opened.
    fn host_ns(&self) -> i64 {
        i64::try_from(self.opened.elapsed().as_nanos()).unwrap_or(i64::MAX)
    }
}

impl Device for CudaDevice {
    fn facts(&self) -> &DeviceFacts {
        &self.facts
    }

    fn timer(&mut self, rounds: u32) -> anyhow::Result<TimerRaw> {
        self.gpu.bind()?;
        self.run_timer(rounds)
    }

    fn calibrate(&mut self, launch: &CalibrateLaunch) -> anyhow::Result<CalibrateRaw> {
        self.gpu.bind()?;
        self.run_calibrate(launch)
    }

    fn drain(&mut self, launch: &DrainLaunch) -> anyhow::Result<LaunchRaw> {
        self.gpu.bind()?;
        self.run_drain(launch)
    }

    fn baseline(&mut self, launch: &BaselineLaunch) -> anyhow::Result<BaselineRaw> {
        self.gpu.bind()?;
        self.run_baseline(launch)
    }

    fn preempt(&mut self, launch: &PreemptLaunch) -> anyhow::Result<PreemptRaw> {
        self.gpu.bind()?;
        self.run_preempt(launch)
    }

    fn burn(&mut self, seconds: f64) -> anyhow::Result<f64> {
        self.gpu.bind()?;
        self.run_burn(seconds)
    }

    fn sites(&self) -> Sites {
        self.sites
    }

    fn cubins(&self) -> Vec<(String, Digest)> {
        self.modules.iter().map(Module::identity).collect()
    }
}

/// Loads every cubin of a folder and resolves every kernel.
fn load_kernels(folder: &Path) -> anyhow::Result<(Vec<Module>, Kernels)> {
    let load = |file| Module::load(folder, file);
    let (calibrate, drain) = (load("preempt/calibrate")?, load("preempt/drain")?);
    let (yields, urgent) = (load("preempt/yield")?, load("preempt/urgent")?);
    let (timer, check) = (load("preempt/timer")?, load("preempt/check")?);
    let controls = control::CONTROLS.map(|control| Module::load(folder, control.file));
    let controls = controls.into_iter().collect::<anyhow::Result<Vec<_>>>()?;
    let resolve = |(module, control): (&Module, &control::Control)| module.kernel(control.symbol, control.threads);
    let kernels = Kernels {
        calibrate: calibrate.kernel("preempt_calibrate", TILE_THREADS)?,
        drain: drain.kernel("preempt_drain", TILE_THREADS)?,
        yields: vec![
            (1, yields.kernel("preempt_yield_p1", TILE_THREADS)?),
            (4, yields.kernel("preempt_yield_p4", TILE_THREADS)?),
        ],
        setter: yields.kernel("preempt_setter", WARP)?,
        urgent: urgent.kernel("preempt_urgent", TILE_THREADS)?,
        quantum: timer.kernel("preempt_timer_quantum", WARP)?,
        offset: timer.kernel("preempt_timer_offset", WARP)?,
        check: check.kernel("preempt_check", CHECK_THREADS)?,
        controls: controls.iter().zip(&control::CONTROLS).map(resolve).collect::<anyhow::Result<_>>()?,
    };
    let mut modules = vec![calibrate, drain, yields, urgent, timer, check];
    modules.extend(controls);
    Ok((modules, kernels))
}

/// What the GPU says about itself.
fn describe(gpu: &Gpu, kernels: &Kernels, arch: String, (major, minor): (u32, u32)) -> anyhow::Result<DeviceFacts> {
    let name = gpu.name()?;
    let fewest = kernels.yields.iter().map(|(_, kernel)| kernel.per_sm).min();
    let maps = fs_err::read_to_string("/proc/self/maps").unwrap_or_default();
    let libcuda = choice::libcuda_path(&maps).map(Digest::of_file).transpose()?;
    Ok(DeviceFacts {
        id: choice::hashed(&gpu.uuid),
        slug: choice::slug(&name),
        mig: Some(name.contains("MIG ")),
        name,
        compute_capability: format!("{major}.{minor}"),
        arch,
        slots: Slots {
            sms: gpu.attribute(Attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)?,
            calibrate_per_sm: kernels.calibrate.per_sm,
            drain_per_sm: kernels.drain.per_sm,
            yield_per_sm: fewest.unwrap_or(0),
        },
        max_threads_per_sm: gpu.attribute(Attribute::CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR)?,
        fp32_lanes_per_sm: choice::fp32_lanes(major, minor),
        memory_bytes: gpu.memory_bytes()?,
        l2_bytes: gpu.attribute(Attribute::CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE)?.into(),
        driver_cuda: driver::cuda_version()?,
        kernel_timeout: gpu.attribute(Attribute::CU_DEVICE_ATTRIBUTE_KERNEL_EXEC_TIMEOUT)? != 0,
        libcuda,
        pci: Some(gpu.pci()?),
    })
}
