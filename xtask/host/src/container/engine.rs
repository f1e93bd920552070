//! The docker client: whether an engine answers, what it can do, and its images.
//!
//! Docker that is absent, not running or forbidden are three findings with three remedies.

use crate::failure::fail;
use crate::process::{Child, Ended, find_program, own_environment};
use anyhow::Result;
use schema::ExitCode;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;
use words::docker_says::{Kind, Refusal, refusal};

/// A docker client with its stated environment.
#[derive(Clone, Debug)]
pub struct Engine {
    /// The client.
    pub docker: PathBuf,
    /// All it sees.
    pub env: Vec<(String, String)>,
    /// How long the removal of a container may take in all.
    pub removal: Duration,
    /// How long to wait before each further attempt at what may pass, such as a limit on pulls.
    pub waits: Vec<Duration>,
}

/// How long a container's removal may take: a lost GPU keeps its programs from ending.
const REMOVAL: Duration = Duration::from_secs(90);

/// Two further attempts, the second after a long while.
const WAITS: [Duration; 2] = [Duration::from_secs(20), Duration::from_secs(60)];

/// Whether an engine answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EngineState {
    /// It answers.
    Ready(Box<EngineFacts>),
    /// There is no docker client on PATH.
    Absent,
    /// No engine of ours answers, and why.
    Refused(Refusal),
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
    /// `systemd` or `cgroupfs`.
    pub cgroup_driver: String,
    /// Security options, `name=rootless` among them.
    pub security_options: Option<Vec<String>>,
    /// Registered runtimes by name.
    pub runtimes: Option<BTreeMap<String, serde_json::Value>>,
    /// Where it looks for CDI specifications; absent when CDI is off.
    #[serde(rename = "CDISpecDirs")]
    pub cdi_spec_dirs: Option<Vec<String>>,
    /// What it keeps its images in.
    pub docker_root_dir: String,
    /// Why no daemon answered; the client's own words, which it does not always repeat on stderr.
    pub server_errors: Option<Vec<String>>,
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

/// What an engine calls an image: the digest of its configuration. No registry knows an image by it.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(transparent)]
pub struct ImageId(String);

/// What a registry calls an image: the digest of its manifest.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct RegistryDigest(String);

impl ImageId {
    /// An id as an engine prints it.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }
}

impl fmt::Display for ImageId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Display for RegistryDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl TryFrom<String> for RegistryDigest {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let is_digest = text.strip_prefix("sha256:").is_some_and(|hex| hex.parse::<schema::Digest>().is_ok());
        if is_digest { Ok(Self(text)) } else { Err(format!("{text:?} is no sha256 digest")) }
    }
}

/// One image as the engine describes it.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct Image {
    /// Its id: the digest of its configuration, which no registry knows it by.
    pub id: ImageId,
    /// Under which digests registries gave it, each as `repository@sha256:…`; none for an image made here.
    #[serde(default)]
    pub repo_digests: Option<Vec<String>>,
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

impl Image {
    /// Whether a registry gave it under this digest; an image may have several, and one made here has none.
    pub fn is_pinned_as(&self, digest: &RegistryDigest) -> bool {
        let named = |name: &String| name.rsplit_once('@').is_some_and(|(_, listed)| listed == digest.0);
        self.repo_digests.iter().flatten().any(named)
    }
}

impl Engine {
    /// The client on the caller's PATH, with the few variables it needs.
    pub fn find() -> Option<Self> {
        let stated = ["PATH", "HOME", "DOCKER_HOST", "DOCKER_CONFIG", "DOCKER_CONTEXT", "XDG_RUNTIME_DIR"];
        Self::with(own_environment().into_iter().filter(|(key, _)| stated.contains(&key.as_str())).collect())
    }

    /// The client on the PATH of `env`.
    pub fn with(env: Vec<(String, String)>) -> Option<Self> {
        let search = &env.iter().find(|(key, _)| key == "PATH")?.1;
        let docker = find_program(Path::new("docker"), search)?;
        Some(Self { docker, env, removal: REMOVAL, waits: WAITS.to_vec() })
    }

    /// Whether it answers, and what it is.
    pub fn state(&self) -> EngineState {
        match self.call(&["info", "--format", "{{json .}}"], Duration::from_secs(20)) {
            Ok(ended) => judge(&ended, || self.socket()),
            Err(error) => unknown(format!("{error:#}")),
        }
    }

    /// The daemon's socket on this machine; absent when the daemon is elsewhere.
    fn socket(&self) -> Option<PathBuf> {
        let host = self.env.iter().find(|(key, _)| key == "DOCKER_HOST").map(|(_, host)| host.as_str());
        host.unwrap_or("unix:///var/run/docker.sock").strip_prefix("unix://").map(PathBuf::from)
    }

