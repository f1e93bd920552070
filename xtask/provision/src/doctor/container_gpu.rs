//! Checks in order what a GPU in a container needs: a GPU on the bus, a driver, a GPU runtime, and a daemon that
//! knows it. The first that is missing is named. Nothing is started here; `provision` tries whether it works, before
//! any work.

use super::{Check, DoctorOptions};
use crate::Machine;
use host::container::{EngineFacts, GpuAccess, cdi_files, device_nodes};
use host::process::find_program;
use std::path::Path;
use words::cdi::{Specification, specification};
use words::docker_says::Kind;

/// The GPU runtime's programs: its tool, its runtime and its hook.
const PROGRAMS: [&str; 3] = ["nvidia-ctk", "nvidia-container-runtime", "nvidia-container-runtime-hook"];

pub(super) fn checks(options: &DoctorOptions, machine: &Machine, facts: &EngineFacts) -> Vec<Check> {
    let mut checks = vec![access(options, machine, facts)];
    checks.extend(runtime_config(options, machine, facts));
    checks.extend(loss(machine, facts));
    checks
}

fn access(options: &DoctorOptions, machine: &Machine, facts: &EngineFacts) -> Check {
    const NAME: &str = "container-gpu";
    let needed = options.only_docker();
    if device_nodes(&machine.root).is_empty() {
        return match on_the_bus(&machine.root) {
            0 => Check::ok(NAME, "no GPU to bring in"),
            n => Check::missing(
                NAME,
                needed,
                format!("driver: {n} NVIDIA GPUs on the bus, and no device node: no driver is loaded"),
                "sudo modprobe nvidia; where there is none, install the driver; in a rented container, ask for a GPU",
            ),
        };
    }
    match &found(machine, facts) {
        GpuAccess::Cdi => match stale(machine, facts) {
            None => Check::ok(NAME, "cdi"),
            Some(why) => Check::missing(NAME, needed, format!("cdi: {why}"), Kind::Cdi.remedy()),
        },
        GpuAccess::Gpus => gpus(needed, machine, facts),
        GpuAccess::DeviceNodes { libraries, .. } if libraries.is_empty() => Check::warn(
            NAME,
            "driver: device nodes, but no libcuda.so.1 in the loader's folders or /usr/local/nvidia/lib64",
            "ldconfig -p | grep libcuda; install the driver's libraries, or --runtime host",
        ),
        access => Check::ok(NAME, format!("{}: this daemon knows no GPU runtime, and none is needed", access.name())),
    }
}

fn found(machine: &Machine, facts: &EngineFacts) -> GpuAccess {
    GpuAccess::find(&machine.root, machine.var("PATH").unwrap_or_default(), facts)
}

fn gpus(needed: bool, machine: &Machine, facts: &EngineFacts) -> Check {
    const NAME: &str = "container-gpu";
    let search = machine.var("PATH").unwrap_or_default();
    let programs: Vec<&str> =
        PROGRAMS.into_iter().filter(|program| find_program(Path::new(program), search).is_some()).collect();
    let registered = facts.runtimes.iter().flatten().any(|(name, _)| name == "nvidia");
    match (programs.is_empty(), registered) {
        (true, _) => Check::missing(
            NAME,
            needed,
            "GPU runtime: this daemon names a runtime nvidia, and none of its programs is on PATH",
            "install nvidia-container-toolkit, then sudo systemctl restart docker; or --runtime host",
        ),
        (false, true) => Check::ok(NAME, "gpus"),
        (false, false) => Check::warn(
            NAME,
            format!("daemon: {} is installed, and this daemon is not configured to use it", programs.join(", ")),
            Kind::GpuNotWired.remedy(),
        ),
    }
}

/// NVIDIA display controllers on the PCI bus.
fn on_the_bus(root: &Path) -> usize {
    let devices = std::fs::read_dir(root.join("sys/bus/pci/devices")).into_iter().flatten().flatten();
    let says = |device: &Path, file: &str, start: &str| {
        std::fs::read_to_string(device.join(file)).is_ok_and(|text| text.starts_with(start))
    };
    // PCI vendor 10de, class 03: display controller.
    devices.map(|entry| entry.path()).filter(|d| says(d, "vendor", "0x10de") && says(d, "class", "0x03")).count()
}

