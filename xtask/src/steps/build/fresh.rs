//! Removes what cargo built from other sources before cargo builds again.
//!
//! Cargo decides by file times what is up to date, and file times can go back: a clock is set, or an archive or a
//! copy keeps old ones. Cargo would then reuse a harness that was built from other sources, and it would be measured
//! as the harness of these.

use anyhow::{Context, Result};
use host::files::{self, remove};
use schema::Digest;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// The sources that a target folder is built from.
pub(super) struct Sources {
    root: PathBuf,
    members: Vec<PathBuf>,
    record: PathBuf,
    digest: String,
}

/// What lies in the root and decides over every package.
const AT_THE_ROOT: [&str; 4] = ["Cargo.toml", "Cargo.lock", "rust-toolchain.toml", ".cargo/config.toml"];

impl Sources {
    /// Compares the workspace's own packages with those that `target` was built from, and removes their build
    /// products unless the bytes are the same.
    ///
    /// # Errors
    /// When a file cannot be read or removed.
    pub(super) fn before(root: &Path, target: &Path) -> Result<Self> {
        let members = members(root)?;
        let digest = digest(root, &members)?.to_string();
        let sources = Self { root: root.to_owned(), members, record: target.join("assay-sources.txt"), digest };
        let known = std::fs::read_to_string(&sources.record).unwrap_or_default();
        if known.trim() != sources.digest {
            // The record is removed first, so that an interrupted build leaves nothing that counts as fresh.
            remove(&sources.record)?;
            let there = sources.members.iter().filter(|member| root.join(member).is_dir());
            let packages = there.map(|member| package(root, member)).collect::<Result<Vec<_>>>()?;
            forget(&target.join("release"), &packages)?;
        }
        Ok(sources)
    }

    /// Records after a successful build that `target` holds these sources, unless they changed meanwhile.
    ///
    /// # Errors
    /// When they cannot be read again, or that cannot be written down.
    pub(super) fn built(&self) -> Result<()> {
        if digest(&self.root, &self.members)?.to_string() == self.digest {
            files::write_whole(&self.record, self.digest.as_bytes())?;
        }
        Ok(())
    }
}

/// The folders of the workspace's packages.
fn members(root: &Path) -> Result<Vec<PathBuf>> {
    let text = fs_err::read_to_string(root.join("Cargo.toml"))?;
    let table: toml::Table = text.parse().context("Cargo.toml is malformed")?;
    let members = table.get("workspace").and_then(|workspace| workspace.get("members")?.as_array());
    let members = members.context("Cargo.toml names no members")?;
    let mut members: BTreeSet<PathBuf> = members.iter().filter_map(|member| Some(member.as_str()?.into())).collect();
    // Cargo makes a member of what the harness depends on by its path, as an experiment.
    let harness = PathBuf::from("harness");
    let below = files::entries(&root.join(&harness))?.into_iter().map(|name| harness.join(name));
    members.extend(below.filter(|folder| root.join(folder).join("Cargo.toml").is_file()));
    Ok(members.into_iter().collect())
}

/// The name of the package in a folder.
fn package(root: &Path, member: &Path) -> Result<String> {
    let file = root.join(member).join("Cargo.toml");
    let table: toml::Table = fs_err::read_to_string(&file)?.parse().context("a manifest is malformed")?;
    let name = table.get("package").and_then(|package| package.get("name")?.as_str());
    Ok(name.with_context(|| format!("{} names no package", file.display()))?.to_owned())
}

/// Every file of the packages, plans and claims aside, which no program is made of.
fn digest(root: &Path, members: &[PathBuf]) -> Result<Digest> {
    let mut names: Vec<PathBuf> =
        AT_THE_ROOT.iter().map(PathBuf::from).filter(|name| root.join(name).is_file()).collect();
    for member in members.iter().filter(|member| root.join(member).is_dir()) {
        let scan = files::scan(&root.join(member))?;
        let own = scan.files.into_keys().filter(|name| !name.starts_with("experiments/"));
        names.extend(own.map(|name| member.join(name)));
    }
    names.sort();
    names.dedup();
    let paths: Vec<PathBuf> = names.iter().map(|name| root.join(name)).collect();
    let digests = files::digest_all(&paths).into_iter().map(|found| Ok(found?.0)).collect::<Result<Vec<_>>>()?;
    Ok(Digest::of(serde_json::to_vec(&names.iter().zip(digests).collect::<Vec<_>>())?))
}

