//! Child processes: each gets only a stated environment and a deadline, and is confirmed to have ended.
//!
//! `duct` starts a child, connects its streams and reaps it. This module adds what `duct` lacks: the child leads a
//! process group that is killed as one, it dies when this process is killed outright, its output is seen as it comes
//! and kept up to a limit, and no process of the group is left running when a call returns.

mod capture;
mod environment;
mod interrupt;

pub use environment::own_environment;
pub use interrupt::{interrupted, interruption, watch_interrupts};

use crate::failure::fail;
use anyhow::{Context, Result};
use capture::Stream;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group};
use schema::ExitCode;
use std::fs::File;
use std::io::{self, PipeWriter, pipe};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::thread;
use std::time::{Duration, Instant};

/// What every child sees unless its own list says otherwise: words and numbers as programs write them, not as this user reads them.
const PLAIN: [(&str, &str); 2] = [("LC_ALL", "C"), ("TZ", "UTC")];

/// A program to run on the host.
#[derive(Clone, Debug)]
pub struct Child {
    /// The program: a path, or a name looked up on the PATH of `env`.
    pub program: PathBuf,
    /// Its arguments.
    pub args: Vec<String>,
    /// The whole environment it sees, beside plain words and numbers (`LC_ALL`, `TZ`).
    pub env: Vec<(String, String)>,
    /// Where it runs.
    pub dir: PathBuf,
    /// After this long it and its children are killed, and the end confirmed.
    pub deadline: Duration,
    /// Keep stdin open as long as we live (the child ends at end of file), or give it nothing.
    pub hold_stdin: bool,
}

/// How a child ended.
#[derive(Clone, Debug)]
pub struct Ended {
    /// Exit code; absent when a signal or the deadline ended it.
    pub code: Option<i32>,
    /// Whether the deadline ended it.
    pub timed_out: bool,
    /// Its stdout; only the last 8 MiB, and it says so when cut.
    pub stdout: String,
    /// Its stderr; only the last 8 MiB, and it says so when cut.
    pub stderr: String,
}

impl Child {
    /// Runs the child to its end; `on_line` sees each line of stdout as it comes.
    ///
    /// # Errors
    /// When it cannot be started or ended, or when SIGINT or SIGTERM asked us to stop: it is ended then.
    /// A non-zero exit is not an error here: the caller judges.
    pub fn run(&self, on_line: &mut dyn FnMut(&str)) -> Result<Ended> {
        self.run_until(None, &mut in_words(on_line), &interrupted, &|| false)
    }

    /// As [`Child::run`], with a file for stdin.
    ///
    /// # Errors
    /// As [`Child::run`], and when the file cannot be opened.
    pub fn run_reading(&self, input: &Path) -> Result<Ended> {
        let input = fs_err::File::open(input)?.into_parts().0;
        self.run_until(Some(Input::File(input)), &mut |_| {}, &interrupted, &|| false)
    }

    /// As [`Child::run`], with these bytes for stdin; `on_bytes` sees every byte of stdout, in order.
    ///
    /// # Errors
    /// As [`Child::run`].
    pub fn run_on_bytes(&self, input: &[u8], on_bytes: &mut dyn FnMut(&[u8])) -> Result<Ended> {
        self.run_until(Some(Input::Bytes(input.to_vec())), on_bytes, &interrupted, &|| false)
    }

    /// As [`Child::run`], and also ended as by its deadline once `overdue` says so.
    ///
    /// # Errors
    /// As [`Child::run`].
    pub fn run_watched(&self, on_line: &mut dyn FnMut(&str), overdue: &dyn Fn() -> bool) -> Result<Ended> {
        self.run_until(None, &mut in_words(on_line), &interrupted, overdue)
    }

    /// Runs a child that puts things back, also after we were asked to stop.
    ///
    /// # Errors
    /// When it cannot be started or ended.
    pub fn run_cleanup(&self) -> Result<Ended> {
        self.run_until(None, &mut |_| {}, &|| None, &|| false)
    }

    fn run_until(
        &self,
        input: Option<Input>,
        on_bytes: &mut dyn FnMut(&[u8]),
        stop: &dyn Fn() -> Option<i32>,
        overdue: &dyn Fn() -> bool,
    ) -> Result<Ended> {
        if let Some(signal) = stop() {
            return Err(interruption(signal, &self.name()));
        }
        let mut running = Running::start(self, input, on_bytes)?;
        let timed_out = running.watch(self.deadline, stop, overdue);
        // On every path, no process of the group outlives this line.
        let status = running.finish(&PATIENCE)?;
        let timed_out = timed_out?;
        Ok(Ended {
            code: status.code().filter(|_| !timed_out),
            timed_out,
            stdout: running.stdout.text(),
            stderr: running.stderr.text(),
        })
    }

