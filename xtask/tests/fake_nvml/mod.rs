//! Builds the fake NVML library and gives each test a GPU of its own: a copy of the library with its files beside it.

use host::gpu::nvml::{Gpu, GpuChoice, Library, NvmlGpu};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, LazyLock};

static BUILT: LazyLock<tempfile::TempDir> = LazyLock::new(|| build("fake_nvml/fake_nvml.c", &[]));
static OLD: LazyLock<tempfile::TempDir> = LazyLock::new(|| build("fake_nvml/fake_nvml.c", &["-DOLD"]));

/// Compiles a fake library, named from this folder, into `fake.so`.
fn build(source: &str, flags: &[&str]) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let built = Command::new("cc")
        .args(["-std=gnu11", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC"])
        .args(flags)
        .arg("-o")
        .arg(dir.path().join("fake.so"))
        .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests").join(source))
        .arg("-ldl")
        .status()
        .expect("cc builds the fake library; install g++");
    assert!(built.success(), "cc refused the fake library");
    dir
}

/// A GPU whose answers a test writes.
pub(crate) struct Fake {
    pub(crate) dir: tempfile::TempDir,
    pub(crate) library: PathBuf,
}

#[allow(dead_code, reason = "each test binary uses what it needs")]
impl Fake {
    /// A GPU with these `key value` lines.
    pub(crate) fn new(state: &str) -> Self {
        Self::copy_of(&BUILT, state)
    }

    /// The same with the library of an older driver, which lacks what came later.
    pub(crate) fn old(state: &str) -> Self {
        Self::copy_of(&OLD, state)
    }

    fn copy_of(built: &tempfile::TempDir, state: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        // The loader knows a library by its file, so every copy has state of its own.
        let library = dir.path().join("libnvidia-ml.so.1");
        std::fs::copy(built.path().join("fake.so"), &library).unwrap();
        let fake = Self { dir, library };
        fake.set(state);
        fake
    }

    /// Replaces the `key value` lines.
    pub(crate) fn set(&self, state: &str) {
        let partial = self.beside(".state.partial");
        std::fs::write(&partial, state).unwrap();
        std::fs::rename(partial, self.beside(".state")).unwrap();
    }

    pub(crate) fn gpu(&self) -> Arc<dyn Gpu> {
        Arc::new(self.open())
    }

    pub(crate) fn open(&self) -> NvmlGpu {
        Library::open(Some(&self.library)).unwrap().gpu(&GpuChoice::Index(0)).unwrap()
    }

    /// What is locked now, as `sm 1500, memory 2619`.
    pub(crate) fn locked(&self) -> String {
        std::fs::read_to_string(self.beside(".locked")).unwrap_or_default().lines().collect::<Vec<_>>().join(", ")
    }

    /// Locks a clock behind everybody's back.
    pub(crate) fn leave_locked(&self) {
        std::fs::write(self.beside(".locked"), "sm 1500\nmemory 2619\n").unwrap();
    }

    /// Every setter call so far, of any process.
    pub(crate) fn setters(&self) -> Vec<String> {
        std::fs::read_to_string(self.beside(".setters")).unwrap_or_default().lines().map(str::to_owned).collect()
    }

    pub(crate) fn lease(&self) -> PathBuf {
        self.dir.path().join("clocks.lease")
    }

    fn beside(&self, suffix: &str) -> PathBuf {
        let mut name = self.library.clone().into_os_string();
        name.push(suffix);
        name.into()
    }
}

/// The program under test.
pub(crate) fn xtask() -> PathBuf {
    PathBuf::from(env!("CARGO_BIN_EXE_xtask"))
}

/// Builds a fake libcuda with these `key value` lines into a folder, beside a fake NVML or not.
#[allow(dead_code, reason = "not every test binary that has GPUs has a CUDA driver")]
pub(crate) fn fake_cuda(folder: &Path, name: &str, state: &str, flags: &[&str]) {
    let built = build("../../harness/tests/fake_cuda/fake_cuda.c", flags);
    std::fs::copy(built.path().join("fake.so"), folder.join(name)).unwrap();
    std::fs::write(folder.join(format!("{name}.state")), state).unwrap();
}

/// The program run in this checkout, where the loader finds these libraries first.
#[allow(dead_code, reason = "not every test binary runs the program")]
pub(crate) fn run(libraries: &Path, args: &[&str]) -> std::process::Output {
    command(libraries, args).output().unwrap()
}

#[allow(dead_code, reason = "not every test binary runs the program")]
pub(crate) fn command(libraries: &Path, args: &[&str]) -> Command {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let mut command = Command::new(xtask());
    command.args(args).current_dir(root).env("LD_LIBRARY_PATH", libraries);
    command
}

/// What `doctor --json` says where the loader finds these libraries first. It finds no other program, which keeps it quick.
#[allow(dead_code, reason = "not every test binary asks doctor")]
pub(crate) fn doctor(libraries: &Path) -> serde_json::Value {
    let mut command = command(libraries, &["doctor", "--json"]);
    let ended = command.env("PATH", "/nonexistent").output().unwrap();
    serde_json::from_slice(&ended.stdout).unwrap_or_else(|_| panic!("{}", String::from_utf8_lossy(&ended.stderr)))
}
