//! The machine: programs, disk, kernel, whether we are in a container, and who may lock clocks.

use super::{Check, DoctorOptions};
use crate::Machine;
use host::machine::disk::{DiskProbe, Disks, Place, Room};
use host::paths::Paths;
use host::process::{Child, Ended, find_program};
use host::wheels::{Lock, is_installed};
use std::path::{Path, PathBuf};
use std::time::Duration;
use words::docker_says::Kind;

pub(super) fn checks(paths: &Paths, options: &DoctorOptions, machine: &Machine) -> Vec<Check> {
    vec![
        compiler(options, machine),
        pip(paths, options, machine),
        disk("disk", &Place::checkout(paths.root()), &Disks),
        disk("disk-tmp", &Place::temporary(Path::new(machine.var("TMPDIR").unwrap_or("/tmp"))), &Disks),
        kernel(machine),
        inside(machine),
        clock_rights(machine),
    ]
}

fn compiler(options: &DoctorOptions, machine: &Machine) -> Check {
    match on_path(machine, "g++") {
        Some(path) => Check::ok("g++", path.display().to_string()),
        None => {
            let needed = !options.only_docker();
            Check::missing(
                "g++",
                needed,
                "none on PATH; nvcc and cargo need it outside of a container",
                "sudo apt-get install g++",
            )
        }
    }
}

fn pip(paths: &Paths, options: &DoctorOptions, machine: &Machine) -> Check {
    const NAME: &str = "python3-pip";
    let installed = Lock::read(&paths.toolkit_lock())
        .is_ok_and(|lock| is_installed(&lock.digest, &paths.root().join("target/toolkit").join(lock.digest.short())));
    match ask(machine, paths, "python3", &["-m", "pip", "--version"]) {
        Some(ended) if ended.code == Some(0) => {
            let version = ended.stdout.split(" from ").next().unwrap_or_default().trim().to_owned();
            Check::ok(NAME, if installed { format!("{version}; the toolkit is unpacked") } else { version })
        }
        _ if installed => Check::ok(NAME, "not here, and not needed: the toolkit is unpacked"),
        _ => {
            let own = crate::box_toolkit(machine).is_some();
            let needed = !own && !options.offline && options.base.is_none();
            Check::missing(NAME, needed, "not here; it fetches the pinned toolkit", "sudo apt-get install python3-pip")
        }
    }
}

/// Room for what a run writes: bytes and inodes.
pub(super) fn disk(name: &'static str, place: &Place, probe: &dyn DiskProbe) -> Check {
    let remedy = Kind::DiskFull.remedy();
    match place.room(probe) {
        Room::Good(found) => Check::ok(name, found),
        Room::Little(found) => Check::warn(name, found, remedy),
        Room::TooLittle(found) => Check::missing(name, true, found, remedy),
        Room::Unknown(found) => Check::warn(name, format!("cannot be asked: {found}"), "df -h and df -i of it"),
    }
}

fn kernel(machine: &Machine) -> Check {
    let uname = rustix::system::uname();
    let (release, arch) = (uname.release().to_string_lossy(), uname.machine().to_string_lossy());
    let os = std::fs::read_to_string(machine.root.join("etc/os-release")).unwrap_or_default();
    let name =
        os.lines().find_map(|line| line.strip_prefix("PRETTY_NAME=")).unwrap_or("unknown system").trim_matches('"');
    if arch == "x86_64" {
        return Check::ok("system", format!("{name}, Linux {release}, {arch}"));
    }
    let found = format!("{name}, Linux {release}, {arch}; the pinned wheels are for x86_64");
    Check::warn("system", found, "use the machine's own toolkit: --runtime host --offline")
}

fn inside(machine: &Machine) -> Check {
    match &machine.inside {
        Some(why) => Check::warn("inside", format!("{why}; clocks can usually not be locked here"), "--clocks observe"),
        None => Check::ok("inside", "not in a container"),
    }
}

fn clock_rights(machine: &Machine) -> Check {
    const NAME: &str = "clock-rights";
    if rustix::process::geteuid().is_root() {
        return Check::ok(NAME, "root");
    }
    let env = machine.env.iter().filter(|(key, _)| key == "PATH").cloned().collect();
    let asked = Child {
        program: "sudo".into(),
        args: vec!["-n".into(), "true".into()],
        env,
        dir: "/".into(),
        deadline: Duration::from_secs(5),
        hold_stdin: false,
    };
    match asked.run(&mut |_| {}) {
        Ok(ended) if ended.code == Some(0) => Check::ok(NAME, "sudo without a password"),
        _ => Check::warn(
            NAME,
            "neither root nor sudo without a password: clocks cannot be locked",
            "sudo -v, then run again in this shell; or --clocks observe",
        ),
    }
}

fn on_path(machine: &Machine, program: &str) -> Option<PathBuf> {
    find_program(Path::new(program), machine.var("PATH").unwrap_or_default())
}

/// Asks a program for its version in the root folder; absent when it is not on PATH.
pub(super) fn ask(machine: &Machine, paths: &Paths, program: &str, args: &[&str]) -> Option<Ended> {
    let wanted = ["PATH", "HOME", "CARGO_HOME", "RUSTUP_HOME", "RUSTUP_TOOLCHAIN"];
    let child = Child {
        program: on_path(machine, program)?,
        args: args.iter().map(|arg| (*arg).to_owned()).collect(),
        env: machine.env.iter().filter(|(key, _)| wanted.contains(&key.as_str())).cloned().collect(),
        dir: paths.root().to_owned(),
        deadline: Duration::from_secs(30),
        hold_stdin: false,
    };
    child.run(&mut |_| {}).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::RuntimeChoice;
    use crate::doctor::State;
    use host::container::EngineState;

    fn machine(root: &Path, path: &str) -> Machine {
        let env = vec![("PATH".into(), path.into()), ("HOME".into(), "/tmp".into())];
        Machine { root: root.to_owned(), env, engine: None, state: EngineState::Absent, inside: None }
    }

    struct Free(u64);

    impl DiskProbe for Free {
        fn free(&self, _: &Path) -> std::io::Result<host::machine::disk::Free> {
            Ok(host::machine::disk::Free { bytes: self.0, inodes: Some(1_000_000) })
        }
    }

    #[test]
    fn little_disk_warns_and_none_blocks() {
        let place = Place::checkout(Path::new("/x"));
        let states =
            [1_999_999_999, 2_000_000_000, 9_000_000_000].map(|bytes| disk("disk", &place, &Free(bytes)).state);
        assert_eq!(states, [State::Block, State::Warn, State::Ok]);
    }

    #[test]
    fn what_is_missing_comes_with_what_to_type() {
        let root = tempfile::tempdir().unwrap();
        let (paths, machine) = (Paths::new(root.path()), machine(root.path(), "/nonexistent"));
        let options = DoctorOptions { runtime: RuntimeChoice::Host, base: None, offline: false };
        let found = [compiler(&options, &machine), pip(&paths, &options, &machine)];
        assert_eq!(found.clone().map(|check| check.state), [State::Block, State::Block]);
        assert!(found[0].remedy.contains("apt-get install g++") && found[1].remedy.contains("python3-pip"));
        let docker = DoctorOptions { runtime: RuntimeChoice::Docker, ..options };
        assert_eq!(compiler(&docker, &machine).state, State::Warn);
    }
}
