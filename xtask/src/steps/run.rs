//! Runs the harness over a plan, follows its progress, and accepts the run only if every cell is on disk.
//!
//! The caller looks after clocks, telemetry and the record of attempts. To resume an interrupted run, call it again
//! with the same run directory: the harness skips the cells that are complete.

mod cells;
mod follow;

#[cfg(test)]
mod tests;

pub use cells::check_cells;
pub use follow::Telemetry;

use super::describe::replan;
use super::sanitize::{Program, nonce};
use anyhow::{Context, Result};
use follow::Follow;
use host::container::{Runtime, Task};
use host::failure::fail;
use host::gpu::nvml::device_id;
use host::process::Ended;
use host::ui::{Ui, spoken};
use schema::cell::{CellRecord, DeviceFacts};
use schema::contract::Contract;
use schema::{Digest, ExitCode};
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use words::progress::{EndMark, end_mark};
use words::text::quoted;

const RESUME: &str = "cargo xtask reproduce --resume RUN goes on at the first incomplete cell";

/// What the step works with.
pub struct RunContext<'a> {
    /// Progress.
    pub ui: &'a Ui,
    /// The run directory, which holds the frozen `plan.toml` and `contract.json`.
    pub run_dir: &'a Path,
    /// What the run must contain.
    pub contract: &'a Contract,
    /// The whole harness is killed after this long; a silent one much sooner.
    pub deadline: Duration,
}

/// A complete measurement on disk.
#[derive(Clone, Debug, PartialEq)]
pub struct Measured {
    /// The run directory.
    pub run_dir: PathBuf,
    /// The device that it was measured on.
    pub device: DeviceFacts,
    /// The header of every cell of the plan, in order.
    pub cells: Vec<CellRecord>,
    /// Cells that were there before.
    pub resumed: u32,
    /// Launches of this call.
    pub launches: u64,
    /// Seconds of this call.
    pub seconds: f64,
}

/// Measures: runs the harness to its end and checks what it left.
///
/// # Errors
/// With the harness's own exit code where that is documented; 17 when it ends without its end marker, stays silent, or leaves
/// a cell incomplete; 16 when a file or cubin is not what a record says; 14 when outputs are wrong.
pub fn run(
    ctx: &RunContext,
    runtime: &dyn Runtime,
    program: &Program,
    telemetry: &mut dyn Telemetry,
) -> Result<Measured> {
    let nonce = nonce()?;
    let task = task(ctx, program, &nonce)?;
    let began = Instant::now();
    let follow = RefCell::new(Follow::new(ctx.ui, telemetry));
    let ended = runtime
        .run_watched(&task, &mut |line| follow.borrow_mut().line(line), &|| follow.borrow().overdue(Instant::now()));
    let mut follow = follow.into_inner();
    ctx.ui.done();
    let (device, resumed) = (follow.finish(), follow.resumed());
    let ended = ended?;
    let end = accept(&ended, &nonce, &follow, &ctx.contract.experiment)?;
    let device = device.ok_or_else(|| incomplete("the harness named no device".to_owned()))?;
    check_device(program, &device)?;
    let cells = check_cells(ctx.run_dir, ctx.contract, &device)?;
    check_cubins(program, &end, &cells)?;
    let seconds = began.elapsed().as_secs_f64();
    let time = spoken(began.elapsed());
    ctx.ui.line(&format!("run {} cells ({resumed} were there), {} launches, {time}", cells.len(), end.launches));
    Ok(Measured { run_dir: ctx.run_dir.to_owned(), device, cells, resumed, launches: end.launches, seconds })
}

impl Measured {
    /// What an earlier call measured on this device, every file hashed again.
    ///
    /// # Errors
    /// 17 when a cell is incomplete, 16 when a file is not what its header says.
    pub fn load(run_dir: &Path, contract: &Contract, device: DeviceFacts) -> Result<Self> {
        let cells = check_cells(run_dir, contract, &device)?;
        let resumed = u32::try_from(cells.len())?;
        Ok(Self { run_dir: run_dir.to_owned(), device, cells, resumed, launches: 0, seconds: 0.0 })
    }
}

fn task(ctx: &RunContext, program: &Program, nonce: &str) -> Result<Task> {
    let text =
        |path: &Path| path.to_str().map(str::to_owned).with_context(|| format!("{} is not UTF-8", path.display()));
    let (plan, cubins, out) = (text(&program.plan)?, text(&program.cubins)?, text(ctx.run_dir)?);
    let mut args = vec!["run", "--plan", &plan, "--device", &program.device, "--cubins", &cubins];
    args.extend(["--flavor", "measure", "--out", &out, "--nonce", nonce, "--hold"]);
    let folder = |file: &Path| file.parent().map(Path::to_owned).context("a file has a folder");
    Ok(Task {
        label: "run".to_owned(),
        program: text(&program.harness)?,
        args: args.into_iter().map(str::to_owned).collect(),
        env: Vec::new(),
        readable: BTreeSet::from([folder(&program.harness)?, program.cubins.clone()]).into_iter().collect(),
        writable: ctx.run_dir.to_owned(),
        gpu: !program.is_emulated(),
        deadline: ctx.deadline,
        hold_stdin: true,
    })
}

