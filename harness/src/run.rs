//! Runs every cell of a plan that is not complete yet, and records each as soon as it is.

use crate::device::Device;
use crate::failure::fail;
use crate::measure::Context;
use crate::plan::Seed;
use crate::preempt;
use crate::record::CellStore;
use crate::session::Session;
use anyhow::Context as _;
use schema::plan::estimate::{EMULATED_TILE_US, GPU_TILE_US};
use schema::plan::{Cell, Plan, Slots, Work};
use schema::progress::Progress;
use schema::{Digest, ExitCode};
use std::path::Path;
use std::time::Instant;

/// A plan as read from its file.
#[derive(Clone, Debug)]
pub struct FrozenPlan {
    /// The plan.
    pub plan: Plan,
    /// Digest of the file's bytes.
    pub digest: Digest,
}

impl FrozenPlan {
    /// Reads and checks a plan.
    ///
    /// # Errors
    /// Ends with [`ExitCode::Config`] when it is not a possible plan.
    pub fn load(path: &Path) -> anyhow::Result<Self> {
        let config = |error: anyhow::Error| fail(ExitCode::Config, format!("plan {}: {error:#}", path.display()));
        let text = fs_err::read_to_string(path).map_err(|error| config(error.into()))?;
        let plan = Plan::parse(&text).map_err(config)?;
        Ok(Self { plan, digest: Digest::of(text) })
    }
}

/// What `run` is asked to do.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// The plan.
    pub frozen: &'a FrozenPlan,
    /// The run directory.
    pub run_dir: &'a Path,
    /// Goes into the end marker.
    pub nonce: &'a str,
    /// Stop once this cell is complete.
    pub stop_after: Option<&'a str>,
}

/// Runs a plan on a device.
///
/// # Errors
/// When the plan does not fit the device, cells of another device or plan are there, a launch fails, an output is wrong
/// (after everything was recorded), or the run was asked to stop early.
pub fn run(
    device: &mut dyn Device,
    request: &Request,
    say: &mut dyn FnMut(&Progress) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let plan = &request.frozen.plan;
    let mut session = Session::begin(device, say)?;
    let cells = plan.cells(&session.facts().slots);
    admit(&cells, &session.facts().slots)?;
    let store = CellStore::open(request.run_dir, plan, request.frozen.digest, &session.facts().id)?;
    for (index, cell) in (1..).zip(&cells) {
        run_cell(&mut session, request.frozen, &store, cell, (index, cells.len()))?;
        if request.stop_after == Some(cell.name.as_str()) {
            return Err(fail(
                ExitCode::Measurement,
                format!("stopped after cell {}, as asked; run again to resume", cell.name),
            ));
        }
    }
    session.finish(request.nonce)?;
    match session.wrong() {
        0 => Ok(()),
        wrong => Err(fail(
            ExitCode::Oracle,
            format!(
                "{wrong} outputs disagree with the oracle or were not made exactly once; the cells in {} say which",
                request.run_dir.display()
            ),
        )),
    }
}

fn run_cell(
    session: &mut Session,
    frozen: &FrozenPlan,
    store: &CellStore,
    cell: &Cell,
    (index, total): (u32, usize),
) -> anyhow::Result<()> {
    let (phase, name) = (cell.phase.name().to_owned(), cell.name.clone());
    let emulated = session.facts().arch == "emulated";
    let tile_us = if emulated { EMULATED_TILE_US } else { GPU_TILE_US };
    session.say(&Progress::CellBegin {
        phase: phase.clone(),
        cell: name.clone(),
        index,
        total: u32::try_from(total)?,
        events: frozen.plan.events(&cell.work, &session.facts().slots),
        estimate_s: frozen.plan.estimate_s(&cell.work, &session.facts().slots, tile_us),
    })?;
    let begin = Instant::now();
    let resumed = store.is_complete(cell)?;
    if !resumed {
        let seed = Seed::of(frozen.digest, cell.phase, &cell.name);
        store.begin(cell, seed)?;
        let mut context = Context { session, profile: &frozen.plan.profile, seed, store };
        let measured = preempt::measure(&mut context, &cell.work)
            .with_context(|| format!("failed to measure cell {phase}/{name}"))?;
        store.finish(cell, seed, &measured)?;
        if measured.facts.poison_caught == Some(false) {
            let message = format!("the oracle did not catch the wrong element planted in cell {phase}/{name}");
            return Err(fail(ExitCode::Oracle, message));
        }
    }
    session.say(&Progress::CellEnd { phase, cell: name, seconds: begin.elapsed().as_secs_f64(), resumed })
}

/// Refuses grids that the device does not hold at once, and two cells of one name, before anything is launched.
fn admit(cells: &[Cell], slots: &Slots) -> anyhow::Result<()> {
    for (index, cell) in cells.iter().enumerate() {
        let (blocks, per_sm) = match cell.work {
            Work::Timer | Work::Delay(_) => continue,
            Work::Calibrate { blocks, .. } => (blocks, slots.calibrate_per_sm),
            Work::Baseline { blocks, .. } => (blocks, slots.drain_per_sm),
            Work::Yield { blocks, .. } | Work::Cost { blocks, .. } => (blocks, slots.yield_per_sm),
        };
        let fit = slots.sms * per_sm;
        if blocks > fit {
            let message = format!(
                "cell {}/{} asks for {blocks} blocks; this device holds {fit} of that kernel at once ({per_sm} on each of {} SMs)",
                cell.phase.name(),
                cell.name,
                slots.sms
            );
            return Err(fail(ExitCode::Config, message));
        }
        let same = |other: &Cell| other.phase == cell.phase && other.name == cell.name;
        if cells[..index].iter().any(same) {
            let message = format!("cell {}/{} comes twice on this device; drop one", cell.phase.name(), cell.name);
            return Err(fail(ExitCode::Config, message));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::failure::code_of;
    use schema::plan::{Phase, Setter};

    fn check_refused(works: &[Work], expected: &str) {
        let slots = Slots { sms: 2, calibrate_per_sm: 2, drain_per_sm: 3, yield_per_sm: 2 };
        let cell = |work: &Work| Cell { phase: Phase::Yield, name: format!("{work:?}"), work: work.clone() };
        let cells: Vec<Cell> = works.iter().map(cell).collect();
        let error = admit(&cells, &slots).unwrap_err();
        assert_eq!(code_of(&error), ExitCode::Config);
        assert!(error.to_string().contains(expected), "{error}");
    }

    #[test]
    fn grids_above_the_slots_are_refused_with_the_number_that_fits() {
        check_refused(&[Work::Calibrate { k: 16, blocks: 5 }], "holds 4 of that kernel");
        check_refused(&[Work::Baseline { k: 16, blocks: 7 }], "holds 6 of that kernel");
        check_refused(&[Work::Yield { k: 16, blocks: 16, poll: 1, set: Setter::Device }], "asks for 16 blocks");
        check_refused(
            &[Work::Timer, Work::Baseline { k: 16, blocks: 6 }, Work::Baseline { k: 16, blocks: 6 }],
            "twice",
        );
    }
}
