//! Drains back to back, as a load under which the clocks are watched.

use super::PreemptGpu;
use super::work::WorkPlan;
use anyhow::Context as _;
use harness_core::gpu::{Arg, Shape};
use std::time::Instant;

/// Inner dimension of the burn's tiles.
const BURN_K: u32 = 64;
/// Tiles a block burns in one launch.
const BURN_TILES: u32 = 150;
/// Launches queued before the host looks at the time.
const BURN_BATCH: u32 = 20;

impl PreemptGpu {
    /// See [`crate::launch::Device::burn`].
    pub(super) fn run_burn(&mut self, seconds: f64) -> anyhow::Result<f64> {
        let kernel = self.kernels.drain;
        let blocks = self.gpu.sms() * kernel.per_sm;
        let shape = Shape { mode: "burn", grid: blocks, shared_bytes: 0, cooperative: false };
        let begun = Instant::now();
        loop {
            let prepared = self.prepare(&WorkPlan::plain(BURN_K, blocks * BURN_TILES, blocks))?;
            for _ in 0..BURN_BATCH {
                kernel.launch(self.gpu.background(), &shape, &[Arg::of(&prepared.args)])?;
                self.gpu.finish(kernel.symbol)?;
                self.work.reset_queue(&prepared)?;
            }
            if begun.elapsed().as_secs_f64() >= seconds {
                return self.clock_mhz(&prepared)?.context("no SM sampled its clock");
            }
        }
    }
}
