//! The contract of a run, made by the experiment's own code in the harness before anything is measured.
//!
//! Nothing is launched on a device here: the harness only opens it, since the cells follow from what it holds.

use super::sanitize::Program;
use anyhow::{Context, Result, ensure};
use host::container::{Runtime, Task};
use host::failure::{Failure, fail};
use host::files;
use pure::text::quoted;
use schema::contract::{CONTRACT, Contract};
use schema::{Digest, ExitCode};
use std::path::Path;
use std::time::Duration;

/// The harness opens a device and prints; a driver that takes longer does not answer.
const DEADLINE: Duration = Duration::from_secs(120);
/// The most of the harness's own words that a message repeats.
const MOST_CHARS: usize = 300;

/// What a run must contain, with the digest of its bytes.
#[derive(Clone, Debug, PartialEq)]
pub struct Frozen {
    /// The contract.
    pub contract: Contract,
    /// Digest of `contract.json`.
    pub digest: Digest,
}

/// Asks the harness for the contract of the plan on this device and freezes it in the run directory. A run that is gone on with
/// must still have the contract it began with.
///
/// # Errors
/// 10 when the experiment's code refuses the plan; 17 when the harness prints no contract, or the run began with another one.
pub fn describe(runtime: &dyn Runtime, program: &Program, experiment: &str, run_dir: &Path) -> Result<Frozen> {
    let bytes = asked(runtime, program, run_dir)?;
    let contract = Contract::parse(&bytes).map_err(|error| unusable(&format!("{error:#}")))?;
    if contract.experiment != experiment {
        return Err(unusable(&format!(
            "it is of experiment {:?}, and the plan of {experiment:?}",
            contract.experiment
        )));
    }
    let file = run_dir.join(CONTRACT);
    if files::exists(&file) && files::read_plain(&file)? != bytes {
        let message = format!("{} is not what this harness asks of the run", file.display());
        return Err(fail(ExitCode::Measurement, message, "cargo xtask reproduce --fresh"));
    }
    files::write_whole(&file, &bytes)?;
    Ok(Frozen { contract, digest: Digest::of(&bytes) })
}

/// Reads the contract that a run was begun with.
///
/// # Errors
/// When the file is absent or holds no contract.
pub fn load(run_dir: &Path) -> Result<Contract> {
    let file = run_dir.join(CONTRACT);
    Contract::parse(&files::read_plain(&file)?).with_context(|| format!("failed to read {}", file.display()))
}

fn asked(runtime: &dyn Runtime, program: &Program, run_dir: &Path) -> Result<Vec<u8>> {
    let text =
        |path: &Path| path.to_str().map(str::to_owned).with_context(|| format!("{} is not UTF-8", path.display()));
    let (plan, cubins) = (text(&program.plan)?, text(&program.cubins)?);
    let args = ["describe", "--plan", &plan, "--device", &program.device, "--cubins", &cubins, "--flavor", "measure"];
    let folder = |file: &Path| file.parent().map(Path::to_owned).context("a file has a folder");
    let task = Task {
        label: "describe".to_owned(),
        program: text(&program.harness)?,
        args: args.map(str::to_owned).to_vec(),
        env: Vec::new(),
        readable: vec![folder(&program.harness)?, program.cubins.clone()],
        writable: run_dir.to_owned(),
        gpu: !program.is_emulated(),
        deadline: DEADLINE,
        hold_stdin: true,
    };
    let ended = runtime.run(&task, &mut |_| {})?;
    let said = ended.stderr.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or_default();
    let said = quoted(said, MOST_CHARS);
    match ended.code {
        Some(0) => {
            let line = ended.stdout.lines().find(|line| line.starts_with('{'));
            let line = line.context("it printed none").map_err(|error| unusable(&error.to_string()))?;
            let mut bytes = serde_json::to_vec_pretty(&serde_json::from_str::<serde_json::Value>(line)?)?;
            ensure!(!bytes.is_empty(), "an empty contract");
            bytes.push(b'\n');
            Ok(bytes)
        }
        Some(code) if code == ExitCode::Config.status() => Err(Failure {
            code: ExitCode::Config,
            message: format!("the experiment's code refuses the plan: {said}"),
            remedy: "edit harness/experiments/EXPERIMENT/plan.toml, then cargo xtask reproduce".to_owned(),
        }
        .into()),
        _ if ended.timed_out => Err(unusable("the harness was killed, since its device did not answer")),
        code => Err(unusable(&format!("the harness ended with {code:?}: {said}"))),
    }
}

fn unusable(why: &str) -> anyhow::Error {
    let message = format!("there is no contract for this run: {why}");
    fail(ExitCode::Measurement, message, "cargo xtask build, then cargo xtask reproduce --fresh")
}
