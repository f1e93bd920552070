//! build: compiles kernel sources to cubins with the provisioned toolkit and the harness with cargo, and records what
//! each kernel uses.
//!
//! A build is named by the digest of all that it depends on, and reused only after every file of it was hashed again.
//! In an unpacked bundle the carried cubins are used, after a rebuild to the same SASS where the box has a compiler.

mod budgets;
mod carried;
mod compile;
mod forbidden;
mod fresh;
mod inputs;
mod inspect;
mod loadable;
mod programs;
mod store;
mod twice;

pub(crate) use carried::CARRIED;
pub use carried::open_bundle;
pub use forbidden::{Finding, kernels_forbidden};
pub use loadable::check_loadable;
pub use programs::program;
pub use twice::{Again, twice};

use anyhow::{Context, Result};
use host::cache;
use host::container::Runtime;
use host::failure::{Failure, fail};
use host::gpu::toolkit::Toolkit;
use host::paths::Paths;
use inputs::Inputs;
use schema::build::{BuildRecord, Kernel};
use schema::{Digest, ExitCode, FORMAT};
use serde_json::json;
use std::path::{Path, PathBuf};
use store::Store;

/// Where no GPU says otherwise.
const DEFAULT_ARCH: &str = "sm_90";

/// What a build is asked for.
pub struct BuildContext<'a> {
    /// The checkout or unpacked bundle.
    pub paths: &'a Paths,
    /// Architectures, e.g. `sm_90`.
    pub archs: Vec<String>,
    /// Runtime and base, in one string: a change of either uncaches the build.
    pub environment_key: String,
    /// Fetch nothing.
    pub offline: bool,
    /// How many compilers run at once.
    pub jobs: usize,
    /// Called after each piece of work: how many are done, of how many, and its name.
    pub progress: &'a (dyn Fn(usize, usize, &str) + Sync),
    /// The experiment whose kernels are compiled and whose sources name the build; absent for all of them.
    pub experiment: Option<String>,
}

impl<'a> BuildContext<'a> {
    /// A build with as many compilers at once as there are processors; `environment` is the key of runtime and base.
    pub fn new(
        paths: &'a Paths,
        environment: &Digest,
        archs: Vec<String>,
        offline: bool,
        progress: &'a (dyn Fn(usize, usize, &str) + Sync),
    ) -> Self {
        let jobs = std::thread::available_parallelism().map_or(1, usize::from);
        let environment_key = environment.to_string();
        Self { paths, archs, environment_key, offline, jobs, progress, experiment: None }
    }
}

/// A complete build on disk.
#[derive(Clone, Debug)]
pub struct Built {
    /// Its folder: `cubins/`, `logs/`, `bin/harness` and `resources.json`.
    pub dir: PathBuf,
    /// What was built.
    pub record: BuildRecord,
    /// Digest of everything it depends on.
    pub key: Digest,
    /// Whether it was there already.
    pub cached: bool,
}

/// Builds everything, or loads what an equal build left.
///
/// # Errors
/// Exit 12 when a compiler fails, flavors differ in SASS, or budgets are not met (all of them named); 11 without a toolkit;
/// 10 for a malformed budget; 16 when a bundle is not what it was.
pub fn build(ctx: &BuildContext<'_>, runtime: &dyn Runtime, toolkit: Option<&Toolkit>) -> Result<Built> {
    if ctx.paths.bundle_record().is_file() {
        return carried::build(ctx, runtime, toolkit);
    }
    let toolkit = toolkit
        .ok_or_else(|| fail(ExitCode::Environment, "no CUDA toolkit to build kernels with", "cargo xtask provision"))?;
    let store = Store::open(ctx.paths)?;
    let inputs = Inputs::read(ctx.paths, ctx.experiment.as_deref())?;
    let nvcc = compile::version(ctx, runtime, toolkit)?;
    let key = inputs.key(ctx, runtime.name(), toolkit, &nvcc);
    if let Some(built) = store.find(&key)? {
        return Ok(built);
    }
    let fresh = store.begin(&key, inputs.digest)?;
    if let Err(error) = fill(ctx, runtime, toolkit, &inputs, nvcc, fresh.path()) {
        // A build that was refused before any compiler ran has no logs.
        let has_logs = fresh.path().join("logs").is_dir();
        return Err(if has_logs { with_logs(error, &fresh.keep_failed()?) } else { error });
    }
    if Inputs::read(ctx.paths, ctx.experiment.as_deref())?.digest != inputs.digest {
        return Err(fail(ExitCode::Build, "sources changed while they were built", "cargo xtask build"));
    }
    fresh.commit()
}

