//! Child processes: an empty environment plus a stated list, a deadline, and a confirmed end.
//!
//! A child leads its own process group; the group is ended with it. A child of ours dies when we are killed outright.
#![expect(unsafe_code, reason = "the parent-death signal can only be set between fork and exec")]

mod capture;
mod environment;
mod interrupt;

pub use environment::own_environment;
pub use interrupt::{interrupted, interruption, watch_interrupts};

use crate::failure::fail;
use anyhow::{Context, Result};
use capture::Tail;
use rustix::fs::{MemfdFlags, memfd_create};
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions};
use schema::ExitCode;
use std::fs::File;
use std::io::{Seek as _, Write as _};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
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
        self.run_until(Some(input), &mut |_| {}, &interrupted, &|| false)
    }

    /// As [`Child::run`], with these bytes for stdin; `on_bytes` sees every byte of stdout, in order.
    ///
    /// # Errors
    /// As [`Child::run`].
    pub fn run_on_bytes(&self, input: &[u8], on_bytes: &mut dyn FnMut(&[u8])) -> Result<Ended> {
        let mut held = File::from(memfd_create("input", MemfdFlags::CLOEXEC)?);
        held.write_all(input)?;
        held.rewind()?;
        self.run_until(Some(held), on_bytes, &interrupted, &|| false)
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
        input: Option<File>,
        on_bytes: &mut dyn FnMut(&[u8]),
        stop: &dyn Fn() -> Option<i32>,
        overdue: &dyn Fn() -> bool,
    ) -> Result<Ended> {
        if let Some(signal) = stop() {
            return Err(interruption(signal, &self.name()));
        }
        let mut running = Running::start(self, input)?;
        let end = running.watch(self.deadline, on_bytes, stop, overdue);
        // Whatever happened, nothing of the group outlives this line.
        let status = running.finish(&self.name(), PATIENCE, on_bytes)?;
        match end {
            End::Asked(signal) => Err(interruption(signal, &self.name())),
            End::Itself | End::Deadline => Ok(Ended {
                code: status.code().filter(|_| end == End::Itself),
                timed_out: end == End::Deadline,
                stdout: running.stdout.text(),
                stderr: running.stderr.lock().unwrap_or_else(PoisonError::into_inner).text(),
            }),
        }
    }

    fn name(&self) -> String {
        self.program.file_name().unwrap_or(self.program.as_os_str()).to_string_lossy().into_owned()
    }

    fn command(&self, input: Option<File>) -> Result<Command> {
        let mut command = Command::new(self.resolved()?);
        command
            .args(&self.args)
            .env_clear()
            .envs(PLAIN)
            .envs(self.env.iter().map(|(k, v)| (k, v)))
            .current_dir(&self.dir);
        command.stdin(match input {
            Some(input) => input.into(),
            None if self.hold_stdin => Stdio::piped(),
            None => Stdio::null(),
        });
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
        let parent = rustix::process::getpid();
        // SAFETY: between fork and exec only two system calls are made; nothing allocates or locks.
        unsafe {
            command.pre_exec(move || {
                rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
                match rustix::process::getppid() == Some(parent) {
                    true => Ok(()),
                    false => Err(std::io::ErrorKind::BrokenPipe.into()),
                }
            });
        }
        Ok(command)
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

/// Bytes of a stream as lines of text, each without its end.
fn in_words(on_line: &mut dyn FnMut(&str)) -> impl FnMut(&[u8]) {
    |bytes| on_line(String::from_utf8_lossy(bytes).trim_end_matches(['\n', '\r']))
}

/// A program or folder that is missing or may not be used is the machine's fault and none of ours.
fn unstarted(wanted: &Child, error: &std::io::Error) -> anyhow::Error {
    let message = format!("failed to start {} in {}: {error}", wanted.program.display(), wanted.dir.display());
    fail(ExitCode::Environment, message, "cargo xtask doctor")
}

/// The file that `program` names: itself when it is a path, otherwise the first executable on `search`.
pub fn find_program(program: &Path, search: &str) -> Option<PathBuf> {
    if program.components().count() > 1 {
        return Some(program.to_owned());
    }
    let executable = |path: &PathBuf| rustix::fs::access(path, rustix::fs::Access::EXEC_OK).is_ok() && path.is_file();
    std::env::split_paths(search).map(|dir| dir.join(program)).find(executable)
}

/// A child, what it wrote so far, and where its events come from.
struct Running {
    child: std::process::Child,
    pid: Pid,
    events: Receiver<Event>,
    stdout: Tail,
    stderr: Arc<Mutex<Tail>>,
    open: u8,
    exited: bool,
}

/// What the threads around a child report.
enum Event {
    Line(Vec<u8>),
    Closed,
    Exited,
}

/// How long a child may take to end after each signal.
#[derive(Clone, Copy, Debug)]
struct Patience {
    term: Duration,
    kill: Duration,
}

const PATIENCE: Patience = Patience { term: Duration::from_secs(2), kill: Duration::from_secs(20) };

/// Who ended the child.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    Itself,
    Deadline,
    Asked(i32),
}

