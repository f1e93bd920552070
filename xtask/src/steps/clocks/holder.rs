//! The parent's side of the root child: starts it, asks it for clocks, and ends it on every path.
//!
//! Nothing here calls NVML. The child answers within a deadline or counts as broken, since a call into a lost GPU's driver
//! may never return.

use super::hold::Said;
use anyhow::{Context, Result};
use host::failure::fail;
use schema::ExitCode;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
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
        let mut command = Command::new(&self.words[0]);
        command.args(&self.words[1..]).args(["--gpu", gpu]).args(request).arg("--lease").arg(&self.lease);
        if let Some(library) = &self.library {
            command.arg("--library").arg(library);
        }
        command.env_clear().env("PATH", std::env::var_os("PATH").unwrap_or_default());
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let child = command.spawn().map_err(|error| {
            let message =
                format!("failed to start `{}`, which locks the clocks as root: {error}", self.words.join(" "));
            fail(ExitCode::Environment, message, "run as root, or use `--clocks observe`")
        })?;
        Conversation::with(child, self.words[0].ends_with("sudo"))
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
    /// When it cannot be started, is not let, or does not answer. Nothing stays locked then.
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

    /// Lets go and waits until the child has restored; gives the setter calls in all.
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
            host::tell!("{error:#}; to put the clocks back: {RESTORE}");
        }
    }
}

/// Lets go of every lock of this process. For the way out after an interruption; what it cannot restore, it says.
pub fn restore_all() -> Vec<anyhow::Error> {
    let all = std::mem::take(&mut *everything());
    all.iter().filter_map(|held| end(held).err()).collect()
}

/// Resets both locks of `gpu` through a root child and removes the lease; gives the setter calls made.
///
/// # Errors
/// When it is not let, cannot, or a living process holds the lease.
pub fn restore_by_child(command: &HoldCommand, gpu: &str) -> Result<u32> {
    command.spawn(gpu, &["--restore".to_owned()])?.finish()
}

/// An error, and beside it the one met while putting the clocks back.
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
    child: Child,
    stdin: Option<ChildStdin>,
    lines: Receiver<Said>,
    stderr: Option<JoinHandle<String>>,
    sudo: bool,
    /// Whether it ever said a line: one that did not, and is gone, has locked nothing or left a lease.
    spoke: bool,
}

impl Conversation {
    fn with(mut child: Child, sudo: bool) -> Result<Self> {
        let stdin = child.stdin.take();
        let stdout = child.stdout.take().context("the clock holder has no stdout")?;
        let stderr = child.stderr.take().context("the clock holder has no stderr")?;
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                // Whatever is not ours, such as a word of sudo's, is passed over.
                if let Ok(said) = serde_json::from_str(&line)
                    && sender.send(said).is_err()
                {
                    return;
                }
            }
        });
        let stderr = std::thread::spawn(move || {
            let mut text = String::new();
            let _ = BufReader::new(stderr).read_to_string(&mut text);
            text
        });
        Ok(Self { child, stdin, lines, stderr: Some(stderr), sudo, spoke: false })
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
                    let message = format!("clocks could not be put back: {}", problems.join("; "));
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
        self.reap();
        let deadline = Instant::now() + Duration::from_millis(500);
        while self.stderr.as_ref().is_some_and(|reader| !reader.is_finished()) && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(5));
        }
        let finished = self.stderr.take().filter(JoinHandle::is_finished);
        let stderr = finished.and_then(|reader| reader.join().ok()).unwrap_or_default();
        let stderr = stderr.trim();
        let words = if stderr.is_empty() { "it said nothing".to_owned() } else { format!("it said: {stderr}") };
        let remedy = if self.sudo {
            "`sudo -v` and the same again, or use `--clocks observe`"
        } else {
            "use `--clocks observe`"
        };
        fail(ExitCode::Environment, format!("the clock holder {what}; {words}"), remedy)
    }

    /// Waits a while for the exit. One that hangs in the driver is left to its end of file: nobody can end it.
    fn reap(&mut self) {
        let deadline = Instant::now() + EXIT;
        while Instant::now() < deadline {
            if !matches!(self.child.try_wait(), Ok(None)) {
                return;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}
