//! The `preempt` experiment: what it says of itself, and its bench on a GPU or emulated.
//!
//! One file a phase turns launches into a cell's tables; `launch` says what a launch takes and leaves behind, `cuda` and
//! `emulated` make it. The plan's types are those of `schema::plan`.

pub mod baseline;
pub mod calibrate;
pub mod cost;
pub mod cuda;
pub mod emulated;
pub mod instrument;
pub mod launch;
pub mod launches;
pub mod oracle;
pub mod pilots;
pub mod programs;
pub mod sizes;
pub mod timeline;
pub mod yields;

use harness_core::experiment::{Bench, CellSpec, Context, Experiment, Measured, ResidentGrid};
use harness_core::gpu::Gpu;
use harness_core::session::Session;
use harness_core::target::Target;
use launch::Device;
use launches::Launches;
use schema::cell::DeviceFacts;
use schema::plan::estimate::{EMULATED_TILE_US, GPU_TILE_US};
use schema::plan::{Cell, Plan, Work};
use schema::progress::Sites;

/// The experiment, for the registry.
pub static PREEMPT: Preempt = Preempt;

/// Names under which the residency of the experiment's kernels is recorded among a device's slots.
pub mod slot {
    /// The calibrate kernel.
    pub const CALIBRATE: &str = "calibrate_per_sm";
    /// The poll-free drain kernel.
    pub const DRAIN: &str = "drain_per_sm";
    /// The yield kernels; the fewest over all poll periods.
    pub const YIELD: &str = "yield_per_sm";
}

/// Names of the sites that the experiment's kernels count.
pub mod site {
    /// Blocks that left the background loop for an event.
    pub const YIELD: &str = "yield";
    /// Urgent tasks claimed.
    pub const CLAIM: &str = "claim";
    /// Chunk copies into shared memory.
    pub const COPY: &str = "copy";
}

/// Every site, passed by nothing yet.
fn no_sites() -> Sites {
    [site::YIELD, site::CLAIM, site::COPY].map(|site| (site.to_owned(), 0)).into()
}

/// How soon an urgent task runs beside a persistent grid, and what polling for it costs.
pub struct Preempt;

impl Experiment for Preempt {
    fn name(&self) -> &'static str {
        "preempt"
    }

    /// Other sizes have names of their own, and every plan that the schema reads has this experiment's profile.
    fn measures(&self, _: &Plan) -> bool {
        true
    }

    fn cubins(&self) -> &'static [&'static str] {
        cuda::CUBINS
    }

    fn emulates(&self) -> bool {
        true
    }

    fn cells(&self, plan: &Plan, facts: &DeviceFacts) -> Vec<CellSpec> {
        let tile_us = if facts.is_emulated() { EMULATED_TILE_US } else { GPU_TILE_US };
        let spec = |cell: Cell| CellSpec {
            phase: cell.phase,
            name: cell.name,
            events: plan.events(&cell.work, &facts.slots),
            estimate_s: plan.estimate_s(&cell.work, &facts.slots, tile_us),
            grid: grid(&cell.work),
        };
        plan.cells(&facts.slots).into_iter().map(spec).collect()
    }

    fn programs(&self, plan: &Plan) -> Vec<String> {
        programs::programs(plan).into_iter().map(programs::Program::name).collect()
    }

    fn bench(&self, target: Target) -> anyhow::Result<Box<dyn Bench>> {
        let facts = target.facts();
        let device: Box<dyn Device> = match target {
            Target::Emulated => Box::new(emulated::Emulated::new(facts)),
            Target::Gpu(gpu) => Box::new(cuda::PreemptGpu::new(*gpu)?),
        };
        Ok(Box::new(PreemptBench { device }))
    }
}

/// The grid of a cell that must be resident at once.
fn grid(work: &Work) -> Option<ResidentGrid> {
    let (blocks, slot) = match work {
        Work::Timer | Work::Delay(_) => return None,
        Work::Calibrate { blocks, .. } => (*blocks, slot::CALIBRATE),
        Work::Baseline { blocks, .. } => (*blocks, slot::DRAIN),
        Work::Yield { blocks, .. } | Work::Cost { blocks, .. } => (*blocks, slot::YIELD),
    };
    Some(ResidentGrid { blocks, slot })
}

/// A device that the experiment's cells are measured on.
struct PreemptBench {
    device: Box<dyn Device>,
}

impl Bench for PreemptBench {
    fn facts(&self) -> &DeviceFacts {
        self.device.facts()
    }

    fn measure(&mut self, cell: &CellSpec, context: &mut Context) -> anyhow::Result<Measured> {
        let planned = context.plan.cells(&self.device.facts().slots);
        let found = planned.into_iter().find(|planned| planned.phase == cell.phase && planned.name == cell.name);
        let work = found.ok_or_else(|| anyhow::anyhow!("no cell {} in the plan", cell.name))?.work;
        let mut context = pilots::Context {
            launches: Launches { device: &mut *self.device, session: context.session },
            profile: &context.plan.profile,
            seed: context.seed,
            store: context.store,
        };
        measure(&mut context, &work)
    }

    fn sanitize(&mut self, program: &str, plan: &Plan, session: &mut Session) -> anyhow::Result<()> {
        let found = programs::programs(plan).into_iter().find(|known| known.name() == program);
        let found = found.ok_or_else(|| anyhow::anyhow!("no program {program} for this plan"))?;
        programs::run(&mut Launches { device: &mut *self.device, session }, plan, found)
    }

    fn burn(&mut self, seconds: f64) -> anyhow::Result<f64> {
        self.device.burn(seconds)
    }

    fn sites(&self) -> Sites {
        self.device.sites()
    }

    fn gpu(&mut self) -> Option<&mut Gpu> {
        self.device.gpu()
    }
}

/// Does a cell's work.
fn measure(context: &mut pilots::Context, work: &Work) -> anyhow::Result<Measured> {
    match *work {
        Work::Timer => instrument::timer(context),
        Work::Delay(leg) => instrument::delay(context, leg),
        Work::Calibrate { k, blocks } => calibrate::measure(context, k, blocks),
        Work::Baseline { k, blocks } => baseline::measure(context, k, blocks),
        Work::Yield { k, blocks, poll, set } => yields::measure(context, k, blocks, poll, set),
        Work::Cost { k, blocks, poll } => cost::measure(context, k, blocks, poll),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use schema::plan::{Leg, Setter};

    #[test]
    fn each_cell_is_held_to_the_slots_of_its_kernel() {
        let slot_of = |work: &Work| grid(work).map(|grid| (grid.blocks, grid.slot));
        assert_eq!(slot_of(&Work::Calibrate { k: 16, blocks: 5 }), Some((5, slot::CALIBRATE)));
        assert_eq!(slot_of(&Work::Baseline { k: 16, blocks: 7 }), Some((7, slot::DRAIN)));
        let yields = Work::Yield { k: 16, blocks: 16, poll: 1, set: Setter::Device };
        assert_eq!(slot_of(&yields), Some((16, slot::YIELD)));
        assert_eq!(slot_of(&Work::Cost { k: 16, blocks: 16, poll: 1 }), Some((16, slot::YIELD)));
        assert_eq!((slot_of(&Work::Timer), slot_of(&Work::Delay(Leg::Urgent))), (None, None));
    }
}
