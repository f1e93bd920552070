//! pack and unpack: bring a run directory home from a box in verified parts.
//!
//! The parts joined are one tar stream, so that `cat RUN.part-* | tar -x` gives the files back without Assay as well.
//! Nothing appears in `results/raw/` before every part and every file in it was checked.

mod extract;

use anyhow::{Context, Result, bail, ensure};
use host::failure::{does_not_hold, fail, of_the_machine};
use host::files::beneath::Beneath;
use host::files::{self, check_name};
use host::paths::Paths;
use schema::bundle::{FileFacts, PackIndex};
use schema::{Digest, ExitCode, FORMAT};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::Read;
use std::path::{Path, PathBuf};
use words::names::collisions;

/// Boxes hand files back up to 16 MiB each, so a part stays below that.
pub const PART_BYTES: usize = 15 << 20;
const INDEX_ENDING: &str = ".pack.json";
/// Begins the name of the folder a run is unpacked in; a killed `unpack` leaves it, and the next one removes it.
const UNFINISHED: &str = ".unpacking-";
const HOLD: &str = "bring the missing files home again; do not release the box yet";

/// What `pack` wrote.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Packed {
    /// The index, the last file written.
    pub index: PathBuf,
    /// How many parts there are.
    pub n_parts: usize,
    /// Their bytes in all.
    pub bytes: u64,
}

/// A run directory that came home.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unpacked {
    /// Run id.
    pub run: String,
    /// Where it lies now.
    pub dir: PathBuf,
    /// How many files were checked.
    pub n_files: usize,
    /// Whether an equal one was there already.
    pub was_there: bool,
}

/// Splits `results/raw/<run>` into parts in `dir`, with an index that names the digest of every part and file.
///
/// # Errors
/// Exit 2 for an unknown run, 16 when it holds what is no plain file.
pub fn pack(paths: &Paths, run: &str, dir: &Path) -> Result<Packed> {
    pack_in_parts_of(paths, run, dir, PART_BYTES)
}

/// As [`pack`], with parts of at most `part_bytes`.
///
/// # Errors
/// As [`pack`].
pub fn pack_in_parts_of(paths: &Paths, run: &str, dir: &Path, part_bytes: usize) -> Result<Packed> {
    let from = run_dir(paths, run)?;
    let files = facts_below(&from)?;
    fs_err::create_dir_all(dir)?;
    remove_earlier(run, dir)?;
    let (stream, to_stream) = std::io::pipe()?;
    let tar = tar(paths, run)
        .stdout_file(to_stream)
        .start()
        .map_err(|error| fail(ExitCode::Environment, format!("failed to start tar: {error}"), "apt-get install tar"))?;
    let parts = write_parts(stream, run, dir, part_bytes);
    let status = tar.wait().context("failed to wait for tar")?.status;
    let parts = parts?;
    if !status.success() {
        let message = format!("tar could not pack {}: {status}", from.display());
        return Err(fail(
            ExitCode::Environment,
            message,
            "read what tar says above; nothing may write into the run meanwhile",
        ));
    }
    let packed = Packed {
        index: dir.join(format!("{run}{INDEX_ENDING}")),
        n_parts: parts.len(),
        bytes: parts.values().map(|part| part.bytes).sum(),
    };
    let index = PackIndex { format: FORMAT, run: run.to_owned(), parts, files };
    files::write_whole(&packed.index, &serde_json::to_vec_pretty(&index)?)?;
    Ok(packed)
}

/// Puts every packed run in `dir` back together below `results/raw/`.
///
/// # Errors
/// Exit 16 naming every part that is missing, changed or extra, and every file that is not what was packed.
pub fn unpack(paths: &Paths, dir: &Path) -> Result<Vec<Unpacked>> {
    let mut indexes = Vec::new();
    if !dir.is_dir() {
        let message = format!("there is no folder {}", dir.display());
        return Err(fail(ExitCode::Usage, message, "cargo xtask unpack DIR, the folder that the parts were copied to"));
    }
    for entry in fs_err::read_dir(dir)? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        indexes.extend(name.strip_suffix(INDEX_ENDING).map(str::to_owned));
    }
    indexes.sort();
    if indexes.is_empty() {
        let message = format!("{} holds no <run>{INDEX_ENDING}, which pack writes last", dir.display());
        return Err(fail(ExitCode::Integrity, message, HOLD));
    }
    indexes.iter().map(|run| unpack_one(paths, dir, run)).collect()
}

