//! The protocol by which a number was measured: a digest of the harness's code as tokens. Comments, formatting and
//! tests are no part of it. No version is maintained by hand, and a commit and a work tree are read in the same way.
//!
//! It is made of every file that an experiment is compiled from, found by following `mod` declarations, and of none
//! of another experiment; of the schema's modules that those use; of the dependencies they are compiled with, as the
//! lock file pins them; and of the compiler's version. The emulated device is left out, since nothing it does is ever
//! published. Files included by `include_str!` are not followed: the harness includes none.

mod crates;
mod tokens;

use crate::records::sums::differing;
use anyhow::{Context, Result};
use schema::Digest;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use tokens::Source;

/// The digest of a protocol, and of each part, by its path.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Protocol {
    /// One digest over all parts.
    pub digest: Digest,
    /// The parts.
    pub parts: BTreeMap<String, Digest>,
}

impl Protocol {
    /// The parts that differ from another's, added and removed ones included.
    #[must_use]
    pub fn changed_to(&self, other: &Self) -> Vec<String> {
        differing(&self.parts, &other.parts)
    }
}

/// The file that every harness has.
const MAIN: &str = "harness/src/main.rs";
/// The crates below `harness/` that every experiment shares. Of the schema only the modules that are used count.
const SHARED: [&str; 3] = ["core", "schema", "tables"];
/// The file the schema begins with.
const SCHEMA: &str = "harness/schema/src/lib.rs";
/// What is declared and never followed: an emulation measures nothing that is published, and the registry names other experiments.
const PASSED_OVER: [&str; 2] = ["/src/emulated.rs", "harness/src/registry.rs"];

/// Reads a file of a commit or tree by its path below the root; absent when there is none.
pub type Reader<'a> = dyn FnMut(&str) -> Result<Option<String>> + 'a;

/// The protocol of an experiment in the harness that `read` gives the files of: the binary, the core, the experiment's own crate
/// `harness/EXPERIMENT`, the tables, and what they use of the schema.
///
/// # Errors
/// When a file that must be there is absent, or does not parse.
pub fn protocol(experiment: &str, read: &mut Reader<'_>) -> Result<Protocol> {
    let mut sources = BTreeMap::new();
    follow(MAIN, read, &mut sources)?;
    // Commits from before the harness was split lack some of them, and so have another protocol.
    for name in SHARED.into_iter().filter(|name| *name != "schema").chain([experiment]) {
        let root = format!("harness/{name}/src/lib.rs");
        if read(&root)?.is_some() {
            follow(&root, read, &mut sources)?;
        }
    }
    let mut parts: BTreeMap<String, Digest> =
        sources.iter().map(|(path, source)| (path.clone(), source.digest())).collect();
    parts.extend(schema_parts(read, &sources)?);
    parts.extend(crates::parts(experiment, read)?);
    let digest = Digest::of(serde_json::to_vec(&parts)?);
    Ok(Protocol { digest, parts })
}

/// The schema's modules that a harness of these sources uses, themselves or through one another.
fn schema_parts(read: &mut Reader<'_>, harness: &BTreeMap<String, Source>) -> Result<BTreeMap<String, Digest>> {
    let root = source(SCHEMA, read)?;
    let modules: BTreeSet<String> = root.modules().into_iter().map(|module| module.name).collect();
    let mut wanted: BTreeSet<String> = harness.values().flat_map(|source| source.paths_into("schema")).collect();
    wanted.extend(root.without_modules(&modules).first_words());
    let mut parts = BTreeMap::new();
    let mut used: BTreeSet<String> = BTreeSet::new();
    while let Some(name) = wanted.pop_first() {
        // A word that is no module is an item of the root, and `*` stands for all there is.
        let named = modules.iter().filter(|module| name == "*" || **module == name);
        let fresh: Vec<String> = named.filter(|module| !used.contains(*module)).cloned().collect();
        for module in fresh {
            let mut sources = BTreeMap::new();
            follow_module(&module, "harness/schema/src", read, &mut sources)?;
            for source in sources.values() {
                wanted.extend(["crate", "super"].iter().flat_map(|word| source.paths_into(word)));
            }
            parts.extend(sources.iter().map(|(path, source)| (path.clone(), source.digest())));
            used.insert(module);
        }
    }
    let unused = modules.difference(&used).cloned().collect();
    parts.insert(SCHEMA.to_owned(), root.without_modules(&unused).digest());
    Ok(parts)
}

/// Every text in quotes of a Rust file, outside of its tests.
///
/// # Errors
/// When the file does not parse.
pub fn literals(text: &str) -> Result<BTreeSet<String>> {
    Ok(Source::parse(text)?.literals())
}

fn source(path: &str, read: &mut Reader<'_>) -> Result<Source> {
    let text = read(path)?.with_context(|| format!("{path} is absent"))?;
    Source::parse(&text).with_context(|| format!("{path} does not parse"))
}

/// Takes a file and every module file below it.
fn follow(path: &str, read: &mut Reader<'_>, sources: &mut BTreeMap<String, Source>) -> Result<()> {
    let parsed = source(path, read)?;
    let (folder, file) = path.rsplit_once('/').context("a source file lies in a folder")?;
    let below = match file.trim_end_matches(".rs") {
        "lib" | "main" | "mod" => folder.to_owned(),
        stem => format!("{folder}/{stem}"),
    };
    for module in parsed.modules() {
        let folder = module.within.iter().fold(below.clone(), |folder, name| format!("{folder}/{name}"));
        follow_module(&module.name, &folder, read, sources)?;
    }
    sources.insert(path.to_owned(), parsed);
    Ok(())
}

fn follow_module(
    name: &str,
    folder: &str,
    read: &mut Reader<'_>,
    sources: &mut BTreeMap<String, Source>,
) -> Result<()> {
    let beside = format!("{folder}/{name}.rs");
    if PASSED_OVER.iter().any(|passed| beside.ends_with(passed)) || sources.contains_key(&beside) {
        return Ok(());
    }
    match read(&beside)? {
        Some(_) => follow(&beside, read, sources),
        None => follow(&format!("{folder}/{name}/mod.rs"), read, sources),
    }
}

#[cfg(test)]
mod tests;