    fn name(&self) -> String {
        self.program.file_name().unwrap_or(self.program.as_os_str()).to_string_lossy().into_owned()
    }

    /// The child as `duct` starts it, all but its streams.
    fn expression(&self) -> Result<duct::Expression> {
        let plain = PLAIN.map(|(key, value)| (key.to_owned(), value.to_owned()));
        let started =
            duct::cmd(self.resolved()?, &self.args).full_env(plain.into_iter().chain(self.env.iter().cloned()));
        Ok(started.dir(&self.dir).before_spawn(bind_to_us).unchecked())
    }

    fn resolved(&self) -> Result<PathBuf> {
        let search = self.env.iter().rfind(|(key, _)| key == "PATH").map_or("", |(_, value)| value.as_str());
        find_program(&self.program, search).ok_or_else(|| {
            fail(
                ExitCode::Environment,
                format!("no program {} on PATH ({search})", self.program.display()),
                "cargo xtask doctor",
            )
        })
    }
}

/// Makes the child the leader of its own process group, and has the kernel kill it when we die.
#[expect(unsafe_code, reason = "the parent-death signal can only be set between fork and exec")]
fn bind_to_us(command: &mut Command) -> io::Result<()> {
    let parent = rustix::process::getpid();
    let die_with_parent = move || {
        rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
        // If the parent died before that call, no signal will come.
        let alive = rustix::process::getppid() == Some(parent);
        if alive { Ok(()) } else { Err(io::ErrorKind::BrokenPipe.into()) }
    };
    command.process_group(0);
    // SAFETY: between fork and exec only two system calls are made; nothing allocates or locks.
    unsafe { command.pre_exec(die_with_parent) };
    Ok(())
}

/// Bytes of a stream as lines of text, each without its end.
fn in_words(on_line: &mut dyn FnMut(&str)) -> impl FnMut(&[u8]) {
    |bytes| on_line(String::from_utf8_lossy(bytes).trim_end_matches(['\n', '\r']))
}

/// The file that `program` names: itself when it is a path, otherwise the first executable on `search`.
pub fn find_program(program: &Path, search: &str) -> Option<PathBuf> {
    if program.components().count() > 1 {
        return Some(program.to_owned());
    }
    let executable = |path: &PathBuf| rustix::fs::access(path, rustix::fs::Access::EXEC_OK).is_ok() && path.is_file();
    std::env::split_paths(search).map(|dir| dir.join(program)).find(executable)
}

/// What a child reads instead of nothing.
enum Input {
    File(File),
    Bytes(Vec<u8>),
}

/// A child that was started and not yet reaped, and what it wrote so far.
struct Running<'a> {
    name: String,
    handle: duct::Handle,
    /// The child's own number, which is also that of its group.
    group: Pid,
    stdout: Stream,
    stderr: Stream,
    on_bytes: &'a mut dyn FnMut(&[u8]),
    /// Our end of its standard input, if that is held open.
    _stdin: Option<PipeWriter>,
}

/// The signals that end a group, and how long a child may take to end after each.
const PATIENCE: [(Signal, Duration); 2] =
    [(Signal::TERM, Duration::from_secs(2)), (Signal::KILL, Duration::from_secs(20))];
/// How long what is left of an ended child may take: what it wrote, what it started.
const REMAINS: Duration = Duration::from_secs(2);

impl<'a> Running<'a> {
    fn start(wanted: &Child, input: Option<Input>, on_bytes: &'a mut dyn FnMut(&[u8])) -> Result<Self> {
        let ((stdout, to_stdout), (stderr, to_stderr)) = (pipe()?, pipe()?);
        // The child's ends of the pipes are closed in this process here, so that they end when the child does.
        let child = wanted.expression()?.stdout_file(to_stdout).stderr_file(to_stderr);
        let (child, held) = match input {
            Some(Input::File(file)) => (child.stdin_file(file), None),
            Some(Input::Bytes(bytes)) => (child.stdin_bytes(bytes), None),
            None if wanted.hold_stdin => pipe().map(|(stdin, held)| (child.stdin_file(stdin), Some(held)))?,
            None => (child.stdin_null(), None),
        };
        // A program or folder that is missing or not permitted is a fault of the machine, not a bug.
        let handle = child.start().map_err(|error| {
            let message = format!("failed to start {} in {}: {error}", wanted.program.display(), wanted.dir.display());
            fail(ExitCode::Environment, message, "cargo xtask doctor")
        })?;
        let pid = handle.pids().first().and_then(|pid| Pid::from_raw(i32::try_from(*pid).ok()?));
        let group = pid.context("a started child has a process id")?;
        let (stdout, stderr) = (Stream::of(stdout), Stream::of(stderr));
        Ok(Self { name: wanted.name(), handle, group, stdout, stderr, on_bytes, _stdin: held })
    }