fn unpack_one(paths: &Paths, dir: &Path, run: &str) -> Result<Unpacked> {
    let index = read_index(dir, run)?;
    check_parts(dir, &index)?;
    let to = paths.run(run);
    let unpacked = |was_there| Unpacked { run: run.to_owned(), dir: to.clone(), n_files: index.files.len(), was_there };
    if files::exists(&to) {
        check_files(&to, &index).context("a run of that name is there already, and differs")?;
        return Ok(unpacked(true));
    }
    fs_err::create_dir_all(paths.raw())?;
    remove_leftovers(&paths.raw())?;
    let stage = tempfile::Builder::new().prefix(UNFINISHED).tempdir_in(paths.raw())?;
    let extracted = stage.path().join(run);
    extract::extract(dir, &index, &extracted)?;
    check_files(&extracted, &index)?;
    fs_err::rename(&extracted, &to)?;
    Ok(unpacked(false))
}

fn remove_leftovers(raw: &Path) -> Result<()> {
    for entry in fs_err::read_dir(raw)? {
        let entry = entry?;
        if entry.file_name().to_string_lossy().starts_with(UNFINISHED) {
            fs_err::remove_dir_all(entry.path())?;
        }
    }
    Ok(())
}

fn run_dir(paths: &Paths, run: &str) -> Result<PathBuf> {
    let dir = paths.run(run);
    let plain = check_name(run).is_ok() && !run.contains('/') && !run.starts_with('-');
    if plain && dir.is_dir() {
        return Ok(dir);
    }
    Err(fail(ExitCode::Usage, format!("no run {run:?} below {}", paths.raw().display()), "ls results/raw"))
}

fn facts_below(dir: &Path) -> Result<BTreeMap<String, FileFacts>> {
    let scan = files::scan(dir)?;
    if let Some(odd) = scan.odd.first() {
        let message = format!("{}: {} is {}", dir.display(), odd.name, odd.detail);
        return Err(fail(ExitCode::Integrity, message, "a run holds plain files only"));
    }
    let names: Vec<String> = scan.files.into_keys().collect();
    let below: Vec<&str> = names.iter().map(String::as_str).collect();
    let facts = files::digest_below(&Beneath::open_itself(dir)?, &below).into_iter();
    let facts = facts.map(|found| found.map(|(sha256, bytes)| FileFacts { bytes, sha256 }));
    names.into_iter().zip(facts).map(|(name, facts)| Ok((name, facts?))).collect()
}

fn remove_earlier(run: &str, dir: &Path) -> Result<()> {
    for name in names_of_run(run, dir)? {
        fs_err::remove_file(dir.join(name))?;
    }
    Ok(())
}

/// Parts and index of a run in `dir`, half-written ones included.
fn names_of_run(run: &str, dir: &Path) -> Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in fs_err::read_dir(dir)? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        if name.starts_with(&format!("{run}.part-")) || name.starts_with(&format!("{run}{INDEX_ENDING}")) {
            names.push(name);
        }
    }
    names.sort();
    Ok(names)
}

/// The name of a part of so many: all as long as the last, so that a shell lists them in their order.
fn part_name(run: &str, n: usize, n_parts: usize) -> String {
    let width = n_parts.saturating_sub(1).to_string().len().max(3);
    format!("{run}.part-{n:0width$}")
}

fn write_parts(mut stream: impl Read, run: &str, dir: &Path, part_bytes: usize) -> Result<BTreeMap<String, FileFacts>> {
    let mut facts = Vec::new();
    loop {
        let mut part = Vec::new();
        stream.by_ref().take(part_bytes as u64).read_to_end(&mut part).context("failed to read from tar")?;
        if part.is_empty() {
            break;
        }
        // How many there will be is not known yet.
        files::write_whole(&dir.join(part_name(run, facts.len(), facts.len() + 1)), &part)?;
        facts.push(FileFacts { bytes: part.len() as u64, sha256: Digest::of(&part) });
    }
    let mut parts = BTreeMap::new();
    let n_parts = facts.len();
    for (n, facts) in facts.into_iter().enumerate() {
        let (from, to) = (part_name(run, n, n + 1), part_name(run, n, n_parts));
        if from != to {
            fs_err::rename(dir.join(from), dir.join(&to))?;
        }
        parts.insert(to, facts);
    }
    Ok(parts)
}