/// Removes the packages' programs, and with their fingerprints all that cargo believes to be fresh of them.
fn forget(release: &Path, packages: &[String]) -> Result<()> {
    for package in packages {
        remove(&release.join(package))?;
    }
    let fingerprints = release.join(".fingerprint");
    for name in files::entries(&fingerprints)? {
        if name.rsplit_once('-').is_some_and(|(package, _)| packages.iter().any(|own| own == package)) {
            fs_err::remove_dir_all(fingerprints.join(name))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    /// A workspace of one package whose program prints a number.
    struct Bench(tempfile::TempDir);

    impl Bench {
        fn new() -> Self {
            let bench = Self(tempfile::tempdir().unwrap());
            let put = |name: &str, text: &str| files::write_whole(&bench.at(name), text.as_bytes()).unwrap();
            put("Cargo.toml", "[workspace]\nmembers = [\"harness\"]\nresolver = \"3\"\n");
            put("harness/Cargo.toml", "[package]\nname = \"harness\"\nversion = \"0.1.0\"\nedition = \"2024\"\n");
            bench
        }

        fn at(&self, name: &str) -> PathBuf {
            self.0.path().join(name)
        }

        /// Source that prints `n` and is an hour old, as a copy that keeps times makes it.
        fn put_old(&self, n: u32) {
            let file = self.at("harness/src/main.rs");
            files::write_whole(&file, format!("fn main() {{ print!(\"{n}\") }}\n").as_bytes()).unwrap();
            assert!(Command::new("touch").args(["-d", "1 hour ago"]).arg(file).status().unwrap().success());
        }

        /// What the program prints once cargo has built it.
        fn built(&self) -> String {
            let mut cargo = Command::new(env!("CARGO"));
            cargo.args(["build", "--quiet", "--release", "--offline"]).current_dir(self.0.path());
            cargo.env("CARGO_TARGET_DIR", self.at("target")).env_remove("RUSTC_WRAPPER");
            assert!(cargo.status().unwrap().success());
            let output = Command::new(self.at("target/release/harness")).output().unwrap();
            String::from_utf8(output.stdout).unwrap()
        }

        fn before(&self) -> Sources {
            Sources::before(self.0.path(), &self.at("target")).unwrap()
        }
    }

    #[test]
    fn sources_older_than_a_build_are_built_all_the_same() {
        let bench = Bench::new();
        bench.put_old(1);
        let first = bench.before();
        assert_eq!(bench.built(), "1");
        first.built().unwrap();
        bench.put_old(2);
        // What this guards against: cargo alone takes the old program for fresh.
        assert_eq!(bench.built(), "1");
        let second = bench.before();
        assert!(!bench.at("target/release/harness").exists(), "a cargo that builds nothing has built nothing");
        assert_eq!(bench.built(), "2");
        // A build that was cut off is no record: the first sources again are built again.
        drop(second);
        bench.put_old(1);
        bench.before().built().unwrap();
        assert_eq!(bench.built(), "1");
    }

    #[test]
    fn each_folder_of_this_workspace_has_a_package() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        let members = members(root).unwrap();
        assert!(members.len() > 2);
        for member in &members {
            assert!(!package(root, member).unwrap().is_empty());
        }
        assert_eq!(package(root, Path::new("harness/core")).unwrap(), "harness-core");
        digest(root, &members).unwrap();
    }

    #[test]
    fn what_is_of_these_sources_and_of_others_packages_stays() {
        let bench = Bench::new();
        bench.put_old(1);
        let at = |name: &str| bench.at("target/release").join(name);
        let fill = || {
            for name in
                [".fingerprint/harness-0a/x", ".fingerprint/serde-0b/x", ".fingerprint/harness-more-0c/x", "harness"]
            {
                files::write_whole(&at(name), b"x").unwrap();
            }
        };
        fill();
        bench.before().built().unwrap();
        assert!(!at("harness").exists() && !at(".fingerprint/harness-0a").exists());
        assert!(at(".fingerprint/serde-0b").exists() && at(".fingerprint/harness-more-0c").exists());
        fill();
        bench.before();
        assert!(at("harness").exists() && at(".fingerprint/harness-0a").exists());
    }
}
