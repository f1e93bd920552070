//! The choices, on machines made up for them. docker and nvcc are stand-ins; wheels are small zips that are really unpacked.

use super::*;
use host::container::{Engine, EngineFacts, EngineState};
use host::failure::{code_of, remedy_of};
use schema::ExitCode;
use std::path::{Path, PathBuf};
use words::docker_says::{Kind, Refusal};

const FAKE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../fixtures/fake");

/// A checkout with a lock of one wheel, that wheel kept, and a machine that looks at nothing outside.
struct Bench {
    dir: tempfile::TempDir,
    machine: Machine,
}

/// A `docker` that has the local base, builds what it is told, and remembers it.
const DOCKER: &str = r#"
case "$1 $2" in
"image inspect")
  absent() { echo '[]'; echo "Error response from daemon: no such image: $1: No such image: $1" >&2; exit 1; }
  case "$3" in
  assay-base:local) echo '[{"Id":"sha256:b0","RepoDigests":[],"Config":{"Labels":null}}]';;
  cuda12@*) echo '[{"Id":"sha256:b0","RepoDigests":["mirror/cuda@sha256:'$(printf '%064d' 0)'","'$3'"],"Config":{"Labels":null}}]';;
  assay:*) [ -f "$FAKE_LOG.built" ] && cat "$FAKE_LOG.built" || absent "$3";;
  *) absent "$3";;
  esac;;
"run "*) for last; do case $last in --workdir=*) cd "${last#*=}";; --name=assay-probe*) probe=1;; esac; done
  [ -z "$probe" ] || { echo "$last" >mark; exit; }
  printf 'path=/usr/bin\nnvcc=%s\nsanitizer=\ncxx=/usr/bin/g++\nsysroot=/usr/local\n' "$FAKE_NVCC"
  [ -z "$FAKE_NVCC" ] || echo 'Cuda compilation tools, release 12.9, V12.9.86';;
"build "*)
  for a in "$@"; do case $a in --label=assay.key=*) key=${a#*key=};; esac; done
  echo "[{\"Id\":\"sha256:made\",\"Config\":{\"Labels\":{\"assay.key\":\"$key\"}}}]" >"$FAKE_LOG.built";;
"pull "*) echo 'Error response from daemon: Get "https://registry/v2/": dial tcp: lookup registry: no such host' >&2; exit 1;;
esac
"#;

