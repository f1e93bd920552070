//! One small program for compute-sanitizer: one of the experiment's own, or a planted fault that the tool must catch.
//!
//! Outputs are checked as in a measurement. Nothing here is measured or recorded.

use crate::experiment::{Bench, Experiment};
use crate::failure::fail;
use crate::session::Session;
use schema::plan::Plan;
use schema::progress::Progress;
use schema::sanitize::Tool;
use schema::{Digest, ExitCode};

/// Runs a program, or a planted fault of `kernels/controls/`, and prints the end marker.
///
/// # Errors
/// Ends with [`ExitCode::Usage`] for an unknown name, [`ExitCode::Oracle`] for a wrong output, and otherwise as the bench says.
pub fn sanitize(
    experiment: &dyn Experiment,
    bench: &mut dyn Bench,
    plan: &Plan,
    name: &str,
    nonce: &str,
    say: &mut dyn FnMut(&Progress) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    if Tool::ALL.iter().any(|tool| tool.control() == name) {
        return control(bench, name, nonce, say);
    }
    let programs = experiment.programs(plan)?;
    if !programs.iter().any(|program| program.name == name) {
        let names: Vec<&str> = programs.iter().map(|program| program.name.as_str()).collect();
        let message = format!("no program {name:?} for this plan; there are {}", names.join(", "));
        return Err(fail(ExitCode::Usage, message));
    }
    let mut session = Session::begin(bench.facts(), say)?;
    bench.sanitize(name, plan, &mut session)?;
    session.finish(nonce, bench.sites(), cubins(bench))?;
    match session.wrong() {
        0 => Ok(()),
        wrong => Err(fail(ExitCode::Oracle, format!("{wrong} outputs of program {name} disagree with the oracle"))),
    }
}

/// Runs a planted fault. A tool may stop its kernel, so the end marker comes whatever the launch says.
fn control(
    bench: &mut dyn Bench,
    symbol: &str,
    nonce: &str,
    say: &mut dyn FnMut(&Progress) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    say(&Progress::Device(bench.facts().clone()))?;
    let launched = match bench.gpu() {
        Some(gpu) => gpu.run_control(symbol),
        None => Err(fail(
            ExitCode::Measurement,
            format!("{symbol} is a fault in a GPU kernel; the emulated device has none to run"),
        )),
    };
    say(&Progress::End {
        nonce: nonce.to_owned(),
        launches: 1,
        sites: bench.sites(),
        cubins: cubins(bench),
        configs: Vec::new(),
        wrong: 0,
    })?;
    launched
}

/// Cubins handed to the driver so far, by file stem; none in an emulation.
pub(crate) fn cubins(bench: &mut dyn Bench) -> Vec<(String, Digest)> {
    bench.gpu().map_or_else(Vec::new, |gpu| gpu.cubins())
}
