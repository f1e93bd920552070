//! Mutation testing with every mutant in one build: `cargo run -p mutants -- [FILE…]`.
//!
//! The tree is copied, each mutant of the files in `mutants.toml` is woven in behind a question, what does not compile is
//! dropped, and every test then tries the mutants that it reaches. It changes nothing in the tree itself.

mod build;
mod config;
mod find;
mod report;
mod run;
mod weave;

use anyhow::{Context, Result, ensure};
use std::path::{Path, PathBuf};

fn main() -> Result<()> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().context("no workspace")?.to_owned();
    let config = config::read(&root.join("mutants/mutants.toml"))?;
    let wanted: Vec<String> = std::env::args().skip(1).collect();
    let files: Vec<String> = config.files().filter(|file| wanted.is_empty() || wanted.contains(file)).collect();
    ensure!(!files.is_empty(), "mutants.toml names none of {wanted:?}");
    let work = root.join("target/mutants");
    let woven = build::build(&root, &work, &config, &files)?;
    let states = run::run(&work, &config, &woven)?;
    let report = report::report(&config, &woven, &states);
    println!("{}", report.text());
    let path: PathBuf = work.join("report.json");
    fs_err::write(&path, serde_json::to_string_pretty(&report)?)?;
    eprintln!("{}", path.display());
    ensure!(report.enough(), "fewer than {} % of the viable mutants are killed", report::KILLED_PCT);
    Ok(())
}