fn read_index(dir: &Path, run: &str) -> Result<PackIndex> {
    let name = format!("{run}{INDEX_ENDING}");
    let read = files::read_plain(&dir.join(&name)).and_then(|bytes| parse_index(run, &bytes));
    read.map_err(|error| does_not_hold(&name, &error, HOLD))
}

/// Reads the index of a packed run, which nobody vouches for.
///
/// # Errors
/// When it is not what `pack` writes, names another run, parts that are not its own, or files that cannot be.
pub fn parse_index(run: &str, bytes: &[u8]) -> Result<PackIndex> {
    schema::check_format_of_json("the index", bytes)?;
    let index: PackIndex = serde_json::from_slice(bytes).context("malformed")?;
    // There is one way to write it; what JSON lets pass, such as one name twice, is another.
    ensure!(serde_json::to_vec_pretty(&index)? == bytes, "not the bytes that pack writes for this content");
    check_name(run)?;
    index.files.keys().try_for_each(|file| check_name(file))?;
    let collision = collisions(index.files.keys().map(String::as_str)).first().copied();
    if let Some((name, other)) = collision {
        bail!("{name} and {other} cannot both exist on every file system");
    }
    let sum = |facts: &BTreeMap<String, FileFacts>| facts.values().try_fold(0_u64, |sum, f| sum.checked_add(f.bytes));
    let fits = sum(&index.files).zip(sum(&index.parts)).is_some_and(|(files, parts)| files <= parts);
    ensure!(fits, "its files are larger than its parts");
    let expected = (0..index.parts.len()).map(|n| part_name(run, n, index.parts.len()));
    let own = index.run == run && !index.parts.is_empty() && index.parts.keys().cloned().eq(expected);
    ensure!(own, "names another run, or parts that are not its own");
    Ok(index)
}

fn check_parts(dir: &Path, index: &PackIndex) -> Result<()> {
    let mut problems = Vec::new();
    for (name, facts) in &index.parts {
        problems.extend(problem(dir, name, facts)?.map(|problem| format!("{name} {problem}")));
    }
    let known = |name: &String| index.parts.contains_key(name) || *name == format!("{}{INDEX_ENDING}", index.run);
    let extra = names_of_run(&index.run, dir)?.into_iter().filter(|name| !known(name));
    problems.extend(extra.map(|name| format!("{name} does not belong to it")));
    if problems.is_empty() {
        return Ok(());
    }
    let message = format!("packed run {} is not whole: {}", index.run, problems.join("; "));
    Err(fail(ExitCode::Integrity, message, HOLD))
}

/// What is wrong with a part, if anything. That this machine cannot read it does not count.
fn problem(dir: &Path, name: &str, facts: &FileFacts) -> Result<Option<String>> {
    let path = dir.join(name);
    if !files::exists(&path) {
        return Ok(Some("is missing".to_owned()));
    }
    Ok(match files::digest_plain(&path) {
        Ok((sha256, bytes)) if (FileFacts { bytes, sha256 }) == *facts => None,
        Ok((_, bytes)) if bytes != facts.bytes => Some(format!("has {bytes} bytes of {}", facts.bytes)),
        Ok(_) => Some("was changed".to_owned()),
        Err(error) if of_the_machine(&error) => return Err(error),
        Err(error) => Some(format!("cannot be read: {error:#}")),
    })
}

fn check_files(dir: &Path, index: &PackIndex) -> Result<()> {
    let found = facts_below(dir)?;
    let differs = |name: &&String| found.get(*name) != index.files.get(*name);
    let names: std::collections::BTreeSet<&String> = found.keys().chain(index.files.keys()).collect();
    let wrong: Vec<&str> = names.iter().filter(|name| differs(name)).map(|name| name.as_str()).collect();
    if wrong.is_empty() { Ok(()) } else { Err(not_what_was_packed(&index.run, &wrong)) }
}

fn not_what_was_packed(run: &str, wrong: &[&str]) -> anyhow::Error {
    let message = format!("files of {run} are not what was packed: {}", wrong.join(", "));
    fail(ExitCode::Integrity, message, HOLD)
}

/// The program that writes a run as a tar stream.
fn tar(paths: &Paths, run: &str) -> duct::Expression {
    let words = ["--create", "--file=-", "--sort=name", "--owner=0", "--group=0", "--numeric-owner", "--directory"];
    let args = words.map(OsString::from).into_iter().chain([paths.raw().into(), run.into()]);
    duct::cmd("tar", args).full_env([("PATH", "/usr/local/bin:/usr/bin:/bin")]).stdin_null().unchecked()
}
