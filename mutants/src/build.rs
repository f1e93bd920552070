//! The copy of the tree with every mutant in it, and its test binary. What does not compile is dropped until all does.

use crate::config::Config;
use crate::find::{self, Place};
use crate::weave::{self, Mutant, Woven};
use anyhow::{Context, Result, bail, ensure};
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Where the question is asked; its `on` says whether a mutant is on, its `enter` tries them.
const RUNTIME: &str = "__mutants";
/// How often what does not compile is dropped; the compiler tells of types, lifetimes and lints one after the other.
const ROUNDS: usize = 25;

/// A mutated file.
pub(crate) struct File {
    /// Its path below the root.
    pub(crate) name: String,
    original: String,
    pub(crate) places: Vec<Place>,
    pub(crate) mutants: Vec<Mutant>,
    /// Mutants that do not compile.
    pub(crate) unviable: usize,
}

impl File {
    /// Its mutants' names and numbers.
    pub(crate) fn named(&self) -> impl Iterator<Item = (String, usize)> {
        self.mutants.iter().map(|mutant| (self.places[mutant.place].name(&self.name, &mutant.instead), mutant.id))
    }

    fn drop_ids(&mut self, ids: &BTreeSet<usize>) {
        let before = self.mutants.len();
        self.mutants.retain(|mutant| !ids.contains(&mutant.id));
        self.unviable += before - self.mutants.len();
    }
}

/// Every mutated file, and the test binary that holds all of it.
pub(crate) struct Built {
    pub(crate) files: Vec<File>,
    /// One more than the greatest mutant's number.
    pub(crate) n_ids: usize,
    pub(crate) binary: PathBuf,
    pub(crate) tree: PathBuf,
}

/// Copies, weaves and builds.
///
/// # Errors
/// When a file is no Rust, or something does not compile that no mutant explains.
pub(crate) fn build(root: &Path, work: &Path, config: &Config, names: &[String]) -> Result<Built> {
    let tree = work.join("tree");
    copy(root, &tree)?;
    enter_tests(&tree.join("xtask/src"))?;
    let runtime = include_str!("runtime.rs.txt").replace("PREPARE", &config.prepare);
    fs_err::write(tree.join(format!("xtask/src/{RUNTIME}.rs")), runtime)?;
    let library = tree.join("xtask/src/lib.rs");
    let declared = format!("{}\n/// Which mutant is on.\npub mod {RUNTIME};\n", fs_err::read_to_string(&library)?);
    fs_err::write(&library, declared)?;
    let mut n_ids = 1;
    let mut files = names.iter().map(|name| read(root, name, &mut n_ids)).collect::<Result<Vec<_>>>()?;
    eprintln!("{} mutants in {} files", n_ids - 1, files.len());
    // What did not compile the last time is not tried again; removing the file makes it so.
    let remembered = work.join("unviable.json");
    let mut unviable: BTreeSet<String> =
        fs_err::read(&remembered).ok().and_then(|bytes| serde_json::from_slice(&bytes).ok()).unwrap_or_default();
    for file in &mut files {
        let named: Vec<usize> = file.named().filter(|(name, _)| unviable.contains(name)).map(|(_, id)| id).collect();
        file.drop_ids(&named.into_iter().collect());
    }
    for round in 1..=ROUNDS {
        let woven = write(&tree, &files)?;
        let dropped = blamed(&check(&tree, root)?, &woven)?;
        if dropped.is_empty() {
            fs_err::write(&remembered, serde_json::to_vec_pretty(&unviable)?)?;
            let binary = binary(&tree, root)?;
            return Ok(Built { files, n_ids, binary, tree });
        }
        eprintln!("round {round}: {} mutants do not compile", dropped.len());
        for file in &mut files {
            unviable.extend(file.named().filter(|(_, id)| dropped.contains(id)).map(|(name, _)| name));
            file.drop_ids(&dropped);
        }
    }
    bail!("after {ROUNDS} rounds something still does not compile")
}

fn read(root: &Path, name: &str, n_ids: &mut usize) -> Result<File> {
    let original = fs_err::read_to_string(root.join(name))?;
    let places = find::places(&original).with_context(|| name.to_owned())?;
    let mut mutants = Vec::new();
    for (place, found) in places.iter().enumerate() {
        for instead in &found.instead {
            mutants.push(Mutant { id: *n_ids, place, instead: instead.clone() });
            *n_ids += 1;
        }
    }
    Ok(File { name: name.to_owned(), original, places, mutants, unviable: 0 })
}

