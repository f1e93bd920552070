//! `preempt_calibrate`: every block records when its tiles ended, in the middle of the queue.

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
        let tasks = launch.tasks().context("too many tiles in one launch")?;
        let mut boundary_ns = Buffer::default();
        let boundaries = launch.tiles + 1;
        let recorded = launch.blocks as usize * boundaries as usize;
        boundary_ns.ensure(recorded * size_of::<u32>(), "the tile boundaries")?;
        boundary_ns.fill(0, recorded * size_of::<u32>(), 0)?;
        let prepared = self.prepare(&WorkPlan::plain(launch.k, tasks, launch.blocks))?;
        let args = CalibrateArgs {
            boundary_ns: boundary_ns.at(0),
            record_from: launch.blocks * launch.warmup_tiles,
            boundaries,
        };
        let shape = Shape { mode: "calibrate", grid: launch.blocks, shared_bytes: 0, cooperative: false };
        let host_start_ns = self.gpu.host_ns();
        kernel.launch(self.gpu.background(), &shape, &[Arg::of(&prepared.args), Arg::of(&args)])?;
        self.gpu.finish(kernel.symbol)?;
        let collected = self.collect(&prepared, kernel.config(&shape), host_start_ns, launch.poison, None)?;
        Ok(CalibrateRaw {
            launch: collected.launch,
            boundary_ns: boundary_ns.download(0, recorded)?,
            max_relative_error: collected.max_relative_error,
        })
    }
}