impl Bench {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let paths = Paths::new(dir.path());
        let wheels = paths.state().join("wheels");
        std::fs::create_dir_all(&wheels).unwrap();
        std::fs::create_dir_all(paths.docker()).unwrap();
        let made = dir.path().join("made.whl");
        let script = "import sys,zipfile\nz=zipfile.ZipFile(sys.argv[1],'w')\nfor p in ('nvcc','compute-sanitizer'):\n \
                      z.writestr('nvidia/cu13/bin/'+p,'#!/bin/sh\\n')";
        let python = std::process::Command::new("python3").args(["-c", script]).arg(&made).status().unwrap();
        assert!(python.success());
        let sha256 = Digest::of_file(&made).unwrap();
        std::fs::rename(&made, wheels.join(format!("cuda-1-{}.whl", sha256.short()))).unwrap();
        std::fs::write(paths.toolkit_lock(), format!("cuda==1 --hash=sha256:{sha256} # 9\n")).unwrap();
        std::fs::write(paths.docker().join("Dockerfile"), "ARG BASE\nFROM ${BASE}\n").unwrap();
        let base =
            |name: &str| format!("[[base]]\nname = \"{name}\"\nimage = \"{name}:1\"\ndigest = \"sha256:{sha256}\"\n");
        let lock = format!("format = 1\n{}{}", base("rust"), base("cuda12"));
        std::fs::write(paths.docker().join("image.lock"), lock).unwrap();
        let env = vec![("PATH".into(), std::env::var("PATH").unwrap()), ("HOME".into(), "/tmp".into())];
        let root = dir.path().join("machine");
        let machine = Machine { root, env, engine: None, state: EngineState::Absent, inside: None };
        Self { dir, machine }
    }

    /// With an engine that answers; `nvcc` is what the base has.
    fn with_docker(mut self, script: &str, nvcc: &str) -> Self {
        let log = self.dir.path().join("calls").display().to_string();
        let path = format!("{FAKE}:/usr/bin:/bin");
        let env = [("PATH", path), ("FAKE_LOG", log), ("FAKE_DO", script.into()), ("FAKE_NVCC", nvcc.into())];
        self.machine.engine = Engine::with(env.map(|(key, value)| (key.to_owned(), value)).to_vec());
        let facts = EngineFacts { server_version: "28.0".into(), ..EngineFacts::default() };
        self.machine.state = EngineState::Ready(Box::new(facts));
        self
    }

    /// With a CUDA 13.0 of its own.
    fn with_own_toolkit(self) -> Self {
        let bin = self.machine.root.join("usr/local/cuda/bin");
        std::fs::create_dir_all(&bin).unwrap();
        std::os::unix::fs::symlink(Path::new(FAKE).join("nvcc"), bin.join("nvcc")).unwrap();
        self
    }

    fn paths(&self) -> Paths {
        Paths::new(self.dir.path())
    }

    fn wheel(&self) -> PathBuf {
        let wheels = std::fs::read_dir(self.paths().state().join("wheels")).unwrap();
        wheels.flatten().map(|file| file.path()).find(|path| path.extension() == Some("whl".as_ref())).unwrap()
    }

    fn provision(&self, runtime: RuntimeChoice, driver_cuda: Option<u32>) -> Result<Provisioned> {
        let options =
            ProvisionOptions { runtime, base: None, offline: true, need_gpu: false, driver_cuda, quiet: true };
        provision_on(&self.paths(), &options, &self.machine)
    }

    fn calls(&self, word: &str) -> Vec<String> {
        let calls = std::fs::read_to_string(self.dir.path().join("calls")).unwrap_or_default();
        calls.lines().filter(|call| call.starts_with(word)).map(str::to_owned).collect()
    }
}

fn refused(done: Result<Provisioned>) -> anyhow::Error {
    match done {
        Ok(done) => panic!("provisioned {} with {:?}", done.runtime.name(), done.toolkit),
        Err(error) => error,
    }
}

#[test]
fn without_docker_auto_takes_the_host_and_says_so() {
    let bench = Bench::new();
    let first = bench.provision(RuntimeChoice::Auto, Some(13_000)).unwrap();
    assert_eq!((first.runtime.name(), first.cached), ("host", false));
    assert!(first.runtime_why.contains("no docker client"), "{}", first.runtime_why);
    assert_eq!(first.toolkit.origin, "wheels");
    assert!(first.toolkit.nvcc.is_file() && first.toolkit.sanitizer.unwrap().is_file());
    let again = bench.provision(RuntimeChoice::Auto, Some(13_000)).unwrap();
    assert_eq!((again.cached, again.key), (true, first.key));
    assert_eq!((&again.json()["runtime"], &again.json()["toolkit"]["origin"]), (&"host".into(), &"wheels".into()));
}

#[test]
fn in_a_providers_container_auto_stays_inside() {
    let mut bench = Bench::new();
    bench.machine.inside = Some("in a provider's container: RUNPOD_POD_ID is set".into());
    let done = bench.provision(RuntimeChoice::Auto, None).unwrap();
    assert_eq!(done.runtime.name(), "inside");
    assert!(done.runtime_why.contains("RUNPOD_POD_ID"));
}

fn refusing(kind: Kind) -> EngineState {
    EngineState::Refused(Refusal { kind, said: "x".into() })
}

#[test]
fn docker_asked_for_and_not_there_is_refused_with_its_own_remedy() {
    let states =
        [(EngineState::Absent, "docker.io"), (refusing(Kind::Down), "dockerd"), (refusing(Kind::Forbidden), "usermod")];
    for (state, remedy) in states {
        let mut bench = Bench::new();
        bench.machine.state = state;
        let error = refused(bench.provision(RuntimeChoice::Docker, None));
        assert_eq!(code_of(&error), ExitCode::Environment);
        assert!(remedy_of(&error).unwrap().contains(remedy), "{error}");
    }
}

