//! Runs every program of the harness under every tool of compute-sanitizer, each tool's planted fault first.
//!
//! Verdicts are made in [`pure::records::sanitizer`]; this step runs the tool, keeps what it wrote, and reuses it while nothing
//! that went in has changed. What the tool writes and what the harness prints never share a file; both are kept.

mod cache;
mod program;
mod tool;

#[cfg(test)]
mod tests;

pub use program::Program;

use anyhow::{Context as _, Result, ensure};
use cache::{Inputs, Store};
use host::container::{Runtime, Task};
use host::failure::{Failure, fail};
use host::files::{exists, read_plain, write_whole};
use host::gpu::toolkit::Toolkit;
use host::machine::personal::names;
use host::paths::Paths;
use host::process::Ended;
use host::ui::Ui;
use pure::records::sanitizer::budget::{Bounds, deadline};
use pure::records::sanitizer::{FOUND, Known, Seen, judge_control, judge_program};
use schema::contract::ProgramSpec;
use schema::sanitize::{Printed, SanitizerVerdict, State, Tool, VERDICT_FORMAT};
use schema::{Digest, ExitCode};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use tool::Identity;
use words::personal::impersonal;
use words::text::quoted;

/// A program without a tool takes seconds.
const PLAIN_DEADLINE: Duration = Duration::from_secs(120);
/// For what starts no kernel.
const SHORT_DEADLINE: Duration = Duration::from_secs(60);
const CONNECT_SECONDS: &str = "60";
const MOST_NAME_BYTES: usize = 100;

/// What the step works with.
#[derive(Clone, Copy)]
pub struct Context<'a> {
    /// Where verdicts are kept.
    pub paths: &'a Paths,
    /// The toolkit whose compute-sanitizer is used.
    pub toolkit: &'a Toolkit,
    /// Progress.
    pub ui: &'a Ui,
    /// How long a program may take under a tool.
    pub bounds: Bounds,
}

/// The verdicts over one build on one device.
#[derive(Clone, Debug, PartialEq)]
pub struct Sanitized {
    /// Where verdicts and logs lie; absent when sanitizing does not apply.
    pub dir: Option<PathBuf>,
    /// Every verdict: per tool its control, then the programs.
    pub verdicts: Vec<SanitizerVerdict>,
    /// Digest of all that the verdicts depend on.
    pub key: Digest,
    /// Whether nothing had to be run.
    pub cached: bool,
    /// Why sanitizing does not apply; such a run is never published.
    pub not_applicable: Option<String>,
}

/// Sanitizes a program, or finds that this very program was sanitized before.
///
/// Findings and inconclusive runs are in what it returns: see [`Sanitized::failure`].
///
/// # Errors
/// When compute-sanitizer is missing, too old or cannot start programs; when files cannot be written; when interrupted.
pub fn sanitize(ctx: &Context, runtime: &dyn Runtime, program: &Program) -> Result<Sanitized> {
    if program.is_emulated() {
        return Ok(Sanitized::not_applicable("emulated"));
    }
    let scratch = ctx.paths.state().join("sanitize");
    fs_err::create_dir_all(&scratch)?;
    let tool = tool::identify(ctx.toolkit, runtime, &scratch)?;
    let inputs = Inputs::of(program, &tool)?;
    let store = Store::at(&scratch, &inputs)?;
    if let Some(done) = store.done()? {
        return Ok(done);
    }
    let session = Session { ctx, runtime, program, tool: &tool, store: &store, plain: RefCell::default() };
    let programs = session.programs()?;
    let verdicts = session.all(&programs)?;
    ctx.ui.done();
    store.keep(verdicts, programs.into_iter().map(|program| program.name).collect())
}

/// What one call works with.
struct Session<'a> {
    ctx: &'a Context<'a>,
    runtime: &'a dyn Runtime,
    program: &'a Program,
    tool: &'a Identity,
    store: &'a Store,
    /// What each program did without a tool.
    plain: RefCell<BTreeMap<String, Plain>>,
}

