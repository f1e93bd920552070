//! A temporary checkout of this repository, and this program run in it as a person would.
//!
//! It is a clone with the working tree's files committed on top. What is slow to make and named by its content (toolkit,
//! wheels, builds) is shared with the real checkout by hard links; without a toolkit there, nothing is made here.
#![allow(dead_code, reason = "each test file uses its own part of this")]

use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::OnceLock;
use std::time::SystemTime;

/// The whole emulated smoke path.
pub(crate) const SMOKE: [&str; 7] =
    ["reproduce", "--device", "emulated", "--profile", "smoke", "--offline", "--runtime"];

/// A checkout that is removed with this value.
pub(crate) struct Checkout {
    dir: tempfile::TempDir,
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
        let dir = tempfile::Builder::new().prefix("checkout-").tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let checkout = Self { dir };
        let origin = real_root().display().to_string();
        let here = checkout.path("").display().to_string();
        git(&real_root(), &["clone", "--quiet", "--shared", "--no-checkout", &origin, &here]);
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
        static BUILT: OnceLock<bool> = OnceLock::new();
        let state = real_root().join("target/toolkit");
        if !state.is_dir() {
            eprintln!("skipped: no toolkit (run cargo xtask provision --runtime host)");
            return None;
        }
        // Where no build is at hand yet, the real checkout makes it once and keeps it.
        assert!(*BUILT.get_or_init(|| {
            let ended = run_in(&real_root(), &["build", "--offline", "--runtime", runtime]);
            eprint!("{}", ended.stderr);
            ended.code == Some(0)
        }));
        let checkout = Self::bare();
        checkout.share_state();
        Some(checkout)
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

    /// What cargo built for the harness, copied, so that it only makes anew what changed.
    pub(crate) fn copy_cargo(&self) {
        let (from, to) = (real_root().join("target/assay/cargo/host"), self.path("target/assay/cargo"));
        if from.is_dir() {
            std::fs::create_dir_all(&to).unwrap();
            let status = Command::new("cp").arg("-a").arg(from).arg(to).status().unwrap();
            assert!(status.success());
        }
    }

    /// A path below the checkout.
    pub(crate) fn path(&self, name: impl AsRef<Path>) -> PathBuf {
        self.dir.path().join(name)
    }

    /// This program, run here to its end.
    pub(crate) fn run(&self, args: &[&str]) -> Ended {
        run_in(self.dir.path(), args)
    }

    /// This program, started here in a process group of its own.
    pub(crate) fn start(&self, args: &[&str]) -> std::process::Child {
        use std::os::unix::process::CommandExt;
        let mut command = program(self.dir.path(), args);
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
        git(self.dir.path(), args);
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

fn program(dir: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_xtask"));
    command.args(args).current_dir(dir).stdin(Stdio::null());
    command
}

fn run_in(dir: &Path, args: &[&str]) -> Ended {
    let Output { status, stdout, stderr } = program(dir, args).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    Ended { code: status.code(), stdout: text(stdout), stderr: text(stderr) }
}
