//! The docker client: whether an engine answers, what it can do, and its images.
//!
//! Absent, down and forbidden are three different findings with three different remedies.

use crate::failure::fail;
use crate::world::process::{Child, Ended, find_program};
use anyhow::{Context, Result};
use schema::ExitCode;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A docker client with its stated environment.
#[derive(Clone, Debug)]
pub struct Engine {
    /// The client.
    pub docker: PathBuf,
    /// All it sees.
    pub env: Vec<(String, String)>,
}

/// Whether an engine answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EngineState {
    /// It answers.
    Ready(Box<EngineFacts>),
    /// There is no docker client on PATH.
    Absent,
    /// The client finds no daemon.
    Down(String),
    /// The daemon's socket is not ours to open.
    Forbidden(String),
    /// It says something else.
    Unknown(String),
}

/// What an engine says of itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct EngineFacts {
    /// Version of the daemon; empty when none answered.
    pub server_version: String,
    /// Storage driver.
    pub driver: String,
    /// `1` or `2`.
    pub cgroup_version: String,
    /// Security options, `name=rootless` among them.
    pub security_options: Option<Vec<String>>,
    /// Registered runtimes by name.
    pub runtimes: Option<BTreeMap<String, serde_json::Value>>,
    /// Where it looks for CDI specifications; absent when CDI is off.
    #[serde(rename = "CDISpecDirs")]
    pub cdi_spec_dirs: Option<Vec<String>>,
    /// What it keeps its images in.
    pub docker_root_dir: String,
}

impl EngineFacts {
    /// Engine and version in one line.
    pub fn line(&self) -> String {
        format!("docker {}", self.server_version)
    }

    /// Whether the engine runs as the caller, so that uid 0 inside is the caller.
    pub fn rootless(&self) -> bool {
        self.security_options.iter().flatten().any(|option| option == "name=rootless")
    }
}

/// One image as the engine describes it.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct Image {
    /// Its id.
    pub id: String,
    /// Its configuration.
    pub config: ImageConfig,
}

/// The part of an image's configuration that is looked at.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct ImageConfig {
    /// Labels.
    pub labels: Option<BTreeMap<String, String>>,
}

impl Engine {
    /// The client on the caller's PATH, with the few variables it needs.
    pub fn find() -> Option<Self> {
        let stated = ["PATH", "HOME", "DOCKER_HOST", "DOCKER_CONFIG", "DOCKER_CONTEXT", "XDG_RUNTIME_DIR"];
        let env = stated.iter().filter_map(|key| Some(((*key).to_owned(), std::env::var(key).ok()?))).collect();
        Self::with(env)
    }

    /// The client on the PATH of `env`.
    pub fn with(env: Vec<(String, String)>) -> Option<Self> {
        let search = &env.iter().find(|(key, _)| key == "PATH")?.1;
        let docker = find_program(Path::new("docker"), search)?;
        Some(Self { docker, env })
    }

    /// Whether it answers, and what it is.
    pub fn state(&self) -> EngineState {
        match self.call(&["info", "--format", "{{json .}}"], Duration::from_secs(20)) {
            Ok(ended) => judge(&ended),
            Err(error) => EngineState::Unknown(format!("{error:#}")),
        }
    }

    /// The image behind a reference, if it is here.
    ///
    /// # Errors
    /// When the client cannot be run or answers with something that is not an image.
    pub fn image(&self, reference: &str) -> Result<Option<Image>> {
        let ended = self.call(&["image", "inspect", reference], Duration::from_secs(20))?;
        if ended.code != Some(0) {
            return Ok(None);
        }
        let images: Vec<Image> = serde_json::from_str(&ended.stdout).context("failed to read docker image inspect")?;
        Ok(images.into_iter().next())
    }

    /// Runs the client to its end.
    ///
    /// # Errors
    /// When it cannot be started, or we were asked to stop.
    pub fn call(&self, args: &[&str], deadline: Duration) -> Result<Ended> {
        self.child(args.iter().map(|arg| (*arg).to_owned()).collect(), deadline).run(&mut |_| {})
    }

    /// Runs the client to its end and takes its stdout.
    ///
    /// # Errors
    /// When it fails in any way; the message names what was asked and what docker said.
    pub fn answer(&self, args: &[&str], deadline: Duration) -> Result<String> {
        let ended = self.call(args, deadline)?;
        if ended.code == Some(0) {
            return Ok(ended.stdout);
        }
        let how =
            if ended.timed_out { format!("no answer within {} s", deadline.as_secs()) } else { last(&ended.stderr) };
        Err(fail(ExitCode::Environment, format!("docker {}: {how}", args[0]), "cargo xtask doctor"))
    }

    /// The client as a child.
    pub(super) fn child(&self, args: Vec<String>, deadline: Duration) -> Child {
        Child {
            program: self.docker.clone(),
            args,
            env: self.env.clone(),
            dir: "/".into(),
            deadline,
            hold_stdin: false,
        }
    }
}

fn judge(ended: &Ended) -> EngineState {
    let said = last(&ended.stderr);
    match serde_json::from_str::<EngineFacts>(&ended.stdout) {
        _ if ended.timed_out => EngineState::Unknown("docker info gives no answer".into()),
        Ok(facts) if !facts.server_version.is_empty() => EngineState::Ready(Box::new(facts)),
        _ if said.contains("permission denied") => EngineState::Forbidden(said),
        _ if said.contains("Cannot connect to the Docker daemon")
            || said.contains("failed to connect to the docker API") =>
        {
            EngineState::Down(said)
        }
        _ => EngineState::Unknown(said),
    }
}

/// The last line that says something.
pub(crate) fn last(text: &str) -> String {
    text.lines().rev().map(str::trim).find(|line| !line.is_empty()).unwrap_or("it said nothing").to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ended(stdout: &str, stderr: &str) -> Ended {
        Ended { code: Some(1), timed_out: false, stdout: stdout.into(), stderr: stderr.into() }
    }

    // Captured from client 28.2.2 and engine 20.10.24; the name and id of the machine are replaced.
    const UP: &str = include_str!("../../../fixtures/docker/up.json");
    const DOWN: [&str; 2] =
        [include_str!("../../../fixtures/docker/down.json"), include_str!("../../../fixtures/docker/down.stderr")];
    const FORBIDDEN: [&str; 2] = [
        include_str!("../../../fixtures/docker/permission.json"),
        include_str!("../../../fixtures/docker/permission.stderr"),
    ];

    #[test]
    fn an_engine_that_answers_says_what_it_is() {
        let EngineState::Ready(facts) = judge(&ended(UP, "")) else { panic!("not ready") };
        assert_eq!(facts.line(), "docker 20.10.24+dfsg1");
        assert_eq!((facts.cgroup_version.as_str(), facts.rootless()), ("1", false));
        assert_eq!(facts.cdi_spec_dirs, None);
    }

    #[test]
    fn down_and_forbidden_are_different_findings() {
        assert!(matches!(judge(&ended(DOWN[0], DOWN[1])), EngineState::Down(_)));
        assert!(matches!(judge(&ended(FORBIDDEN[0], FORBIDDEN[1])), EngineState::Forbidden(_)));
        assert!(matches!(judge(&ended("", "what?")), EngineState::Unknown(said) if said == "what?"));
    }

    #[test]
    fn without_a_client_on_path_there_is_no_engine() {
        assert!(Engine::with(vec![("PATH".into(), "/nonexistent".into())]).is_none());
    }
}
