//! The root child: locks, holds while its stdin is open, and restores at its end of file or on a signal.
//!
//! A killed parent closes that pipe, so the child restores the clocks then too. It takes further clocks on stdin, one
//! number a line, and answers each request with one JSON line. It is the only caller of an NVML setter in this
//! program.

use anyhow::Result;
use host::failure::{code_of, fail, remedy_of};
use host::gpu::lease::{Before, Lease, Process, Standing};
use host::gpu::nvml::{Answer, Gpu, GpuChoice, GpuError, Library, NvmlGpu};
use schema::ExitCode;
use serde::{Deserialize, Serialize};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, Sender, channel};

/// The words of `xtask clocks hold`.
#[derive(Clone, Debug, clap::Args)]
pub struct HoldArgs {
    /// The GPU's UUID
    #[arg(long)]
    pub gpu: String,
    /// SM clock to lock, in MHz
    #[arg(long, required_unless_present = "restore", conflicts_with = "restore")]
    pub mhz: Option<u32>,
    /// Reset both locks, remove the lease and end
    #[arg(long)]
    pub restore: bool,
    /// The lease file
    #[arg(long)]
    pub lease: PathBuf,
    /// The management library's file, as the parent loaded it
    #[arg(long)]
    pub library: Option<PathBuf>,
}

/// One line of the child's stdout.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Said {
    /// A clock is locked.
    Locked {
        /// SM clock asked of the library.
        mhz: u32,
        /// Whether the memory clock is locked too.
        memory: bool,
        /// Setter calls so far.
        setter_calls: u32,
        /// What was refused, in words.
        notes: Vec<String>,
    },
    /// A request was refused; the locks are as before it.
    Refused {
        /// The exit code it stands for.
        code: ExitCode,
        /// Why.
        message: String,
        /// What to type.
        remedy: String,
        /// Setter calls so far.
        setter_calls: u32,
    },
    /// The locks are reset; always the last line.
    Restored {
        /// Setter calls in all.
        setter_calls: u32,
        /// What could not be reset; empty when all is as before.
        problems: Vec<String>,
    },
}

/// What reaches a holder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request {
    /// Lock another clock.
    Lock(u32),
    /// End: stdin closed, or a signal came.
    End,
}

/// The child's main.
///
/// # Errors
/// When the GPU cannot be opened, its clocks are held by another, or locks could not be reset.
pub fn hold(args: &HoldArgs) -> Result<()> {
    let out = &mut std::io::stdout();
    let gpu = match open(args) {
        Ok(gpu) => gpu,
        Err(error) => return refuse(error, 0, out),
    };
    let Some(mhz) = args.mhz else {
        return restore(&gpu, &args.lease, out);
    };
    let (sender, requests) = channel();
    // Before the lock, so that no signal can fall between.
    end_on_signals(sender.clone())?;
    read_requests(BufReader::new(std::io::stdin()), sender);
    hold_on(&gpu, mhz, &args.lease, &requests, out)
}

fn open(args: &HoldArgs) -> Result<NvmlGpu> {
    Library::open(args.library.as_deref())
        .and_then(|library| library.gpu(&GpuChoice::Uuid(args.gpu.clone())))
        .map_err(|error| fail(ExitCode::Environment, format!("failed to open {}: {error}", args.gpu), DOCTOR))
}

/// Prints an error that came before any lock, so that the parent has its exit code and remedy, and returns it.
fn refuse(error: anyhow::Error, setter_calls: u32, out: &mut dyn Write) -> Result<()> {
    let remedy = remedy_of(&error).unwrap_or_default().to_owned();
    let refused = Said::Refused { code: code_of(&error), message: format!("{error:#}"), remedy, setter_calls };
    say(out, &refused)?;
    Err(error)
}

const DOCTOR: &str = "cargo xtask doctor";
const STATUS: &str = "cargo xtask clocks status";
const RESTORE: &str = "cargo xtask clocks restore";