impl Running {
    fn start(wanted: &Child, input: Option<File>) -> Result<Self> {
        let mut child = wanted.command(input)?.spawn().map_err(|error| unstarted(wanted, &error))?;
        let pid = Pid::from_child(&child);
        let (sender, events) = sync_channel(1024);
        let stderr = Arc::new(Mutex::new(Tail::default()));
        let (out, err) =
            (child.stdout.take().context("stdout is piped")?, child.stderr.take().context("stderr is piped")?);
        let lines = sender.clone();
        thread::spawn(move || {
            capture::each_line(out, |line| lines.send(Event::Line(line.to_vec())).is_ok());
            let _ = lines.send(Event::Closed);
        });
        let (kept, closed) = (Arc::clone(&stderr), sender.clone());
        thread::spawn(move || {
            capture::each_line(err, |line| {
                kept.lock().unwrap_or_else(PoisonError::into_inner).push(line);
                true
            });
            let _ = closed.send(Event::Closed);
        });
        thread::spawn(move || report_exit(pid, &sender));
        Ok(Self { child, pid, events, stdout: Tail::default(), stderr, open: 2, exited: false })
    }

    /// Waits for the child's own end, the deadline or a signal.
    fn watch(
        &mut self,
        deadline: Duration,
        on_bytes: &mut dyn FnMut(&[u8]),
        stop: &dyn Fn() -> Option<i32>,
        overdue: &dyn Fn() -> bool,
    ) -> End {
        const LOOK: Duration = Duration::from_millis(50);
        let until = Instant::now() + deadline;
        while !self.exited {
            self.take(LOOK.min(until.saturating_duration_since(Instant::now())), on_bytes);
            match stop() {
                _ if self.exited => {}
                Some(signal) => return End::Asked(signal),
                None if Instant::now() >= until || overdue() => return End::Deadline,
                None => {}
            }
        }
        End::Itself
    }

    /// Ends what still runs of the group, confirms the end, and takes what is left in the pipes.
    ///
    /// A process that a driver holds in the kernel ends on no signal: it is left, and said, instead of waited for.
    fn finish(
        &mut self,
        name: &str,
        patience: Patience,
        on_bytes: &mut dyn FnMut(&[u8]),
    ) -> Result<std::process::ExitStatus> {
        for (signal, patience) in [(Signal::TERM, patience.term), (Signal::KILL, patience.kill)] {
            if !self.exited {
                let _ = rustix::process::kill_process_group(self.pid, signal);
                self.drain(patience, on_bytes, |running| running.exited);
            }
        }
        if !self.exited {
            return Err(fail(
                ExitCode::Environment,
                format!(
                    "{name} (process {}) was killed and has not ended: a device or a disk does not respond",
                    self.pid.as_raw_nonzero()
                ),
                format!(
                    "sudo cat /proc/{}/stack; a GPU driver that hangs needs a reset or a reboot",
                    self.pid.as_raw_nonzero()
                ),
            ));
        }
        // The leader is not yet reaped, so its number still names this group and no other.
        let _ = rustix::process::kill_process_group(self.pid, Signal::KILL);
        self.drain(Duration::from_secs(2), on_bytes, |running| running.open == 0);
        let status = self.child.wait().with_context(|| format!("failed to wait for {name}"))?;
        let until = Instant::now() + Duration::from_secs(2);
        while group_lives(self.pid) && Instant::now() < until {
            thread::sleep(Duration::from_millis(5));
        }
        Ok(status)
    }

    fn drain(&mut self, patience: Duration, on_bytes: &mut dyn FnMut(&[u8]), done: fn(&Self) -> bool) {
        let until = Instant::now() + patience;
        while !done(self) && Instant::now() < until {
            self.take(until.saturating_duration_since(Instant::now()), on_bytes);
        }
    }

    fn take(&mut self, patience: Duration, on_bytes: &mut dyn FnMut(&[u8])) {
        match self.events.recv_timeout(patience) {
            Ok(Event::Line(line)) => {
                self.stdout.push(&line);
                on_bytes(&line);
            }
            Ok(Event::Closed) => self.open -= 1,
            Ok(Event::Exited) => self.exited = true,
            Err(RecvTimeoutError::Timeout) => {}
            // Cannot happen while a thread reports; sleeping keeps it from being a busy loop if it does.
            Err(RecvTimeoutError::Disconnected) => thread::sleep(Duration::from_millis(10)),
        }
    }
}

/// Reports the child's exit without reaping it: until then its number cannot name another group.
fn report_exit(pid: Pid, sender: &SyncSender<Event>) {
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
    while let Err(rustix::io::Errno::INTR) = rustix::process::waitid(WaitId::Pid(pid), options) {}
    let _ = sender.send(Event::Exited);
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
