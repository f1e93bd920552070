//! bundle: one archive that runs on a GPU box without Rust, network or this repository.
//!
//! It is made from a clean commit only, and its record names that commit, so that the repository that made it can check a
//! run that comes home. Reading a bundle is the build step's business.

pub use crate::steps::build::open_bundle;

use crate::steps::build::{self, BuildContext, Built, CARRIED};
use anyhow::{Context, Result};
use host::container::Runtime;
use host::failure::fail;
use host::files;
use host::git::SourceState;
use host::paths::Paths;
use host::process::Child;
use schema::bundle::{BundleRecord, CarriedSass, FileFacts};
use schema::{Digest, ExitCode, FORMAT};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A bundle of one architecture stays under this, so that it travels to a box in one piece (DESIGN.md section 4).
const LIMIT_BYTES: u64 = 12_000_000;
const ARCHIVE_DEADLINE: Duration = Duration::from_secs(20 * 60);
/// What a box needs of the checkout, where it exists.
const FOLDERS: [&str; 3] = ["kernels", "harness/experiments", "docker"];
const FILES: [&str; 6] = ["NOTEBOOK.md", "CLAIM.md", "README.md", "Cargo.lock", "LICENSE-MIT", "LICENSE-APACHE"];

/// Makes the archive below `target/assay/bundle/` and gives its path.
///
/// `source` is the tree before anything of it was built, `again` looks at it at the end.
///
/// # Errors
/// Exit 15 for a tree that is dirty or changes meanwhile, 12 when xtask does not build or the archive is too large.
pub fn bundle(
    ctx: &BuildContext<'_>,
    runtime: &dyn Runtime,
    built: &Built,
    (source, again): (&SourceState, &dyn Fn() -> Result<SourceState>),
    notebook_head: Digest,
) -> Result<PathBuf> {
    refuse_dirty(source)?;
    let xtask = build::program(ctx, runtime, "xtask")?;
    let folder = ctx.paths.state().join("bundle");
    fs_err::create_dir_all(&folder)?;
    let stage = tempfile::Builder::new().prefix(".unfinished-").tempdir_in(&folder)?;
    let name = format!("assay-{}-{}", &source.commit[..8], archs(built).join("-"));
    let root = stage.path().join(&name);
    fill(ctx.paths, built, &xtask, &root)?;
    let record = record(&root, built, source, notebook_head)?;
    files::write_whole(&root.join("bundle.json"), &serde_json::to_vec_pretty(&record)?)?;
    open_bundle(&Paths::new(&root)).context("the bundle just made does not verify")?;
    let archive = archive(stage.path(), &name)?;
    refuse_large(&archive, built, &record)?;
    refuse_changed(source, &again()?)?;
    let to = folder.join(format!("{name}.tar.xz"));
    fs_err::rename(archive, &to)?;
    Ok(to)
}

fn refuse_dirty(source: &SourceState) -> Result<()> {
    if source.clean {
        return Ok(());
    }
    let some: Vec<&str> = source.dirty.iter().take(5).map(String::as_str).collect();
    let message =
        format!("a bundle is made from a clean commit, and the tree differs from its commit: {}", some.join(", "));
    Err(fail(ExitCode::Refused, message, "git commit or git stash, then cargo xtask bundle"))
}

/// Programs are built of the tree as it lies, for minutes: what it became meanwhile may be in them.
fn refuse_changed(before: &SourceState, after: &SourceState) -> Result<()> {
    if before == after {
        return Ok(());
    }
    let message = "the tree changed while the bundle was made, so its programs may be of neither state";
    Err(fail(ExitCode::Refused, message, "leave the tree alone, or use another clone; then cargo xtask bundle"))
}

fn archs(built: &Built) -> Vec<String> {
    let mut archs: Vec<String> = built.record.cubins.iter().map(|cubin| cubin.arch.clone()).collect();
    archs.sort();
    archs.dedup();
    archs
}

fn fill(paths: &Paths, built: &Built, xtask: &Path, root: &Path) -> Result<()> {
    for folder in FOLDERS.iter().filter(|folder| paths.root().join(folder).is_dir()) {
        copy_tree(&paths.root().join(folder), &root.join(folder))?;
    }
    for file in FILES.iter().filter(|file| paths.root().join(file).is_file()) {
        copy_file(&paths.root().join(file), &root.join(file))?;
    }
    copy_tree(&built.cubins_dir(), &root.join(CARRIED).join("cubins"))?;
    copy_file(&built.dir.join("resources.json"), &root.join(CARRIED).join("resources.json"))?;
    copy_file(&built.harness(), &root.join(CARRIED).join("bin/harness"))?;
    copy_file(xtask, &root.join("xtask"))
}

