//! Docker: absent, down and forbidden apart; the base, GPU access, and containers that some run left.

use super::{Check, DoctorOptions};
use crate::paths::Paths;
use crate::steps::provision::{BaseLock, LOCAL_BASE, Machine, explain};
use crate::world::container::{Engine, EngineFacts, EngineState, GpuAccess, device_nodes, leftovers};

pub(super) fn checks(paths: &Paths, options: &DoctorOptions, machine: &Machine) -> Vec<Check> {
    let mut checks = vec![engine(options, &machine.state)];
    if let (Some(engine), EngineState::Ready(facts)) = (&machine.engine, &machine.state) {
        checks.push(base(paths, options, engine));
        checks.push(gpu_access(machine, facts));
        checks.push(left(engine));
        checks.push(cgroup(facts));
    }
    checks
}

fn engine(options: &DoctorOptions, state: &EngineState) -> Check {
    let name = match state {
        EngineState::Ready(_) => "docker",
        EngineState::Absent => "docker-absent",
        EngineState::Down(_) => "docker-down",
        EngineState::Forbidden(_) => "docker-permission",
        EngineState::Unknown(_) => "docker-unknown",
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
    match candidates.iter().find(|reference| matches!(engine.image(reference), Ok(Some(_)))) {
        Some(reference) => Check::ok(NAME, format!("{reference} is here")),
        None => Check::missing(
            NAME,
            options.only_docker() && (options.offline || pinned.is_none()),
            format!("not here: {}", candidates.join(", ")),
            "cargo xtask provision pulls it; without a registry, sudo cargo xtask provision --make-base makes one",
        ),
    }
}

fn gpu_access(machine: &Machine, facts: &EngineFacts) -> Check {
    const NAME: &str = "container-gpu";
    if device_nodes(&machine.root).is_empty() {
        return Check::ok(NAME, "no GPU to bring in");
    }
    let access = GpuAccess::find(&machine.root, machine.var("PATH").unwrap_or_default(), facts);
    match &access {
        GpuAccess::DeviceNodes { libraries, .. } if libraries.is_empty() => Check::warn(
            NAME,
            "device nodes, but no libcuda.so.1 in the loader's folders or /usr/local/nvidia/lib64",
            "ldconfig -p | grep libcuda; install the driver's libraries, or --runtime host",
        ),
        access => Check::ok(NAME, access.name()),
    }
}

fn left(engine: &Engine) -> Check {
    const NAME: &str = "containers-left";
    match leftovers(engine) {
        Err(error) => Check::warn(NAME, format!("{error:#}"), "docker ps --all --filter label=assay.owner"),
        Ok(left) if left.is_empty() => Check::ok(NAME, "none"),
        Ok(left) => {
            let names = |orphan: bool| {
                left.iter().filter(|l| l.orphan == orphan).map(|l| l.name.as_str()).collect::<Vec<_>>().join(" ")
            };
            match (names(true), names(false)) {
                (orphans, others) if others.is_empty() => {
                    Check::warn(NAME, format!("of a run that was killed: {orphans}"), "the next run removes them")
                }
                (orphans, others) => Check::warn(
                    NAME,
                    format!("of a run that may still go on: {others}; of a run that was killed: {orphans}"),
                    format!("wait for it, or docker rm --force {others}"),
                ),
            }
        }
    }
}

fn cgroup(facts: &EngineFacts) -> Check {
    match facts.cgroup_version.as_str() {
        "2" => Check::ok("cgroup", "version 2"),
        version => Check::ok("cgroup", format!("version {version}: works; newer systems have 2")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ask::doctor::State;
    use crate::steps::provision::RuntimeChoice;

    fn options(runtime: RuntimeChoice) -> DoctorOptions {
        DoctorOptions { runtime, base: None, offline: false }
    }

    #[test]
    fn three_findings_have_three_names_and_remedies() {
        let states = [EngineState::Absent, EngineState::Down("d".into()), EngineState::Forbidden("f".into())];
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
}
