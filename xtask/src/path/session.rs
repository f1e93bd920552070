//! One command's way along the path: each method is one step of `reproduce.rs`, timed, cached and said.
//!
//! What a step does is in `steps/`; here it gets what it needs and its result goes into the journal.

mod burn;
mod measure;

use crate::cli::flags;
use crate::path::device::{Device, choose};
use crate::path::freeze::{Frozen, freeze};
use crate::path::journal::{Journal, Said};
use crate::path::levels::{Level, Levels, reached};
use crate::path::permit::permit;
use crate::path::rundir::{self, Inputs, Run, Wanted};
use crate::path::source;
use crate::steps::build::{self, BuildContext, Built, default_archs};
use crate::steps::counters::{self, Counters};
use crate::steps::gate::gate;
use crate::steps::provision::{ProvisionOptions, Provisioned, provision};
use crate::steps::sanitize::{self, Program, Sanitized, sanitize};
use crate::steps::seal::Sealed;
use anyhow::Result;
use host::cache;
use host::failure::fail;
use host::files::digest_plain;
use host::git::Git;
use host::gpu::profiler;
use host::paths::Paths;
use host::ui::Ui;
use pure::claims::check_claims;
use pure::gate::IN_REPOSITORY;
use pure::notebook;
use pure::sanitizer::budget::Bounds;
use schema::build::BuildRecord;
use schema::plan::ProfileName;
use schema::verdict::{ClaimResult, GateResult, Verdict};
use schema::{Digest, ExitCode};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

pub use measure::Measurement;

/// What a command works with.
pub struct Session<'a> {
    paths: &'a Paths,
    ui: &'a Ui,
    quiet: bool,
    journal: Journal,
}

/// A judged run, as `reproduce` needs it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Judged {
    /// Run id.
    pub run: String,
    /// Its directory.
    pub run_dir: PathBuf,
    /// The verdict.
    pub verdict: Verdict,
    /// Whether every gate passed, or in a bundle every gate that can be judged without the repository.
    pub passed: bool,
}

/// Gates that rest on the repository's history, which a box with a bundle has not.
const JUDGED_AT_HOME: [&str; 4] = ["source", "environment", "build", "registration"];

impl<'a> Session<'a> {
    /// A command's beginning.
    pub fn new(paths: &'a Paths, ui: &'a Ui, quiet: bool) -> Self {
        Self { paths, ui, quiet, journal: Journal::default() }
    }

    /// The root's paths.
    pub fn paths(&self) -> &Paths {
        self.paths
    }

    /// The steps so far.
    pub fn journal(&self) -> &Journal {
        &self.journal
    }

    /// The device that `wanted` names.
    ///
    /// # Errors
    /// See [`choose`].
    pub fn device(&self, wanted: &str) -> Result<Device> {
        let device = choose(wanted)?;
        self.ui.line(&format!("device {}: {}", device.slug, device.why));
        Ok(device)
    }

    /// The plan and claims, which the notebook must let run; smoke on the emulated device and full on a GPU, unless asked
    /// otherwise.
    ///
    /// # Errors
    /// See [`freeze`], [`check_claims`] and [`permit`].
    pub fn freeze(&self, ask: &flags::Reproduce, device: &Device) -> Result<Frozen> {
        let default = if device.is_emulated() { ProfileName::Smoke } else { ProfileName::Full };
        let frozen =
            freeze(self.paths, &ask.experiment, ask.profile.map_or(default, flags::ProfileChoice::name), &ask.phases)?;
        check_claims(&frozen.claims)?;
        permit(frozen, &notebook::parse(&fs_err::read_to_string(self.paths.notebook())?)?, &ask.reopen, &ask.changed)
    }

    /// Step provision.
    ///
    /// # Errors
    /// See [`provision`].
    pub fn provision(&mut self, place: &flags::Where, device: &Device) -> Result<Provisioned> {
        self.ui.step("provision");
        let options = ProvisionOptions {
            runtime: place.runtime,
            base: place.base.clone(),
            offline: place.offline,
            need_gpu: !device.is_emulated(),
            driver_cuda: device.driver_cuda,
            quiet: self.quiet,
        };
        let work = || provision(self.paths, &options);
        self.journal.step("provision", work, |done| Said { cached: done.cached, key: done.key })
    }

    /// Step build, for the device's architecture and those of everything published.
    ///
    /// # Errors
    /// See [`build::build`].
    pub fn build(
        &mut self,
        provisioned: &Provisioned,
        device: &Device,
        published: &[(String, BuildRecord)],
    ) -> Result<Built> {
        let mut archs = if device.is_emulated() { default_archs(None) } else { vec![device.arch.clone()] };
        archs.extend(published.iter().flat_map(|(_, record)| record.kernels.iter().map(|kernel| kernel.arch.clone())));
        archs.sort();
        archs.dedup();
        if self.paths.bundle_record().is_file() {
            archs = vec![if device.is_emulated() { archs.remove(0) } else { device.arch.clone() }];
        }
        self.build_archs(provisioned, archs, false)
    }