/// The end marker of a harness that ended well.
fn accept(ended: &Ended, nonce: &str, follow: &Follow, experiment: &str) -> Result<EndMark> {
    const MOST_CHARS: usize = 300;
    let last = ended.stderr.lines().rev().find(|line| !line.trim().is_empty());
    let said = last.map_or_else(String::new, |line| format!(": {}", quoted(line, MOST_CHARS)));
    let place = follow.place();
    match ended.code {
        _ if ended.timed_out => Err(incomplete(format!("the harness was killed {place}: {}", follow.lateness()))),
        Some(0) => {
            // A kernel that prints took a path that it should not take, whatever it then computed.
            if let Some(line) = follow.stray() {
                let line = quoted(line, MOST_CHARS);
                return Err(incomplete(format!("a kernel or library printed beside the harness: {line}")));
            }
            let end = end_mark(&ended.stdout, nonce).map_err(|why| incomplete(format!("{why} {place}{said}")))?;
            match end.wrong {
                0 => Ok(end),
                n => {
                    Err(fail(ExitCode::Oracle, format!("{n} outputs were wrong or unwritten"), "cargo xtask sanitize"))
                }
            }
        }
        Some(code) => {
            let remedy = match documented(code) {
                ExitCode::Config => replan(experiment),
                _ => RESUME.to_owned(),
            };
            Err(fail(documented(code), format!("the harness ended with exit code {code} {place}{said}"), remedy))
        }
        None => Err(incomplete(format!("the harness was ended by a signal {place}{said}"))),
    }
}

/// What the harness's exit code means for us.
fn documented(code: i32) -> ExitCode {
    // A usage error of the harness is a bug of this program, which composes its command line.
    const PASSED_ON: [ExitCode; 10] = [
        ExitCode::Bug,
        ExitCode::Config,
        ExitCode::Environment,
        ExitCode::Build,
        ExitCode::Sanitizer,
        ExitCode::Oracle,
        ExitCode::Integrity,
        ExitCode::Measurement,
        ExitCode::Interrupted,
        ExitCode::Terminated,
    ];
    match code {
        2 => ExitCode::Bug,
        _ => PASSED_ON.into_iter().find(|known| known.status() == code).unwrap_or(ExitCode::Measurement),
    }
}

fn check_device(program: &Program, device: &DeviceFacts) -> Result<()> {
    let emulated = device.is_emulated();
    if emulated != program.is_emulated() {
        return Err(incomplete(format!("asked for device {}, the harness opened {}", program.device, device.name)));
    }
    let wanted = program.device.strip_prefix("cuda:").filter(|uuid| uuid.starts_with("GPU-")).map(device_id);
    if wanted.is_some_and(|id| id != device.id) {
        return Err(incomplete(format!("asked for {}, the harness opened another GPU: {}", program.device, device.id)));
    }
    if !emulated && device.arch != program.arch {
        return Err(incomplete(format!("{} runs {} cubins, built are {}", device.name, device.arch, program.arch)));
    }
    Ok(())
}

/// Every cubin that the driver was handed, now or in a cell measured before, is one that was built for measuring.
fn check_cubins(program: &Program, end: &EndMark, cells: &[CellRecord]) -> Result<()> {
    if program.is_emulated() {
        return Ok(());
    }
    let built: BTreeSet<Digest> = program.flavor("measure").map(|cubin| cubin.sha256).collect();
    let loaded = end.cubins.iter().map(|(stem, digest)| (stem, Some(*digest)));
    let launched = cells.iter().flat_map(|cell| &cell.configs).map(|config| (&config.symbol, config.cubin));
    for (name, digest) in loaded.chain(launched) {
        if !digest.is_some_and(|digest| built.contains(&digest)) {
            let message = format!("the cubin of {name} that was handed to the driver is not the one that was built");
            return Err(fail(ExitCode::Integrity, message, "cargo xtask reproduce --fresh"));
        }
    }
    match end.cubins.is_empty() {
        true => Err(incomplete("the harness names no cubin".to_owned())),
        false => Ok(()),
    }
}

fn incomplete(message: String) -> anyhow::Error {
    fail(ExitCode::Measurement, message, RESUME)
}
