//! Optional step counters: runs the harness's programs under Nsight Compute and keeps what the hardware counted.
//!
//! It decides nothing: gate `build` compares counters with the build's own records. If none can be read the report
//! says why, and the run goes on. Clocks are not touched, and nothing counted here is a published number.

#[cfg(test)]
mod tests;

use super::sanitize::{Program, nonce};
use anyhow::{Context as _, Result, ensure};
use host::container::{Runtime, Task, last};
use host::failure::fail;
use host::files::{read_plain, write_whole};
use host::machine::personal::names;
use host::paths::Paths;
use host::process::Ended;
use host::ui::Ui;
use pure::records::counters::{faults, metrics, read, runs_alone};
use pure::records::json::to_bytes;
use schema::counters::{CountedLaunch, CountedProgram, CounterLog, CounterReport};
use schema::{Digest, ExitCode, FORMAT};
use serde_json::json;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;
use words::personal::impersonal;
use words::progress::end_mark;
use words::text::quoted;

/// The report's name in the step's folder, and in a run's `counters/`.
const REPORT: &str = "counters.json";
/// A program usually takes some seconds: a kernel runs once for each handful of counters.
const DEADLINE: Duration = Duration::from_secs(60);
const SHORT_DEADLINE: Duration = Duration::from_secs(20);
/// The load on the whole GPU, where occupancy and stalls are those of a full grid.
const BURN: &str = "burn";
const BURN_SECONDS: &str = "0.5";
/// Launches of it that are counted.
const BURN_LAUNCHES: &str = "2";
const MOST_CHARS: usize = 200;
const NO_PROFILER: &str =
    "this machine has no Nsight Compute (looked in /opt/nvidia/nsight-compute and /usr/local/cuda)";

/// What the step works with.
pub struct Context<'a> {
    /// Where reports are kept.
    pub paths: &'a Paths,
    /// Progress.
    pub ui: &'a Ui,
    /// The profiler's folder; absent when this machine has none.
    pub profiler: Option<&'a Path>,
}

/// What was counted, on disk.
#[derive(Clone, Debug, PartialEq)]
pub struct Counters {
    /// The report.
    pub report: CounterReport,
    /// Digest of all that it depends on.
    pub key: Digest,
    /// Whether nothing had to be run.
    pub cached: bool,
    dir: PathBuf,
}

/// Counts what these programs of the harness do, or finds that it was counted before.
///
/// # Errors
/// When a program cannot be started at all, or a file cannot be written. Counters that cannot be read are no error.
pub fn count(ctx: &Context<'_>, runtime: &dyn Runtime, program: &Program, programs: &[String]) -> Result<Counters> {
    let scratch = ctx.paths.state().join("counters");
    fs_err::create_dir_all(&scratch)?;
    let version = ctx.profiler.map(|folder| version(runtime, folder, &scratch)).transpose()?.flatten();
    let cubins: BTreeMap<&str, Digest> =
        program.flavor("measure").map(|cubin| (cubin.file.as_str(), cubin.sha256)).collect();
    // All that a report depends on. `method` is raised when the profiler is called or its log is read in another way.
    let inputs = json!({
        "method": 2,
        "harness": program.harness_digest,
        "plan": Digest::of_file(&program.plan)?,
        "device": Digest::of(&program.device),
        "profiler": version,
        "cubins": cubins,
        "programs": programs,
    });
    let key = Digest::of(serde_json_canonicalizer::to_vec(&inputs)?);
    let dir = scratch.join(&key.to_string()[..16]);
    if let Some(report) = kept(&dir) {
        return Ok(Counters { report, key, cached: true, dir });
    }
    if dir.exists() {
        fs_err::remove_dir_all(&dir)?;
    }
    fs_err::create_dir_all(&dir)?;
    let report = match (ctx.profiler, version.clone()) {
        (Some(folder), Some(version)) => {
            let session = Session { ctx, runtime, program, profiler: folder.join("ncu"), dir: &dir };
            session.report(Some(version), programs)?
        }
        (Some(_), None) => unreadable(None, "Nsight Compute does not start where programs run", Vec::new()),
        (None, _) => unreadable(None, NO_PROFILER, Vec::new()),
    };
    ctx.ui.done();
    write_whole(&dir.join(REPORT), &to_bytes(&report)?)?;
    Ok(Counters { report, key, cached: false, dir })
}

