//! The pipeline knows no experiment by name: what one calls its phases, columns, facts and modes stands nowhere in the
//! pipeline's production code. Only texts in quotes are looked at, since a name in code would not compile.

use super::Finding;
use anyhow::{Context, Result};
use host::paths::Paths;
use pure::identity::protocol::literals;
use schema::plan::PlanFile;
use std::collections::BTreeSet;

/// Code that every experiment shares.
const PIPELINE: [&str; 10] = [
    "harness/core/src/",
    "harness/schema/src/",
    "harness/tables/src/",
    "harness/src/",
    "xtask/src/",
    "xtask/host/src/",
    "xtask/provision/src/",
    "xtask/pure/src/",
    "xtask/start/src/",
    "xtask/words/src/",
];
/// Files of the pipeline that only tests are compiled from.
const TESTS: [&str; 5] = ["/tests", "/trial/", "_tests.rs", "/of_sealed_runs.rs", "/by_script.rs"];
/// Where the columns and facts are defined that every experiment has. An experiment that records them too makes them no name of its own.
const SHARED: [&str; 3] =
    ["harness/core/src/record/log.rs", "harness/schema/src/facts.rs", "harness/schema/src/timer.rs"];
/// Names that the pipeline may use, each with the reason.
const EXCEPTIONS: [(&str, &str); 2] = [
    ("instrument", "the gate's name, and that of the phase in which any timer is measured"),
    ("snake_case", "what serde calls the spelling of a format's variants"),
];

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
    for file in SHARED.iter().filter(|name| tracked.iter().any(|other| other == *name)) {
        for shared in of(file)? {
            names.remove(&shared);
        }
    }
    names.retain(|name| !EXCEPTIONS.iter().any(|(known, _)| known == name));
    let mut findings = Vec::new();
    for file in tracked.iter().filter(shared) {
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

#[cfg(test)]
mod tests {
    use super::*;

    const PLAN: &str = "format = 1\nexperiment = \"one\"\ntitle = \"x\"\nclocks = \"stable\"\nphases = [\"instrument\", \"sum\"]\n\
                        [profile.smoke]\nsum = { n = 1 }\n";

    /// The files in which an experiment's name is found, when `path` says `text`.
    fn found_in(path: &str, text: &str) -> Vec<String> {
        let dir = tempfile::tempdir().unwrap();
        let files = [
            ("harness/experiments/one/plan.toml", PLAN),
            ("harness/one/src/lib.rs", "const COLUMNS: [&str; 2] = [\"wrong_rows\", \"wall_ns\"];\n"),
            ("harness/schema/src/timer.rs", "const LAUNCH: &str = \"wall_ns\";\n"),
            (path, text),
        ];
        for (name, text) in files {
            fs_err::create_dir_all(dir.path().join(name).parent().unwrap()).unwrap();
            fs_err::write(dir.path().join(name), text).unwrap();
        }
        let tracked = files.map(|(name, _)| name.to_owned());
        told(&Paths::new(dir.path()), &tracked).unwrap().into_iter().map(|finding| finding.path).collect()
    }

    #[test]
    fn a_name_of_an_experiment_is_found_anywhere_in_the_pipeline() {
        for path in ["xtask/src/a.rs", "xtask/pure/src/a.rs", "harness/core/src/a.rs", "harness/schema/src/a.rs"] {
            for name in ["wrong_rows", "sum"] {
                assert_eq!(found_in(path, &format!("fn f() -> &'static str {{ {name:?} }}\n")), [path]);
            }
        }
    }

    #[test]
    fn what_every_experiment_has_tests_and_other_folders_may_be_named() {
        let says = |name: &str| format!("fn f() -> &'static str {{ {name:?} }}\n");
        for name in ["wall_ns", "instrument", "other_rows"] {
            assert!(found_in("xtask/src/a.rs", &says(name)).is_empty(), "{name}");
        }
        for path in ["xtask/src/a/tests.rs", "harness/two/src/a.rs"] {
            assert!(found_in(path, &says("wrong_rows")).is_empty(), "{path}");
        }
        let in_test = format!("#[cfg(test)]\nmod tests {{ {} }}\n", says("wrong_rows"));
        assert!(found_in("xtask/src/a.rs", &in_test).is_empty());
    }
}
