//! The parent's side of the root child: starts it, asks it for clocks, and ends it on every path.
//!
//! Nothing here calls NVML. The child answers within a deadline or counts as broken, since a call into a lost GPU's driver
//! may never return.

use super::hold::Said;
use anyhow::{Context, Result};
use host::failure::fail;
use schema::ExitCode;
use std::ffi::OsString;
use std::io::{BufRead, BufReader, PipeWriter, Write, pipe};
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How long the child may take for one answer.
const ANSWER: Duration = Duration::from_secs(30);
/// How long it may take to exit after its last line.
const EXIT: Duration = Duration::from_secs(5);

/// How the child is started: the words before `--gpu …`.
#[derive(Clone, Debug)]
pub struct HoldCommand {
    /// Program and first arguments.
    pub words: Vec<String>,
    /// The management library's file, so that both sides use the same.
    pub library: Option<PathBuf>,
    /// The lease file.
    pub lease: PathBuf,
}

impl HoldCommand {
    /// This program as its own root child: through `sudo -n` unless we are root.
    ///
    /// # Errors
    /// When the path of this program is not known.
    pub fn new(library: Option<PathBuf>, lease: PathBuf) -> Result<Self> {
        let exe = std::env::current_exe().context("failed to find this program's own file")?;
        let sudo = if rustix::process::geteuid().is_root() { vec![] } else { vec!["sudo".to_owned(), "-n".to_owned()] };
        let own = [exe.display().to_string(), "clocks".to_owned(), "hold".to_owned()];
        Ok(Self { words: sudo.into_iter().chain(own).collect(), library, lease })
    }

    fn spawn(&self, gpu: &str, request: &[String]) -> Result<Conversation> {
        // A directory that the root child made would be root's.
        if let Some(dir) = self.lease.parent() {
            fs_err::create_dir_all(dir)?;
        }
        let (program, own) = self.words.split_first().context("no program holds clocks")?;
        let mut args: Vec<OsString> = own.iter().map(OsString::from).collect();
        args.extend(["--gpu", gpu].map(OsString::from));
        args.extend(request.iter().map(OsString::from));
        args.extend(["--lease".into(), self.lease.clone().into()]);
        args.extend(self.library.iter().flat_map(|library| ["--library".into(), library.into()]));
        let path = std::env::var_os("PATH").unwrap_or_default();
        let command = duct::cmd(program, args).full_env([("PATH", path)]).stderr_capture().unchecked();
        Conversation::start(command, program.ends_with("sudo")).map_err(|error| {
            let message =
                format!("failed to start `{}`, which locks the clocks as root: {error}", self.words.join(" "));
            fail(ExitCode::Environment, message, "run as root, or use `--clocks observe`")
        })
    }
}

/// A lock held by a child. Dropping it lets go.
pub struct Held(Arc<Mutex<Option<Conversation>>>);

/// What is held now, so that [`restore_all`] finds it.
static HELD: Mutex<Vec<Arc<Mutex<Option<Conversation>>>>> = Mutex::new(Vec::new());

/// What the child said of a lock.
#[derive(Clone, Debug)]
pub struct Lock {
    /// The SM clock asked of the library.
    pub mhz: u32,
    /// Whether memory is locked too.
    pub memory: bool,
    /// Setter calls so far.
    pub setter_calls: u32,
    /// What was refused, in words.
    pub notes: Vec<String>,
}

impl Held {
    /// Starts a child that locks `mhz`.
    ///
    /// # Errors
    /// When it cannot be started, is not permitted, or does not answer. Nothing stays locked then.
    pub fn start(command: &HoldCommand, gpu: &str, mhz: u32) -> Result<(Self, Lock)> {
        let mut conversation = command.spawn(gpu, &["--mhz".to_owned(), mhz.to_string()])?;
        let lock = match conversation.lock_answer() {
            Ok(lock) => lock,
            Err(error) => return Err(both(error, conversation.finish().err())),
        };
        let held = Self(Arc::new(Mutex::new(Some(conversation))));
        everything().push(Arc::clone(&held.0));
        Ok((held, lock))
    }

    /// Asks for another clock.
    ///
    /// # Errors
    /// When it is refused, or the child is gone.
    pub fn relock(&self, mhz: u32) -> Result<Lock> {
        let mut inner = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let conversation = inner.as_mut().context("the clocks were let go already")?;
        conversation.ask(mhz)?;
        conversation.lock_answer()
    }

    /// Ends the hold and waits until the child has restored the clocks; returns all setter calls.
    ///
    /// # Errors
    /// When it could not restore, or died before.
    pub fn end(self) -> Result<u32> {
        end(&self.0)
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        if let Err(error) = end(&self.0) {
            host::tell!("{error:#}; to restore the clocks: {RESTORE}");
        }
    }
}

/// Ends every hold of this process, after an interruption. Prints what cannot be restored.
pub fn restore_all() -> Vec<anyhow::Error> {
    let all = std::mem::take(&mut *everything());
    all.iter().filter_map(|held| end(held).err()).collect()
}