    /// Step build, for these architectures.
    ///
    /// # Errors
    /// See [`build::build`].
    pub fn build_archs(&mut self, provisioned: &Provisioned, archs: Vec<String>, offline: bool) -> Result<Built> {
        self.ui.step("build");
        let ui = self.ui;
        let say = |done: usize, of: usize, what: &str| ui.line(&format!("build {done} of {of}: {what}"));
        let ctx = build_context(self.paths, provisioned, archs, offline, &say);
        let work = || build::build(&ctx, &*provisioned.runtime, Some(&provisioned.toolkit));
        let built = self.journal.step("build", work, |built| Said { cached: built.cached, key: built.key })?;
        build::notes(&built.record).iter().for_each(|note| ui.line(&format!("note: {note}")));
        Ok(built)
    }

    /// The same build once more, compared with the first.
    ///
    /// # Errors
    /// See [`build::twice`].
    pub fn build_twice(
        &mut self,
        provisioned: &Provisioned,
        built: &Built,
        offline: bool,
    ) -> Result<Vec<build::Again>> {
        let ui = self.ui;
        let say = |done: usize, of: usize, what: &str| ui.line(&format!("build again {done} of {of}: {what}"));
        let archs = built.record.cubins.iter().map(|cubin| cubin.arch.clone()).collect();
        let ctx = build_context(self.paths, provisioned, archs, offline, &say);
        build::twice(&ctx, &*provisioned.runtime, Some(&provisioned.toolkit), built)
    }

    /// Step sanitize.
    ///
    /// # Errors
    /// See [`sanitize`]; exit 13 for a finding or a check that did not really happen.
    pub fn sanitize(
        &mut self,
        provisioned: &Provisioned,
        built: &Built,
        frozen: &Frozen,
        device: &Device,
    ) -> Result<Sanitized> {
        self.ui.step("sanitize");
        let program = self.program(built, frozen, device)?;
        let ctx =
            sanitize::Context { paths: self.paths, toolkit: &provisioned.toolkit, ui: self.ui, bounds: Bounds::STATED };
        let work = || sanitize(&ctx, &*provisioned.runtime, &program);
        let sanitized = self.journal.step("sanitize", work, |done| Said { cached: done.cached, key: done.key })?;
        if let Some(why) = &sanitized.not_applicable {
            self.ui.line(&format!("skipped: sanitizer ({why} device)"));
        }
        sanitized.failure().map_or(Ok(sanitized), |failure| Err(failure.into()))
    }

    /// Optional step counters, after the sanitizer and before anything is measured.
    ///
    /// # Errors
    /// See [`counters::count`]; counters that cannot be read are said and are no error.
    pub fn counters(
        &mut self,
        ask: &flags::Reproduce,
        provisioned: &Provisioned,
        built: &Built,
        frozen: &Frozen,
        sanitized: &Sanitized,
        device: &Device,
    ) -> Result<Option<Counters>> {
        if !ask.counters {
            return Ok(None);
        }
        if device.is_emulated() {
            self.ui.line("skipped: counters (emulated device)");
            return Ok(None);
        }
        self.ui.step("counters");
        let program = self.program(built, frozen, device)?;
        let profiler = profiler::find();
        let ctx = counters::Context { paths: self.paths, ui: self.ui, profiler: profiler.as_deref() };
        let work = || counters::count(&ctx, &*provisioned.runtime, &program, &sanitized.programs());
        let counted = self.journal.step("counters", work, |done| Said { cached: done.cached, key: done.key })?;
        self.ui.line(&counted.said());
        Ok(Some(counted))
    }

    /// The built harness on this device, with the plan in a file of its own that outlives the run directory.
    fn program(&self, built: &Built, frozen: &Frozen, device: &Device) -> Result<Program> {
        if !device.is_emulated() {
            build::check_loadable(built, &device.arch, device.driver_cuda)?;
        }
        let plan = self.paths.state().join("plans").join(format!("{}.toml", frozen.plan_digest().short()));
        host::files::write_whole(&plan, frozen.plan_toml.as_bytes())?;
        Ok(Program::new(&built.record, &built.cubins_dir(), &built.harness(), &plan, &device.arch, &device.selector))
    }

