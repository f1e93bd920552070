//! The pipeline knows no experiment by name: what one calls its phases, columns, facts and modes stands nowhere in the
//! pipeline's production code. Only texts in quotes are looked at, since a name in code would not compile.

use super::Finding;
use anyhow::{Context, Result};
use host::paths::Paths;
use pure::protocol::literals;
use schema::plan::PlanFile;
use std::collections::BTreeSet;

/// Code that every experiment shares.
const PIPELINE: [&str; 6] =
    ["harness/core/src/", "harness/schema/src/", "harness/src/", "xtask/src/", "xtask/host/src/", "xtask/pure/src/"];
/// Files of the pipeline that only tests are compiled from.
const TESTS: [&str; 5] = ["/tests", "/trial/", "_tests.rs", "/of_sealed_runs.rs", "/by_script.rs"];
/// Names that the pipeline may use, each with the reason.
const EXCEPTIONS: [(&str, &str); 1] =
    [("instrument", "the gate's name, and that of the phase in which any timer is measured")];

/// Names of an experiment in the code that all of them share.
pub(super) fn told(paths: &Paths, tracked: &[String]) -> Result<Vec<Finding>> {
    let read = |name: &str| fs_err::read_to_string(paths.root().join(name));
    let of = |name: &str| literals(&read(name)?).with_context(|| format!("{name} does not parse"));
    let shared = |name: &&String| {
        let inside = PIPELINE.iter().any(|folder| name.starts_with(folder)) && name.ends_with(".rs");
        inside && !TESTS.iter().any(|part| name.contains(part))
    };
    let plans = tracked.iter().filter_map(|name| name.strip_prefix("harness/experiments/")?.strip_suffix("/plan.toml"));
    let mut names = BTreeSet::new();
    for experiment in plans {
        names.extend(PlanFile::parse(&read(&format!("harness/experiments/{experiment}/plan.toml"))?)?.phases);
        let own = format!("harness/{experiment}/src/");
        for file in tracked.iter().filter(|name| name.starts_with(&own) && name.ends_with(".rs")) {
            names.extend(of(file)?.into_iter().filter(|text| is_name(text)));
        }
    }
    // What the formats and the core say of every experiment is no name of one.
    let core = |name: &&&String| name.starts_with("harness/core/") || name.starts_with("harness/schema/");
    let pipeline: Vec<&String> = tracked.iter().filter(shared).collect();
    let mut findings = Vec::new();
    let mut common = BTreeSet::new();
    for file in pipeline.iter().filter(|name| core(name)) {
        common.extend(of(file)?);
    }
    names.retain(|name| !common.contains(name) && !EXCEPTIONS.iter().any(|(known, _)| known == name));
    for file in pipeline {
        for name in of(file)?.intersection(&names) {
            let what = format!("it knows {name:?}, which is an experiment's name: read it from the contract");
            findings.push(Finding { path: file.clone(), what });
        }
    }
    Ok(findings)
}

/// Whether a text looks like the name of a column, fact, mode or metric.
fn is_name(text: &str) -> bool {
    let words = text
        .split('_')
        .all(|word| !word.is_empty() && word.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit()));
    words && text.contains('_')
}