/// A report all of whose logs still say the same. If counters could not be read, the answer is not cached, since that
/// may have changed.
fn kept(dir: &Path) -> Option<CounterReport> {
    let report: CounterReport = serde_json::from_slice(&read_plain(&dir.join(REPORT)).ok()?).ok()?;
    let log = |name: &str| {
        let logs = report.programs.iter().filter_map(|program| program.log.as_ref());
        let known = logs.into_iter().find(|log| log.file == name)?;
        let bytes = read_plain(&dir.join(name)).ok()?;
        (Digest::of(&bytes) == known.sha256).then(|| String::from_utf8(bytes).ok())?
    };
    (report.unreadable.is_none() && faults(&report, log).is_empty()).then_some(report)
}

fn unreadable(profiler: Option<String>, why: &str, programs: Vec<CountedProgram>) -> CounterReport {
    CounterReport { format: FORMAT, profiler, unreadable: Some(why.to_owned()), programs }
}

/// The profiler's version line, asked where it will run; absent when it does not start there.
fn version(runtime: &dyn Runtime, folder: &Path, scratch: &Path) -> Result<Option<String>> {
    let task = Task {
        label: "counters-tool".to_owned(),
        program: path(&folder.join("ncu"))?.to_owned(),
        args: vec!["--version".to_owned()],
        env: surroundings(scratch)?,
        readable: vec![folder.to_owned()],
        writable: scratch.to_owned(),
        gpu: false,
        deadline: SHORT_DEADLINE,
        hold_stdin: false,
    };
    let ended = runtime.run(&task, &mut |_| {})?;
    let line = ended.stdout.lines().find(|line| line.starts_with("Version ")).map(|line| line.trim().to_owned());
    Ok(line.filter(|_| ended.code == Some(0)))
}

/// The profiler writes below its home and its temporary folder, and numbers are read as the C locale has them.
fn surroundings(writable: &Path) -> Result<Vec<(String, String)>> {
    let folder = path(writable)?;
    Ok([("HOME", folder), ("TMPDIR", folder), ("LC_ALL", "C")]
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .into())
}

/// What one call works with.
struct Session<'a> {
    ctx: &'a Context<'a>,
    runtime: &'a dyn Runtime,
    program: &'a Program,
    profiler: PathBuf,
    dir: &'a Path,
}

