//! This program against a `docker` on PATH that says what real ones say: the code it ends with, what it says, what it advises,
//! and what it does with its container.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// A root with docker's files, a stub of docker on PATH, and a log of its calls.
struct Bench {
    dir: tempfile::TempDir,
}

/// How this program ended.
struct Ended {
    code: Option<i32>,
    stdout: String,
    stderr: String,
}

/// An engine that answers and has the local base; a removal names what it removed.
const ENGINE: &str = r#"
"info "*) cat "$HOME/up.json";;
"image inspect") case "$3" in
  assay-base:local) echo '[{"Id":"sha256:b0","RepoDigests":[],"Config":{"Labels":null}}]';;
  *) echo '[]'; echo "Error response from daemon: no such image: $3: No such image: $3" >&2; exit 1;;
  esac;;
"rm "*) rm -f "$HOME/there"; echo "$4";;
"ps "*) [ ! -e "$HOME/there" ] || echo 3f0c0c4be1c1;;
"#;

impl Bench {
    /// With a docker that does `cases`, and what [`ENGINE`] does otherwise.
    fn new(cases: &str) -> Self {
        let bench = Self { dir: tempfile::tempdir().unwrap() };
        let real = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        std::fs::create_dir_all(bench.at("root/harness/schema")).unwrap();
        std::fs::create_dir_all(bench.at("root/docker")).unwrap();
        for name in ["Dockerfile", "image.lock", "toolkit.lock"] {
            std::fs::copy(real.join("docker").join(name), bench.at("root/docker").join(name)).unwrap();
        }
        std::fs::copy(real.join("xtask/fixtures/docker/up.json"), bench.at("up.json")).unwrap();
        bench.program("docker", &format!("echo \"$*\" >>\"$HOME/calls\"\ncase \"$1 $2\" in\n{cases}\n{ENGINE}\nesac"));
        // A driver that is well: it must not be blamed for what docker does.
        bench.program("nvidia-smi", "echo 'GPU 0: NVIDIA H200 (UUID: GPU-1b2c3d4e-0000-4444-8888-abcdefabcdef)'");
        bench
    }

    fn at(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn program(&self, name: &str, script: &str) {
        let file = self.at("bin").join(name);
        std::fs::create_dir_all(self.at("bin")).unwrap();
        std::fs::write(&file, format!("#!/bin/sh\n{script}\n")).unwrap();
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o755)).unwrap();
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_xtask"));
        let path = format!("{}:/usr/bin:/bin", self.at("bin").display());
        command.args(args).current_dir(self.at("root")).env("PATH", path).env("HOME", self.dir.path());
        command.env_remove("DOCKER_HOST").env_remove("DOCKER_CONTEXT").stdin(Stdio::null());
        command
    }

    fn run(&self, args: &[&str]) -> Ended {
        let output = self.command(args).output().unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        Ended { code: output.status.code(), stdout: text(output.stdout), stderr: text(output.stderr) }
    }

    /// `provision` in docker ends with exit 11, says and advises this, and blames no driver.
    #[track_caller]
    fn refuses(&self, said: &str, remedy: &str) {
        let ended = self.run(&["provision", "--runtime", "docker"]);
        assert_eq!(ended.code, Some(11), "{}", ended.stderr);
        assert!(ended.stderr.contains(said), "{said:?} in {}", ended.stderr);
        let advised = ended.stderr.lines().skip_while(|line| !line.starts_with("  try: ")).collect::<String>();
        assert!(advised.contains(remedy), "{remedy:?} in {advised:?}");
        assert!(!ended.stderr.contains("panicked") && !ended.stderr.contains("driver is broken"), "{}", ended.stderr);
    }

    fn calls(&self) -> Vec<String> {
        let calls = std::fs::read_to_string(self.at("calls")).unwrap_or_default();
        calls.lines().map(str::to_owned).collect()
    }

    /// The container of the first `run` was removed by its own name and then looked for; it is not there.
    #[track_caller]
    fn check_removed(&self) {
        let calls = self.calls();
        let run = calls.iter().find(|call| call.starts_with("run ")).expect("a container");
        let name = run.split(' ').find_map(|word| word.strip_prefix("--name=")).unwrap();
        let removed = calls.iter().position(|call| *call == format!("rm --force --volumes {name}")).expect("a removal");
        let looked = format!("ps --all --quiet --filter label=assay.name={name}");
        assert!(calls[removed..].contains(&looked), "{calls:#?}");
        assert!(!self.at("there").exists());
    }
}

fn run_says(said: &str, code: i32) -> String {
    format!("\"run \"*) touch \"$HOME/there\"; cat >&2 <<'END'\n{said}\nEND\nexit {code};;")
}