#[test]
fn an_image_is_built_once_without_network_on_the_base() {
    let bench = Bench::new().with_docker(DOCKER, "");
    let first = bench.provision(RuntimeChoice::Auto, Some(13_000)).unwrap();
    assert_eq!((first.runtime.name(), first.cached, first.toolkit.origin.as_str()), ("docker", false, "wheels"));
    let container = first.container.unwrap();
    assert_eq!(
        (container.base.as_str(), container.base_digest.as_str(), container.base_local),
        (LOCAL_BASE, "sha256:b0", true)
    );
    let again = bench.provision(RuntimeChoice::Docker, Some(13_000)).unwrap();
    assert_eq!((again.cached, again.key), (true, first.key));
    let builds = bench.calls("build ");
    assert_eq!(builds.len(), 1);
    assert!(
        builds[0].contains("--network=none") && builds[0].contains("--build-arg=BASE=assay-base:local"),
        "{builds:?}"
    );
    assert_eq!(bench.calls("run ").len(), 2);
    assert!(bench.calls("pull").is_empty());
}

#[test]
fn a_changed_dockerfile_is_another_environment() {
    let bench = Bench::new().with_docker(DOCKER, "");
    let first = bench.provision(RuntimeChoice::Docker, None).unwrap();
    std::fs::write(bench.paths().docker().join("Dockerfile"), "ARG BASE\nFROM ${BASE}\nRUN true\n").unwrap();
    assert_ne!(bench.provision(RuntimeChoice::Docker, None).unwrap().key, first.key);
    assert_eq!(bench.calls("build ").len(), 2);
}

#[test]
fn a_base_with_its_own_toolkit_is_used_as_it_is() {
    for driver_cuda in [None, Some(13_000)] {
        let bench = Bench::new().with_docker(DOCKER, "/usr/local/cuda-12.9/bin/nvcc");
        let done = bench.provision(RuntimeChoice::Docker, driver_cuda).unwrap();
        assert_eq!((done.toolkit.origin.as_str(), done.cached), ("image", true));
        assert_eq!(done.toolkit.root, Path::new("/usr/local/cuda-12.9"));
        assert_eq!(done.container.unwrap().base, LOCAL_BASE);
        assert!(bench.calls("build ").is_empty());
    }
}

#[test]
fn an_old_driver_gets_the_pinned_older_base() {
    let bench = Bench::new().with_docker(DOCKER, "/usr/local/cuda-12.9/bin/nvcc");
    let done = bench.provision(RuntimeChoice::Auto, Some(12_040)).unwrap();
    assert_eq!((done.runtime.name(), done.toolkit.origin.as_str()), ("docker", "image"));
    let container = done.container.unwrap();
    assert!(container.base.starts_with("cuda12@sha256:") && !container.base_local);
}

#[test]
fn a_base_that_cannot_be_had_leaves_auto_on_the_host() {
    let none = DOCKER.replace("  assay-base:local)", "  other)");
    let bench = Bench::new().with_docker(&none, "");
    let options = ProvisionOptions {
        runtime: RuntimeChoice::Auto,
        base: None,
        offline: false,
        need_gpu: false,
        driver_cuda: None,
        quiet: true,
    };
    let done = provision_on(&bench.paths(), &options, &bench.machine).unwrap();
    assert_eq!(done.runtime.name(), "host");
    assert!(done.runtime_why.contains("cannot be pulled") && done.runtime_why.contains("no such host"));
    let asked = ProvisionOptions { runtime: RuntimeChoice::Docker, ..options };
    let error = refused(provision_on(&bench.paths(), &asked, &bench.machine));
    assert!(remedy_of(&error).unwrap().contains("--make-base"), "{error}");
}

