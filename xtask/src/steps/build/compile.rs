//! nvcc over every kernel file: one cubin per architecture and flavor, several at a time, one log each.

use super::BuildContext;
use super::inputs::Inputs;
use anyhow::{Context, Result};
use host::container::{Runtime, Task};
use host::failure::fail;
use host::files;
use host::gpu::toolkit::Toolkit;
use host::process::Ended;
use pure::identity::occupancy;
use pure::identity::sass::arch_number;
use schema::{Digest, ExitCode};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use words::nvcc;
use words::text::{plain, quoted};

/// What is measured, and the same with source lines for the sanitizer.
pub(super) const FLAVORS: [&str; 2] = ["measure", "lineinfo"];

const DEADLINE: Duration = Duration::from_secs(15 * 60);
const VERSION_DEADLINE: Duration = Duration::from_secs(120);

/// One compilation.
pub(super) struct Job {
    /// Kernel file, e.g. `preempt/yield`.
    pub(super) file: String,
    /// Architecture.
    pub(super) arch: String,
    /// `measure` or `lineinfo`.
    pub(super) flavor: &'static str,
    source: PathBuf,
    include: PathBuf,
    root: PathBuf,
    build: PathBuf,
}

/// A compilation that failed for a reason with a remedy of its own.
#[derive(Debug, thiserror::Error)]
#[error("{what}")]
struct Unmade {
    what: String,
    remedy: &'static str,
}

/// Compiler flags for measured cubins, less the architecture and paths.
pub(super) fn measured_flags() -> Vec<String> {
    let flags = ["-cubin", "-O3", "-std=c++17", "-I", "kernels/common", "-Xptxas", "-v,-warn-spills"];
    flags.map(str::to_owned).to_vec()
}

/// Where a cubin lies below the build's folder.
pub(super) fn cubin_path(file: &str, arch: &str, flavor: &str) -> String {
    format!("cubins/{arch}/{flavor}/{file}.cubin")
}

/// Every compilation that the architectures and budgets ask for.
pub(super) fn jobs(ctx: &BuildContext<'_>, inputs: &Inputs, build: &Path) -> Result<Vec<Job>> {
    let mut archs = ctx.archs.clone();
    archs.sort();
    archs.dedup();
    let mut jobs = Vec::new();
    for arch in &archs {
        check_arch(arch)?;
        for file in inputs.files().iter().filter(|file| inputs.budgets.file_wants(file, arch)) {
            jobs.extend(FLAVORS.map(|flavor| Job {
                file: file.clone(),
                arch: arch.clone(),
                flavor,
                source: ctx.paths.kernels().join(format!("{file}.cu")),
                include: ctx.paths.kernels().join("common"),
                root: ctx.paths.root().to_owned(),
                build: build.to_owned(),
            }));
        }
    }
    Ok(jobs)
}

/// Runs all jobs, `ctx.jobs` at a time.
///
/// # Errors
/// Exit 12 with the first lines of every failed compilation.
pub(super) fn all(ctx: &BuildContext<'_>, runtime: &dyn Runtime, nvcc: &Path, jobs: &[Job]) -> Result<()> {
    let next = AtomicUsize::new(0);
    let done = AtomicUsize::new(0);
    let failures = Mutex::new(Vec::<(usize, anyhow::Error)>::new());
    let worker = || {
        while let Some((index, job)) = Some(next.fetch_add(1, Ordering::Relaxed)).and_then(|i| Some((i, jobs.get(i)?)))
        {
            if let Err(error) = job.run(runtime, nvcc) {
                failures.lock().expect("no worker panics").push((index, error));
            }
            let done = done.fetch_add(1, Ordering::Relaxed) + 1;
            (ctx.progress)(done, jobs.len(), &job.name());
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..ctx.jobs.clamp(1, jobs.len().max(1)) {
            scope.spawn(worker);
        }
    });
    verdict(failures.into_inner().expect("no worker panics"))
}

