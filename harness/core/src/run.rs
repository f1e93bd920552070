//! Runs every cell of a plan that is not complete yet, and records each as soon as it is.

use crate::draws::Seed;
use crate::experiment::{Bench, CellSpec, Context, Experiment};
use crate::failure::fail;
use crate::record::CellStore;
use crate::sanitize::cubins;
use crate::session::Session;
use anyhow::Context as _;
use schema::plan::{Plan, Slots};
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

/// Runs a plan of an experiment on its bench.
///
/// # Errors
/// When the plan does not fit the device, cells of another device or plan are there, a launch fails, an output is wrong
/// (after everything was recorded), or the run was asked to stop early.
pub fn run(
    experiment: &dyn Experiment,
    bench: &mut dyn Bench,
    request: &Request,
    say: &mut dyn FnMut(&Progress) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let plan = &request.frozen.plan;
    let mut session = Session::begin(bench.facts(), say)?;
    let cells = experiment.cells(plan, bench.facts());
    admit(&cells, &bench.facts().slots)?;
    let store = CellStore::open(request.run_dir, plan, request.frozen.digest, &bench.facts().id)?;
    for (index, cell) in (1..).zip(&cells) {
        let total = u32::try_from(cells.len())?;
        let (phase, name) = (cell.phase.name().to_owned(), cell.name.clone());
        let (events, estimate_s) = (cell.events, cell.estimate_s);
        session.say(&Progress::CellBegin {
            phase: phase.clone(),
            cell: name.clone(),
            index,
            total,
            events,
            estimate_s,
        })?;
        let begin = Instant::now();
        let resumed = store.is_complete(cell.phase, &cell.name)?;
        if !resumed {
            measure(bench, &mut session, request.frozen, &store, cell)?;
        }
        session.say(&Progress::CellEnd { phase, cell: name, seconds: begin.elapsed().as_secs_f64(), resumed })?;
        if request.stop_after == Some(cell.name.as_str()) {
            let message = format!("stopped after cell {}, as asked; run again to resume", cell.name);
            return Err(fail(ExitCode::Measurement, message));
        }
    }
    session.finish(request.nonce, bench.sites(), cubins(bench))?;
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

fn measure(
    bench: &mut dyn Bench,
    session: &mut Session,
    frozen: &FrozenPlan,
    store: &CellStore,
    cell: &CellSpec,
) -> anyhow::Result<()> {
    let name = format!("{}/{}", cell.phase.name(), cell.name);
    let seed = Seed::of(frozen.digest, cell.phase, &cell.name);
    store.begin(cell.phase, &cell.name, seed)?;
    let mut context = Context { session, plan: &frozen.plan, seed, store };
    let measured = bench.measure(cell, &mut context).with_context(|| format!("failed to measure cell {name}"))?;
    store.finish(cell.phase, &cell.name, seed, &measured)?;
    if measured.missed_fault {
        let message = format!("the oracle did not catch the wrong element planted in cell {name}");
        return Err(fail(ExitCode::Oracle, message));
    }
    Ok(())
}

/// Refuses grids that the device does not hold at once, and two cells of one name, before anything is launched.
fn admit(cells: &[CellSpec], slots: &Slots) -> anyhow::Result<()> {
    for (index, cell) in cells.iter().enumerate() {
        let name = format!("{}/{}", cell.phase.name(), cell.name);
        if let Some(grid) = cell.grid {
            let (blocks, per_sm, sms) = (grid.blocks, slots.per_sm(grid.slot), slots.sms());
            let fit = sms * per_sm;
            if blocks > fit {
                let message = format!(
                    "cell {name} asks for {blocks} blocks; this device holds {fit} of that kernel at once ({per_sm} on each of {sms} SMs)"
                );
                return Err(fail(ExitCode::Config, message));
            }
        }
        if cells[..index].iter().any(|other| other.phase == cell.phase && other.name == cell.name) {
            return Err(fail(ExitCode::Config, format!("cell {name} comes twice on this device; drop one")));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::ResidentGrid;
    use crate::failure::code_of;
    use schema::plan::Phase;

    fn check_refused(cells: &[(&str, Option<u32>)], expected: &str) {
        let slots = Slots::of_sms(2).with("made_up_per_sm", 2);
        let cell = |(name, blocks): &(&str, Option<u32>)| CellSpec {
            phase: Phase::ALL[0],
            name: (*name).to_owned(),
            events: 1,
            estimate_s: 1.0,
            grid: blocks.map(|blocks| ResidentGrid { blocks, slot: "made_up_per_sm" }),
        };
        let cells: Vec<CellSpec> = cells.iter().map(cell).collect();
        let error = admit(&cells, &slots).unwrap_err();
        assert_eq!(code_of(&error), ExitCode::Config);
        assert!(error.to_string().contains(expected), "{error}");
    }

    #[test]
    fn grids_above_the_slots_are_refused_with_the_number_that_fits() {
        check_refused(&[("a", Some(4)), ("b", Some(5))], "b asks for 5 blocks; this device holds 4 of that kernel");
        check_refused(&[("a", None), ("b", Some(4)), ("b", Some(4))], "twice");
    }
}
