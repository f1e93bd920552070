//! What cargo built of this workspace's own packages before is forgotten once their sources changed.
//!
//! Cargo takes a source for unchanged by its time alone, and a checkout or an archive can bring other sources with older times:
//! the program would be one of sources that are gone. Crates of the registry never change, and stay built.

use crate::world::files::{digest_all, scan, write_whole};
use anyhow::{Context, Result};
use schema::Digest;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Names the sources that lie built in a target folder.
const MARKER: &str = "assay-sources";
/// Files of the root that decide what cargo builds.
const OF_ROOT: [&str; 4] = ["Cargo.toml", "Cargo.lock", "rust-toolchain.toml", ".cargo/config.toml"];

/// The sources that a build begins with.
pub(super) struct Sources {
    digest: Digest,
    marker: PathBuf,
}

/// Reads the sources of every package below `root`, and makes cargo forget its own if others lie built in `target`.
///
/// # Errors
/// When cargo fails, or a source cannot be read.
pub(super) fn forget_others(root: &Path, target: &Path, cargo: impl Fn(&[&str]) -> Result<String>) -> Result<Sources> {
    let packages = cargo(&["metadata", "--no-deps", "--offline", "--format-version", "1"])?;
    let packages: serde_json::Value = serde_json::from_str(&packages)?;
    let packages = packages["packages"].as_array().context("cargo metadata names no packages")?;
    let words = |key: &str| -> Vec<&str> { packages.iter().filter_map(|package| package[key].as_str()).collect() };
    let sources = Sources { digest: digest(root, &words("manifest_path"))?, marker: target.join(MARKER) };
    if fs_err::read_to_string(&sources.marker).is_ok_and(|built| built == sources.digest.to_string()) {
        return Ok(sources);
    }
    let named = words("name").into_iter().flat_map(|name| ["--package", name]);
    cargo(&["clean", "--offline", "--release"].into_iter().chain(named).collect::<Vec<_>>())?;
    if crate::world::files::exists(&sources.marker) {
        fs_err::remove_file(&sources.marker)?;
    }
    Ok(sources)
}

impl Sources {
    /// They lie built now.
    ///
    /// # Errors
    /// When that cannot be written down.
    pub(super) fn are_built(&self) -> Result<()> {
        write_whole(&self.marker, self.digest.to_string().as_bytes())
    }
}

fn digest(root: &Path, manifests: &[&str]) -> Result<Digest> {
    let mut files: Vec<PathBuf> = OF_ROOT.iter().map(|name| root.join(name)).filter(|path| path.is_file()).collect();
    for manifest in manifests {
        let folder = Path::new(manifest).parent().context("a manifest lies in a folder")?;
        files.extend(scan(folder)?.files.into_keys().map(|name| folder.join(name)));
    }
    let digests = digest_all(&files).into_iter().map(|found| found.map(|(digest, _)| digest.to_string()));
    let listed: BTreeMap<String, String> = files
        .iter()
        .map(|file| file.display().to_string())
        .zip(digests)
        .map(|(name, digest)| Ok((name, digest?)))
        .collect::<Result<_>>()?;
    Ok(Digest::of(serde_json::to_vec(&listed)?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;

    #[test]
    fn cargo_forgets_its_own_only_when_a_source_changed() {
        let dir = tempfile::tempdir().unwrap();
        let (root, target) = (dir.path(), dir.path().join("target"));
        let put = |name: &str, text: &str| write_whole(&root.join(name), text.as_bytes()).unwrap();
        put("a/Cargo.toml", "");
        put("a/src/lib.rs", "1");
        let metadata = serde_json::json!({"packages": [{"name": "a", "manifest_path": root.join("a/Cargo.toml")}]});
        let forgot = RefCell::new(0);
        let cargo = |args: &[&str]| {
            if args[0] == "clean" {
                assert_eq!(args[3..], ["--package", "a"]);
                *forgot.borrow_mut() += 1;
            }
            Ok(metadata.to_string())
        };
        let begin = || forget_others(root, &target, cargo).unwrap();
        let first = begin();
        begin();
        assert_eq!(*forgot.borrow(), 2, "nothing was built yet");
        first.are_built().unwrap();
        begin().are_built().unwrap();
        assert_eq!(*forgot.borrow(), 2);
        for (n, name) in [(3, "a/src/lib.rs"), (4, "a/src/new.rs"), (5, "Cargo.lock")] {
            put(name, "2");
            let changed = begin();
            assert_eq!(*forgot.borrow(), n, "{name}");
            assert!(!target.join(MARKER).exists(), "a build that does not end leaves no mark");
            changed.are_built().unwrap();
        }
    }
}
