//! The `preempt` experiment: what it says of itself, and its bench on a GPU or emulated.
//!
//! One file a phase turns launches into a cell's tables; `launch` says what a launch takes and leaves behind, `cuda` and
//! `emulated` make it; `plan` says which cells there are and what each must show.

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
pub mod plan;
pub mod programs;
pub mod sizes;
pub mod tables;
pub mod timeline;
pub mod yields;

use harness_core::experiment::{Bench, Context, Experiment, Measured};
use harness_core::gpu::Gpu;
use harness_core::session::Session;
use harness_core::target::Target;
use launch::Device;
use launches::Launches;
use plan::estimate::{EMULATED_TILE_US, GPU_TILE_US};
use plan::{PreemptPlan, Work};
use schema::cell::DeviceFacts;
use schema::contract::{CellSpec, Contract, ProgramSpec};
use schema::plan::Plan;
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

    fn cubins(&self) -> &'static [&'static str] {
        cuda::CUBINS
    }

    fn contract(&self, plan: &Plan, facts: &DeviceFacts) -> anyhow::Result<Contract> {
        let tile_us = if facts.is_emulated() { EMULATED_TILE_US } else { GPU_TILE_US };
        Ok(PreemptPlan::of(plan)?.contract(&facts.slots, tile_us))
    }

    fn programs(&self, plan: &Plan) -> anyhow::Result<Vec<ProgramSpec>> {
        Ok(programs::programs(&PreemptPlan::of(plan)?).into_iter().map(programs::Program::spec).collect())
    }

    fn bench(&self, target: Target) -> anyhow::Result<Box<dyn Bench>> {
        let facts = target.facts();
        let device: Box<dyn Device> = match target {
            Target::Emulated(clock) => Box::new(emulated::Emulated::new(facts, clock)),
            Target::Gpu(gpu) => Box::new(cuda::PreemptGpu::new(*gpu)?),
        };
        Ok(Box::new(PreemptBench { device }))
    }
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
        let plan = PreemptPlan::of(context.plan)?;
        let mut planned = plan.cells(&self.device.facts().slots).into_iter();
        let found = planned.find(|planned| planned.phase.name() == cell.phase && planned.name == cell.name);
        let work = found.ok_or_else(|| anyhow::anyhow!("no cell {} in the plan", cell.name))?.work;
        let mut context = pilots::Context {
            launches: Launches { device: &mut *self.device, session: context.session },
            profile: &plan.profile,
            seed: context.seed,
            store: context.store,
        };
        measure(&mut context, &work)
    }

    fn sanitize(&mut self, program: &str, plan: &Plan, session: &mut Session) -> anyhow::Result<()> {
        let plan = PreemptPlan::of(plan)?;
        let found = programs::programs(&plan).into_iter().find(|known| known.name() == program);
        let found = found.ok_or_else(|| anyhow::anyhow!("no program {program} for this plan"))?;
        programs::run(&mut Launches { device: &mut *self.device, session }, &plan, found)
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
