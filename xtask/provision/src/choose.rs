//! What this machine offers: a runtime that is merely unavailable is passed over, one that refuses is an error.

use host::container::{Engine, EngineFacts, EngineState};
use host::failure::Denied;
use host::process::own_environment;
use std::path::{Path, PathBuf};
use words::docker_says::Kind;

/// Where programs shall run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum RuntimeChoice {
    /// Docker where an engine answers and a base is at hand, else where we are.
    Auto,
    /// A hardened container, or nothing.
    Docker,
    /// This machine.
    Host,
    /// The provider's container that we are already in.
    Inside,
}

/// What this machine offers.
#[derive(Clone, Debug)]
pub struct Machine {
    /// `/`.
    pub root: PathBuf,
    /// The caller's environment.
    pub env: Vec<(String, String)>,
    /// The docker client, if there is one.
    pub engine: Option<Engine>,
    /// What it says.
    pub state: EngineState,
    /// How we know that we are in a container already.
    pub inside: Option<String>,
}

impl Machine {
    /// Looks at the machine we run on.
    pub fn look() -> Self {
        let (root, env) = (PathBuf::from("/"), own_environment());
        let engine = Engine::find();
        let state = engine.as_ref().map_or(EngineState::Absent, Engine::state);
        let inside = inside_why(&root, &env);
        Self { root, env, engine, state, inside }
    }

    /// One variable of the caller.
    pub fn var(&self, key: &str) -> Option<&str> {
        self.env.iter().find(|(name, _)| name == key).map(|(_, value)| value.as_str())
    }

    /// The engine, if it answers.
    pub(super) fn ready(&self) -> Result<(&Engine, &EngineFacts), Denied> {
        let (found, remedy) = match (&self.engine, &self.state) {
            (Some(engine), EngineState::Ready(facts)) => return Ok((engine, facts)),
            (_, state) => explain(state),
        };
        Err(Denied::cannot(found, remedy))
    }
}

/// What an engine's state means, and what to type.
pub fn explain(state: &EngineState) -> (String, String) {
    match state {
        EngineState::Ready(facts) => (facts.line(), String::new()),
        EngineState::Absent => {
            ("no docker client on PATH".into(), "sudo apt-get install docker.io, or --runtime host".into())
        }
        EngineState::Refused(refused) if refused.kind == Kind::Unknown => {
            (refused.message("docker does not answer as expected"), "docker info".into())
        }
        EngineState::Refused(refused) => (refused.message("docker does not answer"), refused.kind.remedy().into()),
    }
}

/// How we know that we are in a container, if we are.
pub fn inside_why(root: &Path, env: &[(String, String)]) -> Option<String> {
    let variable = env.iter().map(|(key, _)| key).find(|key| {
        key.starts_with("RUNPOD_") || key.starts_with("VAST_") || key.as_str() == "KUBERNETES_SERVICE_HOST"
    });
    if let Some(key) = variable {
        return Some(format!("in a provider's container: {key} is set"));
    }
    if let Some(file) = [".dockerenv", "run/.containerenv"].iter().find(|file| root.join(file).exists()) {
        return Some(format!("in a container: /{file} is there"));
    }
    let groups = std::fs::read_to_string(root.join("proc/1/cgroup")).unwrap_or_default();
    let word = ["/docker/", "/kubepods", "/lxc/", "/libpod-"].iter().find(|word| groups.contains(**word))?;
    Some(format!("in a container: /proc/1/cgroup says {word}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine(files: &[(&str, &str)]) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = root.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        root
    }

    #[test]
    fn a_container_is_known_by_any_of_its_marks() {
        let check = |files: &[(&str, &str)], env: &[(&str, &str)], expected: Option<&str>| {
            let env: Vec<_> = env.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
            let found = inside_why(machine(files).path(), &env);
            assert_eq!(found.is_some(), expected.is_some(), "{found:?}");
            assert!(found.unwrap_or_default().contains(expected.unwrap_or_default()));
        };
        check(&[("proc/1/cgroup", "0::/init.scope\n")], &[("HOME", "/root")], None);
        check(&[(".dockerenv", "")], &[], Some("/.dockerenv"));
        check(&[("run/.containerenv", "")], &[], Some("containerenv"));
        check(&[("proc/1/cgroup", "3:cpu:/docker/ab\n")], &[], Some("/docker/"));
        check(&[], &[("RUNPOD_POD_ID", "x")], Some("RUNPOD_POD_ID"));
        check(&[], &[("VAST_CONTAINERLABEL", "x")], Some("VAST_CONTAINERLABEL"));
    }

    #[test]
    fn each_state_has_its_own_words_and_remedy() {
        let refused = |kind| EngineState::Refused(words::docker_says::Refusal { kind, said: "x".into() });
        let states = [EngineState::Absent, refused(Kind::Down), refused(Kind::Forbidden), refused(Kind::Unknown)];
        let remedies: std::collections::BTreeSet<String> = states.iter().map(|state| explain(state).1).collect();
        assert_eq!(remedies.len(), states.len());
    }
}
