//! The boundary between the harness and an experiment: what an experiment says of itself, and the bench that measures it.
//!
//! An experiment is a static value in the registry of the binary. It need not have an emulation; one without says so.

use crate::draws::Seed;
use crate::failure::fail;
use crate::gpu::Gpu;
use crate::record::{CellStore, LaunchLog};
use crate::session::Session;
use crate::target::Target;
use schema::ExitCode;
use schema::cell::{DeviceFacts, Facts};
use schema::plan::{Phase, Plan};
use schema::progress::Sites;
use schema::table::Table;
use std::path::Path;

/// What an experiment says of itself before anything is opened.
pub trait Experiment: Sync {
    /// Its name in plans, which is also its folder's.
    fn name(&self) -> &'static str;

    /// Whether it measures this plan, which may be one of its own in other sizes and under another name.
    fn measures(&self, plan: &Plan) -> bool {
        plan.experiment == self.name()
    }

    /// The kernel files that it loads, below `kernels/` and without suffix.
    fn cubins(&self) -> &'static [&'static str];

    /// Whether it has an emulation, which runs its whole path without a GPU.
    fn emulates(&self) -> bool;

    /// Every cell of a plan on a device with these facts, in the order they run.
    fn cells(&self, plan: &Plan, facts: &DeviceFacts) -> Vec<CellSpec>;

    /// The sanitizer programs that together launch every kernel in every mode that the plan measures.
    fn programs(&self, plan: &Plan) -> Vec<String>;

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

    /// Site counters summed over all launches so far.
    fn sites(&self) -> Sites;

    /// The GPU it runs on; absent in an emulation.
    fn gpu(&mut self) -> Option<&mut Gpu>;
}

/// One point of the sweep, as the run loop needs to know it.
#[derive(Clone, Debug, PartialEq)]
pub struct CellSpec {
    /// Its phase.
    pub phase: Phase,
    /// Its name: `key=value` pairs joined by commas, in plan order.
    pub name: String,
    /// Events that it records at least.
    pub events: u64,
    /// Seconds that it takes, roughly.
    pub estimate_s: f64,
    /// The grid that must be resident at once; absent where the cell has none.
    pub grid: Option<ResidentGrid>,
}

/// A grid all of whose blocks must be resident at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResidentGrid {
    /// Blocks in the grid.
    pub blocks: u32,
    /// The entry of the device's slots that says how many of its blocks an SM holds.
    pub slot: &'static str,
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
    if matches!(target, Target::Emulated) && !experiment.emulates() {
        let message = format!("experiment {} has no emulation; give a GPU, e.g. --device cuda:0", experiment.name());
        return Err(fail(ExitCode::Measurement, message));
    }
    experiment.bench(target)
}