fn fill(
    ctx: &BuildContext<'_>,
    runtime: &dyn Runtime,
    toolkit: &Toolkit,
    inputs: &Inputs,
    nvcc: String,
    dir: &Path,
) -> Result<()> {
    let jobs = compile::jobs(ctx, inputs, dir)?;
    compile::all(ctx, runtime, &toolkit.nvcc, &jobs)?;
    let by = inspect::Compiler { nvcc: &nvcc, own: [ctx.paths.root(), &toolkit.root] };
    let made = inspect::cubins(inputs, &jobs, &by)?;
    budgets::enforce(&inputs.budgets, &inputs.files(), &ctx.archs, &made.kernels)?;
    let host_compiler = compile::host_compiler(runtime, &toolkit.nvcc, dir)?;
    let harness = programs::program(ctx, runtime, "harness")?;
    let carried = dir.join("bin/harness");
    fs_err::create_dir_all(dir.join("bin"))?;
    fs_err::copy(harness, &carried)?;
    write_record(
        dir,
        &BuildRecord {
            format: FORMAT,
            nvcc,
            toolkit: toolkit.origin.clone(),
            toolkit_lock: toolkit.lock,
            cubins: made.cubins,
            kernels: made.kernels,
            harness: Digest::of_file(carried)?,
            flags: compile::measured_flags(),
            host_compiler,
            advisories: made.advisories,
        },
    )
}

/// Loads a build directory; every file is hashed again.
///
/// # Errors
/// Exit 16 when a file is missing, changed or extra.
pub fn load(dir: &Path) -> Result<Built> {
    store::load(dir)
}

/// What was built of this very tree with the toolkit it pins, for every architecture it was built for; absent when nothing was.
///
/// # Errors
/// Exit 16 when such a build is not what it was.
pub fn of_this_tree(paths: &Paths, experiment: Option<&str>) -> Result<Option<BuildRecord>> {
    let (sources, lock) = (Inputs::read(paths, experiment)?.digest, Digest::of_file(paths.toolkit_lock())?);
    let builds = Store::open(paths)?.of_sources(&sources)?;
    let pinned = builds.into_iter().map(|built| built.record).filter(|record| record.toolkit_lock == lock);
    Ok(pinned.reduce(|mut all, older| {
        let known = |kernel: &Kernel| all.kernels.iter().any(|ours| ours.arch == kernel.arch);
        let more: Vec<Kernel> = older.kernels.into_iter().filter(|kernel| !known(kernel)).collect();
        all.kernels.extend(more);
        all
    }))
}

/// The SASS that this tree builds for `ctx.archs`, compiled without the harness and without checking budgets. Only
/// the answer is kept, in a cache, while sources and toolkit are the same.
///
/// # Errors
/// Exit 12 when a compiler fails or flavors differ in SASS.
pub fn kernels(ctx: &BuildContext<'_>, runtime: &dyn Runtime, toolkit: &Toolkit) -> Result<(String, Vec<Kernel>)> {
    let inputs = Inputs::read_kernels(ctx.paths, ctx.experiment.as_deref())?;
    let nvcc = compile::version(ctx, runtime, toolkit)?;
    let key = inputs.key(ctx, runtime.name(), toolkit, &nvcc);
    let work = || {
        let scratch = tempfile::Builder::new().prefix("kernels-").tempdir_in(ctx.paths.state())?;
        let jobs = compile::jobs(ctx, &inputs, scratch.path())?;
        compile::all(ctx, runtime, &toolkit.nvcc, &jobs)?;
        let by = inspect::Compiler { nvcc: &nvcc, own: [ctx.paths.root(), &toolkit.root] };
        Ok(inspect::cubins(&inputs, &jobs, &by)?.kernels)
    };
    let (kernels, _) = cache::answer(ctx.paths, "kernels", key, work)?;
    Ok((nvcc, kernels))
}