    /// Waits for the child's own end, or until the deadline is over, which it says, or a signal asks us to stop, which is an error.
    fn watch(
        &mut self,
        deadline: Duration,
        stop: &dyn Fn() -> Option<i32>,
        overdue: &dyn Fn() -> bool,
    ) -> Result<bool> {
        let until = Instant::now() + deadline;
        while !self.exited() {
            if let Some(signal) = stop() {
                return Err(interruption(signal, &self.name));
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() || overdue() {
                return Ok(true);
            }
            self.take(left);
        }
        Ok(false)
    }

    /// Ends what still runs of the group, confirms the end, and takes what is left in the pipes.
    ///
    /// A process that a driver holds in the kernel ends on no signal: it is left, and said, instead of waited for.
    fn finish(&mut self, patience: &[(Signal, Duration)]) -> Result<ExitStatus> {
        for &(signal, patience) in patience {
            if !self.exited() {
                let _ = kill_process_group(self.group, signal);
                self.take_until(patience, Self::exited);
            }
        }
        if !self.exited() {
            let (name, pid) = (&self.name, self.group.as_raw_nonzero());
            let message =
                format!("{name} (process {pid}) was killed and has not ended: a device or a disk does not respond");
            let remedy = format!("sudo cat /proc/{pid}/stack; a GPU driver that hangs needs a reset or a reboot");
            return Err(fail(ExitCode::Environment, message, remedy));
        }
        // The leader is not reaped yet, so its process id cannot belong to another group.
        let _ = kill_process_group(self.group, Signal::KILL);
        self.take_until(REMAINS, |running| running.stdout.ended() && running.stderr.ended());
        let ended = self.handle.wait_timeout(REMAINS)?;
        let status = ended
            .with_context(|| format!("a process that {} started and left behind still reads its input", self.name))?
            .status;
        let until = Instant::now() + REMAINS;
        while group_lives(self.group) && Instant::now() < until {
            thread::sleep(Duration::from_millis(5));
        }
        Ok(status)
    }

    /// Whether the child has exited. It is not reaped by this: until it is, its number cannot name another group.
    fn exited(&self) -> bool {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT | WaitIdOptions::NOHANG;
        !matches!(rustix::process::waitid(WaitId::Pid(self.group), options), Ok(None))
    }

    fn take_until(&mut self, patience: Duration, done: fn(&Self) -> bool) {
        let until = Instant::now() + patience;
        while !done(self) && Instant::now() < until {
            self.take(until.saturating_duration_since(Instant::now()));
        }
    }

    /// Takes what the child has written, or waits a moment for more; at most for `patience`.
    fn take(&mut self, patience: Duration) {
        // How often to check for what the pipes do not show: an exit, a signal to this process. An exit closes the
        // pipes just before.
        let closed = self.stdout.ended() && self.stderr.ended();
        let look = Duration::from_millis(if closed { 1 } else { 50 });
        let [stdout, stderr] = capture::ready([&self.stdout, &self.stderr], look.min(patience));
        if stdout {
            self.stdout.take(self.on_bytes);
        }
        if stderr {
            self.stderr.take(&mut |_| {});
        }
    }
}

/// Whether anything but the dead is in a group. The dead stay in it until someone reaps them, which may be never.
fn group_lives(group: Pid) -> bool {
    if rustix::process::test_kill_process_group(group).is_err() {
        return false;
    }
    let Ok(processes) = std::fs::read_dir("/proc") else { return false };
    let group = group.as_raw_nonzero().to_string();
    processes.flatten().any(|process| {
        let stat = std::fs::read_to_string(process.path().join("stat")).unwrap_or_default();
        // After the name in parentheses: state, parent, group.
        let mut fields = stat.rsplit(") ").next().unwrap_or_default().split(' ');
        let state = fields.next().unwrap_or_default();
        !matches!(state, "Z" | "X") && fields.nth(1) == Some(group.as_str())
    })
}

#[cfg(test)]
mod tests;