/// A program without a tool. Neither is known of planted faults.
#[derive(Clone, Debug, Default)]
struct Plain {
    /// How long it took, when it ended well.
    took: Option<Duration>,
    /// How it ended, when it did not.
    failed: Option<String>,
}

impl Session<'_> {
    /// The programs that the plan measures with, as the harness lists them: a name a line, and the sites it must pass.
    fn programs(&self) -> Result<Vec<ProgramSpec>> {
        let args = ["sanitize", "--list", "--plan", path(&self.program.plan)?].map(str::to_owned).to_vec();
        let task = self.task("sanitize-list", path(&self.program.harness)?, args, false)?;
        let ended = self.runtime.run(&task, &mut |_| {})?;
        let unlisted = |why: &str| {
            let said = last_line(&ended.stderr);
            fail(
                ExitCode::Sanitizer,
                format!("the harness did not list its programs: {why}{said}"),
                "cargo xtask build",
            )
        };
        if ended.code != Some(0) {
            return Err(unlisted(&ending(&ended)));
        }
        let controls = Tool::ALL.map(Tool::control);
        let mut programs = Vec::new();
        for line in ended.stdout.lines() {
            let mut words = line.split_whitespace().map(str::to_owned);
            let Some(name) = words.next() else { continue };
            let sites: Vec<String> = words.collect();
            if let Some(odd) = [&name].into_iter().chain(&sites).find(|word| !is_name(word)) {
                return Err(unlisted(&format!(
                    "{:?} is not a program's or a site's name",
                    quoted(odd, MOST_NAME_BYTES)
                )));
            }
            if !controls.contains(&name.as_str()) {
                programs.push(ProgramSpec { name, sites });
            }
        }
        if programs.is_empty() {
            return Err(unlisted("the list is empty"));
        }
        Ok(programs)
    }

    fn all(&self, programs: &[ProgramSpec]) -> Result<Vec<SanitizerVerdict>> {
        let total = u32::try_from(Tool::ALL.len() * (1 + programs.len()))?;
        let mut verdicts = Vec::new();
        for (tool_idx, tool) in (0..).zip(Tool::ALL) {
            let control = ProgramSpec { name: tool.control().to_owned(), sites: Vec::new() };
            for (i, program) in (1..).zip([&control].into_iter().chain(programs)) {
                let index = tool_idx * total / 4 + i;
                self.ctx.ui.cell(index, total, &format!("{} {}", tool.name(), program.name), 0);
                let verdict = self.verdict(tool, program)?;
                let missed = verdict.control_caught == Some(false);
                verdicts.push(verdict);
                // A tool that misses what was planted proves nothing about the rest.
                if missed {
                    break;
                }
            }
        }
        Ok(verdicts)
    }

    /// The verdict kept from before, or a new one.
    fn verdict(&self, tool: Tool, program: &ProgramSpec) -> Result<SanitizerVerdict> {
        let name = &program.name;
        if let Some(kept) = self.store.settled(tool, name) {
            return Ok(kept);
        }
        let verdict = self.check(tool, program)?;
        let said = if verdict.why.is_empty() { String::new() } else { format!(": {}", verdict.why) };
        let line = format!("sanitize {} {name} {} ({:.1} s){said}", tool.name(), word(&verdict), verdict.seconds);
        self.ctx.ui.line(&line);
        Ok(verdict)
    }

    fn check(&self, tool: Tool, program: &ProgramSpec) -> Result<SanitizerVerdict> {
        let name = program.name.as_str();
        let nonce = nonce()?;
        let log_name = format!("{}-{name}.log", tool.name());
        let log_path = self.store.dir.join(&log_name);
        self.store.forget(&log_path)?;
        let label = format!("sanitize-{}", tool.name());
        let mut task = self.task(&label, path(&self.tool.program)?, self.args(tool, name, &nonce, &log_path)?, true)?;
        let plain = self.plain(name)?;
        task.deadline = deadline(tool, plain.took, self.ctx.bounds);
        task.hold_stdin = true;
        let began = Instant::now();
        let ended = self.runtime.run(&task, &mut |_| {})?;
        let seconds = began.elapsed().as_secs_f64();
        let (log, odd) = plain_log(&log_path)?;
        // What was written becomes part of a run, so it is judged and kept without what names this machine.
        let names = names(self.ctx.paths.root());
        let log = impersonal(&String::from_utf8_lossy(&log), &names);
        write_whole(&log_path, log.as_bytes())?;
        let stdout = impersonal(&ended.stdout, &names);
        let seen =
            Seen { tool, log: &log, code: ended.code, timed_out: ended.timed_out, stdout: &stdout, nonce: &nonce };
        let known = known(self.program);
        let mut judged = match tool.control() == name {
            true => judge_control(&seen, &known),
            false => judge_program(&seen, &program.sites, &known),
        };
        judged.why += &odd;
        if judged.state == State::Inconclusive {
            judged.why += &last_line(&ended.stderr);
            judged.why = impersonal(&judged.why, &names);
        }
        if let Some(how) = &plain.failed {
            judged.fails_without_a_tool(&impersonal(how, &names));
        }
        let printed = Printed { file: format!("{}-{name}.out", tool.name()), sha256: Digest::of(&stdout) };
        write_whole(&self.store.dir.join(&printed.file), stdout.as_bytes())?;
        let verdict = SanitizerVerdict {
            format: VERDICT_FORMAT,
            tool,
            program: name.to_owned(),
            state: judged.state,
            why: judged.why,
            findings: judged.findings,
            control_caught: judged.control_caught,
            nonce,
            exit_code: ended.code,
            launches: judged.end.launches,
            sites: judged.end.sites,
            configs: judged.end.configs,
            sass: judged.sass,
            tool_version: self.tool.version.clone(),
            tool_digest: self.tool.digest,
            log: log_name,
            log_digest: Digest::of(&log),
            printed: Some(printed),
            seconds,
        };
        write_json(&self.store.verdict_path(tool, name), &verdict)?;
        Ok(verdict)
    }

    /// What a program does without a tool.
    fn plain(&self, name: &str) -> Result<Plain> {
        // A planted fault may hang a GPU that no tool watches.
        if Tool::ALL.iter().any(|tool| tool.control() == name) {
            return Ok(Plain::default());
        }
        if let Some(known) = self.plain.borrow().get(name) {
            return Ok(known.clone());
        }
        let mut task =
            self.task("sanitize-plain", path(&self.program.harness)?, self.harness_args(name, &nonce()?)?, true)?;
        (task.deadline, task.hold_stdin) = (PLAIN_DEADLINE, true);
        let began = Instant::now();
        let ended = self.runtime.run(&task, &mut |_| {})?;
        let plain = match ended.code {
            Some(0) => Plain { took: Some(began.elapsed()), failed: None },
            _ => Plain { took: None, failed: Some(ending(&ended) + &last_line(&ended.stderr)) },
        };
        self.plain.borrow_mut().insert(name.to_owned(), plain.clone());
        Ok(plain)
    }

    /// The harness's command line.
    fn harness_args(&self, name: &str, nonce: &str) -> Result<Vec<String>> {
        let program = self.program;
        let mut args = vec!["sanitize", "--program", name, "--plan", path(&program.plan)?];
        args.extend(["--device", &program.device, "--cubins", path(&program.cubins)?, "--flavor", "lineinfo"]);
        args.extend(["--nonce", nonce, "--hold"]);
        Ok(args.into_iter().map(str::to_owned).collect())
    }

    /// compute-sanitizer's command line. Its own output goes to a file, so that no program can print a clean summary.
    fn args(&self, tool: Tool, name: &str, nonce: &str, log: &Path) -> Result<Vec<String>> {
        let found = FOUND.to_string();
        // In the log's name the tool reads % as the start of a sequence.
        let log = path(log)?.replace('%', "%%");
        let mut args = vec!["--tool", tool.name(), "--error-exitcode", &found, "--check-exit-code", "yes"];
        args.extend(["--require-cuda-init", "yes", "--target-processes", "application-only"]);
        args.extend(["--launch-timeout", CONNECT_SECONDS, "--print-limit", "100", "--log-file", &log]);
        match tool {
            Tool::Memcheck => args.extend(["--leak-check", "no"]),
            Tool::Racecheck => args.extend(["--racecheck-report", "all", "--racecheck-detect-level", "warn"]),
            Tool::Initcheck | Tool::Synccheck => {}
        }
        args.push(path(&self.program.harness)?);
        let harness_args = self.harness_args(name, nonce)?;
        Ok(args.into_iter().map(str::to_owned).chain(harness_args).collect())
    }

    fn task(&self, label: &str, program: &str, args: Vec<String>, gpu: bool) -> Result<Task> {
        let folder = |file: &Path| file.parent().map(Path::to_owned).context("a file has a folder");
        // The toolkit is not named: it is part of the container's image, or lies where the host sees it.
        let readable =
            BTreeSet::from([folder(&self.program.harness)?, folder(&self.program.plan)?, self.program.cubins.clone()]);
        Ok(Task {
            label: label.to_owned(),
            program: program.to_owned(),
            args,
            env: Vec::new(),
            readable: readable.into_iter().collect(),
            writable: self.store.dir.clone(),
            gpu,
            deadline: SHORT_DEADLINE,
            hold_stdin: false,
        })
    }
}