    /// The run with these inputs, or a new one.
    ///
    /// # Errors
    /// See [`rundir::find`].
    #[expect(clippy::too_many_arguments, reason = "it takes what every step before it made")]
    pub fn find_run(
        &self,
        ask: &flags::Reproduce,
        frozen: &Frozen,
        provisioned: &Provisioned,
        built: &Built,
        sanitized: &Sanitized,
        counters: Option<&Counters>,
        device: &Device,
    ) -> Result<Run> {
        let wanted = match (&ask.resume, ask.fresh) {
            (Some(run), _) => Wanted::Named(run),
            (None, true) => Wanted::Fresh,
            (None, false) => Wanted::Latest,
        };
        let clocks =
            if device.is_emulated() { "none".to_owned() } else { format!("{:?} {:?}", ask.clocks, ask.clock_mhz) };
        let mut inputs = Inputs::from([
            ("plan".to_owned(), frozen.plan_digest().to_string()),
            ("claims".to_owned(), frozen.claims_digest().to_string()),
            ("build".to_owned(), built.key.to_string()),
            ("sanitizer".to_owned(), sanitized.key.to_string()),
            ("environment".to_owned(), format!("{} {}", provisioned.runtime.name(), provisioned.key)),
            ("device".to_owned(), device.id.clone()),
            ("clocks".to_owned(), clocks),
        ]);
        if let Some(counters) = counters {
            inputs.insert("counters".to_owned(), counters.key.to_string());
        }
        if let Some(reopened) = &frozen.reopened_toml {
            inputs.insert("reopened".to_owned(), Digest::of(reopened).to_string());
        }
        let begin = || Ok((source::look(self.paths)?, self.notebook_head()?));
        rundir::find(self.paths, wanted, &device.slug, inputs, frozen, begin)
    }

    fn notebook_head(&self) -> Result<Digest> {
        Ok(notebook::parse(&fs_err::read_to_string(self.paths.notebook())?)?.head)
    }

    /// Step gate; the judgement is cached while run, source, history and this program stay the same.
    ///
    /// # Errors
    /// See [`gate`].
    pub fn gate(&mut self, sealed: Sealed, built: &Built) -> Result<Judged> {
        self.ui.step("gate");
        let seen = source::look(self.paths)?;
        let key = cache::key(&[
            ("manifest", sealed.digest().to_string()),
            ("build", built.key.to_string()),
            ("source", format!("{seen:?}")),
            ("notebook", digest_plain(&self.paths.notebook())?.0.to_string()),
            ("program", cache::own_digest()?.to_string()),
        ]);
        let paths = self.paths;
        let in_bundle = paths.bundle_record().is_file();
        let run_dir = sealed.dir().to_owned();
        let work = || {
            cache::answer(paths, "gate", key, || {
                let judged = gate(paths, sealed, Some(&built.record))?;
                let verdict = judged.verdict().clone();
                let run = judged.sealed().manifest().predicate.run.clone();
                let passed = verdict.gates.iter().all(|gate| {
                    gate.passed || (in_bundle && JUDGED_AT_HOME.contains(&gate.name.as_str()) && only_history(gate))
                });
                Ok(Judged { run, run_dir, verdict, passed })
            })
        };
        let (judged, _) = self.journal.step("gate", work, |(_, cached)| Said { cached: *cached, key })?;
        Ok(judged)
    }

    /// Levels L0 and L2 of what is published: whether its digests hold, and whether its summaries recompute.
    ///
    /// # Errors
    /// When what is published cannot be read.
    pub fn verify_published(&mut self) -> Result<(Level, Level)> {
        self.ui.step("verify");
        let paths = self.paths;
        let mut parts = vec![("program", cache::own_digest()?.to_string())];
        for folder in [paths.manifests(), paths.summary(), paths.events()] {
            parts.push(("published", folder_digest(&folder)?));
        }
        for file in crate::runs::published::documents(paths)?.into_iter().chain([paths.notebook()]) {
            let text = digest_plain(&file).map_or_else(|_| String::new(), |(digest, _)| digest.to_string());
            parts.push(("markdown", format!("{} {text}", file.display())));
        }
        parts.push(("source", format!("{:?}", source::look(paths)?.commit)));
        // What left the tree is at hand or not by how much of its history was fetched.
        let shallow = Git::at(paths.root())?.map(|git| git.is_shallow()).transpose()?;
        parts.push(("shallow", format!("{shallow:?}")));
        let key = cache::key(&parts);
        let work = || cache::answer(paths, "published", key, || published_levels(paths));
        let (levels, _) = self.journal.step("verify", work, |(_, cached)| Said { cached: *cached, key })?;
        Ok(levels)
    }