#[test]
fn a_wrong_byte_is_refused_whatever_else_would_do() {
    for bench in [Bench::new().with_own_toolkit(), Bench::new().with_own_toolkit().with_docker(DOCKER, "")] {
        let wheel = bench.wheel();
        std::fs::write(&wheel, "something else").unwrap();
        let error = refused(bench.provision(RuntimeChoice::Auto, Some(13_000)));
        assert_eq!(code_of(&error), ExitCode::Environment);
        assert!(format!("{error:#}").contains("expected sha256"), "{error:#}");
        assert!(!wheel.exists());
        assert!(bench.calls("build ").is_empty());
    }
}

#[test]
fn wheels_that_cannot_be_had_leave_the_boxs_own_toolkit() {
    let bench = Bench::new();
    std::fs::remove_file(bench.wheel()).unwrap();
    let error = refused(bench.provision(RuntimeChoice::Host, None));
    assert_eq!(code_of(&error), ExitCode::Environment);
    let bench = bench.with_own_toolkit();
    let done = bench.provision(RuntimeChoice::Host, Some(13_000)).unwrap();
    assert_eq!(done.toolkit.origin, "box");
    assert!(done.toolkit_why.contains("--offline") && done.toolkit_why.contains("V13.0.88"), "{}", done.toolkit_why);
}

#[test]
fn a_driver_too_old_for_every_toolkit_is_refused_with_what_to_do() {
    // This box's own is CUDA 13.0, which a driver of CUDA 12.8 does not run either.
    let error = refused(Bench::new().with_own_toolkit().provision(RuntimeChoice::Auto, Some(12_080)));
    assert_eq!(code_of(&error), ExitCode::Environment);
    let told = format!("{error:#}");
    assert!(told.contains("12.8") && remedy_of(&error).unwrap().contains("cuda12"), "{told}");
    // Why docker was not taken is not lost.
    assert!(told.contains("no docker client on PATH"), "{told}");
    let in_docker = Bench::new().with_docker(DOCKER, "").provision(RuntimeChoice::Docker, Some(12_080));
    assert!(refused(in_docker).to_string().contains("12.8"));
}

#[test]
fn a_gpu_that_cannot_get_into_a_container_is_not_left_out_in_silence() {
    let bench = Bench::new().with_docker(DOCKER, "");
    let options = ProvisionOptions {
        runtime: RuntimeChoice::Docker,
        base: None,
        offline: true,
        need_gpu: true,
        driver_cuda: Some(13_000),
        quiet: true,
    };
    let error = refused(provision_on(&bench.paths(), &options, &bench.machine));
    assert!(error.to_string().contains("no way for a GPU"), "{error}");
}

/// Provision with an engine whose calls that begin with `call` do `script` instead.
fn refused_by_docker(call: &str, script: &str, need_gpu: bool) -> (Bench, anyhow::Error) {
    let with = DOCKER.replacen("case \"$1 $2\" in", &format!("case \"$1 $2\" in\n\"{call}\"*) {script};;"), 1);
    let mut bench = Bench::new().with_docker(&with, "");
    if need_gpu {
        let EngineState::Ready(facts) = &mut bench.machine.state else { panic!("an engine") };
        facts.runtimes = Some([("nvidia".to_owned(), serde_json::json!({}))].into());
    }
    let options = ProvisionOptions {
        runtime: RuntimeChoice::Docker,
        base: None,
        offline: false,
        need_gpu,
        driver_cuda: Some(13_000),
        quiet: true,
    };
    let error = refused(provision_on(&bench.paths(), &options, &bench.machine));
    assert_eq!(code_of(&error), ExitCode::Environment, "{error:#}");
    (bench, error)
}

/// The error says and advises this, and nothing was built.
#[track_caller]
fn check_refused(call: &str, script: &str, need_gpu: bool, said: &str, remedy: &str) -> Bench {
    let (bench, error) = refused_by_docker(call, script, need_gpu);
    assert!(format!("{error:#}").contains(said), "{error:#}");
    assert!(remedy_of(&error).unwrap().contains(remedy), "{:?}", remedy_of(&error));
    assert!(bench.calls("build ").is_empty() || call.starts_with("build"));
    bench
}