#[test]
fn doctor_tells_a_forbidden_socket_from_a_daemon_that_is_down() {
    // The first two as client 28.2.2 prints them, the third as newer ones do.
    let socket = "unix:///var/run/docker.sock";
    for (stdout, stderr, name, remedy) in [
        (
            "",
            format!("permission denied while trying to connect to the Docker daemon socket at {socket}: dial unix"),
            "docker-permission",
            "usermod",
        ),
        (
            "",
            format!("Cannot connect to the Docker daemon at {socket}. Is the docker daemon running?"),
            "docker-down",
            "systemctl start",
        ),
        (
            "",
            format!("permission denied while trying to connect to the docker API at {socket}"),
            "docker-permission",
            "usermod",
        ),
        (
            "{\"ServerVersion\":\"\"}",
            format!("Cannot connect to the Docker daemon at {socket}."),
            "docker-down",
            "systemctl start",
        ),
        (
            "",
            format!("failed to connect to the docker API at {socket}; check if the daemon is running"),
            "docker-down",
            "systemctl start",
        ),
    ] {
        let bench = Bench::new(&format!("\"info \"*) echo '{stdout}'; echo '{stderr}' >&2; exit 1;;"));
        let ended = bench.run(&["doctor", "--runtime", "docker", "--json"]);
        assert_eq!(ended.code, Some(11), "{}", ended.stderr);
        let object: serde_json::Value = serde_json::from_str(&ended.stdout).unwrap();
        let check = object["checks"].as_array().unwrap().iter().find(|check| check["name"] == name);
        let check = check.unwrap_or_else(|| panic!("{name} in {object}"));
        assert_eq!(check["state"], "block");
        assert!(check["remedy"].as_str().unwrap().contains(remedy), "{check}");
        // Whoever asked for docker is told the same.
        bench.refuses(stderr.split(" at ").next().unwrap(), remedy);
    }
}

#[test]
fn a_daemon_without_a_gpu_runtime_is_named_and_its_container_removed() {
    for said in [
        "docker: Error response from daemon: could not select device driver \"\" with capabilities: [[gpu]].\n\nRun 'docker run --help' for more information",
        "docker: Error response from daemon: unknown or invalid runtime name: nvidia.\nSee 'docker run --help'.",
        "docker: Error response from daemon: Unknown runtime specified nvidia.",
    ] {
        let bench = Bench::new(&run_says(said, 125).replace("cat >&2", "echo 3f0c0c4be1c1b0f2; cat >&2"));
        bench.refuses("this docker daemon knows no GPU runtime", "nvidia-ctk runtime configure");
        bench.check_removed();
    }
}

#[test]
fn nested_messages_of_the_gpu_runtime_end_in_their_last_clause() {
    let said = "docker: Error response from daemon: failed to create task for container: error running prestart hook #0: exit status 1, stdout: , stderr: Auto-detected mode as 'legacy'\nnvidia-container-cli: initialization error: load library failed: libnvidia-ml.so.1: cannot open shared object file: no such file or directory: unknown";
    let bench = Bench::new(&run_says(said, 125));
    bench.refuses(
        "(nvidia-container-cli: initialization error: load library failed: libnvidia-ml.so.1",
        "type -a docker",
    );
    bench.check_removed();
}

#[test]
fn device_specifications_that_do_not_resolve_are_to_be_made_anew() {
    for (said, code) in [
        (
            "docker: Error response from daemon: error modifying OCI spec: failed to inject CDI devices: unresolvable CDI devices nvidia.com/gpu=all: unknown.",
            125,
        ),
        (
            "Error: setting up CDI devices: failed to inject devices: failed to stat CDI host device \"/dev/dri/renderD129\": no such file or directory",
            126,
        ),
    ] {
        let bench = Bench::new(&run_says(said, code));
        bench.refuses("CDI specification", "nvidia-ctk cdi generate");
        bench.check_removed();
    }
}

#[test]
fn a_container_that_ended_badly_is_asked_how_before_it_is_removed() {
    for (code, record, said) in [
        (137, "137 true \"\"", "memory ran out"),
        (137, "137 false \"\"", "killed from outside"),
        (135, "135 false \"\"", "/dev/shm"),
        (127, "127 false \"exec: sh: executable file not found in $PATH\" 0001-01-01T00:00:00Z", "has no such program"),
        (126, "126 false \"exec: sh: permission denied\" 0001-01-01T00:00:00Z", "cannot be started"),
    ] {
        let bench =
            Bench::new(&format!("\"run \"*) touch \"$HOME/there\"; exit {code};;\n\"inspect \"*) echo '{record}';;"));
        bench.refuses(said, "");
        bench.check_removed();
    }
}

