//! Docker: whether it is absent, not running or forbidden, which one answers, the base image, and containers left by
//! killed runs.

use super::machine::disk;
use super::{Check, DoctorOptions, container_gpu};
use crate::{BaseLock, LOCAL_BASE, Machine, explain};
use host::container::{Engine, EngineFacts, EngineState, Leftover, leftovers};
use host::machine::disk::{Disks, Place};
use host::paths::Paths;
use host::process::find_program;
use std::path::{Path, PathBuf};
use words::docker_says::{Kind, Refusal};

pub(super) fn checks(paths: &Paths, options: &DoctorOptions, machine: &Machine) -> Vec<Check> {
    let mut checks = vec![engine(options, &machine.state)];
    if let (Some(engine), EngineState::Ready(facts)) = (&machine.engine, &machine.state) {
        checks.push(base(paths, options, engine));
        checks.push(clients(machine, facts));
        checks.extend(container_gpu::checks(options, machine, facts));
        checks.push(disk("disk-docker", &Place::docker(Path::new(&facts.docker_root_dir)), &Disks));
        checks.push(left(engine));
    }
    checks
}

fn engine(options: &DoctorOptions, state: &EngineState) -> Check {
    let name = match state {
        EngineState::Ready(_) => "docker",
        EngineState::Absent => "docker-absent",
        EngineState::Refused(Refusal { kind: Kind::Down, .. }) => "docker-down",
        EngineState::Refused(Refusal { kind: Kind::Forbidden, .. }) => "docker-permission",
        EngineState::Refused(_) => "docker-unknown",
    };
    let (found, remedy) = explain(state);
    match state {
        EngineState::Ready(facts) if facts.rootless() => {
            Check::ok(name, format!("{found}, rootless, {}", facts.driver))
        }
        EngineState::Ready(facts) => Check::ok(name, format!("{found}, {}", facts.driver)),
        _ => Check::missing(name, options.only_docker(), found, remedy),
    }
}

fn base(paths: &Paths, options: &DoctorOptions, engine: &Engine) -> Check {
    const NAME: &str = "base-image";
    let lock = match BaseLock::read(&paths.docker().join("image.lock")) {
        Ok(lock) => lock,
        Err(error) => return Check::missing(NAME, true, format!("{error:#}"), "git checkout -- docker/image.lock"),
    };
    let asked = options.base.as_deref();
    let pinned = lock.base.iter().find(|base| asked.is_none_or(|name| base.name == name));
    let candidates = match (pinned, asked) {
        (Some(base), None) => vec![base.reference(), LOCAL_BASE.to_owned()],
        (Some(base), Some(_)) => vec![base.reference()],
        (None, Some(name)) => vec![name.to_owned()],
        (None, None) => vec![],
    };
    let found = candidates.iter().map(|reference| (reference, engine.image(reference)));
    match found.into_iter().find(|(_, image)| !matches!(image, Ok(None))) {
        Some((_, Err(error))) => Check::missing(
            NAME,
            options.only_docker(),
            format!("{error:#}"),
            host::failure::remedy_of(&error).unwrap_or("docker info").to_owned(),
        ),
        Some((reference, Ok(_))) => Check::ok(NAME, format!("{reference} is here")),
        None => Check::missing(
            NAME,
            options.only_docker() && (options.offline || pinned.is_none()),
            format!("not here: {}", candidates.join(", ")),
            "cargo xtask provision pulls it; without a registry, sudo cargo xtask provision --make-base makes one",
        ),
    }
}

/// Which docker answers, where several are on PATH: a snap's daemon has a root folder and a view of the driver of its own.
fn clients(machine: &Machine, facts: &EngineFacts) -> Check {
    const NAME: &str = "docker-clients";
    let mut clients: Vec<PathBuf> = Vec::new();
    for dir in std::env::split_paths(machine.var("PATH").unwrap_or_default()) {
        let Some(client) = find_program(&dir.join("docker"), "").filter(|client| client.is_file()) else { continue };
        if !clients.iter().any(|known| known.canonicalize().ok() == client.canonicalize().ok()) {
            clients.push(client);
        }
    }
    let names = clients.iter().map(|client| client.display().to_string()).collect::<Vec<_>>().join(", ");
    let is_snap = facts.docker_root_dir.contains("/snap/")
        || clients
            .first()
            .is_some_and(|c| c.canonicalize().unwrap_or_default().starts_with("/snap") || c.starts_with("/snap"));
    let remedy = "type -a docker; docker context ls; sudo snap remove docker where the packaged one is meant";
    match (is_snap, clients.len()) {
        (true, _) => Check::warn(
            NAME,
            format!(
                "a snap's docker answers ({names}; its root is {}): its GPU runtime does not see the driver",
                facts.docker_root_dir
            ),
            remedy,
        ),
        (false, 2..) => Check::warn(NAME, format!("several on PATH, the first is used: {names}"), remedy),
        _ => Check::ok(NAME, names),
    }
}

