//! Steps counters, clocks, run, record and seal: everything that happens once per run directory.

use crate::path::ask::Reproduce;
use crate::path::context::{Context, Said, now};
use crate::path::rundir::{self, Inputs, Run, Wanted};
use crate::path::source;
use crate::path::subject::Subject;
use crate::runs::attempts;
use crate::steps::clocks::burn::Burn;
use crate::steps::clocks::holder::HoldCommand;
use crate::steps::clocks::telemetry::Sampler;
use crate::steps::clocks::{ClockContext, Mode, facts, no_clocks, with_clocks};
use crate::steps::counters::{self, Counters};
use crate::steps::describe::describe;
use crate::steps::record::{Beside, Watched, record};
use crate::steps::run::{Measured, RunContext, run};
use crate::steps::sanitize::Program;
use crate::steps::seal::{SealInputs, Sealed, seal};
use anyhow::Result;
use host::container::Runtime;
use host::failure::{code_of, fail};
use host::files::remove_partials;
use host::gpu::lease;
use host::gpu::nvml::{Gpu, Look, PATIENCE, blind, within};
use host::gpu::{profiler, turn};
use host::machine::kernel_log;
use host::machine::timekeeping::{Timekeeper, system};
use host::paths::Paths;
use pure::book::notebook;
use pure::identity::measured::sass_digest;
use pure::records::attempts::{Intent, MEASURED, OPEN};
use schema::environment::{Reading, Snapshot, Stamp, Watch};
use schema::manifest::Attempt;
use schema::{Digest, ExitCode};
use std::sync::Arc;
use std::time::{Duration, Instant};
use words::gpu_state::against_idle;
use words::timekeeping::compare;

/// The longest a harness may run; one that prints nothing is ended much sooner.
const DEADLINE: Duration = Duration::from_secs(4 * 3600);

/// Optional step counters, after the sanitizer and before anything is measured.
///
/// # Errors
/// See [`counters::count`]; counters that cannot be read are said and are no error.
pub fn count(ctx: &Context<'_>, ask: &Reproduce, subject: &Subject) -> Result<Option<Counters>> {
    if !ask.counters {
        return Ok(None);
    }
    if subject.device.is_emulated() {
        ctx.ui.line("skipped: counters (emulated device)");
        return Ok(None);
    }
    let (profiler, programs) = (profiler::find(), subject.sanitized.programs());
    let context = counters::Context { paths: ctx.paths, ui: ctx.ui, profiler: profiler.as_deref() };
    let work = || counters::count(&context, &*subject.provisioned.runtime, &subject.program, &programs);
    let counted = ctx.step("counters", work, |done| Said { cached: done.cached, key: done.key })?;
    ctx.ui.line(&counted.said());
    Ok(Some(counted))
}

/// The run with these inputs, or a new one.
///
/// # Errors
/// See [`rundir::find`].
pub fn find_run(ctx: &Context<'_>, ask: &Reproduce, subject: &Subject, counters: Option<&Counters>) -> Result<Run> {
    let Subject { device, frozen, provisioned, built, sanitized, .. } = subject;
    let wanted = match (&ask.resume, ask.fresh) {
        (Some(run), _) => Wanted::Named(run),
        (None, true) => Wanted::Fresh,
        (None, false) => Wanted::Latest,
    };
    let clocks = if device.is_emulated() { "none".to_owned() } else { format!("{:?} {:?}", ask.clocks, ask.clock_mhz) };
    let inputs = [
        ("plan", Some(frozen.plan_digest().to_string())),
        ("claims", Some(frozen.claims_digest().to_string())),
        ("build", Some(built.key.to_string())),
        ("sanitizer", Some(sanitized.key.to_string())),
        ("environment", Some(format!("{} {}", provisioned.runtime.name(), provisioned.key))),
        ("device", Some(device.id.clone())),
        ("clocks", Some(clocks)),
        ("counters", counters.map(|counters| counters.key.to_string())),
        ("reopened", frozen.reopened_toml.as_ref().map(|reopened| Digest::of(reopened).to_string())),
    ];
    let inputs: Inputs = inputs.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect();
    let begin = || {
        let head = notebook::parse(&fs_err::read_to_string(ctx.paths.notebook())?)?.head;
        Ok((source::look(ctx.paths)?, head))
    };
    rundir::find(ctx.paths, wanted, &device.slug, inputs, frozen, begin)
}