#[test]
fn a_base_that_cannot_be_pulled_says_of_what_kind_that_is() {
    for (said, means, remedy) in [
        (
            "manifest for nvidia/cuda:12.3.9-devel-ubuntu22.04 not found: manifest unknown: manifest unknown",
            "not the network",
            "mirror",
        ),
        (
            "failed to register layer: ApplyLayer exit status 1 stdout:  stderr: write /usr/x: no space left on device",
            "a disk is full",
            "df -i",
        ),
        (
            "Get \"https://registry.example/v2/\": dial tcp: lookup registry.example: no such host",
            "the network",
            "--make-base",
        ),
    ] {
        let absent = "\"image inspect\") echo '[]'; echo \"Error response from daemon: no such image: $3: No such image: $3\" >&2; exit 1;;";
        let bench =
            Bench::new(&format!("{absent}\n\"pull \"*) echo 'Error response from daemon: {said}' >&2; exit 1;;"));
        bench.refuses(means, remedy);
        assert_eq!(bench.calls().iter().filter(|call| call.starts_with("pull ")).count(), 1);
        assert!(!bench.calls().iter().any(|call| call.starts_with("run ")));
    }
}

#[test]
fn where_a_container_cannot_write_no_work_begins() {
    let bench = Bench::new(&run_says("open /data/out/.probe_17: permission denied", 1));
    bench.refuses("cannot write into", "ls -ld");
    bench.check_removed();
    let bench = Bench::new("\"run \"*) exit 0;;");
    bench.refuses("nothing arrived", "DOCKER_HOST");
}

/// A first container that ends badly for another reason is not said to be unable to write.
#[test]
fn a_first_container_that_ends_badly_says_why() {
    for (said, code, means, remedy) in [
        ("", 93, "does not see the files there", "docker context ls"),
        ("sh: 2: cannot create mark: Permission denied", 91, "cannot write into", "ls -ld"),
        ("exec /usr/bin/sh: exec format error", 1, "another kind of machine", "uname -m"),
        ("exec /usr/bin/sh: exec format error", 255, "another kind of machine", "uname -m"),
        ("sh: 1: Cannot fork: Resource temporarily unavailable", 2, "no more memory, processes", "free -m"),
        ("sh: 2: cannot create mark: Disk quota exceeded", 91, "a quota", "df -i"),
        ("", 159, "failed (exit code 159)", "doctor"),
    ] {
        let record = format!("\n\"inspect \"*) echo '{code} false \"\" 2026-01-01T00:00:00Z x';;");
        let bench = Bench::new(&(run_says(said, code) + &record));
        bench.refuses(means, remedy);
        bench.check_removed();
    }
}

#[test]
fn an_engine_that_is_none_of_ours_is_named() {
    let podman = r#"{"host":{"buildahVersion":"1.28.2"},"store":{},"version":{"Version":"4.3.1"}}"#;
    Bench::new(&format!("\"info \"*) echo '{podman}';;")).refuses("or podman", "only docker itself is driven");
    let elsewhere = "Cannot connect to the Docker daemon at tcp://192.0.2.9:2375. Is the docker daemon running?";
    let bench = Bench::new(&format!("\"info \"*) echo; echo '{elsewhere}' >&2; exit 1;;"));
    bench.refuses("a daemon on another machine", "unset DOCKER_HOST");
}

#[test]
fn too_little_disk_at_dockers_root_is_refused_before_any_work() {
    let bench = Bench::new("");
    let up = std::fs::read_to_string(bench.at("up.json")).unwrap();
    // The kernel's own file system has no room at all.
    std::fs::write(bench.at("up.json"), up.replace("\"/var/lib/docker\"", "\"/proc\"")).unwrap();
    bench.refuses("docker's root folder", "df -i");
    let ended = bench.run(&["doctor", "--runtime", "docker"]);
    assert!(ended.code == Some(11) && ended.stderr.contains("BLOCK disk-docker"), "{}", ended.stderr);
}

#[test]
fn being_asked_to_stop_removes_the_container_whose_client_does_not_listen() {
    // The client ignores SIGTERM; the container outlives it, and the first removal comes too early.
    let bench = Bench::new(
        "\"run \"*) trap '' TERM; touch \"$HOME/there\" \"$HOME/begun\"; sleep 60;;
\"rm \"*) [ $(grep -c '^rm ' \"$HOME/calls\") -gt 1 ] && rm -f \"$HOME/there\" && echo \"$4\" && exit; echo \"Error: No such container: $4\" >&2; exit 1;;",
    );
    let mut child = bench.command(&["provision", "--runtime", "docker"]).stderr(Stdio::piped()).spawn().unwrap();
    let until = Instant::now() + Duration::from_secs(20);
    while !bench.at("begun").exists() && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(20));
    }
    let stopped = Command::new("kill").args(["-TERM", &child.id().to_string()]).status().unwrap();
    assert!(stopped.success());
    assert_eq!(child.wait().unwrap().code(), Some(143));
    bench.check_removed();
}