/// The architectures to build when none is asked for: that of the GPU with this compute capability, or a fixed one.
#[must_use]
pub fn default_archs(compute_capability: Option<(u32, u32)>) -> Vec<String> {
    let of_gpu = compute_capability.map(|(major, minor)| format!("sm_{major}{minor}"));
    vec![of_gpu.unwrap_or_else(|| DEFAULT_ARCH.to_owned())]
}

/// The object `cargo xtask build --json` prints.
#[must_use]
pub fn to_json(record: &BuildRecord) -> serde_json::Value {
    json!({
        "kernels": record.kernels, "nvcc": record.nvcc, "toolkit": record.toolkit, "harness": record.harness,
        "host_compiler": record.host_compiler, "advisories": record.advisories, "notes": notes(record),
    })
}

/// Notes on a successful build: advice of the compiler, and paths that make its bytes specific to this machine.
#[must_use]
pub fn notes(record: &BuildRecord) -> Vec<String> {
    let advice = record.advisories.iter().map(|said| {
        let of = said.function.as_deref().map_or_else(String::new, |name| format!(" {name}"));
        format!("the compiler says of {}{of} on {}: {}", said.file, said.arch, said.text)
    });
    let paths = record.cubins.iter().filter(|cubin| cubin.foreign_paths > 0).map(|cubin| {
        format!("{} holds {} paths of this machine: another folder gives other bytes", cubin.path, cubin.foreign_paths)
    });
    advice.chain(paths).collect()
}

impl Built {
    /// The folder of cubins: `<arch>/<flavor>/<experiment>/<stem>.cubin` below it.
    #[must_use]
    pub fn cubins_dir(&self) -> PathBuf {
        self.dir.join("cubins")
    }

    /// The harness binary.
    #[must_use]
    pub fn harness(&self) -> PathBuf {
        self.dir.join("bin/harness")
    }

    /// One cubin: `file` as in the record, flavor `measure` or `lineinfo`.
    #[must_use]
    pub fn cubin(&self, file: &str, arch: &str, flavor: &str) -> PathBuf {
        self.dir.join(compile::cubin_path(file, arch, flavor))
    }
}

fn with_logs(error: anyhow::Error, kept: &Path) -> anyhow::Error {
    let logs = format!("build logs are in {}", kept.join("logs").display());
    match error.downcast::<Failure>() {
        Ok(failure) => Failure { message: format!("{}\n{logs}", failure.message), ..failure }.into(),
        Err(error) => error.context(logs),
    }
}

fn write_record(dir: &Path, record: &BuildRecord) -> Result<()> {
    let mut text = serde_json::to_string_pretty(record).context("failed to write resources.json")?;
    text.push('\n');
    host::files::write_whole(&dir.join("resources.json"), text.as_bytes())
}

fn read_record(dir: &Path) -> Result<BuildRecord> {
    let path = dir.join("resources.json");
    let text = fs_err::read_to_string(&path)?;
    let record: BuildRecord =
        serde_json::from_str(&text).with_context(|| format!("{} is malformed", path.display()))?;
    schema::check_format("resources.json", record.format)?;
    Ok(record)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_gpu_names_its_architecture() {
        assert_eq!(default_archs(Some((8, 6))), ["sm_86"]);
        assert_eq!(default_archs(Some((12, 1))), ["sm_121"]);
        assert_eq!(default_archs(None), ["sm_90"]);
    }
}
