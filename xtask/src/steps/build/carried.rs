//! The build step in an unpacked bundle: everything carried is verified, and where the box has a compiler, built again.
//!
//! The carried cubins stay the measured ones; the rebuild only shows that this box builds the same SASS.

use super::inputs::Inputs;
use super::store::{Fresh, Store};
use super::{BuildContext, Built, compile, inspect, read_record, write_record};
use anyhow::{Context, Result};
use host::container::Runtime;
use host::failure::fail;
use host::files;
use host::gpu::toolkit::Toolkit;
use host::paths::Paths;
use schema::build::{BuildRecord, Kernel};
use schema::bundle::{BundleRecord, CarriedSass, FileFacts};
use schema::{Digest, ExitCode};
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// The folder of an unpacked bundle that holds the carried build.
pub(crate) const CARRIED: &str = "build";
/// Folders in which a bundle holds nothing but what its record lists.
const CLOSED: [&str; 4] = [CARRIED, "kernels", "harness", "docker"];

/// One kernel of the comparison that `rebuilt.json` lists.
#[derive(Debug, PartialEq, Eq, Serialize)]
struct Compared {
    file: String,
    symbol: String,
    arch: String,
    carried: Digest,
    rebuilt: Option<Digest>,
    equal: bool,
}

/// Reads the bundle's record and hashes every file that it lists.
///
/// # Errors
/// Exit 16 naming the first file that is missing, changed or extra.
pub fn open_bundle(paths: &Paths) -> Result<BundleRecord> {
    let text = files::read_plain(&paths.bundle_record()).map_err(|error| broken(format!("{error:#}")))?;
    let record: BundleRecord =
        serde_json::from_slice(&text).map_err(|error| broken(format!("bundle.json is malformed: {error}")))?;
    schema::check_format("bundle.json", record.format)?;
    let names: Vec<&String> = record.files.keys().collect();
    for name in &names {
        files::check_name(name).map_err(|error| broken(format!("{error:#}")))?;
    }
    let on_disk: Vec<PathBuf> = names.iter().map(|name| paths.root().join(name)).collect();
    for (name, found) in names.iter().zip(files::digest_all(&on_disk)) {
        let (sha256, bytes) = found.map_err(|error| broken(format!("{name}: {error:#}")))?;
        if record.files[*name] != (FileFacts { bytes, sha256 }) {
            return Err(broken(format!("{name} was changed")));
        }
    }
    nothing_extra(paths.root(), &record)?;
    Ok(record)
}

/// The build step of a bundle.
pub(super) fn build(ctx: &BuildContext<'_>, runtime: &dyn Runtime, toolkit: Option<&Toolkit>) -> Result<Built> {
    let bundle = open_bundle(ctx.paths)?;
    let carried = ctx.paths.root().join(CARRIED);
    let record = read_record(&carried)?;
    check_agreement(&bundle, &record)?;
    check_archs(ctx, &record)?;
    let store = Store::open(ctx.paths)?;
    let nvcc = toolkit.map(|toolkit| compile::version(ctx, runtime, toolkit)).transpose()?;
    let named = (Digest::of(serde_json::to_vec(&bundle)?), &nvcc, runtime.name(), &ctx.environment_key);
    let key = Digest::of(serde_json::to_vec(&named)?);
    if let Some(built) = store.find(&key)? {
        return Ok(built);
    }
    let fresh = store.begin(&key, bundle.source)?;
    copy_carried(&bundle, ctx.paths.root(), fresh.path())?;
    // Another compiler builds other SASS and so shows nothing; the carried cubins are verified either way.
    let record = match (toolkit, nvcc) {
        (Some(toolkit), Some(nvcc)) if nvcc == record.nvcc => {
            rebuild(ctx, runtime, toolkit, &record, &fresh)?;
            BuildRecord { toolkit: "box".into(), nvcc, ..record }
        }
        _ => BuildRecord { toolkit: "bundle".into(), ..record },
    };
    write_record(fresh.path(), &record)?;
    fresh.commit()
}

fn broken(what: String) -> anyhow::Error {
    fail(ExitCode::Integrity, format!("bundle: {what}"), "unpack the bundle again")
}

fn nothing_extra(root: &Path, record: &BundleRecord) -> Result<()> {
    for folder in CLOSED.iter().filter(|folder| root.join(folder).is_dir()) {
        let scan = files::scan(&root.join(folder))?;
        let odd = scan.odd.iter().map(|odd| odd.name.clone());
        for name in scan.files.keys().cloned().chain(odd).map(|name| format!("{folder}/{name}")) {
            if !record.files.contains_key(&name) {
                return Err(broken(format!("{name} does not belong to it")));
            }
        }
    }
    Ok(())
}