#[test]
fn a_gpu_that_docker_does_not_bring_in_is_refused_before_any_work() {
    let gpus = "echo 'docker: Error response from daemon: could not select device driver \"\" with capabilities: [[gpu]].' >&2; exit 125";
    check_refused("run ", gpus, true, "knows no GPU runtime", "nvidia-ctk runtime configure");
    let library =
        "echo 'nvidia-container-cli: initialization error: load library failed: libnvidia-ml.so.1: x' >&2; exit 125";
    check_refused("run ", library, true, "finds no libraries of it", "type -a docker");
    let cdi = "echo 'Error: setting up CDI devices: unresolvable CDI devices nvidia.com/gpu=0' >&2; exit 126";
    check_refused("run ", cdi, true, "CDI specification", "nvidia-ctk cdi generate");
}

#[test]
fn a_gpu_that_may_not_be_opened_inside_is_refused_before_any_work() {
    for script in [
        "echo 'sh: 4: cannot open /dev/nvidiactl: Operation not permitted' >&2; exit 92",
        "echo words; exit 92",
        "echo 'Failed to initialize NVML: Insufficient Permissions'; exit 4",
    ] {
        check_refused("run ", script, true, "cannot be opened from a container", "no-cgroups");
    }
    let lost = "echo 'Failed to initialize NVML: Unknown Error'; exit 255";
    check_refused("run ", lost, true, "or no longer", "daemon-reload");
}

#[test]
fn a_container_that_cannot_write_where_it_must_is_refused_before_any_work() {
    // The line is of a public report.
    let script = "echo 'open /data/out/.probe_17: permission denied' >&2; exit 1";
    check_refused("run ", script, false, "cannot write into", "ls -ld");
    check_refused("run ", "exit 91", false, "cannot write into", "userns");
}

#[test]
fn a_container_whose_files_never_arrive_is_refused_though_it_ended_well() {
    check_refused("run ", "exit 0", false, "nothing arrived", "DOCKER_HOST");
    check_refused(
        "run ",
        "cd \"${7#*=}\" 2>/dev/null; echo other >mark; exit 0",
        false,
        "nothing arrived",
        "DOCKER_HOST",
    );
}

#[test]
fn files_that_arrive_as_somebody_elses_are_refused() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("skipped: only root can make a file another user's");
        return;
    }
    let script = "for last; do case $last in --workdir=*) cd \"${last#*=}\";; esac; done; echo $last >mark; chown 12345 mark; exit 0";
    check_refused("run ", script, false, "arrive here as user 12345's", "ls -ld");
}

#[test]
fn a_limit_that_the_engine_may_not_raise_is_left_out() {
    // As engine 20.10.24 says it.
    let said = "docker: Error response from daemon: failed to create shim task: error setting rlimit type 8: operation not permitted";
    let script = DOCKER.replacen(
        "\"run \"*)",
        &format!("\"run \"*) case \"$*\" in *--ulimit=memlock*) echo '{said}' >&2; exit 126;; esac;"),
        1,
    );
    let bench = Bench::new().with_docker(&script, "");
    let hardening = bench.provision(RuntimeChoice::Docker, None).unwrap().container.unwrap().hardening;
    assert!(hardening.contains(&"--shm-size=1g".to_owned()) && !hardening.iter().any(|flag| flag.contains("memlock")));
    let able = Bench::new().with_docker(DOCKER, "").provision(RuntimeChoice::Docker, None).unwrap().container.unwrap();
    assert!(able.hardening.contains(&"--ulimit=memlock=-1:-1".to_owned()), "{:?}", able.hardening);
}

#[test]
fn a_record_keeps_the_bases_digest_and_the_images_id_apart() {
    let bench = Bench::new().with_docker(DOCKER, "/usr/local/cuda-12.9/bin/nvcc");
    let pinned = bench.provision(RuntimeChoice::Docker, Some(12_040)).unwrap().container.unwrap();
    assert_eq!(pinned.image_id.as_deref(), Some("sha256:b0"));
    assert!(pinned.base_digest.starts_with("sha256:") && pinned.base_digest != "sha256:b0" && !pinned.base_local);
    let bench = Bench::new().with_docker(DOCKER, "");
    let local = bench.provision(RuntimeChoice::Docker, None).unwrap().container.unwrap();
    assert_eq!((local.base_digest.as_str(), local.base_local), ("sha256:b0", true));
    assert_eq!(local.image_id.as_deref(), Some("sha256:made"));
}