/// Resets both locks of `gpu` through a root child and removes the lease; gives the setter calls made.
///
/// # Errors
/// When it is not permitted, fails, or a living process holds the lease.
pub fn restore_by_child(command: &HoldCommand, gpu: &str) -> Result<u32> {
    command.spawn(gpu, &["--restore".to_owned()])?.finish()
}

/// An error, with one met while restoring the clocks.
pub(super) fn both(error: anyhow::Error, restore: Option<anyhow::Error>) -> anyhow::Error {
    match restore {
        None => error,
        Some(restore) => error.context(format!("{restore:#} (`{RESTORE}`); and before that")),
    }
}

const RESTORE: &str = "cargo xtask clocks restore";

fn everything() -> std::sync::MutexGuard<'static, Vec<Arc<Mutex<Option<Conversation>>>>> {
    HELD.lock().unwrap_or_else(PoisonError::into_inner)
}

fn end(held: &Arc<Mutex<Option<Conversation>>>) -> Result<u32> {
    everything().retain(|other| !Arc::ptr_eq(other, held));
    let conversation = held.lock().unwrap_or_else(PoisonError::into_inner).take();
    conversation.map_or(Ok(0), Conversation::finish)
}

/// A running child with its three pipes.
struct Conversation {
    child: duct::Handle,
    stdin: Option<PipeWriter>,
    lines: Receiver<Said>,
    sudo: bool,
    /// Whether it ever printed a line: a child that did not, and is gone, has locked nothing, or left a lease.
    spoke: bool,
}

impl Conversation {
    fn start(command: duct::Expression, sudo: bool) -> std::io::Result<Self> {
        let ((stdin, to_stdin), (stdout, to_stdout)) = (pipe()?, pipe()?);
        // The child's ends of the pipes are closed in this process here.
        let child = command.stdin_file(stdin).stdout_file(to_stdout).start()?;
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                // Lines that are not the child's, such as a message of sudo, are skipped.
                if let Ok(said) = serde_json::from_str(&line)
                    && sender.send(said).is_err()
                {
                    return;
                }
            }
        });
        Ok(Self { child, stdin: Some(to_stdin), lines, sudo, spoke: false })
    }

    fn ask(&mut self, mhz: u32) -> Result<()> {
        let asked = self.stdin.as_mut().map(|stdin| writeln!(stdin, "{mhz}").and_then(|()| stdin.flush()));
        match asked {
            Some(Ok(())) => Ok(()),
            _ => Err(self.broken("does not listen any more")),
        }
    }

    fn lock_answer(&mut self) -> Result<Lock> {
        let answer = self.lines.recv_timeout(ANSWER);
        self.spoke |= answer.is_ok();
        match answer {
            Ok(Said::Locked { mhz, memory, setter_calls, notes }) => Ok(Lock { mhz, memory, setter_calls, notes }),
            Ok(Said::Refused { code, message, remedy, .. }) => Err(fail(code, message, remedy)),
            Ok(Said::Restored { .. }) => Err(self.broken("let go early")),
            Err(RecvTimeoutError::Timeout) => Err(self.broken("does not answer")),
            Err(RecvTimeoutError::Disconnected) => Err(self.broken("ended without an answer")),
        }
    }

    /// Closes stdin, and waits for the last line and the exit.
    fn finish(mut self) -> Result<u32> {
        let ended = matches!(self.child.try_wait(), Ok(Some(_)));
        if self.stdin.take().is_none() && !self.spoke && ended {
            return Ok(0);
        }
        let deadline = Instant::now() + ANSWER;
        loop {
            match self.lines.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
                Ok(Said::Restored { setter_calls, problems }) if problems.is_empty() => {
                    self.reap();
                    return Ok(setter_calls);
                }
                Ok(Said::Restored { problems, .. }) => {
                    self.reap();
                    let message = format!("clocks could not be restored: {}", problems.join("; "));
                    return Err(fail(ExitCode::Environment, message, RESTORE));
                }
                Ok(Said::Refused { code, message, remedy, .. }) => {
                    self.reap();
                    return Err(fail(code, message, remedy));
                }
                Ok(Said::Locked { .. }) => {}
                Err(RecvTimeoutError::Timeout) => return Err(self.broken("did not say that it restored the clocks")),
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(self.broken("ended without saying that it restored the clocks"));
                }
            }
        }
    }

    /// An error with whatever the child wrote to stderr. The child is ended and waited for as far as it lets us.
    fn broken(&mut self, what: &str) -> anyhow::Error {
        self.stdin = None;
        let stderr = self.reap();
        let words = if stderr.is_empty() { "it said nothing".to_owned() } else { format!("it said: {stderr}") };
        let remedy = if self.sudo {
            "`sudo -v` and the same again, or use `--clocks observe`"
        } else {
            "use `--clocks observe`"
        };
        fail(ExitCode::Environment, format!("the clock holder {what}; {words}"), remedy)
    }

    /// Waits a while for the exit, and gives what the child wrote to stderr. One that hangs in the driver is left to its end of
    /// file: nobody can end it.
    fn reap(&self) -> String {
        let ended = self.child.wait_timeout(EXIT).ok().flatten();
        ended.map(|output| String::from_utf8_lossy(&output.stderr).trim().to_owned()).unwrap_or_default()
    }
}
