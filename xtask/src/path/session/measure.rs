//! Steps clocks, run, record and seal: everything that happens once per run directory.

use super::Session;
use super::burn::Burn;
use crate::cli::flags;
use crate::path::device::Device;
use crate::path::freeze::Frozen;
use crate::path::journal::{Said, now};
use crate::path::rundir::Run;
use crate::path::source;
use crate::runs::attempts;
use crate::steps::build::Built;
use crate::steps::clocks::holder::HoldCommand;
use crate::steps::clocks::telemetry::Sampler;
use crate::steps::clocks::{ClockContext, Mode, facts, lease, no_clocks, with_clocks};
use crate::steps::counters::Counters;
use crate::steps::provision::Provisioned;
use crate::steps::record::{Beside, record};
use crate::steps::run::{Measured, RunContext, run};
use crate::steps::sanitize::{Program, Sanitized};
use crate::steps::seal::{SealInputs, Sealed, seal};
use anyhow::Result;
use host::failure::fail;
use host::files::remove_partials;
use host::gpu::nvml::{Gpu, Look, PATIENCE, blind, within};
use host::gpu::turn;
use host::machine::kernel_log;
use host::machine::timekeeping::{Timekeeper, system};
use pure::attempts::{Intent, MEASURED, OPEN};
use pure::gpu_state::against_idle;
use pure::measured::sass_digest;
use pure::timekeeping::compare;
use schema::ExitCode;
use schema::environment::{ClockRecord, NvmlFacts, Reading, Snapshot, Stamp, Watch};
use schema::manifest::Attempt;
use schema::table::Table;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The longest a harness may run; a silent one is ended much sooner.
const DEADLINE: Duration = Duration::from_secs(4 * 3600);

/// A run directory that holds everything but its seal, or is sealed already.
pub struct Measurement {
    run: Run,
    fresh: Option<Fresh>,
}

/// What a measurement just made leaves for the seal.
struct Fresh {
    attempt: Attempt,
}

/// What the clocks, the GPU and the host's clocks said while it ran.
struct Seen {
    clocks: ClockRecord,
    nvml: Option<NvmlFacts>,
    telemetry: Option<Table>,
    time: Vec<Stamp>,
}

/// A GPU, and the look at it before the run.
struct Watched {
    gpu: Arc<dyn Gpu>,
    before: Snapshot,
}