fn left(engine: &Engine) -> Check {
    const NAME: &str = "containers-left";
    match leftovers(engine) {
        Err(error) => Check::warn(NAME, format!("{error:#}"), "docker ps --all --filter label=assay.owner"),
        Ok(left) if left.is_empty() => Check::ok(NAME, "none"),
        Ok(left) => {
            let told =
                |l: &Leftover| format!("{} ({})", l.name, if l.orphan { "its run was killed" } else { "in use" });
            let names = left.iter().map(told).collect::<Vec<_>>().join(", ");
            let remedy = "the next run removes those of killed runs; wait for the others, or docker rm --force them";
            Check::warn(NAME, names, remedy)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::RuntimeChoice;
    use crate::doctor::State;

    fn options(runtime: RuntimeChoice) -> DoctorOptions {
        DoctorOptions { runtime, base: None, offline: false }
    }

    #[test]
    fn three_findings_have_three_names_and_remedies() {
        let refused = |kind| EngineState::Refused(Refusal { kind, said: "x".into() });
        let states = [EngineState::Absent, refused(Kind::Down), refused(Kind::Forbidden)];
        let found: Vec<Check> = states.iter().map(|state| engine(&options(RuntimeChoice::Auto), state)).collect();
        assert_eq!(
            found.iter().map(|c| c.name).collect::<Vec<_>>(),
            ["docker-absent", "docker-down", "docker-permission"]
        );
        assert!(found.iter().all(|check| check.state == State::Warn && !check.remedy.is_empty()));
        assert!(found[1].remedy.contains("dockerd") && found[2].remedy.contains("usermod"));
    }

    #[test]
    fn asked_for_docker_its_absence_blocks() {
        let check = engine(&options(RuntimeChoice::Docker), &EngineState::Absent);
        assert_eq!(check.state, State::Block);
    }

    fn machine(path: &str) -> Machine {
        let env = vec![("PATH".to_owned(), path.to_owned())];
        Machine { root: "/nonexistent".into(), env, engine: None, state: EngineState::Absent, inside: None }
    }

    #[test]
    fn two_dockers_and_a_snaps_are_said() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name).display().to_string();
        for name in ["a", "b", "snap/bin"] {
            std::fs::create_dir_all(dir.path().join(name)).unwrap();
            let fake = concat!(env!("CARGO_MANIFEST_DIR"), "/../fixtures/fake/docker");
            std::fs::copy(fake, dir.path().join(name).join("docker")).unwrap();
        }
        std::fs::create_dir(dir.path().join("c")).unwrap();
        std::os::unix::fs::symlink(dir.path().join("a/docker"), dir.path().join("c/docker")).unwrap();
        let facts = |root: &str| EngineFacts { docker_root_dir: root.into(), ..EngineFacts::default() };
        let found = |path: &str, root: &str| clients(&machine(path), &facts(root));
        let usual = "/var/lib/docker";
        assert_eq!(found(&at("a"), usual).state, State::Ok);
        // The same program under two names is one.
        assert_eq!(found(&format!("{}:{}", at("a"), at("c")), usual).state, State::Ok);
        let two = found(&format!("{}:{}", at("a"), at("b")), usual);
        assert!(
            two.state == State::Warn && two.found.contains("a/docker") && two.found.contains("b/docker"),
            "{two:?}"
        );
        let snap = found(&at("a"), "/var/snap/docker/common/var-lib-docker");
        assert!(snap.state == State::Warn && snap.found.contains("snap's docker"), "{snap:?}");
    }

    #[test]
    fn an_engine_that_says_something_else_is_explained_by_its_kind() {
        let said = "could not select device driver \"\" with capabilities: [[gpu]]";
        let check =
            engine(&options(RuntimeChoice::Docker), &EngineState::Refused(words::docker_says::refusal(None, said, "")));
        assert_eq!((check.name, check.state), ("docker-unknown", State::Block));
        assert!(check.found.contains("knows no GPU runtime") && check.remedy.contains("nvidia-ctk"), "{check:?}");
    }
}