/// Steps clocks, run and record. Gives the attempt that measured; none where the run is sealed already.
///
/// # Errors
/// 11 for a GPU that is not idle or on which another run is measured, the clocks' (11, 17), the harness's own exit code,
/// or 17 and 16 as [`run`] says.
pub fn measure(
    ctx: &Context<'_>,
    ask: &Reproduce,
    subject: &Subject,
    counters: Option<&Counters>,
    found: &mut Run,
) -> Result<Option<Attempt>> {
    let Subject { device, frozen, provisioned, built, sanitized, .. } = subject;
    let (paths, key, dir) = (ctx.paths, found.key(), found.dir(ctx.paths));
    // The harness looks after its cells: it keeps incomplete ones and counts them.
    remove_partials(&dir, &["summary"])?;
    if found.is_sealed(paths) {
        for name in ["run", "record"] {
            ctx.step(name, || Ok(()), |()| Said { cached: true, key })?;
        }
        return Ok(None);
    }
    let _turn = device.gpu.is_some().then(|| turn::take(&device.id)).transpose()?;
    if found.measured_since.is_some() && !device.is_emulated() {
        ctx.ui.line(
            "note: this run was interrupted, and of cells measured before that no telemetry is left: gate environment \
             refuses such a run; --fresh begins a new one",
        );
    }
    // Before the attempt is recorded: finding the GPU in use is not an attempt.
    let resting = device.gpu.clone().map(|gpu| Resting::look(gpu)).transpose()?;
    let program = Program { plan: dir.join("plan.toml"), ..subject.program.clone() };
    let described = describe(&*provisioned.runtime, &program, &frozen.plan.experiment, &dir)?;
    let intent = Intent {
        run: found.id.clone(),
        plan: frozen.plan_digest(),
        sass: sass_digest(&built.record, &device.arch),
        device: device.id.clone(),
        contract: described.digest,
    };
    let attempt = attempts::open(paths, intent)?;
    found.measured_since.get_or_insert_with(now);
    found.keep(paths)?;
    let plan = RunContext { ui: ctx.ui, run_dir: &dir, contract: &described.contract, deadline: DEADLINE };
    let work = || {
        let harness = Harness { ctx: &plan, runtime: &*provisioned.runtime, program: &program };
        let measured = match &resting {
            Some(resting) => harness.on_gpu(resting, ask.mode(), paths, &mut found.spoiled),
            None => harness.emulated(),
        };
        if found.spoiled.is_some() {
            found.keep(paths)?;
        }
        let measured = measured.map_err(|error| ended(paths, &attempt, error))?;
        all_there(&attempt, &measured.0)?;
        Ok(measured)
    };
    let said = Said { cached: false, key };
    let (measured, watched) = ctx.step("run", work, |_| said)?;
    let beside = Beside { provisioned, built, sanitized, counters, watched };
    ctx.step("record", || record(paths, &measured, beside), |()| said)?;
    Ok(Some(match attempt.outcome == MEASURED {
        true => attempt,
        false => attempts::close(paths, &attempt, MEASURED)?,
    }))
}

/// Step seal: seals what `attempt` measured; without one, loads the run that is sealed already.
///
/// # Errors
/// See [`seal`] and [`Sealed::load`].
pub fn seal_or_load(ctx: &Context<'_>, run: &Run, attempt: Option<Attempt>) -> Result<Sealed> {
    let (paths, dir, said) = (ctx.paths, run.dir(ctx.paths), Said { cached: attempt.is_none(), key: run.key() });
    let work = || match attempt {
        None => Sealed::load(&dir),
        Some(attempt) => {
            let inputs = SealInputs {
                source: source::over_run(&run.source, &source::look(paths)?),
                attempts: attempts::list(paths, &attempt.plan)?,
                attempts_log: fs_err::read_to_string(attempts::file(paths))?,
                steps: ctx.steps(),
                notebook_head: run.notebook_head,
            };
            seal(&dir, inputs)
        }
    };
    ctx.step("seal", work, |_| said)
}

/// Checks that nobody uses the GPU, and returns its state before the run.
struct Resting {
    gpu: Arc<dyn Gpu>,
    before: Snapshot,
}

impl Resting {
    fn look(gpu: Arc<dyn Gpu>) -> Result<Self> {
        // In a process of its own, which opens the GPU anew.
        let before = Look::new(gpu.library().map(|(path, _)| path))?.at_rest(gpu.uuid())?;
        refuse_unless_idle(&before)?;
        Ok(Self { gpu, before })
    }
}

