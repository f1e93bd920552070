//! `preempt_calibrate`: every block records how long each of its middle tiles took.

use super::PreemptGpu;
use super::abi::CalibrateArgs;
use super::work::WorkPlan;
use crate::launch::{CalibrateLaunch, CalibrateRaw};
use anyhow::Context as _;
use harness_core::gpu::memory::Buffer;
use harness_core::gpu::{Arg, Shape};

impl PreemptGpu {
    /// See [`crate::launch::Device::calibrate`].
    pub(super) fn run_calibrate(&mut self, launch: &CalibrateLaunch) -> anyhow::Result<CalibrateRaw> {
        let kernel = self.kernels.calibrate;
        self.gpu.check_residency(&kernel, launch.blocks)?;
        let quota = launch.warmup_tiles + launch.tiles + launch.tail_tiles;
        let tasks = launch.blocks.checked_mul(quota).context("too many tiles in one launch")?;
        let mut walls = Buffer::default();
        let recorded = launch.blocks as usize * launch.tiles as usize;
        walls.ensure(recorded.max(1) * size_of::<u32>(), "the tile walls")?;
        walls.fill(0, recorded * size_of::<u32>(), 0)?;
        let prepared = self.prepare(&WorkPlan::plain(launch.k, tasks, launch.blocks))?;
        let args = CalibrateArgs {
            wall_ns: walls.at(0),
            warmup_tiles: launch.warmup_tiles,
            tiles: launch.tiles,
            quota,
            reserved: 0,
        };
        let shape = Shape { mode: "calibrate", grid: launch.blocks, shared_bytes: 0, cooperative: false };
        let host_start_ns = self.gpu.host_ns();
        kernel.launch(self.gpu.background(), &shape, &[Arg::of(&prepared.args), Arg::of(&args)])?;
        self.gpu.finish(kernel.symbol)?;
        let collected = self.collect(&prepared, kernel.config(&shape), host_start_ns, launch.poison, None)?;
        Ok(CalibrateRaw {
            launch: collected.launch,
            wall_ns: walls.download(0, recorded)?,
            max_relative_error: collected.max_relative_error,
        })
    }
}
