//! The boundary between the harness and an experiment: what an experiment says of itself, and the bench that measures it.
//!
//! An experiment is a static value in the registry of the binary. It need not have an emulation; one without says so.

use crate::draws::Seed;
use crate::failure::fail;
use crate::gpu::Gpu;
use crate::record::{CellStore, LaunchLog};
use crate::session::Session;
use crate::target::{Target, emulated_facts};
use schema::ExitCode;
use schema::cell::{DeviceFacts, Facts};
use schema::contract::{CellSpec, Contract, ProgramSpec};
use schema::plan::Plan;
use schema::progress::Sites;
use std::path::Path;
use tables::Table;

/// What an experiment says of itself before anything is opened.
pub trait Experiment: Sync {
    /// Its name in plans, which is also that of its folders.
    fn name(&self) -> &'static str;

    /// The kernel files that it loads, below `kernels/` and without suffix.
    fn cubins(&self) -> &'static [&'static str];

    /// Whether it has an emulation, which runs its whole path without a GPU; one without says so here.
    fn emulates(&self) -> bool {
        true
    }

    /// What a run of a plan on a device with these facts must contain. Pure: the same plan and facts give the same contract.
    ///
    /// # Errors
    /// When the plan's numbers are not this experiment's, or no device could measure them.
    fn contract(&self, plan: &Plan, facts: &DeviceFacts) -> anyhow::Result<Contract>;

    /// The sanitizer programs that together launch every kernel in every mode that the plan measures, as the contract names them.
    ///
    /// # Errors
    /// As [`Experiment::contract`].
    fn programs(&self, plan: &Plan) -> anyhow::Result<Vec<ProgramSpec>> {
        Ok(self.contract(plan, &emulated_facts())?.programs)
    }

    /// Makes the bench on an open device.
    ///
    /// # Errors
    /// When a kernel is missing or memory cannot be had.
    fn bench(&self, target: Target) -> anyhow::Result<Box<dyn Bench>>;
}

/// A device set up for one experiment.
///
/// Every call is synchronous, bounded by a deadline, and checks its own outputs against the oracle.
pub trait Bench {
    /// What the device is, with the residency slots of the experiment's kernels.
    fn facts(&self) -> &DeviceFacts;

    /// Measures one of the experiment's cells. Every launch is counted in the session.
    ///
    /// # Errors
    /// When a launch fails, or what the cell builds on is missing.
    fn measure(&mut self, cell: &CellSpec, context: &mut Context) -> anyhow::Result<Measured>;

    /// Runs one of the experiment's sanitizer programs. Every launch is counted in the session.
    ///
    /// # Errors
    /// When a launch fails, or did not do what the program is for.
    fn sanitize(&mut self, program: &str, plan: &Plan, session: &mut Session) -> anyhow::Result<()>;

    /// Keeps every SM busy for about `seconds`, and returns the in-band clock of the last launch in MHz.
    ///
    /// # Errors
    /// When a launch fails.
    fn burn(&mut self, seconds: f64) -> anyhow::Result<f64>;

    /// Site counters summed over all launches so far; none where the experiment's kernels count no sites.
    fn sites(&self) -> Sites {
        Sites::new()
    }

    /// The GPU it runs on; absent in an emulation.
    fn gpu(&mut self) -> Option<&mut Gpu>;
}

/// What a cell is measured with.
pub struct Context<'a, 's> {
    /// Counts launches and reports progress.
    pub session: &'a mut Session<'s>,
    /// The frozen plan.
    pub plan: &'a Plan,
    /// The seed of this cell.
    pub seed: Seed,
    /// Where finished cells lie.
    pub store: &'a CellStore,
}

/// What a cell's work yields.
#[derive(Clone, Debug)]
pub struct Measured {
    /// Its launches.
    pub log: LaunchLog,
    /// Its events.
    pub events: Table,
    /// Rows of single blocks, where the cell keeps them.
    pub blocks: Option<Table>,
    /// Its facts.
    pub facts: Facts,
    /// Whether the oracle missed an element that was planted to be wrong: the run ends once the cell is recorded.
    pub missed_fault: bool,
}

/// Opens the device that `selector` names and makes the experiment's bench on it.
///
/// # Errors
/// Ends with [`ExitCode::Measurement`] when the emulated device is asked for and the experiment has no emulation; otherwise as
/// [`Target::open`] and [`Experiment::bench`].
pub fn open(
    experiment: &dyn Experiment,
    selector: &str,
    cubins: Option<&Path>,
    flavor: &str,
) -> anyhow::Result<Box<dyn Bench>> {
    let target = Target::open(selector, cubins, flavor, experiment.cubins())?;
    if matches!(target, Target::Emulated(_)) && !experiment.emulates() {
        let message = format!("experiment {} has no emulation; give a GPU, e.g. --device cuda:0", experiment.name());
        return Err(fail(ExitCode::Measurement, message));
    }
    experiment.bench(target)
}