fn copy_tree(from: &Path, to: &Path) -> Result<()> {
    let scan = files::scan(from)?;
    anyhow::ensure!(scan.odd.is_empty(), "{}: {} is {}", from.display(), scan.odd[0].name, scan.odd[0].detail);
    scan.files.keys().try_for_each(|name| copy_file(&from.join(name), &to.join(name)))
}

fn copy_file(from: &Path, to: &Path) -> Result<()> {
    fs_err::create_dir_all(to.parent().context("a file has a folder")?)?;
    fs_err::copy(from, to)?;
    Ok(())
}

fn record(root: &Path, built: &Built, source: &SourceState, notebook_head: Digest) -> Result<BundleRecord> {
    let names: Vec<String> = files::scan(root)?.files.into_keys().collect();
    let on_disk: Vec<PathBuf> = names.iter().map(|name| root.join(name)).collect();
    let facts =
        files::digest_all(&on_disk).into_iter().map(|found| found.map(|(sha256, bytes)| FileFacts { bytes, sha256 }));
    let files: BTreeMap<String, FileFacts> =
        names.into_iter().zip(facts).map(|(name, facts)| Ok((name, facts?))).collect::<Result<_>>()?;
    let mut sass: Vec<CarriedSass> = built.record.kernels.iter().map(CarriedSass::of).collect();
    sass.sort();
    Ok(BundleRecord {
        format: FORMAT,
        commit: source.commit.clone(),
        source: source.digest,
        plans: of_experiments(&files, "plan.toml"),
        claims: of_experiments(&files, "claims.toml"),
        notebook_head,
        sass,
        files,
    })
}

fn of_experiments(files: &BTreeMap<String, FileFacts>, file: &str) -> BTreeMap<String, Digest> {
    let experiment = |name: &str| {
        let (experiment, last) = name.strip_prefix("harness/experiments/")?.split_once('/')?;
        (last == file).then(|| experiment.to_owned())
    };
    files.iter().filter_map(|(name, facts)| Some((experiment(name)?, facts.sha256))).collect()
}

/// Packs `name` below `stage`; names, owners and times are fixed, so that equal contents give equal bytes.
fn archive(stage: &Path, name: &str) -> Result<PathBuf> {
    let file = format!("{name}.tar.xz");
    let fixed = ["--sort=name", "--mtime=@0", "--owner=0", "--group=0", "--numeric-owner", "--format=ustar"];
    let mut args = vec!["--create".to_owned(), "--xz".to_owned(), format!("--file={file}")];
    args.extend(fixed.map(str::to_owned));
    args.push(name.to_owned());
    let env =
        vec![("PATH".to_owned(), "/usr/local/bin:/usr/bin:/bin".to_owned()), ("XZ_OPT".to_owned(), "-9e".to_owned())];
    let child = Child {
        program: "tar".into(),
        args,
        env,
        dir: stage.to_owned(),
        deadline: ARCHIVE_DEADLINE,
        hold_stdin: false,
    };
    let ended = child.run(&mut |_| {})?;
    if ended.code == Some(0) {
        return Ok(stage.join(file));
    }
    let message = format!("tar could not pack the bundle: {}", ended.stderr.trim());
    Err(fail(ExitCode::Environment, message, "apt-get install tar xz-utils"))
}

fn refuse_large(archive: &Path, built: &Built, record: &BundleRecord) -> Result<()> {
    let bytes = fs_err::metadata(archive)?.len();
    if bytes <= LIMIT_BYTES || archs(built).len() > 1 {
        return Ok(());
    }
    let mut largest: Vec<_> = record.files.iter().map(|(name, facts)| (facts.bytes, name)).collect();
    largest.sort_unstable_by(|a, b| b.cmp(a));
    let told: Vec<String> = largest.iter().take(4).map(|(bytes, name)| format!("{name} ({bytes} bytes)")).collect();
    let message = format!("the bundle has {bytes} bytes and {LIMIT_BYTES} are allowed; largest: {}", told.join(", "));
    Err(fail(ExitCode::Build, message, "make the largest files smaller"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use host::failure::code_of;

    #[test]
    fn a_tree_that_is_dirty_or_changes_meanwhile_makes_no_bundle() {
        let state = |digest: &str, clean| SourceState {
            commit: "0".repeat(40),
            digest: Digest::of(digest),
            clean,
            dirty: if clean { Vec::new() } else { vec!["src/a.rs".to_owned()] },
        };
        let clean = state("1", true);
        refuse_dirty(&clean).unwrap();
        refuse_changed(&clean, &clean).unwrap();
        for error in [refuse_dirty(&state("1", false)), refuse_changed(&clean, &state("2", true))] {
            assert_eq!(code_of(&error.unwrap_err()), ExitCode::Refused);
        }
    }
}