/// Why the CDI specification is older than this machine, if it is.
fn stale(machine: &Machine, facts: &EngineFacts) -> Option<String> {
    let loaded = std::fs::read_to_string(machine.root.join("sys/module/nvidia/version")).ok();
    let files = cdi_files(&machine.root, facts);
    let read = |file: &std::path::PathBuf| Some((file.clone(), specification(&std::fs::read_to_string(file).ok()?)?));
    files.iter().filter_map(read).find_map(|(file, Specification { nodes, drivers })| {
        let there = |node: &str| machine.root.join(node.trim_start_matches('/')).exists();
        if let Some(node) = nodes.iter().find(|node| !there(node)) {
            return Some(format!("{} names {node}, which is not there", file.display()));
        }
        let loaded = loaded.as_deref()?.trim();
        let other = drivers.iter().find(|driver| *driver != loaded)?;
        Some(format!("{} was made for driver {other}, and {loaded} is loaded", file.display()))
    })
}

/// An engine without root may set no device rules, and one with root must: one setting makes either work and the other fail.
fn runtime_config(options: &DoctorOptions, machine: &Machine, facts: &EngineFacts) -> Option<Check> {
    const NAME: &str = "gpu-runtime-config";
    if found(machine, facts) != GpuAccess::Gpus {
        return None;
    }
    let needed = options.only_docker() && !device_nodes(&machine.root).is_empty();
    let home = machine.var("HOME").unwrap_or_default().trim_start_matches('/');
    let own = machine.root.join(home).join(".config/nvidia-container-runtime/config.toml");
    let system = machine.root.join("etc/nvidia-container-runtime/config.toml");
    let file = [own, system]
        .into_iter()
        .find(|file| file.is_file() && (facts.rootless() || file.starts_with(machine.root.join("etc"))))?;
    let name = file.strip_prefix(&machine.root).unwrap_or(&file).display().to_string();
    let text = match std::fs::read_to_string(&file) {
        Ok(text) => text,
        Err(error) => return Some(Check::warn(NAME, format!("/{name}: {error}"), format!("ls -l /{name}"))),
    };
    let config: toml::Table = match toml::from_str(&text) {
        Ok(config) => config,
        Err(error) => return Some(Check::warn(NAME, format!("/{name}: {}", error.message()), format!("edit /{name}"))),
    };
    let cli = config.get("nvidia-container-cli").and_then(toml::Value::as_table);
    let no_cgroups = cli.and_then(|cli| cli.get("no-cgroups")).and_then(toml::Value::as_bool).unwrap_or(false);
    let set = |to: &str| {
        let user = if facts.rootless() { "" } else { "sudo " };
        format!("{user}nvidia-ctk config --config-file=/{name} --set nvidia-container-cli.no-cgroups={to} --in-place")
    };
    Some(match (facts.rootless(), no_cgroups) {
        (true, false) => Check::missing(
            NAME,
            needed,
            format!(
                "the engine has no root, and /{name} leaves no-cgroups off: a GPU inside says insufficient permissions"
            ),
            set("true"),
        ),
        (false, true) => Check::missing(
            NAME,
            needed,
            format!("the engine has root, and /{name} sets no-cgroups: a GPU inside says unknown error"),
            set("false"),
        ),
        _ => Check::ok(NAME, format!("/{name} fits the engine")),
    })
}