impl Sanitized {
    /// Nothing can be sanitized here, for this reason.
    pub fn not_applicable(why: &str) -> Self {
        let why = Some(why.to_owned());
        Self { dir: None, verdicts: Vec::new(), key: Digest::of(b""), cached: true, not_applicable: why }
    }

    /// Verdicts of an earlier call, every file hashed again.
    ///
    /// # Errors
    /// When a file is missing, added or changed, or does not say what its verdict says.
    pub fn load(dir: &Path) -> Result<Self> {
        cache::load(dir)
    }

    /// The programs that were sanitized, planted faults left out, in order.
    #[must_use]
    pub fn programs(&self) -> Vec<String> {
        let mut programs: Vec<String> = Vec::new();
        for verdict in self.verdicts.iter().filter(|verdict| verdict.control_caught.is_none()) {
            if !programs.contains(&verdict.program) {
                programs.push(verdict.program.clone());
            }
        }
        programs
    }

    /// Every reason why the kernels are not clean; nothing when they are.
    pub fn failure(&self) -> Option<Failure> {
        if self.not_applicable.is_some() {
            return None;
        }
        let mut reasons: Vec<String> = self.verdicts.iter().filter(|verdict| !holds(verdict)).map(reason).collect();
        for tool in Tool::ALL {
            let of_tool = || self.verdicts.iter().filter(|verdict| verdict.tool == tool);
            if of_tool().all(|verdict| verdict.control_caught.is_none()) {
                reasons.push(format!("{}: its planted fault was not run", tool.name()));
            }
            if of_tool().all(|verdict| verdict.control_caught.is_some()) {
                reasons.push(format!("{}: no program was run", tool.name()));
            }
        }
        let dir = self.dir.as_deref().unwrap_or(Path::new("")).display();
        (!reasons.is_empty()).then(|| Failure {
            code: ExitCode::Sanitizer,
            message: format!("not clean under compute-sanitizer:\n  {}", reasons.join("\n  ")),
            remedy: format!("read the logs in {dir}; a finding stays until the kernel or the tool changes"),
        })
    }

