//! A real nvcc for tests, where one is at hand: `ASSAY_TEST_TOOLKIT`, or what `cargo xtask provision` unpacked.

use std::path::{Path, PathBuf};

/// The toolkit's root; absent (and said aloud) when there is none.
pub(crate) fn find() -> Option<PathBuf> {
    let found = asked_for().or_else(provisioned);
    if found.is_none() {
        eprintln!("skipped: no toolkit (set ASSAY_TEST_TOOLKIT, or run cargo xtask provision)");
    }
    found
}

fn asked_for() -> Option<PathBuf> {
    std::env::var_os("ASSAY_TEST_TOOLKIT").map(PathBuf::from)
}

/// `target/toolkit/<lock>/nvidia/cu13`, as `provision` lays it out.
fn provisioned() -> Option<PathBuf> {
    let below = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/toolkit");
    let unpacked = std::fs::read_dir(below).into_iter().flatten().flatten();
    unpacked.map(|entry| entry.path().join("nvidia/cu13")).find(|root| root.join("bin/nvcc").is_file())
}
