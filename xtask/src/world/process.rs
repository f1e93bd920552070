//! Child processes: an empty environment plus a stated list, a deadline, and a confirmed end.

use anyhow::Result;
use std::path::PathBuf;
use std::time::Duration;

/// A program to run on the host.
#[derive(Clone, Debug)]
pub struct Child {
    /// The program: a path, or a name looked up on PATH.
    pub program: PathBuf,
    /// Its arguments.
    pub args: Vec<String>,
    /// The whole environment it sees.
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
    /// Its stdout.
    pub stdout: String,
    /// Its stderr.
    pub stderr: String,
}

impl Child {
    /// Runs the child to its end; `on_line` sees each line of stdout as it comes.
    ///
    /// # Errors
    /// When it cannot be started. A non-zero exit is not an error here: the caller judges.
    pub fn run(&self, on_line: &mut dyn FnMut(&str)) -> Result<Ended> {
        let _ = on_line;
        anyhow::bail!("not written yet")
    }
}
