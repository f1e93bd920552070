//! `mutants.toml`: which files are mutated, which tests try them, and which mutants are excluded and why.

use anyhow::{Context, Result, ensure};
use serde::Deserialize;
use std::path::Path;

/// The whole file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Config {
    /// Rust to run in a test's process before its mutants are tried.
    pub(crate) prepare: String,
    /// Files with the tests that try their mutants.
    pub(crate) group: Vec<Group>,
    /// Words in the names of tests that kill most, and come first.
    pub(crate) early: Vec<String>,
    /// Words in the names of tests that take long, and are tried when the others are done.
    pub(crate) slow: Vec<String>,
    /// Mutants that no test is asked to kill.
    #[serde(default)]
    pub(crate) exclude: Vec<Exclude>,
}

/// Files with the tests that try their mutants.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Group {
    /// Paths below the root.
    pub(crate) files: Vec<String>,
    /// How the names of the tests begin.
    pub(crate) tests: Vec<String>,
    /// Words in the names of tests that are tried before the others, beside the file's own stem.
    #[serde(default)]
    pub(crate) first: Vec<String>,
    /// Whether all tests of the group try what those have left.
    #[serde(default)]
    pub(crate) rest: bool,
}

/// A mutant that no test is asked to kill.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Exclude {
    /// Its name, as the report gives it.
    pub(crate) mutant: String,
    /// Why.
    pub(crate) reason: String,
}

impl Config {
    /// Every mutated file.
    pub(crate) fn files(&self) -> impl Iterator<Item = String> {
        self.group.iter().flat_map(|group| group.files.clone())
    }

    /// The group of a file.
    pub(crate) fn group_of(&self, file: &str) -> usize {
        self.group.iter().position(|group| group.files.iter().any(|f| f == file)).expect("a file of the configuration")
    }
}

/// Reads the configuration.
///
/// # Errors
/// When it cannot be read, or an exclusion gives no reason.
pub(crate) fn read(path: &Path) -> Result<Config> {
    let config: Config = toml::from_str(&fs_err::read_to_string(path)?).context("mutants.toml")?;
    for exclude in &config.exclude {
        ensure!(!exclude.reason.trim().is_empty(), "no reason to exclude {:?}", exclude.mutant);
    }
    Ok(config)
}
