//! Programs in a hardened container: no network, no capabilities, read-only root, the caller's uid, one writable folder.
//!
//! The engine keeps an ended container until we have read how it ended; then it is removed, on every exit path of ours. When we
//! are killed outright its stdin closes, and [`super::sweep()`] removes what is left at the next start.

use super::engine::{Engine, ImageId};
use super::gpu::GpuAccess;
use super::owner::{OWNER_LABEL, Owner};
use super::removal::{Client, NAME_LABEL, remove};
use super::{Runtime, Task, unless_exhausted};
use crate::failure::fail;
use crate::process::{Child, Ended};
use anyhow::Result;
use schema::ExitCode;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;
use words::container_end::{End, STATE_FORMAT, State, judge, read_state};

/// What every container is held to, as it is recorded.
pub const HARDENING: &[&str] = &[
    "--network=none",
    "--cap-drop=ALL",
    "--security-opt=no-new-privileges",
    "--read-only",
    "--tmpfs=/tmp:rw,exec,nosuid,nodev,mode=1777",
    "--pids-limit=8192",
];

/// Limits that engines set too low for CUDA: page-locked host memory counts as locked, and 64 MB of shared memory end in a bus
/// error. An engine without root may not raise the first.
pub const LIMITS: &[&str] = &["--shm-size=1g", "--ulimit=memlock=-1:-1"];

/// Containers of one image.
#[derive(Clone, Debug)]
pub struct DockerRuntime {
    /// The client.
    pub engine: Engine,
    /// The image, never by its tag.
    pub image: ImageId,
    /// User and group inside.
    pub user: (u32, u32),
    /// What of [`LIMITS`] this engine may set.
    pub limits: Vec<String>,
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
            Ok(ended) => {
                let state = self.state(&name, &ended);
                let client = match ended.code {
                    Some(0) => Client::Well,
                    Some(_) => Client::Badly,
                    None => Client::Killed,
                };
                self.removed(&name, client, self.judged(task, ended, state.as_ref()))
            }
            Err(error) => self.removed(&name, Client::Killed, Err(error)),
        }
    }
}

impl DockerRuntime {
    /// What the engine recorded of a container whose program did not end well; absent when it knows none or does not answer.
    fn state(&self, name: &str, ended: &Ended) -> Option<State> {
        ended.code.filter(|code| *code != 0)?;
        let args = ["inspect", "--type=container", "--format", STATE_FORMAT, name].map(String::from).to_vec();
        let answer = self.engine.child(args, Duration::from_secs(20)).run_cleanup().ok()?;
        (answer.code == Some(0)).then(|| read_state(&answer.stdout))?
    }

    /// The outcome, once the container is gone. The first error says why we stop; one about the removal adds to it.
    fn removed(&self, name: &str, client: Client, outcome: Result<Ended>) -> Result<Ended> {
        match (outcome, remove(&self.engine, name, client)) {
            (outcome, Ok(())) => outcome,
            (Ok(_), Err(also)) => Err(also),
            (Err(error), Err(also)) => Err(error.context(format!("{also:#}"))),
        }
    }

    /// The program's own end, or what docker or the machine did to it.
    fn judged(&self, task: &Task, ended: Ended, state: Option<&State>) -> Result<Ended> {
        let Some(code) = ended.code else { return Ok(ended) };
        let label = &task.label;
        let surroundings = |what: &str, remedy: &str| {
            Err(fail(ExitCode::Environment, format!("{label} in its container (exit code {code}): {what}"), remedy))
        };
        match judge(code, &ended.stderr, state) {
            End::Own if code == 0 => Ok(ended),
            End::Own => unless_exhausted(label, ended),
            End::Refused(said) => {
                let message = said.message(&format!("docker cannot start {label} (exit code {code})"));
                Err(fail(ExitCode::Environment, message, said.kind.remedy()))
            }
            End::Starved => surroundings(
                "memory ran out, and the kernel killed it",
                "free -m; end other programs, or take a machine with more memory",
            ),
            End::Killed => surroundings(
                "killed from outside: docker kill, a restart of the daemon, or the machine's memory",
                "dmesg | grep -i 'killed process'; then the same command again",
            ),
            End::Bus => surroundings(
                "a bus error: no room in shared memory (/dev/shm), or a mapped file on a full disk",
                "df -h /dev/shm . ; then the same command again",
            ),
        }
    }

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
        let mut args: Vec<String> = vec!["run".into(), "--pull=never".into(), format!("--name={name}")];
        args.push(format!("--label={OWNER_LABEL}={owner}"));
        args.push(format!("--label={NAME_LABEL}={name}"));
        args.extend(HARDENING.iter().map(|flag| (*flag).to_owned()));
        args.extend(self.limits.iter().cloned());
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
        args.extend([self.image.to_string(), task.program.clone()]);
        args.extend(task.args.iter().cloned());
        args
    }
}

fn container_name(label: &str) -> String {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let safe = label.replace(|c: char| !c.is_ascii_alphanumeric() && c != '-', "-");
    format!("assay-{safe}-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed))
}

#[cfg(test)]
mod tests;