/// An engine without a local base, so that the pinned one is asked for.
fn without_local(script: &str) -> String {
    script.replace("  assay-base:local)", "  other)")
}

fn ask_pinned(script: &str) -> (Bench, Result<Provisioned>) {
    let mut bench = Bench::new().with_docker(&without_local(script), "");
    bench.machine.engine.as_mut().unwrap().waits = vec![std::time::Duration::from_millis(10); 2];
    let options = ProvisionOptions {
        runtime: RuntimeChoice::Docker,
        base: None,
        offline: false,
        need_gpu: false,
        driver_cuda: None,
        quiet: true,
    };
    let done = provision_on(&bench.paths(), &options, &bench.machine);
    (bench, done)
}

/// A `pull` that fails so many times with `said` and then brings the image, which registries gave under two digests.
fn pulls(fails: u32, said: &str) -> String {
    let pull = format!(
        "n=$(grep -c '^pull' $FAKE_LOG); [ $n -gt {fails} ] || {{ echo '{said}' >&2; exit 1; }}; echo $2 >$FAKE_LOG.pulled;;\n\"pull \"*) "
    );
    let image = "rust@*) [ -e $FAKE_LOG.pulled ] || absent \"$3\"; \
                 echo '[{\"Id\":\"sha256:b1\",\"RepoDigests\":[\"'$3'\"],\"Config\":{\"Labels\":null}}]';;\n  cuda12@*)";
    DOCKER.replace("\"pull \"*) ", &format!("\"pull \"*) {pull}")).replacen("cuda12@*)", image, 1)
}

#[test]
fn a_limit_on_pulls_is_waited_for_a_bounded_number_of_times() {
    let said = "Error response from daemon: toomanyrequests: You have reached your unauthenticated pull rate limit.";
    let (bench, done) = ask_pinned(&pulls(2, said));
    assert!(done.unwrap().container.unwrap().base.starts_with("rust@sha256:"));
    assert_eq!(bench.calls("pull ").len(), 3);
    let (bench, done) = ask_pinned(&pulls(9, said));
    let error = refused(done);
    assert_eq!(bench.calls("pull ").len(), 3);
    assert!(
        error.to_string().contains("limits pulls") && remedy_of(&error).unwrap().contains("docker login"),
        "{error}"
    );
}

#[test]
fn what_waiting_does_not_help_is_asked_once() {
    for (said, means, remedy) in [
        (
            "manifest for rust not found: manifest unknown: manifest unknown",
            "not the network",
            "a nearby tag is another image",
        ),
        ("failed to register layer: write /usr/x: no space left on device", "a disk is full", "df -i"),
        ("W: GPG error: x InRelease: NO_PUBKEY 0123456789ABCDEF", "a signature", "unsigned packages"),
        ("dial tcp: lookup registry: no such host", "the network", "--make-base"),
    ] {
        let (bench, done) = ask_pinned(&pulls(9, &format!("Error response from daemon: {said}")));
        let error = refused(done);
        assert_eq!((code_of(&error), bench.calls("pull ").len()), (ExitCode::Environment, 1));
        assert!(error.to_string().contains(means), "{error}");
        assert!(remedy_of(&error).unwrap().contains(remedy), "{:?}", remedy_of(&error));
    }
}

#[test]
fn an_image_id_in_the_lock_is_named_as_one() {
    let known = pulls(9, "Error response from daemon: manifest for rust@sha256:1111 not found").replacen(
        "  rust@*)",
        "  sha256:*) echo '[{\"Id\":\"sha256:id\",\"RepoDigests\":[],\"Config\":{\"Labels\":null}}]';;\n  rust@*)",
        1,
    );
    let error = refused(ask_pinned(&known).1);
    assert!(error.to_string().contains("sha256:id is the id of an image here"), "{error}");
    assert!(remedy_of(&error).unwrap().contains(".RepoDigests"));
}