/// The tracked files and those that git does not ignore, as they are now; what did not change keeps its time.
fn copy(root: &Path, tree: &Path) -> Result<()> {
    let listed = Command::new("git")
        .arg("-C")
        .arg(root)
        .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
        .output()
        .context("failed to run git")?;
    ensure!(listed.status.success(), "git ls-files failed");
    if tree.exists() {
        fs_err::remove_dir_all(tree)?;
    }
    for name in String::from_utf8(listed.stdout)?.split('\0').filter(|name| !name.is_empty()) {
        let (from, to) = (root.join(name), tree.join(name));
        if from.is_file() {
            fs_err::create_dir_all(to.parent().context("a file lies in a folder")?)?;
            fs_err::copy(from, to)?;
        }
    }
    Ok(())
}

fn enter_tests(folder: &Path) -> Result<()> {
    for entry in fs_err::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            enter_tests(&path)?;
        } else if path.extension().is_some_and(|end| end == "rs") {
            let text = fs_err::read_to_string(&path)?;
            let entered = weave::enter_tests(&text, &format!(" crate::{RUNTIME}::enter(); "));
            if entered != text {
                fs_err::write(&path, entered)?;
            }
        }
    }
    Ok(())
}

fn write(tree: &Path, files: &[File]) -> Result<BTreeMap<String, Vec<Woven>>> {
    let mut all = BTreeMap::new();
    for file in files {
        let text = weave::weave(&file.original, &file.places, &file.mutants, &format!("crate::{RUNTIME}::on"));
        let woven = weave::enter_tests(&text.text, &format!(" crate::{RUNTIME}::enter(); "));
        // Tests follow what is mutated, so that the places found stay where they are.
        ensure!(woven.starts_with(text.text.split("#[test]").next().unwrap_or_default()), "{}", file.name);
        fs_err::write(tree.join(&file.name), woven)?;
        all.insert(file.name.clone(), text.woven);
    }
    Ok(all)
}

#[derive(Deserialize)]
struct Line {
    reason: String,
    message: Option<Message>,
    executable: Option<PathBuf>,
}

#[derive(Deserialize)]
struct Message {
    level: String,
    message: String,
    rendered: Option<String>,
    spans: Vec<Span>,
}

#[derive(Deserialize)]
struct Span {
    file_name: String,
    byte_start: usize,
    byte_end: usize,
    is_primary: bool,
}

fn cargo(tree: &Path, root: &Path, args: &[&str]) -> Result<Vec<Line>> {
    let output = Command::new("nice")
        .arg("cargo")
        .args(args)
        .args(["--offline", "--package", "xtask", "--lib", "--message-format=json"])
        .current_dir(tree)
        .env("CARGO_TARGET_DIR", root.join("target"))
        .env("CARGO_PROFILE_DEV_INCREMENTAL", "true")
        .stderr(Stdio::inherit())
        .output()
        .context("failed to run cargo")?;
    let text = String::from_utf8(output.stdout)?;
    text.lines().map(|line| serde_json::from_str(line).with_context(|| line.to_owned())).collect()
}

/// What does not compile.
fn check(tree: &Path, root: &Path) -> Result<Vec<Message>> {
    let lines = cargo(tree, root, &["check", "--profile", "test", "--quiet"])?;
    Ok(lines.into_iter().filter_map(|line| line.message).filter(|message| message.level == "error").collect())
}

fn binary(tree: &Path, root: &Path) -> Result<PathBuf> {
    let lines = cargo(
        tree,
        root,
        &["test", "--no-run", "--config", "profile.dev.package.xtask.opt-level=1", "--config", "profile.dev.debug=0"],
    )?;
    let of_test = lines.into_iter().filter(|line| line.reason == "compiler-artifact");
    of_test.filter_map(|line| line.executable).next_back().context("cargo names no test binary")
}

/// The mutants whose text, or whose wrapping, the errors point at.
fn blamed(errors: &[Message], woven: &BTreeMap<String, Vec<Woven>>) -> Result<BTreeSet<usize>> {
    let mut all = BTreeSet::new();
    for error in errors.iter().filter(|error| !error.spans.is_empty()) {
        let primary = || error.spans.iter().filter(|span| span.is_primary);
        let found =
            primary().find_map(|span| at(span, woven)).or_else(|| error.spans.iter().find_map(|s| at(s, woven)));
        match found {
            Some(ids) => all.extend(ids),
            None => bail!("no mutant explains: {}", error.rendered.as_ref().unwrap_or(&error.message)),
        }
    }
    ensure!(errors.is_empty() || !all.is_empty(), "cargo check fails: {}", errors[0].message);
    Ok(all)
}

/// The innermost woven text round a span.
fn at(span: &Span, woven: &BTreeMap<String, Vec<Woven>>) -> Option<BTreeSet<usize>> {
    let (_, texts) =
        woven.iter().find(|(name, _)| span.file_name.ends_with(*name) || name.ends_with(&span.file_name))?;
    let around = texts.iter().filter(|w| w.range.start <= span.byte_start && span.byte_end <= w.range.end);
    around.min_by_key(|w| w.range.len()).map(|w| w.ids.clone())
}