    /// The image behind a reference; absent only when the engine says that it has none.
    ///
    /// # Errors
    /// When the client fails in any other way, or answers with something that is not an image.
    pub fn image(&self, reference: &str) -> Result<Option<Image>> {
        let ended = self.call(&["image", "inspect", reference], Duration::from_secs(20))?;
        if ended.code != Some(0) {
            let absent = !ended.timed_out && refused(&ended).kind == Kind::ImageAbsent;
            return if absent { Ok(None) } else { Err(failed("docker image inspect", &ended)) };
        }
        let images = serde_json::from_str::<Vec<Image>>(&ended.stdout).map_err(|error| {
            let message = format!("docker image inspect {reference} printed no image: {error}");
            fail(ExitCode::Environment, message, "docker version; type -a docker")
        })?;
        Ok(images.into_iter().next())
    }

    /// The name by which the engine has an image of this digest, from whatever registry it came.
    ///
    /// # Errors
    /// When the client fails.
    pub fn named_by(&self, digest: &RegistryDigest) -> Result<Option<String>> {
        let format = "{{.Repository}}@{{.Digest}}";
        let listed = self.answer(&["images", "--all", "--digests", "--format", format], Duration::from_secs(20))?;
        Ok(listed.lines().find(|line| line.ends_with(&format!("@{digest}"))).map(str::to_owned))
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
        Err(failed(&format!("docker {}", args[0]), &ended))
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

/// The exit status is looked at before what was printed: `docker info` prints an object, or an empty line, without a daemon too.
fn judge(ended: &Ended, socket: impl FnOnce() -> Option<PathBuf>) -> EngineState {
    if ended.timed_out {
        return unknown("docker info gives no answer".into());
    }
    let facts: EngineFacts = serde_json::from_str(&ended.stdout).unwrap_or_default();
    if ended.code == Some(0) && !facts.server_version.is_empty() {
        return EngineState::Ready(Box::new(facts));
    }
    if is_podman(&ended.stdout) {
        return EngineState::Refused(Refusal { kind: Kind::Elsewhere, said: "podman answers for docker".into() });
    }
    let errors = facts.server_errors.unwrap_or_default().join("\n");
    // No container is started, so a code of 126 or 127 is the client's own.
    let refused = refusal(None, &format!("{errors}\n{}", ended.stderr), &ended.stdout);
    EngineState::Refused(match (refused.kind, socket()) {
        (Kind::Unknown, Some(socket)) => by_socket(&socket, refused.said),
        _ => refused,
    })
}

fn unknown(said: String) -> EngineState {
    EngineState::Refused(Refusal { kind: Kind::Unknown, said })
}

/// Podman answers `info` under docker's name too, with an object of its own.
fn is_podman(stdout: &str) -> bool {
    serde_json::from_str::<serde_json::Value>(stdout)
        .is_ok_and(|info| info["host"].is_object() && info["store"].is_object())
}

/// What the daemon's socket tells where docker's words do not.
fn by_socket(socket: &Path, said: String) -> Refusal {
    use rustix::fs::{Access, access};
    match access(socket, Access::READ_OK | Access::WRITE_OK) {
        Ok(()) => Refusal { kind: Kind::Unknown, said },
        Err(rustix::io::Errno::ACCESS) => {
            Refusal { kind: Kind::Forbidden, said: format!("{}: {said}", socket.display()) }
        }
        Err(_) => Refusal { kind: Kind::Down, said: format!("no socket {}: {said}", socket.display()) },
    }
}

/// What a client that failed said.
pub fn refused(ended: &Ended) -> Refusal {
    refusal(ended.code, &ended.stderr, &ended.stdout)
}

/// The one error of every call of the client that failed: what was asked, what its failure means, and what to type.
pub fn failed(what: &str, ended: &Ended) -> anyhow::Error {
    if ended.timed_out {
        let remedy =
            "docker info; a daemon that hangs may need a restart by its owner, and a driver that hangs a reboot";
        return fail(ExitCode::Environment, format!("{what} gives no answer within its deadline"), remedy);
    }
    let refusal = refused(ended);
    fail(ExitCode::Environment, refusal.message(what), refusal.kind.remedy())
}

/// The last line that says something.
pub fn last(text: &str) -> String {
    text.lines().rev().map(str::trim).find(|line| !line.is_empty()).unwrap_or("it said nothing").to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ended(code: i32, stdout: &str, stderr: &str) -> Ended {
        Ended { code: Some(code), timed_out: false, stdout: stdout.into(), stderr: stderr.into() }
    }

    #[track_caller]
    fn check(state: EngineState, kind: Kind, words: &str) {
        let EngineState::Refused(refused) = state else { panic!("{state:?}") };
        assert!(refused.kind == kind && refused.said.contains(words), "{refused:?}");
    }

    fn judged(code: i32, stdout: &str, stderr: &str) -> EngineState {
        judge(&ended(code, stdout, stderr), || None)
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
        let EngineState::Ready(facts) = judged(0, UP, "") else { panic!("not ready") };
        assert_eq!(facts.line(), "docker 20.10.24+dfsg1");
        assert_eq!((facts.cgroup_version.as_str(), facts.rootless()), ("1", false));
        assert_eq!(facts.cdi_spec_dirs, None);
    }

    #[test]
    fn down_and_forbidden_are_different_findings() {
        check(judged(1, DOWN[0], DOWN[1]), Kind::Down, "");
        check(judged(1, FORBIDDEN[0], FORBIDDEN[1]), Kind::Forbidden, "");
        check(judged(1, "", "what?"), Kind::Unknown, "what?");
    }

    #[test]
    fn podman_behind_dockers_name_is_named() {
        let info = r#"{"host":{"buildahVersion":"1.28.2","security":{"rootless":true}},"store":{},"version":{"Version":"4.3.1"}}"#;
        for stderr in ["", "Emulate Docker CLI using podman. Create /etc/containers/nodocker to quiet msg."] {
            check(judged(0, info, stderr), Kind::Elsewhere, "podman");
        }
    }

    #[test]
    fn a_client_that_cannot_be_started_blames_no_image() {
        let said = "/usr/bin/docker: line 3: /usr/libexec/docker: Permission denied";
        check(judged(126, "", said), Kind::Unknown, said);
        assert_eq!(refusal(None, said, "").kind, Kind::Unknown);
    }

    #[test]
    fn an_answer_without_a_version_or_with_a_failure_is_no_engine() {
        // As client 28.2.2 prints it for a format of one field: an empty line, an empty string, and exit code 1.
        let only_on_stdout =
            r#"{"ServerErrors":["Cannot connect to the Docker daemon at unix:///x. Is it there?"],"ClientInfo":{}}"#;
        check(judged(1, only_on_stdout, ""), Kind::Down, "Cannot connect");
        for stdout in ["\n", "\"\"\n", "", "{}"] {
            check(judged(1, stdout, DOWN[1]), Kind::Down, "");
            check(judged(0, stdout, ""), Kind::Unknown, "");
        }
        check(judged(1, UP, DOWN[1]), Kind::Down, "");
    }

    #[test]
    fn where_words_do_not_tell_the_socket_does() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| Some(dir.path().join(name));
        let said = ended(1, "", "words of a version that is not known yet");
        check(judge(&said, || at("absent")), Kind::Down, "absent");
        let _listening = std::os::unix::net::UnixListener::bind(dir.path().join("there")).unwrap();
        check(judge(&said, || at("there")), Kind::Unknown, "");
        if rustix::process::geteuid().is_root() {
            eprintln!("skipped: a socket that may not be opened (root opens every one)");
            return;
        }
        use std::os::unix::fs::PermissionsExt;
        std::fs::set_permissions(dir.path().join("there"), std::fs::Permissions::from_mode(0o0)).unwrap();
        check(judge(&said, || at("there")), Kind::Forbidden, "");
    }

    #[test]
    fn an_engine_that_does_not_answer_has_not_lost_its_images() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../fixtures/fake:/usr/bin:/bin");
        let asked = |script: &str| {
            let env = [("PATH", path), ("FAKE_LOG", "/dev/null"), ("FAKE_DO", script)];
            let env = env.map(|(key, value)| (key.to_owned(), value.to_owned())).to_vec();
            Engine::with(env).unwrap().image("repro:local")
        };
        // Captured from client 28.2.2 and engine 20.10.24.
        let absent = "echo '[]'; echo 'Error response from daemon: no such image: repro:local: No such image: repro:local' >&2; exit 1";
        assert_eq!(asked(absent).unwrap(), None);
        assert_eq!(asked("echo '[]'").unwrap(), None);
        for script in [
            "",
            "exit 1",
            "echo; echo 'Cannot connect to the Docker daemon at unix:///x.sock. Is the docker daemon running?' >&2; exit 1",
            "echo '[]'; echo 'what?' >&2; exit 1",
        ] {
            assert_eq!(crate::failure::code_of(&asked(script).unwrap_err()), ExitCode::Environment);
        }
        let two = r#"echo '[{"Id":"sha256:1","RepoDigests":["a@sha256:2","a@sha256:3"],"Config":{"Labels":null}}]'"#;
        assert_eq!(asked(two).unwrap().unwrap().repo_digests.unwrap().len(), 2);
    }

    #[test]
    fn without_a_client_on_path_there_is_no_engine() {
        assert!(Engine::with(vec![("PATH".into(), "/nonexistent".into())]).is_none());
    }
}