impl Session<'_> {
    fn report(&self, version: Option<String>, programs: &[String]) -> Result<CounterReport> {
        let names: Vec<&str> = programs.iter().map(String::as_str).chain([BURN]).collect();
        let mut counted = Vec::new();
        for (index, name) in (1..).zip(&names) {
            self.ctx.ui.cell(index, u32::try_from(names.len())?, &format!("counters {name}"), 0);
            counted.push(self.one(name)?);
        }
        if counted.iter().all(|program| program.not_counted.is_some()) {
            let first = counted.iter().find(|program| runs_alone(&program.program));
            let why = first.and_then(|program| program.not_counted.clone()).unwrap_or_default();
            return Ok(unreadable(version, &format!("no program could be counted: {why}"), counted));
        }
        Ok(CounterReport { format: FORMAT, profiler: version, unreadable: None, programs: counted })
    }

    /// One program's counters, or why there are none.
    fn one(&self, name: &str) -> Result<CountedProgram> {
        if !runs_alone(name) {
            let why = "its flag is set from beside the grid, and a profiler runs a kernel alone and several times";
            let why = Some(why.to_owned());
            return Ok(CountedProgram { program: name.to_owned(), not_counted: why, log: None, launches: vec![] });
        }
        let nonce = nonce()?;
        let file = format!("{name}.csv");
        let log_path = self.dir.join(&file);
        // The profiler leaves sections and reports of its own there.
        let home = tempfile::tempdir_in(self.dir)?;
        let ended = self.runtime.run(&self.task(name, &nonce, &log_path, home.path())?, &mut |_| {})?;
        home.close()?;
        // The log becomes part of a run, so names of this machine are removed from it.
        let personal = names(self.ctx.paths.root());
        let written = read_plain(&log_path).unwrap_or_default();
        let text = impersonal(&String::from_utf8_lossy(&written), &personal);
        write_whole(&log_path, text.as_bytes())?;
        let log = Some(CounterLog { file, sha256: Digest::of(&text) });
        let launches = self.judge(name, &ended, &nonce, &text);
        let said = match &launches {
            Ok(launches) => format!("{} launches", launches.len()),
            Err(why) => format!("not counted: {}", quoted(why, MOST_CHARS)),
        };
        self.ctx.ui.line(&format!("counters {name}: {said}"));
        let not_counted = launches.as_ref().err().map(|why| impersonal(why, &personal));
        Ok(CountedProgram { program: name.to_owned(), not_counted, log, launches: launches.unwrap_or_default() })
    }

    /// The launches in the log, if the program also ended as it does without a profiler; otherwise the reason why
    /// they do not count.
    fn judge(&self, name: &str, ended: &Ended, nonce: &str, log: &str) -> Result<Vec<CountedLaunch>, String> {
        if ended.timed_out {
            return Err("killed at its deadline".to_owned());
        }
        let launches = read(log)?;
        match ended.code {
            Some(0) if name == BURN => Ok(launches),
            Some(0) => match end_mark(&ended.stdout, nonce)? {
                end if end.wrong == 0 => Ok(launches),
                _ => Err("its outputs were wrong under the profiler".to_owned()),
            },
            Some(code) => Err(format!("ended by exit code {code}: {}", quoted(&last(&ended.stderr), MOST_CHARS))),
            None => Err("ended by a signal".to_owned()),
        }
    }

    fn task(&self, name: &str, nonce: &str, log: &Path, home: &Path) -> Result<Task> {
        let program = self.program;
        // In the log's name the tool reads % as the start of a sequence.
        let (log, metrics) = (path(log)?.replace('%', "%%"), metrics());
        let mut args = vec!["--clock-control", "none", "--target-processes", "application-only", "--csv"];
        args.extend(["--print-units", "base", "--metrics", &metrics, "--log-file", &log]);
        if name == BURN {
            args.extend(["--launch-count", BURN_LAUNCHES]);
        }
        args.push(path(&program.harness)?);
        match name {
            BURN => args.extend([BURN, "--seconds", BURN_SECONDS, "--plan", path(&program.plan)?]),
            _ => args.extend(["sanitize", "--program", name, "--plan", path(&program.plan)?, "--nonce", nonce]),
        }
        args.extend(["--device", &program.device, "--cubins", path(&program.cubins)?, "--flavor", "measure", "--hold"]);
        let folder = |file: &Path| file.parent().map(Path::to_owned).context("a file has a folder");
        Ok(Task {
            label: "counters".to_owned(),
            program: path(&self.profiler)?.to_owned(),
            args: args.into_iter().map(str::to_owned).collect(),
            env: surroundings(home)?,
            readable: vec![
                folder(&self.profiler)?,
                folder(&program.harness)?,
                folder(&program.plan)?,
                program.cubins.clone(),
            ],
            writable: self.dir.to_owned(),
            gpu: true,
            deadline: DEADLINE,
            hold_stdin: true,
        })
    }
}

impl Counters {
    /// What to say of it: one line.
    #[must_use]
    pub fn said(&self) -> String {
        let launches: usize = self.report.programs.iter().map(|program| program.launches.len()).sum();
        match &self.report.unreadable {
            Some(why) => format!("hardware counters cannot be read: {why}"),
            None => format!("hardware counters of {launches} launches"),
        }
    }

    /// Copies report and logs into a run's own folder, and checks what arrived.
    ///
    /// # Errors
    /// When a file cannot be copied, or is not what it was.
    pub fn copy_to(&self, folder: &Path) -> Result<()> {
        fs_err::create_dir_all(folder)?;
        for CounterLog { file, sha256 } in self.report.programs.iter().filter_map(|program| program.log.as_ref()) {
            let bytes = read_plain(&self.dir.join(file))?;
            ensure!(Digest::of(&bytes) == *sha256, changed(&self.dir.join(file)));
            write_whole(&folder.join(file), &bytes)?;
        }
        write_whole(&folder.join(REPORT), &to_bytes(&self.report)?)
    }
}

fn changed(file: &Path) -> anyhow::Error {
    let message = format!("{} changed after it was written", file.display());
    fail(ExitCode::Integrity, message, "cargo xtask reproduce --counters")
}

fn path(path: &Path) -> Result<&str> {
    path.to_str().with_context(|| format!("{} is not UTF-8", path.display()))
}
