//! All that a build depends on, read once, and the digest that names the build.

use super::BuildContext;
use super::budgets::Budgets;
use super::compile;
use anyhow::Result;
use host::failure::fail;
use host::files;
use host::gpu::toolkit::Toolkit;
use host::paths::Paths;
use schema::{Digest, ExitCode};
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::Path;

/// Raise it when the build step itself changes what it makes from equal inputs.
const METHOD: u32 = 2;

/// Sources and budgets.
pub(super) struct Inputs {
    /// Kernel files by id (`preempt/yield`), relative to `kernels/`.
    kernels: Vec<String>,
    /// Budgets of every kernel folder.
    pub(super) budgets: Budgets,
    /// Digest over kernels, budgets, the harness and what cargo builds it from.
    pub(super) digest: Digest,
}

#[derive(Serialize)]
struct Key<'a> {
    method: u32,
    sources: Digest,
    archs: Vec<&'a str>,
    flags: Vec<String>,
    toolkit: (&'a str, Digest, &'a str),
    runtime: &'a str,
    environment: &'a str,
}

impl Inputs {
    /// Reads the sources of one experiment, or of all; the kernels and crates of other experiments do not matter.
    pub(super) fn read(paths: &Paths, experiment: Option<&str>) -> Result<Self> {
        let kernels = Self::read_kernels(paths, experiment)?;
        let digest = Digest::of(serde_json::to_vec(&(kernels.digest, harness_sources(paths, experiment)?))?);
        Ok(Self { digest, ..kernels })
    }

    /// Reads kernels and budgets only, as in a bundle, which carries no harness sources.
    pub(super) fn read_kernels(paths: &Paths, experiment: Option<&str>) -> Result<Self> {
        let kernels_dir = paths.kernels();
        let mut listed = sources_below(&kernels_dir)?;
        listed.retain(|name, _| is_of(name, &SHARED_KERNELS, experiment));
        let kernels: Vec<String> = listed.keys().filter_map(|name| kernel_id(name)).collect();
        if kernels.is_empty() {
            let message = format!("{} holds no kernel", kernels_dir.display());
            return Err(fail(ExitCode::Build, message, "add kernels/<experiment>/<name>.cu"));
        }
        let folders = kernels.iter().filter_map(|id| id.split_once('/')).map(|(folder, _)| folder.to_owned());
        let budgets = Budgets::read(&kernels_dir, &folders.collect())?;
        let digest = Digest::of(serde_json::to_vec(&listed)?);
        Ok(Self { kernels, budgets, digest })
    }

    /// Kernel files by id.
    pub(super) fn files(&self) -> Vec<String> {
        self.kernels.clone()
    }

    /// The digest that names a build of these sources.
    pub(super) fn key(&self, ctx: &BuildContext<'_>, runtime: &str, toolkit: &Toolkit, nvcc: &str) -> Digest {
        let mut archs: Vec<&str> = ctx.archs.iter().map(String::as_str).collect();
        archs.sort_unstable();
        archs.dedup();
        let key = Key {
            method: METHOD,
            sources: self.digest,
            archs,
            flags: compile::measured_flags(),
            toolkit: (&toolkit.origin, toolkit.lock, nvcc),
            runtime,
            environment: &ctx.environment_key,
        };
        Digest::of(serde_json::to_vec(&key).expect("a key is plain data"))
    }
}

/// Folders of `kernels/` that every experiment is built with.
const SHARED_KERNELS: [&str; 2] = ["common", "controls"];
/// What of `harness/` every experiment is built with: the binary, its tests, and the crates below it.
const SHARED_CRATES: [&str; 5] = ["src", "tests", "core", "schema", "tables"];

/// Whether a file lies in a shared folder, in the experiment's own, or in none; of all experiments where none is named.
fn is_of(name: &str, shared: &[&str], experiment: Option<&str>) -> bool {
    let Some((folder, _)) = name.split_once('/') else { return true };
    shared.contains(&folder) || experiment.is_none_or(|experiment| folder == experiment)
}

/// `preempt/yield` for `preempt/yield.cu`; nothing for headers and what lies elsewhere.
fn kernel_id(name: &str) -> Option<String> {
    let id = name.strip_suffix(".cu")?;
    (id.matches('/').count() == 1).then(|| id.to_owned())
}

/// What cargo builds the harness from; plans and claims under `harness/experiments` are not part of it.
fn harness_sources(paths: &Paths, experiment: Option<&str>) -> Result<BTreeMap<String, Digest>> {
    let root = paths.root();
    let mut sources = sources_below(&root.join("harness"))?;
    sources.retain(|name, _| !name.starts_with("experiments/") && is_of(name, &SHARED_CRATES, experiment));
    for name in ["Cargo.toml", "Cargo.lock", "rust-toolchain.toml", ".cargo/config.toml"] {
        if root.join(name).is_file() {
            sources.insert(format!("/{name}"), files::digest_plain(&root.join(name))?.0);
        }
    }
    Ok(sources)
}

fn sources_below(dir: &Path) -> Result<BTreeMap<String, Digest>> {
    let scan = files::scan(dir)?;
    if let Some(odd) = scan.odd.first() {
        let message = format!("{}: {} is no source file: {}", dir.display(), odd.name, odd.detail);
        return Err(fail(ExitCode::Build, message, "move it elsewhere"));
    }
    let names: Vec<String> = scan.files.into_keys().collect();
    let paths: Vec<_> = names.iter().map(|name| dir.join(name)).collect();
    names.into_iter().zip(files::digest_all(&paths)).map(|(name, digest)| Ok((name, digest?.0))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_experiments_files_are_no_input() {
        let check = |name: &str, of_preempt: bool| {
            assert_eq!(is_of(name, &SHARED_KERNELS, Some("preempt")), of_preempt, "{name}");
            assert!(is_of(name, &SHARED_KERNELS, None));
        };
        check("preempt/yield.cu", true);
        check("common/ptx.cuh", true);
        check("controls/race.cu", true);
        check("reduction/sum.cu", false);
        assert!(
            is_of("Cargo.toml", &SHARED_CRATES, Some("preempt"))
                && !is_of("other/src/lib.rs", &SHARED_CRATES, Some("preempt"))
        );
    }

    /// A crate below `harness/` without kernels of its own is no experiment, so every build depends on it.
    #[test]
    fn every_crate_that_is_no_experiment_is_an_input_of_all() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        let mut shared = 0;
        for entry in std::fs::read_dir(root.join("harness")).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_str().unwrap();
            if path.join("Cargo.toml").is_file() {
                let experiment = root.join("kernels").join(name).is_dir();
                let input = is_of(&format!("{name}/src/lib.rs"), &SHARED_CRATES, Some("another"));
                assert_eq!(input, !experiment, "{name}");
                shared += u32::from(input);
            }
        }
        assert!(shared >= 3, "core, schema and tables at least");
    }

    #[test]
    fn kernels_lie_one_folder_deep() {
        let check = |name: &str, expected: Option<&str>| assert_eq!(kernel_id(name).as_deref(), expected, "{name}");
        check("preempt/yield.cu", Some("preempt/yield"));
        check("controls/race.cu", Some("controls/race"));
        check("common/ptx.cuh", None);
        check("common/timer.cu", Some("common/timer"));
        check("loose.cu", None);
        check("preempt/deep/x.cu", None);
        check("preempt/budget.toml", None);
    }
}