    /// Says what was reached; the last line says whether anything was measured.
    pub fn say_levels(&self, levels: &Levels, device: &Device, judged: &Judged) {
        self.ui.done();
        for step in self.journal.steps() {
            self.ui.line(&format!(
                "{:<9} {:>7.1} s{}",
                step.name,
                step.seconds,
                if step.cached { "  cached" } else { "" }
            ));
        }
        let gates = &judged.verdict.gates;
        let held = gates.iter().filter(|gate| gate.passed).count();
        match device.is_emulated() {
            true => self.ui.line(&format!("gates: {held} of {} hold; the others ask for what only a GPU gives, and an emulated run is never published", gates.len())),
            false => pure::gate::lines(gates).iter().for_each(|line| self.ui.line(line)),
        }
        for claim in judged.verdict.claims.iter().filter(|_| !device.is_emulated()) {
            let ClaimResult { id, outcome, value, unit, threshold, why } = claim;
            self.ui.line(&format!("claim {id}: {outcome:?}, {value} {unit} against {threshold} ({why})"));
        }
        for (name, level) in levels {
            self.ui.line(&format!("{name} {}: {}", level.state, level.why));
        }
        let last = if device.is_emulated() { "NOT RE-MEASURED" } else { "measured" };
        self.ui.line(&format!("run {}, level {}, {last}", judged.run, reached(levels)));
    }

    /// Ends with the gate's refusal on a real device, and with exit 16 when what is published does not hold.
    ///
    /// # Errors
    /// Exit 15, with every reason and its remedy.
    pub fn refuse_unless_passed(&self, device: &Device, judged: &Judged) -> Result<()> {
        if device.is_emulated() || judged.passed {
            return Ok(());
        }
        let refused: Vec<_> = judged.verdict.gates.iter().filter(|gate| !gate.passed).collect();
        let reasons: Vec<String> = refused.iter().map(|gate| format!("{}: {}", gate.name, gate.reason)).collect();
        let remedies: Vec<String> = refused.iter().map(|gate| format!("{}: {}", gate.name, gate.remedy)).collect();
        let message = format!("the gate refuses run {}:\n{}", judged.run, reasons.join("\n"));
        Err(fail(ExitCode::Refused, message, remedies.join("\n")))
    }
}

/// What the build step is asked for.
pub fn build_context<'a>(
    paths: &'a Paths,
    provisioned: &Provisioned,
    archs: Vec<String>,
    offline: bool,
    progress: &'a (dyn Fn(usize, usize, &str) + Sync),
) -> BuildContext<'a> {
    let jobs = std::thread::available_parallelism().map_or(1, usize::from);
    BuildContext { paths, archs, environment_key: provisioned.key.to_string(), offline, jobs, progress }
}

/// Whether a gate refuses for nothing but the absence of the repository's history: every reason has a remedy, and all the same.
fn only_history(gate: &GateResult) -> bool {
    !gate.passed && gate.remedy == IN_REPOSITORY
}

fn folder_digest(folder: &std::path::Path) -> Result<String> {
    if !folder.is_dir() {
        return Ok("absent".to_owned());
    }
    let names: Vec<String> = host::files::scan(folder)?.files.into_keys().collect();
    let files: Vec<PathBuf> = names.iter().map(|name| folder.join(name)).collect();
    let mut parts = Vec::new();
    for (name, found) in names.iter().zip(host::files::digest_all(&files)) {
        parts.push((name.clone(), found?.0.to_string()));
    }
    Ok(Digest::of(serde_json::to_vec(&parts)?).to_string())
}

fn published_levels(paths: &Paths) -> Result<(Level, Level)> {
    let report = crate::ask::verify::verify(paths, &[])?;
    if report.runs.is_empty() && report.ok {
        let none = Level::new("nothing published yet", "manifests/ holds no run");
        return Ok((none.clone(), none));
    }
    let first = report.problems.first().map(|problem| format!("{}: {}", problem.path, problem.detail));
    Ok(match first {
        None => (
            Level::new("holds", format!("{} files of {} published runs hold", report.checked_files, report.runs.len())),
            Level::new("holds", "summaries, figures and verdicts recompute to the same bytes"),
        ),
        Some(problem) => (Level::new("fails", problem.clone()), Level::new("fails", problem)),
    })
}

#[cfg(test)]
mod tests {
    use super::only_history;
    use crate::trial::evidence;
    use pure::gate::judge;

    #[test]
    fn a_box_leaves_to_the_repository_only_what_rests_on_its_history() {
        let (mut evidence, mut facts) = evidence();
        let left = |evidence: &_, facts: &_| -> Vec<String> {
            judge(evidence, facts).into_iter().filter(only_history).map(|gate| gate.name).collect()
        };
        assert_eq!(left(&evidence, &facts), [""; 0]);
        facts.history = None;
        assert_eq!(left(&evidence, &facts), super::JUDGED_AT_HOME);
        evidence.manifest.predicate.source.clean_before = false;
        evidence.build.as_mut().unwrap().kernels[0].spill_bytes = 8;
        assert_eq!(left(&evidence, &facts), ["environment", "registration"]);
    }
}