    /// Copies verdicts and logs into a run's own folder, and checks what arrived.
    ///
    /// # Errors
    /// When a file cannot be copied, or is not what it was.
    pub fn copy_to(&self, folder: &Path) -> Result<()> {
        fs_err::create_dir_all(folder)?;
        let Some(dir) = &self.dir else { return Ok(()) };
        for verdict in &self.verdicts {
            let printed = verdict.printed.iter().map(|printed| (&printed.file, printed.sha256));
            for (file, sha256) in [(&verdict.log, verdict.log_digest)].into_iter().chain(printed) {
                let bytes = read_plain(&dir.join(file))?;
                ensure!(Digest::of(&bytes) == sha256, changed(&dir.join(file)));
                write_whole(&folder.join(file), &bytes)?;
            }
            write_json(&folder.join(verdict_name(verdict.tool, &verdict.program)), verdict)?;
        }
        Ok(())
    }

    /// The object that `sanitize --json` prints.
    pub fn json(&self) -> serde_json::Value {
        let verdict = |v: &SanitizerVerdict| {
            serde_json::json!({
                "tool": v.tool, "program": v.program, "state": v.state, "launches": v.launches, "findings": v.findings,
                "control_caught": v.control_caught, "why": v.why, "seconds": v.seconds,
            })
        };
        serde_json::json!({
            "verdicts": self.verdicts.iter().map(verdict).collect::<Vec<_>>(),
            "key": self.key, "cached": self.cached, "dir": self.dir, "not_applicable": self.not_applicable,
        })
    }
}