/// A running container loses its GPU when systemd applies its units again, unless the nodes have links by number.
fn loss(machine: &Machine, facts: &EngineFacts) -> Option<Check> {
    let hooked = !device_nodes(&machine.root).is_empty() && found(machine, facts) == GpuAccess::Gpus;
    let linked = std::fs::read_dir(machine.root.join("dev/char")).into_iter().flatten().flatten().any(|link| {
        // NVIDIA's character devices have major number 195.
        link.file_name().to_string_lossy().starts_with("195:")
    });
    (hooked && facts.cgroup_version == "2" && facts.cgroup_driver == "systemd" && !linked).then(|| {
        Check::warn(
            "gpu-loss",
            "a daemon-reload of systemd takes the GPU from running containers: cgroup 2, systemd, the GPU runtime's hook, \
             and no links in /dev/char; a run that loses it fails",
            "sudo nvidia-ctk system create-dev-char-symlinks --create-all; stop unattended upgrades while a run goes on",
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::RuntimeChoice;
    use crate::doctor::State;
    use host::container::EngineState;
    use std::os::unix::fs::PermissionsExt;

    /// A machine with these files, and these programs on PATH.
    struct Bench {
        dir: tempfile::TempDir,
        facts: EngineFacts,
    }

    impl Bench {
        fn new(files: &[(&str, &str)], programs: &[&str]) -> Self {
            let dir = tempfile::tempdir().unwrap();
            let write = |path: &str, text: &str| {
                let path = dir.path().join(path);
                std::fs::create_dir_all(path.parent().unwrap()).unwrap();
                std::fs::write(&path, text).unwrap();
                std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
            };
            files.iter().for_each(|(path, text)| write(path, text));
            programs.iter().for_each(|program| write(&format!("bin/{program}"), "#!/bin/sh\n"));
            Self { dir, facts: EngineFacts::default() }
        }

        /// With a GPU and its driver.
        fn gpu(files: &[(&str, &str)], programs: &[&str]) -> Self {
            let driver = [
                ("dev/nvidia0", ""),
                ("dev/nvidiactl", ""),
                ("usr/lib/x86_64-linux-gnu/libcuda.so.1", ""),
                ("sys/module/nvidia/version", "580.95.05\n"),
            ];
            Self::new(&[&driver, files].concat(), programs)
        }

        fn registered(mut self) -> Self {
            self.facts.runtimes = Some([("nvidia".to_owned(), serde_json::json!({}))].into());
            self
        }

        fn rootless(mut self) -> Self {
            self.facts.security_options = Some(vec!["name=seccomp".into(), "name=rootless".into()]);
            self
        }

        fn checks(&self) -> Vec<Check> {
            let path = self.dir.path().join("bin").display().to_string();
            let env = vec![("PATH".into(), path), ("HOME".into(), "/home/user".into())];
            let root = self.dir.path().to_owned();
            let machine = Machine { root, env, engine: None, state: EngineState::Absent, inside: None };
            let options = DoctorOptions { runtime: RuntimeChoice::Docker, base: None, offline: false };
            checks(&options, &machine, &self.facts)
        }

        #[track_caller]
        fn check(&self, name: &str, state: State, said: &str, remedy: &str) {
            let checks = self.checks();
            let check = checks.iter().find(|check| check.name == name).unwrap_or_else(|| panic!("{checks:#?}"));
            assert_eq!(check.state, state, "{check:?}");
            assert!(check.found.contains(said) && check.remedy.contains(remedy), "{check:?}");
        }
    }

    const NAME: &str = "container-gpu";

    #[test]
    fn the_first_rung_that_fails_is_named() {
        Bench::new(&[], &[]).check(NAME, State::Ok, "no GPU", "");
        let on_bus = [("sys/bus/pci/devices/0/vendor", "0x10de\n"), ("sys/bus/pci/devices/0/class", "0x030200\n")];
        Bench::new(&on_bus, &[]).check(NAME, State::Block, "driver: 1 NVIDIA GPUs on the bus", "modprobe");
        let other = [("sys/bus/pci/devices/0/vendor", "0x8086\n"), ("sys/bus/pci/devices/0/class", "0x030000\n")];
        Bench::new(&other, &[]).check(NAME, State::Ok, "no GPU", "");
        Bench::new(&[("dev/nvidia0", "")], &[]).check(NAME, State::Warn, "no libcuda.so.1", "ldconfig");
        Bench::gpu(&[], &[]).registered().check(NAME, State::Block, "GPU runtime:", "install nvidia-container-toolkit");
        Bench::gpu(&[], &["nvidia-ctk"]).registered().check(NAME, State::Ok, "gpus", "");
    }

    /// The driver is well, and is not blamed: without a GPU runtime the nodes go in one by one.
    #[test]
    fn no_toolkit_is_not_a_broken_driver() {
        Bench::gpu(&[], &[]).check(NAME, State::Ok, "device-nodes", "");
        let hook = Bench::gpu(&[], &["nvidia-container-runtime-hook"]);
        hook.check(NAME, State::Warn, "daemon: nvidia-container-runtime-hook is installed", "restart docker");
    }

    const SPEC: &str = "etc/cdi/nvidia.yaml";

    #[test]
    fn a_device_specification_older_than_the_machine_is_named() {
        let with = |text: &str| {
            let mut bench = Bench::gpu(&[(SPEC, text)], &[]);
            bench.facts.cdi_spec_dirs = Some(vec!["/etc/cdi".into()]);
            bench
        };
        let good = "kind: nvidia.com/gpu\n- path: /dev/nvidia0\n- hostPath: /usr/lib/libcuda.so.580.95.05\n";
        with(good).check(NAME, State::Ok, "cdi", "");
        let renumbered = good.replace("nvidia0", "dri/renderD129");
        with(&renumbered).check(NAME, State::Block, "names /dev/dri/renderD129, which is not there", "cdi generate");
        let older = good.replace("580.95.05", "570.86.10");
        with(&older).check(NAME, State::Block, "made for driver 570.86.10, and 580.95.05 is loaded", "cdi generate");
    }

    const SYSTEM: &str = "etc/nvidia-container-runtime/config.toml";

    #[test]
    fn a_setting_that_contradicts_the_engine_is_named_instead_of_its_symptom() {
        const CHECK: &str = "gpu-runtime-config";
        let with = |file, text| Bench::gpu(&[(file, text)], &["nvidia-ctk"]).registered();
        let (on, off) = (
            "[nvidia-container-cli]\nno-cgroups = true\n",
            "[nvidia-container-cli]\n#no-cgroups = true\nload-kmods = true\n",
        );
        with(SYSTEM, off).check(CHECK, State::Ok, "fits", "");
        with(SYSTEM, on).check(CHECK, State::Block, "sets no-cgroups", "no-cgroups=false");
        with(SYSTEM, off).rootless().check(CHECK, State::Block, "leaves no-cgroups off", "no-cgroups=true");
        with(SYSTEM, on).rootless().check(CHECK, State::Ok, "fits", "");
        let own = "home/user/.config/nvidia-container-runtime/config.toml";
        with(own, on).rootless().check(CHECK, State::Ok, "home/user", "");
        with(SYSTEM, "no-cgroups = ").check(CHECK, State::Warn, SYSTEM, "edit");
        assert!(!Bench::gpu(&[(SYSTEM, on)], &[]).checks().iter().any(|check| check.name == CHECK));
        Bench::new(&[(SYSTEM, on)], &["nvidia-ctk"]).registered().check(CHECK, State::Warn, "sets no-cgroups", "");
    }

    #[test]
    fn a_machine_that_takes_gpus_from_running_containers_is_warned_of() {
        let with = |files: &[(&str, &str)], version: &str, driver: &str| {
            let mut bench = Bench::gpu(files, &["nvidia-ctk"]).registered();
            (bench.facts.cgroup_version, bench.facts.cgroup_driver) = (version.into(), driver.into());
            bench
        };
        let bench = with(&[], "2", "systemd");
        bench.check("gpu-loss", State::Warn, "daemon-reload", "create-dev-char-symlinks");
        for fine in
            [with(&[], "1", "cgroupfs"), with(&[], "2", "cgroupfs"), with(&[("dev/char/195:0", "")], "2", "systemd")]
        {
            assert!(!fine.checks().iter().any(|check| check.name == "gpu-loss"));
        }
    }
}
