//! Where a step's programs run: in a hardened container, on the host, or in the container we are already in.
//!
//! Every path is the same inside as outside: mounts keep their absolute path. A step never knows which runtime it got.

mod docker;
mod engine;
mod gpu;
mod host;
mod owner;
mod removal;

pub use docker::{DockerRuntime, HARDENING, LIMITS};
pub use engine::{Engine, EngineFacts, EngineState, Image, ImageId, RegistryDigest};
pub use engine::{failed, last, refused};
pub use gpu::{GpuAccess, cdi_files, device_nodes, driver_libraries};
pub use host::HostRuntime;
pub use owner::{Leftover, leftovers, sweep};

use super::process::Ended;
use crate::failure::fail;
use anyhow::Result;
use schema::ExitCode;
use std::path::PathBuf;
use std::time::Duration;
use words::docker_says;

/// A program to run wherever the runtime runs things.
#[derive(Clone, Debug)]
pub struct Task {
    /// A word for names and messages, e.g. `build`, `sanitize-memcheck`.
    pub label: String,
    /// The program's absolute path, or a name on the toolkit's PATH.
    pub program: String,
    /// Its arguments.
    pub args: Vec<String>,
    /// Added to the runtime's own stated environment.
    pub env: Vec<(String, String)>,
    /// Directories it may read.
    pub readable: Vec<PathBuf>,
    /// The one directory it may write.
    pub writable: PathBuf,
    /// Whether it needs the GPU.
    pub gpu: bool,
    /// After this long it is killed and the end confirmed.
    pub deadline: Duration,
    /// Keep its stdin open as long as we live.
    pub hold_stdin: bool,
}

/// Where programs run.
pub trait Runtime: Sync {
    /// `docker`, `host` or `inside`.
    fn name(&self) -> &'static str;

    /// Runs a task to its end; `on_line` sees each line of stdout as it comes.
    ///
    /// # Errors
    /// When it cannot be started. A non-zero exit is not an error here: the caller judges.
    fn run(&self, task: &Task, on_line: &mut dyn FnMut(&str)) -> Result<Ended>;

    /// As [`Runtime::run`], and also ended as by its deadline once `overdue` says so, which is asked while the task is silent.
    /// A runtime without this leaves a silent task to its deadline.
    ///
    /// # Errors
    /// As [`Runtime::run`].
    fn run_watched(&self, task: &Task, on_line: &mut dyn FnMut(&str), overdue: &dyn Fn() -> bool) -> Result<Ended> {
        let _ = overdue;
        self.run(task, on_line)
    }
}

/// If a program failed for lack of disk or memory, that says nothing about its input.
fn unless_exhausted(label: &str, ended: Ended) -> Result<Ended> {
    match docker_says::exhausted(&ended.stderr) {
        Some(said) if ended.code != Some(0) => Err(fail(
            ExitCode::Environment,
            format!("{}; its output is not used", said.message(label)),
            said.kind.remedy(),
        )),
        _ => Ok(ended),
    }
}
