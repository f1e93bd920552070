//! Steps clocks, run, record and seal: everything that happens once per run directory.

use super::Session;
use super::burn::Burn;
use crate::config::Frozen;
use crate::device::Device;
use crate::failure::fail;
use crate::flags;
use crate::journal::{Said, now};
use crate::pure::attempts::{Intent, MEASURED, OPEN};
use crate::pure::measured::sass_digest;
use crate::rundir::Run;
use crate::source;
use crate::steps::build::Built;
use crate::steps::clocks::holder::HoldCommand;
use crate::steps::clocks::telemetry::Sampler;
use crate::steps::clocks::{ClockContext, Mode, facts, lease, no_clocks, with_clocks};
use crate::steps::provision::Provisioned;
use crate::steps::record::{Beside, record};
use crate::steps::run::{Measured, RunContext, run};
use crate::steps::sanitize::{Program, Sanitized};
use crate::steps::seal::{SealInputs, Sealed, seal};
use crate::world::attempts;
use crate::world::files::remove_partials;
use crate::world::nvml::Gpu;
use anyhow::Result;
use schema::ExitCode;
use schema::environment::{ClockRecord, NvmlFacts};
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

/// What the clocks and the GPU said while it ran.
struct Watched {
    clocks: ClockRecord,
    nvml: Option<NvmlFacts>,
    telemetry: Option<Table>,
}

impl Session<'_> {
    /// Steps clocks, run and record; all cached when the run is sealed.
    ///
    /// # Errors
    /// The clocks' (11, 17), the harness's own exit code, or 17 and 16 as [`run`] says.
    #[expect(clippy::too_many_arguments, reason = "it takes what every step before it made")]
    pub fn measure(
        &mut self,
        ask: &flags::Reproduce,
        mut found: Run,
        frozen: &Frozen,
        provisioned: &Provisioned,
        built: &Built,
        sanitized: &Sanitized,
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
        let work = || match &device.gpu {
            None => Ok((run(&ctx, &*provisioned.runtime, &program, &mut |_| ())?, unwatched())),
            Some(gpu) => self.on_gpu(ask, &ctx, provisioned, &program, Arc::clone(gpu) as Arc<dyn Gpu>),
        };
        let (began, clock) = (now(), Instant::now());
        let (measured, watched) = work().map_err(|error| self.ended(&attempt, error))?;
        all_there(&attempt, &measured)?;
        self.journal.note("run", began, clock.elapsed().as_secs_f64(), Said { cached: false, key });
        let beside = Beside {
            provisioned,
            built,
            sanitized,
            clocks: watched.clocks,
            nvml: watched.nvml,
            telemetry: watched.telemetry,
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
    fn on_gpu(
        &self,
        ask: &flags::Reproduce,
        ctx: &RunContext<'_>,
        provisioned: &Provisioned,
        program: &Program,
        gpu: Arc<dyn Gpu>,
    ) -> Result<(Measured, Watched)> {
        let library = gpu.library().map(|(path, _)| path);
        let load = Burn { runtime: &*provisioned.runtime, program, scratch: ctx.run_dir.to_owned() };
        let clock_context = ClockContext {
            gpu: Arc::clone(&gpu),
            load: &load,
            hold: HoldCommand::new(library, lease::path(self.paths))?,
        };
        let mode = match ask.clocks {
            flags::ClockChoice::Lock => Mode::Lock { mhz: ask.clock_mhz },
            flags::ClockChoice::Observe => Mode::Observe,
        };
        let mut nvml = facts::before(&*gpu, &[]).ok();
        let body = |_: &_| {
            let sampler = Sampler::start(Arc::clone(&gpu), Instant::now());
            let measured = run(ctx, &*provisioned.runtime, program, &mut |cell| sampler.mark(cell));
            let telemetry = sampler.finish();
            measured.map(|measured| (measured, telemetry))
        };
        let ((measured, telemetry), mut clocks) = with_clocks(&clock_context, mode, body)?;
        clocks.notes.extend(telemetry.notes);
        if let Some(facts) = &mut nvml {
            facts::after(facts, &*gpu, &[], telemetry.processes_seen.is_some_and(|n| n > 0));
        }
        Ok((measured, Watched { clocks, nvml, telemetry: Some(telemetry.table) }))
    }

    /// An attempt that failed is closed; an interrupted one stays open, so that resuming goes on with it.
    fn ended(&self, attempt: &Attempt, error: anyhow::Error) -> anyhow::Error {
        let code = crate::failure::code_of(&error);
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

fn unwatched() -> Watched {
    Watched { clocks: no_clocks(), nvml: None, telemetry: None }
}