/// Locks `mhz`, serves requests until the end, and restores. Anything a dead holder left is restored first.
///
/// # Errors
/// When a living process holds the lease, or locks could not be reset.
pub fn hold_on(
    gpu: &dyn Gpu,
    mhz: u32,
    lease_path: &Path,
    requests: &Receiver<Request>,
    out: &mut dyn Write,
) -> Result<()> {
    if let Err(error) = release_stale(gpu, lease_path).and_then(|()| take_lease(gpu, lease_path)) {
        return refuse(error, gpu.setter_calls(), out);
    }
    let mut held = Held::fresh(gpu, lease_path);
    let mut next = Request::Lock(mhz);
    // A reader that is gone ends the hold as well.
    while let Request::Lock(mhz) = next {
        if say(out, &held.lock(mhz)).is_err() {
            break;
        }
        next = requests.recv().unwrap_or(Request::End);
    }
    let problems = held.release();
    let _ = say(out, &Said::Restored { setter_calls: gpu.setter_calls(), problems: problems.clone() });
    reset_outcome(&problems)
}

/// Resets both locks, whoever set them, and removes the lease.
///
/// # Errors
/// When a living process holds the lease, or locks could not be reset.
pub fn restore(gpu: &dyn Gpu, lease_path: &Path, out: &mut dyn Write) -> Result<()> {
    if let Err(error) = refuse_held(lease_path) {
        return refuse(error, gpu.setter_calls(), out);
    }
    let problems = Held::unknown(gpu, lease_path).release();
    say(out, &Said::Restored { setter_calls: gpu.setter_calls(), problems: problems.clone() })?;
    reset_outcome(&problems)
}

fn reset_outcome(problems: &[String]) -> Result<()> {
    if problems.is_empty() {
        return Ok(());
    }
    let message = format!("clocks could not be restored: {}", problems.join("; "));
    Err(fail(ExitCode::Environment, message, RESTORE))
}

fn take_lease(gpu: &dyn Gpu, lease_path: &Path) -> Result<()> {
    let before = Before { sm_mhz: gpu.sm_mhz().ok(), memory_mhz: gpu.memory_mhz().ok(), throttle: gpu.throttle().ok() };
    let lease = Lease { format: schema::FORMAT, gpu: gpu.uuid().to_owned(), holder: Process::this()?, before };
    lease.create(lease_path).map_err(|error| fail(ExitCode::Environment, format!("{error:#}"), STATUS))
}

fn release_stale(gpu: &dyn Gpu, lease_path: &Path) -> Result<()> {
    let Some((lease, standing)) = refuse_held(lease_path)? else { return Ok(()) };
    if standing == Standing::Rebooted {
        return host::files::remove(lease_path);
    }
    if lease.gpu != gpu.uuid() {
        let message = format!("a killed process left the clocks of another GPU locked: {}", lease.gpu);
        return Err(fail(ExitCode::Environment, message, RESTORE));
    }
    reset_outcome(&Held::unknown(gpu, lease_path).release())
}

/// Refuses when a living process holds the lease; gives the lease and what it means otherwise.
pub(super) fn refuse_held(lease_path: &Path) -> Result<Option<(Lease, Standing)>> {
    let Some(lease) = Lease::read(lease_path)? else { return Ok(None) };
    let standing = lease.standing()?;
    if standing == Standing::Held {
        let pid = lease.holder.pid;
        let message = format!("process {pid} holds the clocks of {} ({})", lease.gpu, lease_path.display());
        return Err(fail(
            ExitCode::Environment,
            message,
            format!("wait for process {pid}, or end it with `kill {pid}`"),
        ));
    }
    Ok(Some((lease, standing)))
}

/// Locks that are reset on every path, a panic included.
struct Held<'a> {
    gpu: &'a dyn Gpu,
    lease: &'a Path,
    /// Whether the SM lock may have been changed.
    sm: bool,
    /// Whether the memory lock may have been changed; absent before the first try.
    memory: Option<bool>,
    released: bool,
}

impl<'a> Held<'a> {
    /// Nothing locked yet.
    fn fresh(gpu: &'a dyn Gpu, lease: &'a Path) -> Self {
        Self { gpu, lease, sm: false, memory: None, released: false }
    }