/// The harness over a plan, and where it runs.
struct Harness<'a> {
    ctx: &'a RunContext<'a>,
    runtime: &'a dyn Runtime,
    program: &'a Program,
}

impl Harness<'_> {
    fn emulated(&self) -> Result<(Measured, Watched)> {
        let timekeeper = Timekeeper::begin(&system);
        let measured = run(self.ctx, self.runtime, self.program, &mut |cell| timekeeper.mark(cell))?;
        Ok((measured, Watched { clocks: no_clocks(), nvml: None, telemetry: None, time: timekeeper.end() }))
    }

    /// Measures on a GPU with the clocks held as asked and telemetry beside it.
    ///
    /// `spoiled` is set to the reason why the run may not be resumed: its GPU was lost, or the host slept.
    fn on_gpu(
        &self,
        Resting { gpu, before }: &Resting,
        mode: Mode,
        paths: &Paths,
        spoiled: &mut Option<String>,
    ) -> Result<(Measured, Watched)> {
        let Self { ctx, runtime, program } = *self;
        let library = gpu.library().map(|(path, _)| path);
        let look = Look::new(library.clone())?;
        let load = Burn { runtime, program, scratch: ctx.run_dir.to_owned() };
        let hold = HoldCommand::new(library, lease::path(paths))?;
        let clock_context = ClockContext { gpu: Arc::clone(gpu), load: &load, hold };
        let mut nvml = facts::before(&**gpu, &[]).ok();
        let body = |_: &_| {
            let timekeeper = Timekeeper::begin(&system);
            let sampler = Sampler::start(Arc::clone(gpu), Instant::now());
            let measured = run(ctx, runtime, program, &mut |cell| {
                sampler.mark(cell);
                timekeeper.mark(cell);
            });
            let (telemetry, time) = (sampler.finish(), timekeeper.end());
            // Before the locks are released: if the GPU can be reached now, it could be reached all along.
            let after = look.at_rest(gpu.uuid());
            let after = after.unwrap_or_else(|error| blind(&format!("its state was not read: {error:#}")));
            *spoiled = spoils(telemetry.lost.as_deref(), &after, &time);
            if let Some(why) = spoiled {
                ctx.ui.line(&format!("this run cannot be resumed: {why}"));
            }
            measured.map(|measured| (measured, telemetry, time, after))
        };
        let ((measured, telemetry, time, after), mut clocks) = with_clocks(&clock_context, mode, body)?;
        clocks.notes.extend(telemetry.notes);
        if let Some(facts) = &mut nvml {
            let (mut anew, gpu) = (facts.clone(), Arc::clone(gpu));
            let saw_ours = telemetry.processes_seen.is_some_and(|n| n > 0);
            // The look above has handled a driver that hangs; what was read before stays.
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
        Ok((measured, Watched { clocks, nvml, telemetry: Some(telemetry.table), time }))
    }
}

/// An attempt that failed is closed; an interrupted one stays open, so that resuming continues it.
fn ended(paths: &Paths, attempt: &Attempt, error: anyhow::Error) -> anyhow::Error {
    let code = code_of(&error);
    if attempt.outcome != OPEN || matches!(code, ExitCode::Interrupted | ExitCode::Terminated) {
        return error;
    }
    let outcome = format!("failed: exit {}", code.status());
    match attempts::close(paths, attempt, &outcome) {
        Ok(_) => error,
        Err(second) => error.context(format!("the attempt could not be closed either: {second:#}")),
    }
}

/// If an attempt had measured everything before it was killed, nothing is launched again.
fn all_there(attempt: &Attempt, measured: &Measured) -> Result<()> {
    if attempt.outcome == OPEN || measured.resumed as usize == measured.cells.len() {
        return Ok(());
    }
    let message = format!("cells that attempt {} of run {} had measured are missing", attempt.n, attempt.run);
    Err(fail(ExitCode::Integrity, message, "cargo xtask reproduce --fresh"))
}

fn refuse_unless_idle(snapshot: &Snapshot) -> Result<()> {
    let reasons = against_idle(snapshot);
    if reasons.is_empty() {
        return Ok(());
    }
    let message = format!("the GPU is not known to be idle: {}", reasons.join("; "));
    Err(fail(ExitCode::Environment, message, "end what runs on it, or use another GPU: --device cuda:GPU-…"))
}

/// Why cells measured before now may not be resumed.
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
