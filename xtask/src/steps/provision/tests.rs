//! The choices, on machines made up for them. docker and nvcc are stand-ins; wheels are small zips that are really unpacked.

use super::*;
use crate::failure::{code_of, remedy_of};
use crate::world::container::{Engine, EngineFacts, EngineState};
use schema::ExitCode;
use std::path::{Path, PathBuf};

const FAKE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures/fake");

/// A checkout with a lock of one wheel, that wheel kept, and a machine that looks at nothing outside.
struct Bench {
    dir: tempfile::TempDir,
    machine: Machine,
}

/// A `docker` that has the local base, builds what it is told, and remembers it.
const DOCKER: &str = r#"
case "$1 $2" in
"image inspect")
  case "$3" in
  assay-base:local|cuda12@*) echo '[{"Id":"sha256:b0","Config":{"Labels":null}}]';;
  assay:*) [ -f "$FAKE_LOG.built" ] && cat "$FAKE_LOG.built" || exit 1;;
  *) exit 1;;
  esac;;
"run "*) printf 'path=/usr/bin\nnvcc=%s\nsanitizer=\ncxx=/usr/bin/g++\nsysroot=/usr/local\n' "$FAKE_NVCC"
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

#[test]
fn docker_asked_for_and_not_there_is_refused_with_its_own_remedy() {
    let states = [
        (EngineState::Absent, "docker.io"),
        (EngineState::Down("down".into()), "dockerd"),
        (EngineState::Forbidden("no".into()), "usermod"),
    ];
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
    assert_eq!(bench.calls("run ").len(), 1);
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
    let none = DOCKER.replace("assay-base:local|cuda12@*)", "other)");
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
        assert!(error.to_string().contains("expected sha256"), "{error}");
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
    assert!(error.to_string().contains("12.8") && remedy_of(&error).unwrap().contains("cuda12"), "{error}");
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
