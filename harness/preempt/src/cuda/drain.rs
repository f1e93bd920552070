//! `preempt_drain`, and the yield kernels without a schedule: drains a queue once.

use super::PreemptGpu;
use super::abi::EventArgs;
use super::work::{Prepared, WorkPlan};
use crate::launch::{DrainLaunch, Drainer, LaunchRaw};
use harness_core::gpu::{Arg, Kernel, Shape};

impl PreemptGpu {
    /// See [`crate::launch::Device::drain`].
    pub(super) fn run_drain(&mut self, launch: &DrainLaunch) -> anyhow::Result<LaunchRaw> {
        let kernel = match launch.drainer {
            Drainer::PollFree => self.kernels.drain,
            Drainer::Polling(period) => self.kernels.polling(period)?,
        };
        self.gpu.check_residency(&kernel, launch.blocks)?;
        let prepared = self.prepare(&WorkPlan::plain(launch.k, launch.tasks, launch.blocks))?;
        let shape = Shape { mode: "drain", grid: launch.blocks, shared_bytes: 0, cooperative: false };
        let host_start_ns = self.gpu.host_ns();
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
            Drainer::PollFree => kernel.launch(self.gpu.background(), shape, &[Arg::of(&prepared.args)]),
            Drainer::Polling(_) => {
                let flag = self.work.evidence.at(prepared.places.flag);
                let no_events = EventArgs { flag, ..EventArgs::default() };
                kernel.launch(self.gpu.background(), shape, &[Arg::of(&prepared.args), Arg::of(&no_events)])
            }
        }
    }
}