impl Session<'_> {
    /// Steps clocks, run and record; all cached when the run is sealed.
    ///
    /// # Errors
    /// 11 for a GPU that is not idle or on which another run is measured, the clocks' (11, 17), the harness's own exit code,
    /// or 17 and 16 as [`run`] says.
    #[expect(clippy::too_many_arguments, reason = "it takes what every step before it made")]
    pub fn measure(
        &mut self,
        ask: &flags::Reproduce,
        mut found: Run,
        frozen: &Frozen,
        provisioned: &Provisioned,
        built: &Built,
        sanitized: &Sanitized,
        counters: Option<&Counters>,
        device: &Device,
    ) -> Result<Measurement> {
        let (key, dir) = (found.key(), found.dir(self.paths));
        // Cells are the harness's: it keeps what it finds cut off, and counts it.
        remove_partials(&dir, &["summary"])?;
        if found.is_sealed(self.paths) {
            for name in ["run", "record"] {
                self.journal.step(name, || Ok(()), |()| Said { cached: true, key })?;
            }
            return Ok(Measurement { run: found, fresh: None });
        }
        let _turn = device.gpu.is_some().then(|| turn::take(&device.id)).transpose()?;
        if found.measured_since.is_some() && !device.is_emulated() {
            self.ui.line(
                "note: this run was interrupted, and of cells measured before that no telemetry is left: gate environment \
                 refuses such a run; --fresh begins a new one",
            );
        }
        // Before the attempt is on record: a GPU in use is no attempt.
        let before = device.gpu.as_deref().map(|gpu| at_rest(gpu)).transpose()?;
        let program = Program { plan: dir.join("plan.toml"), ..self.program(built, frozen, device)? };
        let attempt = attempts::open(
            self.paths,
            Intent {
                run: found.id.clone(),
                plan: frozen.plan_digest(),
                sass: sass_digest(&built.record, &device.arch),
                device: device.id.clone(),
            },
        )?;
        found.measured_since.get_or_insert_with(now);
        found.keep(self.paths)?;
        let ctx = RunContext { ui: self.ui, run_dir: &dir, plan: &frozen.plan, deadline: DEADLINE };
        let mut spoiled = None;
        let work = |spoiled: &mut Option<String>| match (&device.gpu, before) {
            (Some(gpu), Some(before)) => {
                let gpu = Arc::clone(gpu) as Arc<dyn Gpu>;
                self.on_gpu(ask, &ctx, provisioned, &program, &Watched { gpu, before }, spoiled)
            }
            _ => emulated(&ctx, provisioned, &program),
        };
        let (began, clock) = (now(), Instant::now());
        let worked = work(&mut spoiled);
        if spoiled.is_some() {
            found.spoiled = spoiled;
            found.keep(self.paths)?;
        }
        let (measured, watched) = worked.map_err(|error| self.ended(&attempt, error))?;
        all_there(&attempt, &measured)?;
        self.journal.note("run", began, clock.elapsed().as_secs_f64(), Said { cached: false, key });
        let beside = Beside {
            provisioned,
            built,
            sanitized,
            counters,
            clocks: watched.clocks,
            nvml: watched.nvml,
            telemetry: watched.telemetry,
            time: watched.time,
        };
        let paths = self.paths;
        self.journal.step("record", || record(paths, &measured, beside), |()| Said { cached: false, key })?;
        let attempt = match attempt.outcome == MEASURED {
            true => attempt,
            false => attempts::close(self.paths, &attempt, MEASURED)?,
        };
        Ok(Measurement { run: found, fresh: Some(Fresh { attempt }) })
    }

    /// Measures on a GPU with the clocks held as asked and telemetry beside it.
    ///
    /// `spoiled` becomes why the run may not be gone on with: its GPU was lost, or the host slept.
    fn on_gpu(
        &self,
        ask: &flags::Reproduce,
        ctx: &RunContext<'_>,
        provisioned: &Provisioned,
        program: &Program,
        Watched { gpu, before }: &Watched,
        spoiled: &mut Option<String>,
    ) -> Result<(Measured, Seen)> {
        let library = gpu.library().map(|(path, _)| path);
        let look = Look::new(library.clone())?;
        let load = Burn { runtime: &*provisioned.runtime, program, scratch: ctx.run_dir.to_owned() };
        let clock_context = ClockContext {
            gpu: Arc::clone(gpu),
            load: &load,
            hold: HoldCommand::new(library, lease::path(self.paths))?,
        };
        let mode = match ask.clocks {
            flags::ClockChoice::Lock => Mode::Lock { mhz: ask.clock_mhz },
            flags::ClockChoice::Observe => Mode::Observe,
        };
        let mut nvml = facts::before(&**gpu, &[]).ok();
        let body = |_: &_| {
            let timekeeper = Timekeeper::begin(&system);
            let sampler = Sampler::start(Arc::clone(gpu), Instant::now());
            let measured = run(ctx, &*provisioned.runtime, program, &mut |cell| {
                sampler.mark(cell);
                timekeeper.mark(cell);
            });
            let (telemetry, time) = (sampler.finish(), timekeeper.end());
            // Before the locks go: what can be reached now could be reached all along.
            let after = look.at_rest(gpu.uuid());
            let after = after.unwrap_or_else(|error| blind(&format!("it was not looked at: {error:#}")));
            *spoiled = spoils(telemetry.lost.as_deref(), &after, &time);
            if let Some(why) = spoiled {
                self.ui.line(&format!("this run cannot be gone on with: {why}"));
            }
            measured.map(|measured| (measured, telemetry, time, after))
        };
        let ((measured, telemetry, time, after), mut clocks) = with_clocks(&clock_context, mode, body)?;
        clocks.notes.extend(telemetry.notes);
        if let Some(facts) = &mut nvml {
            let (mut anew, gpu) = (facts.clone(), Arc::clone(gpu));
            let saw_ours = telemetry.processes_seen.is_some_and(|n| n > 0);
            // A driver that hangs by now was seen to by the look; what was read before stays.
            let asked = within(PATIENCE, move || {
                facts::after(&mut anew, &*gpu, &[], saw_ours);
                Ok(anew)
            })?;
            if let Ok(anew) = asked {
                *facts = anew;
            }
            facts.watch = Some(Watch {
                before: before.clone(),
                after,
                most_processes: telemetry.processes_seen,
                lost: telemetry.lost,
            });
        }
        Ok((measured, Seen { clocks, nvml, telemetry: Some(telemetry.table), time }))
    }

    /// An attempt that failed is closed; an interrupted one stays open, so that resuming goes on with it.
    fn ended(&self, attempt: &Attempt, error: anyhow::Error) -> anyhow::Error {
        let code = host::failure::code_of(&error);
        if attempt.outcome != OPEN || matches!(code, ExitCode::Interrupted | ExitCode::Terminated) {
            return error;
        }
        let outcome = format!("failed: exit {}", code.status());
        match attempts::close(self.paths, attempt, &outcome) {
            Ok(_) => error,
            Err(second) => error.context(format!("and the attempt could not be closed: {second:#}")),
        }
    }

    /// Step seal.
    ///
    /// # Errors
    /// See [`seal`] and [`Sealed::load`].
    pub fn seal(&mut self, measurement: Measurement) -> Result<Sealed> {
        self.ui.step("seal");
        let Measurement { run, fresh } = measurement;
        let (paths, dir, key) = (self.paths, run.dir(self.paths), run.key());
        let Some(Fresh { attempt }) = fresh else {
            return self.journal.step("seal", || Sealed::load(&dir), |_| Said { cached: true, key });
        };
        let inputs = SealInputs {
            source: source::over_run(&run.source, &source::look(paths)?),
            attempts: attempts::list(paths, &attempt.plan)?,
            attempts_log: fs_err::read_to_string(attempts::file(paths))?,
            steps: self.journal.steps().to_vec(),
            notebook_head: run.notebook_head,
        };
        self.journal.step("seal", || seal(&dir, inputs), |_| Said { cached: false, key })
    }
}

