//! Programs in a hardened container: no network, no capabilities, read-only root, the caller's uid, one writable folder.
//!
//! The container is removed on every exit path of ours. When we are killed outright its stdin closes, and [`super::sweep()`]
//! removes what is left at the next start.

use super::engine::{Engine, last};
use super::gpu::GpuAccess;
use super::owner::{OWNER_LABEL, Owner};
use super::{Runtime, Task};
use crate::failure::fail;
use crate::world::process::{Child, Ended};
use anyhow::Result;
use schema::ExitCode;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// What every container is held to, as it is recorded.
pub const HARDENING: &[&str] = &[
    "--network=none",
    "--cap-drop=ALL",
    "--security-opt=no-new-privileges",
    "--read-only",
    "--tmpfs=/tmp:rw,exec,nosuid,nodev,mode=1777",
    "--pids-limit=8192",
];

/// Containers of one image.
#[derive(Clone, Debug)]
pub struct DockerRuntime {
    /// The client.
    pub engine: Engine,
    /// The image's id, never its tag.
    pub image: String,
    /// User and group inside.
    pub user: (u32, u32),
    /// How the GPU gets in.
    pub gpu_access: GpuAccess,
    /// Added to the image's own environment.
    pub env: Vec<(String, String)>,
    /// Folders that every container may read, e.g. this machine's Rust where the image has none.
    pub readable: Vec<PathBuf>,
}

impl Runtime for DockerRuntime {
    fn name(&self) -> &'static str {
        "docker"
    }

    fn run(&self, task: &Task, on_line: &mut dyn FnMut(&str)) -> Result<Ended> {
        self.run_watched(task, on_line, &|| false)
    }

    fn run_watched(&self, task: &Task, on_line: &mut dyn FnMut(&str), overdue: &dyn Fn() -> bool) -> Result<Ended> {
        self.check_folders(task)?;
        let name = container_name(&task.label);
        let child = Child {
            hold_stdin: task.hold_stdin,
            ..self.engine.child(self.args(task, &name, &Owner::this()), task.deadline)
        };
        let ended = child.run_watched(on_line, overdue);
        match ended {
            Ok(ended) if ended.timed_out || ended.code.is_none() => {
                self.remove(&name)?;
                Ok(ended)
            }
            Ok(ended) => match refusal(&ended) {
                Some(said) => {
                    self.remove(&name)?;
                    let remedy = "cargo xtask doctor";
                    Err(fail(ExitCode::Environment, format!("docker cannot start {}: {said}", task.label), remedy))
                }
                None => Ok(ended),
            },
            // The first error says why we stop; one about the removal adds to it.
            Err(error) => Err(match self.remove(&name) {
                Ok(()) => error,
                Err(also) => error.context(format!("{also:#}")),
            }),
        }
    }
}

impl DockerRuntime {
    /// Docker makes a missing folder itself, as root's, and splits a path at a colon.
    fn check_folders(&self, task: &Task) -> Result<()> {
        let bad = |path: &&PathBuf| !path.is_absolute() || !path.exists() || path.to_string_lossy().contains(':');
        let mut folders = self.readable.iter().chain(&task.readable).chain([&task.writable]);
        match folders.find(bad) {
            None => Ok(()),
            Some(path) => Err(fail(
                ExitCode::Environment,
                format!(
                    "{} cannot be mounted for {}: it is missing, relative or has a colon",
                    path.display(),
                    task.label
                ),
                "ls -ld the folder; move the checkout if its path has a colon",
            )),
        }
    }

    fn args(&self, task: &Task, name: &str, owner: &Owner) -> Vec<String> {
        let mut args: Vec<String> = vec!["run".into(), "--rm".into(), format!("--name={name}")];
        args.push(format!("--label={OWNER_LABEL}={owner}"));
        args.extend(HARDENING.iter().map(|flag| (*flag).to_owned()));
        args.push(format!("--user={}:{}", self.user.0, self.user.1));
        // Output reaches us over the attached streams; the engine keeps no second copy.
        args.push("--log-driver=none".into());
        args.push("--entrypoint=".into());
        if task.hold_stdin {
            args.push("--interactive".into());
        }
        for path in self.readable.iter().chain(&task.readable) {
            args.push(format!("--volume={0}:{0}:ro", path.display()));
        }
        args.push(format!("--volume={0}:{0}:rw", task.writable.display()));
        args.push(format!("--workdir={}", task.writable.display()));
        if task.gpu {
            args.extend(self.gpu_access.args());
        }
        args.extend(self.env.iter().chain(&task.env).map(|(key, value)| format!("--env={key}={value}")));
        args.extend([self.image.clone(), task.program.clone()]);
        args.extend(task.args.iter().cloned());
        args
    }

    /// Kills and removes a container, also after we were asked to stop; one that is not there is removed already.
    fn remove(&self, name: &str) -> Result<()> {
        let args = ["rm", "--force", "--volumes", name].map(String::from).to_vec();
        let ended = self.engine.child(args, Duration::from_secs(30)).run_cleanup()?;
        if ended.code == Some(0) || goes_by_itself(&ended.stderr) {
            return Ok(());
        }
        Err(fail(
            ExitCode::Environment,
            format!("container {name} could not be removed: {}", last(&ended.stderr)),
            format!("docker rm --force {name}"),
        ))
    }
}

/// Whether a container that could not be removed is gone, or being removed by the engine itself.
pub(super) fn goes_by_itself(said: &str) -> bool {
    said.contains("No such container") || said.contains("already in progress")
}

/// What docker itself says when the program never ran.
fn refusal(ended: &Ended) -> Option<String> {
    let said = ended.stderr.lines().find(|line| line.starts_with("docker: "));
    match ended.code {
        Some(125) => Some(said.map_or_else(|| last(&ended.stderr), str::to_owned)),
        Some(126 | 127) => said.map(str::to_owned),
        _ => None,
    }
}

fn container_name(label: &str) -> String {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let safe = label.replace(|c: char| !c.is_ascii_alphanumeric() && c != '-', "-");
    format!("assay-{safe}-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed))
}

#[cfg(test)]
mod tests;
