//! The example of `docs/experiment.md`: an experiment that the pipeline has never heard of goes the whole emulated path by adding
//! its own folders and two lines, and what is edited of one experiment leaves the other's identity alone.

mod checkout;

use checkout::{Checkout, uncached};
use pure::identity::protocol::{Protocol, protocol};
use serde_json::Value;
use std::collections::BTreeMap;
use std::process::Command;

const PATCH: &str = include_str!("../../docs/example/reduction.patch");
/// What an experiment may add.
const OWN: [&str; 3] = ["kernels/reduction/", "harness/reduction/", "harness/experiments/reduction/"];
/// Where it may add one line.
const LINES: [&str; 2] = ["harness/Cargo.toml", "harness/src/registry.rs"];
/// What speaks of a GPU, which the emulated device is none: its kernels are not launched, so that there is no SASS to look at,
/// no sanitizer to run and no telemetry to watch.
const OF_A_GPU: [&str; 5] = ["environment", "build", "sanitizer", "clocks", "freshness"];

#[test]
fn the_patch_adds_under_400_lines_and_touches_its_own_folders_only() {
    let mut added: BTreeMap<&str, usize> = BTreeMap::new();
    let mut file = "";
    for line in PATCH.lines() {
        match line.strip_prefix("+++ b/") {
            Some(name) => file = name,
            None if line.starts_with('+') => *added.entry(file).or_default() += 1,
            None => {}
        }
    }
    let total: usize = added.values().sum();
    eprintln!("{total} lines: {added:?}");
    assert!(total < 400, "{total} lines");
    for (file, lines) in added {
        let one_line = LINES.contains(&file) && lines == 1;
        assert!(one_line || OWN.iter().any(|own| file.starts_with(own)), "{lines} lines in {file}");
    }
}

#[test]
fn an_unknown_experiment_goes_the_whole_path_and_no_edit_of_one_touches_the_other() {
    let Some(checkout) = Checkout::small("host") else { return };
    let preempt_alone = identity(&checkout, "preempt");
    apply(&checkout);
    assert_eq!(identity(&checkout, "preempt"), preempt_alone, "another experiment was added");
    let listed = checkout.run(&["list", "--json"]);
    assert!(listed.stdout.contains("\"reduction\"") && listed.stdout.contains("R-RATE"), "{}", listed.stderr);

    check_path(&reproduce(&checkout, "reduction"));
    reproduce(&checkout, "preempt");
    for (edited, other) in [("preempt", "reduction"), ("reduction", "preempt")] {
        let before = [identity(&checkout, edited), identity(&checkout, other)];
        let (crate_file, edit) =
            (format!("harness/{edited}/src/lib.rs"), "\n/// An edit.\npub const EDITED: u32 = 1;\n");
        checkout.append(&crate_file, edit);
        let header = checkout.path(format!("kernels/{edited}/edit.cuh"));
        std::fs::create_dir_all(header.parent().unwrap()).unwrap();
        std::fs::write(&header, "// An edit.\n").unwrap();
        checkout.commit("an edit of one experiment");
        let after = [identity(&checkout, edited), identity(&checkout, other)];
        assert_ne!(before[0], after[0], "{edited} was edited");
        assert_eq!(before[1], after[1], "{edited} was edited, not {other}");
        let object = reproduce(&checkout, other);
        assert!(!uncached(&object).contains(&"build"), "{edited} was edited, and {other} was built again");
        // As it was, so that what was built of it is found again.
        checkout.edit(&crate_file, edit, "");
        std::fs::remove_file(header).unwrap();
        checkout.commit("the edit is taken back");
    }
}

/// The patch, and a prediction of its claim, each in a commit of its own before the one that is measured.
fn apply(checkout: &Checkout) {
    let patch = checkout.path("../reduction.patch");
    std::fs::write(&patch, PATCH).unwrap();
    let git = Command::new("git").arg("-C").arg(checkout.path("")).arg("apply").arg(&patch).output().unwrap();
    assert!(git.status.success(), "{}", String::from_utf8_lossy(&git.stderr));
    // The lock file follows; every package that it needs is there already.
    let cargo = Command::new(env!("CARGO"))
        .args(["metadata", "--offline", "--format-version", "1"])
        .current_dir(checkout.path(""))
        .output()
        .unwrap();
    assert!(cargo.status.success(), "{}", String::from_utf8_lossy(&cargo.stderr));
    let words = ["--title", "the rate of sums", "--text", "More than 10^12 a second.", "--claim", "R-RATE"];
    let predicted = checkout.run(&[&["notebook", "predict", "--json"], &words[..]].concat());
    assert_eq!(predicted.code, Some(0), "{}", predicted.stderr);
    let entry: Value = serde_json::from_str(&predicted.stdout).unwrap();
    checkout.edit("harness/experiments/reduction/claims.toml", "P-009", entry["id"].as_str().unwrap());
    checkout.commit("an experiment with its prediction");
    checkout.commit("what is measured");
}

fn reproduce(checkout: &Checkout, experiment: &str) -> Value {
    let smoke = ["--device", "emulated", "--profile", "smoke", "--offline", "--runtime", "host", "--json"];
    let ended = checkout.run(&[&["reproduce", experiment], &smoke[..]].concat());
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    serde_json::from_str(&ended.stdout).unwrap()
}

/// Every gate that needs no GPU passes, on the cells and launches of this experiment.
fn check_path(object: &Value) {
    assert_eq!(object["experiment"], "reduction");
    assert!(object["levels"]["L3"]["why"].as_str().unwrap().starts_with("NOT RE-MEASURED"), "{}", object["levels"]);
    let gates = object["gates"].as_array().unwrap();
    let name = |gate: &Value| gate["name"].as_str().unwrap().to_owned();
    for gate in gates {
        let may_refuse = OF_A_GPU.contains(&name(gate).as_str());
        assert!(gate["passed"] == true || may_refuse, "{}: {}", gate["name"], gate["reason"]);
    }
    let evidence: BTreeMap<String, &Value> = gates.iter().map(|gate| (name(gate), &gate["evidence"])).collect();
    let counted = |gate: &str, what: &str| evidence[gate][what].as_u64().unwrap_or_else(|| panic!("{gate} {what}"));
    // The timer and two lengths; of each length one spoiled launch and ten that count, of 256 and 64 vectors.
    assert_eq!((counted("samples", "cells_planned"), counted("samples", "cells_recorded")), (3, 3));
    assert_eq!((counted("numerics", "launches"), counted("numerics", "poison_caught")), (22, 2));
    assert_eq!(counted("numerics", "outputs_checked"), 11 * (256 + 64));
    assert_eq!(counted("structure", "launches"), 22);
    assert_eq!(counted("registration", "registered"), 1);
}

fn identity(checkout: &Checkout, experiment: &str) -> Protocol {
    let mut read = |path: &str| {
        let file = checkout.path(path);
        Ok(file.is_file().then(|| std::fs::read_to_string(file)).transpose()?)
    };
    protocol(experiment, &mut read).unwrap()
}