/// An attempt that had measured everything before it was killed launches nothing again.
fn all_there(attempt: &Attempt, measured: &Measured) -> Result<()> {
    if attempt.outcome == OPEN || measured.resumed as usize == measured.cells.len() {
        return Ok(());
    }
    let message = format!("cells of attempt {} of run {} that were measured are gone", attempt.n, attempt.run);
    Err(fail(ExitCode::Integrity, message, "cargo xtask reproduce --fresh"))
}

/// Measures on the emulated device.
fn emulated(ctx: &RunContext<'_>, provisioned: &Provisioned, program: &Program) -> Result<(Measured, Seen)> {
    let timekeeper = Timekeeper::begin(&system);
    let measured = run(ctx, &*provisioned.runtime, program, &mut |cell| timekeeper.mark(cell))?;
    Ok((measured, Seen { clocks: no_clocks(), nvml: None, telemetry: None, time: timekeeper.end() }))
}

/// A GPU that nobody uses, as a process of its own sees it now.
fn at_rest(gpu: &dyn Gpu) -> Result<Snapshot> {
    let snapshot = Look::new(gpu.library().map(|(path, _)| path))?.at_rest(gpu.uuid())?;
    refuse_unless_idle(&snapshot)?;
    Ok(snapshot)
}

fn refuse_unless_idle(snapshot: &Snapshot) -> Result<()> {
    let reasons = against_idle(snapshot);
    if reasons.is_empty() {
        return Ok(());
    }
    let message = format!("the GPU is not known to be idle: {}", reasons.join("; "));
    Err(fail(ExitCode::Environment, message, "end what runs on it, or use another GPU: --device cuda:GPU-…"))
}

/// Why cells measured before now may not be gone on with.
fn spoils(lost: Option<&str>, after: &Snapshot, time: &[Stamp]) -> Option<String> {
    let unreachable = match &after.busy_pct {
        Reading::Failed(why) => Some(format!("the GPU could not be reached any more: {why}")),
        Reading::Value(_) | Reading::Unsupported => None,
    };
    let began = time.first().map_or(0, |stamp| stamp.monotonic_ms);
    let gone = lost.map(str::to_owned).or(unreachable).map(|why| format!("{why}; {}", kernel_log::since(began)));
    gone.or_else(|| compare(time).reasons.into_iter().next())
}

#[cfg(test)]
mod tests {
    use super::*;
    use host::failure::code_of;

    fn idle() -> Snapshot {
        let mut snapshot = blind("never read");
        (snapshot.busy_pct, snapshot.memory_used_bytes) = (Reading::Value(0), Reading::Value(0));
        snapshot
    }

    fn time(boottime_ms: i64) -> [Stamp; 2] {
        let stamp = Stamp { cell: 0, wall_ms: 0, monotonic_ms: 0, boottime_ms: 0 };
        [stamp, Stamp { boottime_ms, ..stamp }]
    }

    #[test]
    fn a_gpu_that_is_not_known_to_be_idle_is_refused_before_anything_runs() {
        refuse_unless_idle(&idle()).unwrap();
        let full = Snapshot { memory_used_bytes: Reading::Value(119_800 << 20), ..idle() };
        for (snapshot, words) in [(full, "119800 MiB"), (blind("Unknown Error"), "Unknown Error")] {
            let error = refuse_unless_idle(&snapshot).unwrap_err();
            assert_eq!(code_of(&error), ExitCode::Environment);
            assert!(error.to_string().contains(words), "{error}");
        }
    }

    #[test]
    fn a_lost_gpu_or_a_host_that_slept_spoils_what_was_measured() {
        assert_eq!(spoils(None, &idle(), &time(0)), None);
        let lost = spoils(Some("the GPU is lost, at 7 ms"), &idle(), &time(0)).unwrap();
        assert!(lost.starts_with("the GPU is lost, at 7 ms; the kernel's log "), "{lost}");
        assert!(spoils(None, &blind("Unknown Error"), &time(0)).unwrap().contains("Unknown Error"));
        assert!(spoils(None, &idle(), &time(60_000)).unwrap().contains("slept"));
    }
}