    /// Whatever somebody else may have locked.
    fn unknown(gpu: &'a dyn Gpu, lease: &'a Path) -> Self {
        Self { gpu, lease, sm: true, memory: Some(true), released: false }
    }

    fn lock(&mut self, mhz: u32) -> Said {
        let answer = self.gpu.lock_sm(mhz);
        self.sm |= may_have_changed(&answer);
        if let Err(error) = answer {
            let (message, remedy) = refusal(&error, mhz);
            let setter_calls = self.gpu.setter_calls();
            return Said::Refused { code: ExitCode::Environment, message, remedy, setter_calls };
        }
        let mut notes = Vec::new();
        let memory = self.memory.unwrap_or_else(|| self.lock_memory(&mut notes));
        Said::Locked { mhz, memory, setter_calls: self.gpu.setter_calls(), notes }
    }

    fn lock_memory(&mut self, notes: &mut Vec<String>) -> bool {
        let answer = self.gpu.memory_max_mhz().and_then(|mhz| self.gpu.lock_memory(mhz));
        if let Err(error) = &answer {
            notes.push(format!("memory clock not locked: {error}"));
        }
        self.memory = Some(may_have_changed(&answer));
        answer.is_ok()
    }

    /// Resets both locks; returns what could not be reset. The lease stays while anything may still be locked.
    fn release(mut self) -> Vec<String> {
        self.released = true;
        let mut problems = self.reset();
        if problems.is_empty()
            && let Err(error) = host::files::remove(self.lease)
        {
            problems.push(format!("{error:#}"));
        }
        problems
    }

    fn reset(&self) -> Vec<String> {
        let mut problems = Vec::new();
        let mut note = |what: &str, answer: Answer<()>| match answer {
            // A clock without a lock cannot be locked.
            Ok(()) | Err(GpuError::Unsupported) => {}
            Err(error) => problems.push(format!("{what}: {error}")),
        };
        if self.sm {
            note("SM clock", self.gpu.reset_sm());
        }
        if self.memory == Some(true) {
            note("memory clock", self.gpu.reset_memory());
        }
        problems
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        if !self.released && self.reset().is_empty() {
            let _ = host::files::remove(self.lease);
        }
    }
}

/// A call that was refused changed nothing; one that failed otherwise may have.
fn may_have_changed(answer: &Answer<()>) -> bool {
    !matches!(answer, Err(GpuError::NoPermission | GpuError::Unsupported))
}

fn refusal(error: &GpuError, mhz: u32) -> (String, String) {
    let remedy = match error {
        GpuError::NoPermission => "use `--clocks observe`: this machine's owner keeps the clocks",
        GpuError::Unsupported => "use `--clocks observe`: this GPU has no clock lock",
        _ => DOCTOR,
    };
    (format!("failed to lock the SM clock to {mhz} MHz: {error}"), remedy.to_owned())
}

fn say(out: &mut dyn Write, line: &Said) -> std::io::Result<()> {
    writeln!(out, "{}", serde_json::to_string(line)?)?;
    out.flush()
}

fn end_on_signals(sender: Sender<Request>) -> Result<()> {
    let mut signals = signal_hook::iterator::Signals::new([SIGTERM, SIGINT, SIGHUP])?;
    std::thread::spawn(move || {
        for _ in signals.forever() {
            let _ = sender.send(Request::End);
        }
    });
    Ok(())
}

/// Requests from `input`, on a thread of their own, until its end.
fn read_requests(input: impl BufRead + Send + 'static, sender: Sender<Request>) {
    std::thread::spawn(move || {
        for line in input.lines() {
            // A line that is not a clock ends the hold: releasing is safer than guessing.
            let request = line.ok().and_then(|line| line.trim().parse().ok()).map_or(Request::End, Request::Lock);
            if sender.send(request).is_err() || request == Request::End {
                return;
            }
        }
        let _ = sender.send(Request::End);
    });
}
