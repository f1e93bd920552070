//! `preempt_check`: compares background and urgent outputs with the reference, on the device.

use super::PreemptGpu;
use super::abi::CheckArgs;
use super::work::Prepared;
use harness_core::gpu::abi::Address;
use harness_core::gpu::{Arg, Shape};

/// Blocks of the comparison per SM.
const CHECK_BLOCKS_PER_SM: u32 = 8;

/// The urgent outputs to compare.
#[derive(Clone, Copy)]
pub(super) struct UrgentOutputs {
    pub(super) executions: Address,
    pub(super) tiles: u32,
    /// Tiles per event.
    pub(super) per_event: u32,
    pub(super) first_event_id: u32,
}

impl PreemptGpu {
    /// Compares background and urgent outputs with the reference, on the device.
    pub(super) fn compare(&self, prepared: &Prepared, urgent: Option<&UrgentOutputs>) -> anyhow::Result<()> {
        let work = &self.work;
        let reference = work.inputs[&prepared.plan.k].reference.at(0);
        let background = CheckArgs {
            c: work.c.at(0),
            reference,
            executions: work.executions.at(0),
            counts: work.evidence.at(prepared.places.counts),
            tiles: prepared.plan.tasks,
            ..CheckArgs::default()
        };
        let grid = self.gpu.sms() * CHECK_BLOCKS_PER_SM;
        let shape = Shape { mode: "check", grid, shared_bytes: 0, cooperative: false };
        self.kernels.check.launch(self.gpu.background(), &shape, &[Arg::of(&background)])?;
        if let Some(urgent) = urgent {
            let args = CheckArgs {
                c: work.urgent_c.at(0),
                reference,
                executions: urgent.executions,
                counts: work.evidence.at(prepared.places.urgent_counts),
                tiles: urgent.tiles,
                urgent_tiles: urgent.per_event,
                first_event_id: urgent.first_event_id,
                reserved: 0,
            };
            self.kernels.check.launch(self.gpu.background(), &shape, &[Arg::of(&args)])?;
        }
        self.gpu.finish("preempt_check")
    }
}