#[test]
fn a_base_that_no_registry_gave_under_the_pinned_digest_is_refused() {
    for listed in ["", "\"rust@sha256:2222\"", "\"a@sha256:1\",\"b@sha256:2\""] {
        let image = format!(
            "rust@*) echo '[{{\"Id\":\"sha256:b1\",\"RepoDigests\":[{listed}],\"Config\":{{\"Labels\":null}}}}]';;\n  cuda12@*)"
        );
        let (bench, done) = ask_pinned(&DOCKER.replacen("cuda12@*)", &image, 1));
        let error = refused(done);
        assert!(error.to_string().contains("does not say that a registry gave it"), "{error}");
        assert_eq!(code_of(&error), ExitCode::Environment);
        assert!(bench.calls("run ").is_empty());
    }
}

#[test]
fn a_pinned_digest_from_another_registry_is_the_same_base() {
    let listed = "\"images \"*) echo mirror.example/rust@sha256:$DIGEST;;\n\"pull \"*)";
    let image = "mirror.example/rust@*) echo '[{\"Id\":\"sha256:b1\",\"RepoDigests\":[\"'$3'\"],\"Config\":{\"Labels\":null}}]';;\n  cuda12@*)";
    let bench = Bench::new();
    let lock = BaseLock::read(&bench.paths().docker().join("image.lock")).unwrap();
    let digest = lock.base[0].digest.to_string();
    let script = DOCKER.replace("\"pull \"*)", listed).replacen("cuda12@*)", image, 1);
    let script = without_local(&script).replace("sha256:$DIGEST", &digest).replace("\"images \"*", "\"images --all\"");
    let bench = bench.with_docker(&script, "");
    let done = bench.provision(RuntimeChoice::Docker, None).unwrap().container.unwrap();
    assert_eq!((done.base, done.base_digest.as_str()), (format!("mirror.example/rust@{digest}"), digest.as_str()));
    assert!(bench.calls("pull ").is_empty());
}

#[test]
fn a_build_that_fails_says_of_what_kind_it_is() {
    let key = "echo \"E: The repository 'x' is not signed.\"; exit 100";
    check_refused("build ", key, false, "a signature", "unsigned packages");
    let full = "echo 'write /opt/assay/cuda/bin/nvcc: no space left on device' >&2; exit 1";
    check_refused("build ", full, false, "a disk is full", "df -h");
    let gone = "echo 'ERROR: failed to solve: x: failed to resolve source metadata for x: not found' >&2; exit 1";
    check_refused("build ", gone, false, "not the network", "mirror");
}

#[test]
fn too_little_disk_where_docker_keeps_images_is_refused_before_any_work() {
    let mut bench = Bench::new().with_docker(DOCKER, "");
    let EngineState::Ready(facts) = &mut bench.machine.state else { panic!("an engine") };
    // The kernel's own file system has no room at all.
    facts.docker_root_dir = "/proc".into();
    let error = refused(bench.provision(RuntimeChoice::Docker, None));
    assert_eq!(code_of(&error), ExitCode::Environment);
    assert!(
        error.to_string().contains("docker's root folder") && remedy_of(&error).unwrap().contains("df -i"),
        "{error}"
    );
    assert!(bench.calls("build ").is_empty() && bench.calls("run ").is_empty());
}

#[test]
fn too_little_room_for_temporary_files_is_refused_in_every_runtime() {
    let mut bench = Bench::new().with_own_toolkit();
    bench.machine.env.push(("TMPDIR".into(), "/proc".into()));
    for runtime in [RuntimeChoice::Host, RuntimeChoice::Auto] {
        let error = refused(bench.provision(runtime, None));
        assert_eq!(code_of(&error), ExitCode::Environment);
        assert!(error.to_string().contains("temporary files"), "{error}");
    }
}
