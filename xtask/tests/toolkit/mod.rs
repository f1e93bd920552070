//! A real nvcc for tests, where one is at hand: `ASSAY_TEST_TOOLKIT`, or what `cargo xtask provision` unpacked.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// The toolkit's root; absent (and said aloud) when there is none.
pub(crate) fn find() -> Option<PathBuf> {
    let found = asked_for().or_else(provisioned);
    if found.is_none() {
        eprintln!("skipped: no toolkit (set ASSAY_TEST_TOOLKIT, or run cargo xtask provision)");
    }
    found
}

/// Compiles `source`, written as `folder/name`, as the build step does; gives the cubin and ptxas' log.
pub(crate) fn compile(
    toolkit: &Path,
    folder: &Path,
    name: &str,
    source: &str,
    arch: &str,
    more: &[&str],
) -> (Vec<u8>, String) {
    std::fs::create_dir_all(folder).unwrap();
    let file = folder.join(name);
    std::fs::write(&file, source).unwrap();
    let out = folder.join("out.cubin");
    let mut command = Command::new(toolkit.join("bin/nvcc"));
    command.args(["-cubin", "-O3", "-std=c++17", "-Xptxas", "-v,-warn-spills"]).arg(format!("-arch={arch}"));
    let Output { status, stderr, .. } = command.args(more).arg("-o").arg(&out).arg(&file).output().unwrap();
    let log = String::from_utf8_lossy(&stderr).into_owned();
    assert!(status.success(), "{log}");
    (std::fs::read(&out).unwrap(), log)
}

fn asked_for() -> Option<PathBuf> {
    std::env::var_os("ASSAY_TEST_TOOLKIT").map(PathBuf::from)
}

fn provisioned() -> Option<PathBuf> {
    let below = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/assay/toolkit");
    let mut candidates = vec![below.clone()];
    candidates.extend(std::fs::read_dir(below).into_iter().flatten().flatten().map(|entry| entry.path()));
    candidates.into_iter().find(|root| root.join("bin/nvcc").is_file())
}