/// The compiler's own version line.
///
/// The pinned wheels and a container's content are named by digest already, so their compiler is asked once and remembered.
pub(super) fn version(ctx: &BuildContext<'_>, runtime: &dyn Runtime, toolkit: &Toolkit) -> Result<String> {
    let named =
        [&ctx.environment_key, &toolkit.lock.to_string(), &toolkit.nvcc.display().to_string()].map(String::clone);
    let folder = ctx.paths.state().join("build");
    let remembered = folder.join(format!("nvcc-{}.txt", &Digest::of(named.join("\n")).to_string()[..16]));
    let is_named_by_digest = toolkit.origin == "wheels" || runtime.name() == "docker";
    if let (true, Ok(line)) = (is_named_by_digest, fs_err::read_to_string(&remembered)) {
        return Ok(line);
    }
    fs_err::create_dir_all(&folder)?;
    let task = task("build-version", &toolkit.nvcc, vec!["--version".into()], Vec::new(), &folder, VERSION_DEADLINE);
    let ended = runtime.run(&task, &mut |_| {})?;
    let line = ended.stdout.lines().find(|line| line.contains("release ")).map(str::trim).map(str::to_owned);
    let Some(line) = line.filter(|_| ended.code == Some(0)) else {
        let message = format!("{} --version did not answer: {}", toolkit.nvcc.display(), first_lines(&ended));
        return Err(fail(ExitCode::Environment, message, "cargo xtask doctor"));
    };
    files::write_whole(&remembered, line.as_bytes())?;
    Ok(line)
}

/// The first line of `--version` of the host compiler that nvcc calls; absent when it does not say.
pub(super) fn host_compiler(runtime: &dyn Runtime, nvcc: &Path, dir: &Path) -> Result<Option<String>> {
    let args = ["-dryrun", "-cubin", "-x", "cu", "-o", "nothing", "/dev/null"].map(str::to_owned).to_vec();
    let dry = runtime.run(&task("build-dryrun", nvcc, args, Vec::new(), dir, VERSION_DEADLINE), &mut |_| {})?;
    // `#$ gcc -std=c++17 … -E -x c++ …`
    let steps = dry.stderr.lines().chain(dry.stdout.lines()).filter_map(|line| line.strip_prefix("#$ "));
    let host = steps.filter(|step| step.contains(" -E ")).find_map(|step| step.split_whitespace().next());
    let Some(host) = host.map(|host| host.replace('"', "")) else { return Ok(None) };
    let asked = task("build-host", Path::new(&host), vec!["--version".into()], Vec::new(), dir, VERSION_DEADLINE);
    let ended = runtime.run(&asked, &mut |_| {})?;
    Ok(ended.stdout.lines().next().filter(|_| ended.code == Some(0)).map(|line| plain(line.trim())))
}

/// The compiler's log of a job.
pub(super) fn read_log(job: &Job) -> Result<String> {
    Ok(fs_err::read_to_string(job.log())?)
}

impl Job {
    /// The cubin it makes.
    pub(super) fn cubin(&self) -> PathBuf {
        self.build.join(cubin_path(&self.file, &self.arch, self.flavor))
    }

    /// A file of the build that it belongs to.
    pub(super) fn in_build(&self, name: &str) -> PathBuf {
        self.build.join(name)
    }

    fn log(&self) -> PathBuf {
        self.build.join(format!("logs/{}/{}/{}.log", self.arch, self.flavor, self.file))
    }

    fn name(&self) -> String {
        format!("{} {} {}", self.file, self.arch, self.flavor)
    }

    fn run(&self, runtime: &dyn Runtime, nvcc: &Path) -> Result<()> {
        let cubin = self.cubin();
        fs_err::create_dir_all(cubin.parent().context("a cubin has a folder")?)?;
        let label = format!("build-{}-{}-{}", self.arch, self.flavor, self.file.replace('/', "-"));
        let readable = vec![self.root.join("kernels")];
        let ended = runtime.run(&task(&label, nvcc, self.args(), readable, &self.build, DEADLINE), &mut |_| {})?;
        let log = format!("nvcc {}\n{}{}", self.args().join(" "), ended.stdout, ended.stderr);
        files::write_whole(&self.log(), self.without_paths(&log).as_bytes())?;
        let why = match self.unmade(&ended) {
            None => return Ok(()),
            Some(why) => self.without_paths(&why),
        };
        let what = format!("kernels/{}.cu for {} ({}): {why}", self.file, self.arch, self.flavor);
        Err(match nvcc::cause(&log) {
            None if ended.code.is_none() && !ended.timed_out => {
                Unmade { what, remedy: "dmesg | grep -i 'killed process'; free -m; then cargo xtask build" }.into()
            }
            Some((cause, remedy)) => Unmade { what: format!("{what}\n    {cause}"), remedy }.into(),
            None => anyhow::Error::msg(what),
        })
    }

