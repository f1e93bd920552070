//! The experiment on a GPU: one file for each kernel makes its launches, waits for them, compares the outputs with
//! the oracle on the device, and returns raw records.

mod abi;
mod baseline;
mod burn;
mod calibrate;
mod compare;
mod drain;
mod events;
mod host;
mod work;

use crate::launch::{
    BaselineLaunch, BaselineRaw, CalibrateLaunch, CalibrateRaw, Device, DrainLaunch, LaunchRaw, PreemptLaunch,
    PreemptRaw,
};
use crate::plan::POLL_PERIODS;
use crate::slot;
use anyhow::Context as _;
use harness_core::gpu::{Gpu, Kernel};
use harness_core::launch::TimerTrace;
use schema::cell::DeviceFacts;
use schema::progress::Sites;

/// The kernel files that the experiment loads.
pub const CUBINS: &[&str] = &["preempt/calibrate", "preempt/drain", "preempt/yield", "preempt/urgent", "preempt/check"];

/// Threads of the tile kernels (`kThreads` in `tile.cuh`).
const TILE_THREADS: u32 = 128;
/// Threads of the comparison (`kCheckThreads` in `check.cu`).
const CHECK_THREADS: u32 = 256;
/// Threads of the kernels in which one thread works.
const WARP: u32 = 32;

/// A GPU with the experiment's kernels and memory.
pub struct PreemptGpu {
    work: work::Work,
    events: events::EventMemory,
    kernels: Kernels,
    facts: DeviceFacts,
    sites: Sites,
    // Declared last, so that memory is freed before its context.
    gpu: Gpu,
}

/// Every kernel, resolved.
struct Kernels {
    calibrate: Kernel,
    drain: Kernel,
    yields: [(u32, Kernel); 2],
    setter: Kernel,
    urgent: Kernel,
    check: Kernel,
}

impl Kernels {
    fn of(gpu: &Gpu) -> anyhow::Result<Self> {
        let tiles = |file: &str, symbol| gpu.kernel(file, symbol, TILE_THREADS);
        Ok(Self {
            calibrate: tiles("preempt/calibrate", "preempt_calibrate")?,
            drain: tiles("preempt/drain", "preempt_drain")?,
            yields: [
                (1, tiles("preempt/yield", "preempt_yield_p1")?),
                (4, tiles("preempt/yield", "preempt_yield_p4")?),
            ],
            setter: gpu.kernel("preempt/yield", "preempt_setter", WARP)?,
            urgent: tiles("preempt/urgent", "preempt_urgent")?,
            check: gpu.kernel("preempt/check", "preempt_check", CHECK_THREADS)?,
        })
    }

    /// The yield kernel of a poll period.
    fn polling(&self, period: u32) -> anyhow::Result<Kernel> {
        let found = self.yields.iter().find(|(p, _)| *p == period).map(|(_, kernel)| *kernel);
        found.with_context(|| format!("no yield kernel polls every {period} tiles; built for {POLL_PERIODS:?}"))
    }
}

impl PreemptGpu {
    /// Resolves the kernels of an open GPU and makes the words that it shares with the host.
    ///
    /// # Errors
    /// When a kernel is missing or the words cannot be had.
    pub fn new(gpu: Gpu) -> anyhow::Result<Self> {
        let kernels = Kernels::of(&gpu)?;
        let fewest = kernels.yields.iter().map(|(_, kernel)| kernel.per_sm).min();
        let mut facts = gpu.facts().clone();
        facts.slots = facts
            .slots
            .with(slot::CALIBRATE, kernels.calibrate.per_sm)
            .with(slot::DRAIN, kernels.drain.per_sm)
            .with(slot::YIELD, fewest.unwrap_or(0));
        let (work, events) = (work::Work::new()?, events::EventMemory::default());
        Ok(Self { work, events, kernels, facts, sites: crate::no_sites(), gpu })
    }
}

impl Device for PreemptGpu {
    fn facts(&self) -> &DeviceFacts {
        &self.facts
    }

    fn timer(&mut self, rounds: u32) -> anyhow::Result<TimerTrace> {
        self.gpu.timer(rounds)
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
        self.sites.clone()
    }

    fn gpu(&mut self) -> Option<&mut Gpu> {
        Some(&mut self.gpu)
    }
}
