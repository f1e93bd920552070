//! Launches without events: calibrate, drain and burn.

use super::abi::{CalibrateArgs, EventArgs};
use super::choice::check_residency;
use super::driver::{Kernel, Shape};
use super::memory::Buffer;
use super::work::WorkPlan;
use super::{CudaDevice, work::Prepared};
use crate::device::{CalibrateLaunch, CalibrateRaw, DrainLaunch, Drainer, LaunchRaw};
use anyhow::Context as _;
use std::time::Instant;

/// Inner dimension of the burn's tiles.
const BURN_K: u32 = 64;
/// Tiles a block burns in one launch.
const BURN_TILES: u32 = 150;
/// Launches queued before the host looks at the time.
const BURN_BATCH: u32 = 20;

impl CudaDevice {
    /// See [`crate::device::Device::calibrate`].
    pub(super) fn run_calibrate(&mut self, launch: &CalibrateLaunch) -> anyhow::Result<CalibrateRaw> {
        let kernel = self.kernels.calibrate;
        self.check_residency(&kernel, launch.blocks)?;
        let quota = launch.warmup_tiles + launch.tiles + launch.tail_tiles;
        let tasks = launch.blocks.checked_mul(quota).context("too many tiles in one launch")?;
        let mut walls = Buffer::default();
        let recorded = launch.blocks as usize * launch.tiles as usize;
        walls.ensure(recorded.max(1) * size_of::<u32>(), "the tile walls")?;
        walls.fill(0, recorded * size_of::<u32>(), 0)?;
        let prepared = self.prepare(&plain_plan(launch.k, tasks, launch.blocks))?;
        let args = CalibrateArgs {
            wall_ns: walls.at(0),
            warmup_tiles: launch.warmup_tiles,
            tiles: launch.tiles,
            quota,
            reserved: 0,
        };
        let shape = Shape { mode: "calibrate", grid: launch.blocks, shared_bytes: 0, cooperative: false };
        let host_start_ns = self.host_ns();
        kernel.launch2(self.gpu.background, &shape, &prepared.args, &args)?;
        self.gpu.finish(kernel.symbol)?;
        let collected = self.collect(&prepared, kernel.config(&shape), host_start_ns, launch.poison, None)?;
        Ok(CalibrateRaw {
            launch: collected.launch,
            wall_ns: walls.download(0, recorded)?,
            max_relative_error: collected.max_relative_error,
        })
    }

    /// See [`crate::device::Device::drain`].
    pub(super) fn run_drain(&mut self, launch: &DrainLaunch) -> anyhow::Result<LaunchRaw> {
        let kernel = match launch.drainer {
            Drainer::PollFree => self.kernels.drain,
            Drainer::Polling(period) => self.kernels.polling(period)?,
        };
        self.check_residency(&kernel, launch.blocks)?;
        let prepared = self.prepare(&plain_plan(launch.k, launch.tasks, launch.blocks))?;
        let shape = Shape { mode: "drain", grid: launch.blocks, shared_bytes: 0, cooperative: false };
        let host_start_ns = self.host_ns();
        self.launch_drain(&kernel, &shape, &prepared, launch.drainer)?;
        self.gpu.finish(kernel.symbol)?;
        Ok(self.collect(&prepared, kernel.config(&shape), host_start_ns, launch.poison, None)?.launch)
    }

    fn launch_drain(
        &self,
        kernel: &Kernel,
        shape: &Shape,
        prepared: &Prepared,
        drainer: Drainer,
    ) -> anyhow::Result<()> {
        match drainer {
            Drainer::PollFree => kernel.launch(self.gpu.background, shape, &prepared.args),
            Drainer::Polling(_) => {
                let flag = self.work.evidence.at(prepared.places.flag);
                let no_events = EventArgs { flag, ..EventArgs::default() };
                kernel.launch2(self.gpu.background, shape, &prepared.args, &no_events)
            }
        }
    }

    /// See [`crate::device::Device::burn`].
    pub(super) fn run_burn(&mut self, seconds: f64) -> anyhow::Result<f64> {
        let kernel = self.kernels.drain;
        let blocks = self.facts.slots.sms * kernel.per_sm;
        let shape = Shape { mode: "burn", grid: blocks, shared_bytes: 0, cooperative: false };
        let begun = Instant::now();
        loop {
            let prepared = self.prepare(&plain_plan(BURN_K, blocks * BURN_TILES, blocks))?;
            for _ in 0..BURN_BATCH {
                kernel.launch(self.gpu.background, &shape, &prepared.args)?;
                self.gpu.finish(kernel.symbol)?;
                self.work.reset_queue(&prepared)?;
            }
            if begun.elapsed().as_secs_f64() >= seconds {
                return self.clock_mhz(&prepared);
            }
        }
    }

    /// Refuses a grid that `kernel` cannot have resident at once.
    pub(super) fn check_residency(&self, kernel: &Kernel, blocks: u32) -> anyhow::Result<()> {
        check_residency(kernel.symbol, blocks, kernel.per_sm, self.facts.slots.sms)
    }
}

/// Work in which every block of the grid takes part.
pub(super) fn plain_plan(k: u32, tasks: u32, blocks: u32) -> WorkPlan {
    WorkPlan { k, tasks, workers: blocks, columns: blocks, first_column: 0, watched: false }
}
