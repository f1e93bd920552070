//! A temporary checkout of this repository, and this program run in it as a person would.
//!
//! It is a clone with the working tree's files committed on top. What is slow to make and named by its content (toolkit,
//! wheels, builds) is shared with the real checkout by hard links; without a toolkit there, nothing is made here.
#![allow(dead_code, reason = "each test file uses its own part of this")]

use serde_json::Value;
use std::collections::BTreeSet;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::SystemTime;

/// The whole emulated smoke path.
pub(crate) const SMOKE: [&str; 7] =
    ["reproduce", "--device", "emulated", "--profile", "smoke", "--offline", "--runtime"];

/// A checkout. It is removed with this value, except what cargo compiled in a small one.
pub(crate) struct Checkout {
    dir: PathBuf,
    _lock: Option<File>,
}

impl Drop for Checkout {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            remove_all_but_cargo(&self.dir);
        }
    }
}

/// How a command ended.
pub(crate) struct Ended {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Checkout {
    /// A checkout with nothing built.
    pub(crate) fn bare() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let name = format!("checkout-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        Self::at(&Path::new(env!("CARGO_TARGET_TMPDIR")).join(name), None)
    }

    fn at(dir: &Path, lock: Option<File>) -> Self {
        remove_all_but_cargo(dir);
        let checkout = Self { dir: dir.to_owned(), _lock: lock };
        let origin = real_root().display().to_string();
        std::fs::create_dir_all(dir).unwrap();
        checkout.git(&["init", "--quiet"]);
        checkout.git(&["fetch", "--quiet", "--no-tags", &origin, "HEAD"]);
        checkout.git(&["reset", "--quiet", "--soft", "FETCH_HEAD"]);
        checkout.git(&["config", "user.name", "Test"]);
        checkout.git(&["config", "user.email", "test@example.org"]);
        for name in tracked() {
            copy(&real_root().join(&name), &checkout.path(&name));
        }
        checkout.commit("the working tree");
        checkout
    }

    /// A checkout with toolkit and build at hand; absent, and said aloud, without a toolkit.
    pub(crate) fn built(runtime: &str) -> Option<Self> {
        if !has_toolkit() {
            return None;
        }
        build_once(runtime);
        let checkout = Self::bare();
        checkout.share_state();
        Some(checkout)
    }

    /// A checkout with one kernel file and a short plan, so that a build and a run take seconds each; nothing of it is built
    /// yet. The emulated device loads no kernel.
    pub(crate) fn small(runtime: &str) -> Option<Self> {
        if !has_toolkit() {
            return None;
        }
        // Cargo compiles everything anew in another folder, so this one stays, and one test at a time works in it.
        let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("small-{runtime}"));
        let lock = File::create(dir.with_extension("lock")).unwrap();
        lock.lock().unwrap();
        let checkout = Self::at(&dir, Some(lock));
        checkout.share_state();
        std::fs::remove_dir_all(checkout.path("kernels/controls")).unwrap();
        std::fs::remove_dir_all(checkout.path("kernels/preempt")).unwrap();
        checkout.edit("harness/experiments/preempt/plan.toml", "drain_us = 3_000", "drain_us = 500");
        checkout.commit("one kernel and a short plan");
        Some(checkout)
    }

    /// Why the real checkout has nothing to run in, if so.
    pub(crate) fn why_not(runtime: &str) -> Option<String> {
        let ended = run_in(&real_root(), &["provision", "--offline", "--runtime", runtime]);
        (ended.code != Some(0)).then_some(ended.stderr)
    }

    /// Takes what the real checkout built that is absent here.
    pub(crate) fn share_state(&self) {
        link_tree(&real_root().join("target/toolkit"), &self.path("target/toolkit"));
        for folder in ["wheels", "bases"] {
            link_tree(&real_root().join("target/assay").join(folder), &self.path("target/assay").join(folder));
        }
        for build in folders(&real_root().join("target/assay/build")) {
            let name = build.file_name().unwrap();
            if !name.to_string_lossy().starts_with('.') && build.join("done.json").is_file() {
                link_tree(&build, &self.path("target/assay/build").join(name));
            }
        }
    }

    /// A path below the checkout.
    pub(crate) fn path(&self, name: impl AsRef<Path>) -> PathBuf {
        self.dir.join(name)
    }

    /// This program, run here to its end.
    pub(crate) fn run(&self, args: &[&str]) -> Ended {
        run_in(&self.dir, args)
    }

    /// This program, started here in a process group of its own.
    pub(crate) fn start(&self, args: &[&str]) -> std::process::Child {
        use std::os::unix::process::CommandExt;
        let mut command = program(&self.dir, args);
        command.stdout(Stdio::null()).stderr(Stdio::null()).process_group(0).spawn().unwrap()
    }

    /// The smoke path in `runtime`, which must end well; its `--json` object.
    pub(crate) fn reproduce(&self, runtime: &str, more: &[&str]) -> Value {
        let mut args = SMOKE.to_vec();
        args.extend([runtime, "--json"]);
        args.extend(more);
        let ended = self.run(&args);
        assert_eq!(ended.code, Some(0), "{}", ended.stderr);
        serde_json::from_str(&ended.stdout).unwrap()
    }