/// The bundle's record and the build's record must agree.
fn check_agreement(bundle: &BundleRecord, record: &BuildRecord) -> Result<()> {
    let digest_of = |path: &str| bundle.files.get(&format!("{CARRIED}/{path}")).map(|facts| facts.sha256);
    let cubins = record.cubins.iter().find(|cubin| digest_of(&cubin.path) != Some(cubin.sha256));
    if let Some(cubin) = cubins {
        return Err(broken(format!("{CARRIED}/{} is not the cubin that {CARRIED}/resources.json names", cubin.path)));
    }
    if digest_of("bin/harness") != Some(record.harness) {
        return Err(broken(format!("{CARRIED}/bin/harness is not the one that {CARRIED}/resources.json names")));
    }
    let mut sass: Vec<CarriedSass> = record.kernels.iter().map(CarriedSass::of).collect();
    sass.sort();
    if sass != bundle.sass {
        return Err(broken(format!("bundle.json and {CARRIED}/resources.json name different SASS")));
    }
    Ok(())
}

fn check_archs(ctx: &BuildContext<'_>, record: &BuildRecord) -> Result<()> {
    let carried = |arch: &String| record.cubins.iter().any(|cubin| cubin.arch == *arch);
    if let Some(missing) = ctx.archs.iter().find(|arch| !carried(arch)) {
        let message = format!("this bundle carries no cubins for {missing}");
        return Err(fail(ExitCode::Build, message, format!("cargo xtask bundle --arch {missing}, where it was made")));
    }
    Ok(())
}

fn copy_carried(bundle: &BundleRecord, root: &Path, dir: &Path) -> Result<()> {
    for name in bundle.files.keys() {
        let Some(below) = name.strip_prefix(CARRIED).and_then(|rest| rest.strip_prefix('/')) else { continue };
        let to = dir.join(below);
        fs_err::create_dir_all(to.parent().context("a file has a folder")?)?;
        fs_err::copy(root.join(name), &to)?;
        let copied = files::digest_plain(&to)?.0;
        anyhow::ensure!(copied == bundle.files[name].sha256, "{name} changed while it was copied");
    }
    Ok(())
}

/// Builds every carried cubin again with the box's compiler, and compares kernel by kernel.
fn rebuild(
    ctx: &BuildContext<'_>,
    runtime: &dyn Runtime,
    toolkit: &Toolkit,
    record: &BuildRecord,
    fresh: &Fresh,
) -> Result<()> {
    let archs: std::collections::BTreeSet<String> = record.cubins.iter().map(|cubin| cubin.arch.clone()).collect();
    let everything = BuildContext {
        archs: archs.into_iter().collect(),
        environment_key: String::new(),
        experiment: ctx.experiment.clone(),
        ..*ctx
    };
    let inputs = Inputs::read_kernels(ctx.paths, ctx.experiment.as_deref())?;
    let scratch = tempfile::tempdir_in(fresh.path())?;
    let jobs = compile::jobs(&everything, &inputs, scratch.path())?;
    compile::all(&everything, runtime, &toolkit.nvcc, &jobs)?;
    let by = inspect::Compiler { nvcc: &record.nvcc, own: [ctx.paths.root(), &toolkit.root] };
    let made = inspect::cubins(&inputs, &jobs, &by)?;
    let compared = compare(&record.kernels, &made.kernels);
    files::write_whole(&fresh.path().join("rebuilt.json"), &serde_json::to_vec_pretty(&compared)?)?;
    scratch.close()?;
    let told: Vec<String> = compared.iter().filter(|kernel| !kernel.equal).map(Compared::told).collect();
    if told.is_empty() {
        return Ok(());
    }
    let message = format!("this machine builds other SASS than the bundle carries:\n  {}", told.join("\n  "));
    Err(fail(ExitCode::Build, message, "measure on a box whose nvcc is the pinned one, or without an nvcc"))
}

fn compare(carried: &[Kernel], rebuilt: &[Kernel]) -> Vec<Compared> {
    let key = |kernel: &Kernel| (kernel.file.clone(), kernel.symbol.clone(), kernel.arch.clone());
    let rebuilt: BTreeMap<_, Digest> = rebuilt.iter().map(|kernel| (key(kernel), kernel.sass_digest)).collect();
    let one = |kernel: &Kernel| {
        let found = rebuilt.get(&key(kernel)).copied();
        Compared {
            file: kernel.file.clone(),
            symbol: kernel.symbol.clone(),
            arch: kernel.arch.clone(),
            carried: kernel.sass_digest,
            rebuilt: found,
            equal: found == Some(kernel.sass_digest),
        }
    };
    carried.iter().map(one).collect()
}

impl Compared {
    fn told(&self) -> String {
        let rebuilt = self.rebuilt.map_or("no such kernel".to_owned(), |digest| digest.short());
        format!("{} {} on {}: carried {}, rebuilt {rebuilt}", self.file, self.symbol, self.arch, self.carried.short())
    }
}