/// Whether a verdict is what it should be: a program clean, a control caught.
fn holds(verdict: &SanitizerVerdict) -> bool {
    verdict.control_caught.unwrap_or(verdict.state == State::Clean)
}

fn reason(verdict: &SanitizerVerdict) -> String {
    format!("{} {}: {}: {} ({})", verdict.tool.name(), verdict.program, word(verdict), verdict.why, verdict.log)
}

fn word(verdict: &SanitizerVerdict) -> &'static str {
    match (verdict.control_caught, verdict.state) {
        (Some(true), _) => "caught",
        (Some(false), _) => "missed",
        (None, State::Clean) => "clean",
        (None, State::Finding) => "finding",
        (None, State::Inconclusive) => "inconclusive",
    }
}

fn known(program: &Program) -> Known {
    Known {
        sass: program.kernels.iter().map(|kernel| (kernel.symbol.clone(), kernel.sass_digest)).collect(),
        cubins: program.flavor("lineinfo").map(|cubin| cubin.sha256).collect(),
    }
}

/// The tool's log, and what is wrong with it. A log that is not a plain file is never opened and counts as empty.
fn plain_log(path: &Path) -> Result<(Vec<u8>, String)> {
    let (found, odd) = match (exists(path), read_plain(path)) {
        (_, Ok(log)) => return Ok((log, String::new())),
        (false, Err(_)) => (false, String::new()),
        (true, Err(error)) => (true, format!("; its log cannot be read: {error:#}")),
    };
    if found {
        fs_err::remove_file(path)?;
    }
    fs_err::write(path, "")?;
    Ok((Vec::new(), odd))
}

fn write_json(path: &Path, value: &impl serde::Serialize) -> Result<()> {
    write_whole(path, format!("{}\n", serde_json::to_string_pretty(value)?).as_bytes())
}

fn verdict_name(tool: Tool, program: &str) -> String {
    format!("{}-{program}.json", tool.name())
}

fn changed(file: &Path) -> anyhow::Error {
    fail(ExitCode::Integrity, format!("{} changed after it was written", file.display()), "cargo xtask sanitize")
}

/// Names become file names and arguments, so they are plain words.
fn is_name(name: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '=' | ',' | '.');
    name.len() <= MOST_NAME_BYTES && name.chars().all(plain) && name.starts_with(|c: char| c.is_ascii_alphanumeric())
}

fn path(path: &Path) -> Result<&str> {
    path.to_str().with_context(|| format!("{} is not UTF-8", path.display()))
}

fn ending(ended: &Ended) -> String {
    match ended.code {
        _ if ended.timed_out => "killed at its deadline".to_owned(),
        Some(code) => format!("exit code {code}"),
        None => "ended by a signal".to_owned(),
    }
}

/// The last thing said on stderr, ready to follow other words.
fn last_line(stderr: &str) -> String {
    const MOST_CHARS: usize = 200;
    let last = stderr.lines().rev().find(|line| !line.trim().is_empty());
    last.map_or_else(String::new, |line| format!("; it said: {}", quoted(line, MOST_CHARS)))
}

/// A word nobody can know before: 128 random bits as hex.
pub(super) fn nonce() -> Result<String> {
    use std::io::Read as _;
    let mut bytes = [0; 16];
    fs_err::File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}