    /// The file's text with `from`, which must stand there, replaced once by `to`.
    pub(crate) fn edit(&self, name: &str, from: &str, to: &str) {
        let text = std::fs::read_to_string(self.path(name)).unwrap();
        assert!(text.contains(from), "{name} does not hold {from:?}");
        std::fs::write(self.path(name), text.replacen(from, to, 1)).unwrap();
    }

    /// Appends to a file.
    pub(crate) fn append(&self, name: &str, more: &str) {
        let text = std::fs::read_to_string(self.path(name)).unwrap();
        std::fs::write(self.path(name), text + more).unwrap();
    }

    /// Commits everything.
    pub(crate) fn commit(&self, message: &str) {
        self.git(&["add", "--all"]);
        self.git(&["commit", "--quiet", "--allow-empty", "--no-verify", "--no-gpg-sign", "--message", message]);
    }

    fn git(&self, args: &[&str]) {
        git(&self.dir, args);
    }

    /// Every file below a folder of the checkout, by path below that folder.
    pub(crate) fn files(&self, folder: &str) -> Vec<String> {
        let root = self.path(folder);
        let mut found = Vec::new();
        walk(&root, &mut |file| found.push(file.strip_prefix(&root).unwrap().display().to_string()));
        found.sort();
        found
    }

    /// The run directories, by id.
    pub(crate) fn runs(&self) -> Vec<String> {
        let mut runs: Vec<String> = folders(&self.path("results/raw"))
            .iter()
            .map(|dir| dir.file_name().unwrap().to_string_lossy().into_owned())
            .collect();
        runs.sort();
        runs
    }
}

/// Which steps of a `reproduce --json` object were not taken from a cache.
pub(crate) fn uncached(object: &Value) -> Vec<&str> {
    let steps = object["steps"].as_array().unwrap();
    steps.iter().filter(|step| step["cached"] == false).map(|step| step["name"].as_str().unwrap()).collect()
}

/// Where no build is at hand yet, the real checkout makes it and keeps it.
fn build_once(runtime: &str) {
    static BUILT: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());
    let mut built = BUILT.lock().unwrap();
    if built.insert(runtime.to_owned()) {
        let ended = run_in(&real_root(), &["build", "--offline", "--runtime", runtime]);
        assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    }
}

/// Whether the real checkout has a toolkit; says so when not.
pub(crate) fn has_toolkit() -> bool {
    let found = real_root().join("target/toolkit").is_dir();
    if !found {
        eprintln!("skipped: no toolkit (run cargo xtask provision --runtime host)");
    }
    found
}

/// Leaves `target/assay/cargo` only, or nothing where there is none.
fn remove_all_but_cargo(dir: &Path) {
    let kept = dir.with_extension("cargo");
    let cargo = dir.join("target/assay/cargo");
    let keeps = cargo.is_dir() && std::fs::rename(&cargo, &kept).is_ok();
    if dir.is_dir() {
        std::fs::remove_dir_all(dir).unwrap();
    }
    if keeps {
        std::fs::create_dir_all(cargo.parent().unwrap()).unwrap();
        std::fs::rename(&kept, &cargo).unwrap();
    }
}

fn real_root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

/// What git knows of the working tree and does not ignore, as far as it is there.
fn tracked() -> Vec<String> {
    let listed = git(&real_root(), &["ls-files", "-z", "--cached", "--others", "--exclude-standard"]);
    let names = listed.split('\0').filter(|name| !name.is_empty() && real_root().join(name).is_file());
    names.map(str::to_owned).collect()
}

/// Copies a file with its time, by which cargo tells whether it has seen it.
fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to.parent().unwrap()).unwrap();
    std::fs::copy(from, to).unwrap();
    let modified: SystemTime = std::fs::metadata(from).unwrap().modified().unwrap();
    std::fs::File::options().write(true).open(to).unwrap().set_modified(modified).unwrap();
}

/// The same tree of hard links; files that are there already stay.
fn link_tree(from: &Path, to: &Path) {
    walk(from, &mut |file| {
        let link = to.join(file.strip_prefix(from).unwrap());
        std::fs::create_dir_all(link.parent().unwrap()).unwrap();
        if !link.exists() {
            std::fs::hard_link(file, link).unwrap();
        }
    });
}

fn walk(dir: &Path, visit: &mut dyn FnMut(&Path)) {
    for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
        match entry.file_type().unwrap().is_dir() {
            true => walk(&entry.path(), visit),
            false => visit(&entry.path()),
        }
    }
}

fn folders(dir: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).filter(|path| path.is_dir()).collect()
}

fn git(dir: &Path, args: &[&str]) -> String {
    let output = Command::new("git").arg("-C").arg(dir).args(args).output().unwrap();
    assert!(output.status.success(), "git {args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// This program in `dir`, not yet started.
pub(crate) fn program(dir: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_xtask"));
    command.args(args).current_dir(dir).stdin(Stdio::null());
    command
}

fn run_in(dir: &Path, args: &[&str]) -> Ended {
    let Output { status, stdout, stderr } = program(dir, args).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    Ended { code: status.code(), stdout: text(stdout), stderr: text(stderr) }
}