    /// Why the cubin is unusable: checks the exit code, then the output, then the file itself.
    fn unmade(&self, ended: &Ended) -> Option<String> {
        match ended.code {
            _ if ended.timed_out => return Some("ran out of time".to_owned()),
            None => return Some("the compiler was ended by a signal".to_owned()),
            Some(0) => {}
            Some(_) => return Some(first_lines(ended)),
        }
        let output = [ended.stderr.as_str(), ended.stdout.as_str()];
        if let Some(line) = output.into_iter().find_map(nvcc::error_line) {
            return Some(format!("exit code 0, but it reported: {line}"));
        }
        match fs_err::symlink_metadata(self.cubin()) {
            Err(_) => Some(format!("exit code 0 without a cubin: {}", first_lines(ended))),
            Ok(found) if !found.is_file() => Some("its output is not a plain file".to_owned()),
            Ok(_) => None,
        }
    }

    fn args(&self) -> Vec<String> {
        let mut args = vec![format!("-arch={}", self.arch)];
        let common = self.include.display().to_string();
        args.extend(
            measured_flags().into_iter().map(|flag| if flag == "kernels/common" { common.clone() } else { flag }),
        );
        if self.flavor == "lineinfo" {
            args.push("-lineinfo".into());
        }
        args.extend(["-o".into(), self.cubin().display().to_string(), self.source.display().to_string()]);
        args
    }

    /// Logs travel with a run, so they name no folder of this machine.
    fn without_paths(&self, text: &str) -> String {
        let text = text.replace(&self.build.display().to_string(), "build");
        nvcc::without_temporaries(&text.replace(&format!("{}/", self.root.display()), ""))
    }
}

fn check_arch(arch: &str) -> Result<()> {
    let known = arch_number(arch).and_then(occupancy::limits).map(drop);
    known.map_err(|error| fail(ExitCode::Usage, format!("cannot build for {arch}: {error:#}"), "--arch sm_90"))
}

fn task(
    label: &str,
    program: &Path,
    args: Vec<String>,
    readable: Vec<PathBuf>,
    writable: &Path,
    deadline: Duration,
) -> Task {
    Task {
        label: label.to_owned(),
        program: program.display().to_string(),
        args,
        // Set to the empty string, so that nothing adds flags to those that are recorded.
        env: ["NVCC_PREPEND_FLAGS", "NVCC_APPEND_FLAGS"].map(|name| (name.to_owned(), String::new())).to_vec(),
        readable,
        writable: writable.to_owned(),
        gpu: false,
        deadline,
        hold_stdin: false,
    }
}

/// What a program that failed said: from its first error on, without the compiler's report of resources.
fn first_lines(ended: &Ended) -> String {
    const MOST_CHARS: usize = 400;
    let lines = ended.stderr.lines().chain(ended.stdout.lines());
    let lines: Vec<&str> = lines.filter(|line| !line.starts_with("ptxas info") && !line.trim().is_empty()).collect();
    let first = lines.iter().position(|line| line.contains("error") || line.contains("fatal")).unwrap_or(0);
    let told: Vec<String> = lines[first..].iter().take(6).map(|line| quoted(line, MOST_CHARS)).collect();
    if told.is_empty() { format!("ended with {:?} and said nothing", ended.code) } else { told.join("\n    ") }
}

fn verdict(mut failures: Vec<(usize, anyhow::Error)>) -> Result<()> {
    failures.sort_by_key(|(index, _)| *index);
    // Interruption and a missing program keep their own exit code.
    if let Some(at) = failures.iter().position(|(_, error)| error.downcast_ref::<host::failure::Failure>().is_some()) {
        return Err(failures.swap_remove(at).1);
    }
    if failures.is_empty() {
        return Ok(());
    }
    let told: Vec<String> = failures.iter().map(|(_, error)| format!("{error:#}")).collect();
    let message = format!("{} compilations failed:\n  {}", told.len(), told.join("\n  "));
    let own = failures.iter().find_map(|(_, error)| error.downcast_ref::<Unmade>());
    Err(fail(
        ExitCode::Build,
        message,
        own.map_or("correct the kernel, then cargo xtask build", |unmade| unmade.remedy),
    ))
}
