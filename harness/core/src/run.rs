//! Runs every cell of a plan that is not complete yet, and records each as soon as it is.

use crate::draws::Seed;
use crate::experiment::{Bench, Context, Experiment};
use crate::failure::fail;
use crate::record::CellStore;
use crate::sanitize::cubins;
use crate::session::Session;
use anyhow::Context as _;
use schema::contract::{CellSpec, Contract};
use schema::plan::{Plan, Slots};
use schema::progress::Progress;
use schema::{Digest, ExitCode};
use std::collections::BTreeMap;
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
    /// The run directory, named after the run.
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
    let cells = describe(experiment, plan, bench)?.cells;
    let mut session = Session::begin(bench.facts(), say)?;
    let store = CellStore::open(request.run_dir, plan, request.frozen.digest, &bench.facts().id)?;
    for (index, cell) in (1..).zip(&cells) {
        let total = u32::try_from(cells.len())?;
        let (phase, name) = (cell.phase.clone(), cell.name.clone());
        let (events, estimate_s) = (cell.expects.events, cell.estimate_s);
        session.say(&Progress::CellBegin {
            phase: phase.clone(),
            cell: name.clone(),
            index,
            total,
            events,
            estimate_s,
        })?;
        let begin = Instant::now();
        let resumed = store.is_complete(&cell.phase, &cell.name)?;
        if !resumed {
            measure(bench, &mut session, request, &store, cell)?;
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
    request: &Request,
    store: &CellStore,
    cell: &CellSpec,
) -> anyhow::Result<()> {
    let name = cell.id();
    let run = request.run_dir.file_name().and_then(|name| name.to_str()).context("the run directory has no name")?;
    let seed = Seed::of(run, &cell.phase, &cell.name);
    store.begin(&cell.phase, &cell.name, seed)?;
    let mut context = Context { session, plan: &request.frozen.plan, seed, store };
    let measured = bench.measure(cell, &mut context).with_context(|| format!("failed to measure cell {name}"))?;
    store.finish(&cell.phase, &cell.name, seed, &measured)?;
    if measured.missed_fault {
        let message = format!("the oracle did not catch the wrong element planted in cell {name}");
        return Err(fail(ExitCode::Oracle, message));
    }
    Ok(())
}

/// What a run of the plan on this bench must contain.
///
/// # Errors
/// Ends with [`ExitCode::Config`] when the plan is not the experiment's, or asks for more blocks than the device holds.
pub fn describe(experiment: &dyn Experiment, plan: &Plan, bench: &dyn Bench) -> anyhow::Result<Contract> {
    let contract = experiment.contract(plan, bench.facts());
    let contract = contract.and_then(|contract| contract.check().map(|()| contract));
    let contract =
        contract.map_err(|error| fail(ExitCode::Config, format!("experiment {}: {error:#}", plan.experiment)))?;
    contract.cells.iter().try_for_each(|cell| admit(cell, &bench.facts().slots))?;
    Ok(contract)
}

/// Refuses grids that the device does not hold at once, before anything is launched.
fn admit(cell: &CellSpec, slots: &Slots) -> anyhow::Result<()> {
    let mut wanted: BTreeMap<&str, u32> = BTreeMap::new();
    for launch in &cell.launches {
        if let (Some(slot), Some(grid)) = (&launch.slot, launch.grid) {
            *wanted.entry(slot).or_default() += grid;
        }
    }
    for (slot, blocks) in wanted {
        let (per_sm, sms) = (slots.per_sm(slot), slots.sms());
        let fit = sms * per_sm;
        if blocks > fit {
            let message = format!(
                "cell {} asks for {blocks} blocks; this device holds {fit} of that kernel at once ({per_sm} on each of {sms} SMs)",
                cell.id()
            );
            return Err(fail(ExitCode::Config, message));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::failure::code_of;
    use schema::contract::LaunchKind;

    fn check(grids: &[u32], refused: Option<&str>) {
        let slots = Slots::of_sms(2).with("made_up_per_sm", 2);
        let kind = |grid: &u32| LaunchKind {
            mode: "made_up".to_owned(),
            grid: Some(*grid),
            symbol_end: String::new(),
            slot: Some("made_up_per_sm".to_owned()),
        };
        let cell = CellSpec { launches: grids.iter().map(kind).collect(), ..schema::timer::cell("p", 2, 1) };
        match (admit(&cell, &slots), refused) {
            (Ok(()), None) => {}
            (Err(error), Some(words)) => {
                assert_eq!(code_of(&error), ExitCode::Config);
                assert!(error.to_string().contains(words), "{error}");
            }
            (found, _) => panic!("{grids:?}: {found:?}"),
        }
    }

    #[test]
    fn grids_above_the_slots_are_refused_with_the_number_that_fits() {
        check(&[4], None);
        check(&[5], Some("asks for 5 blocks; this device holds 4 of that kernel"));
        check(&[3, 1], None);
        check(&[4, 1], Some("asks for 5 blocks"));
    }
}
