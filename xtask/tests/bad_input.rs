//! What bad input gets: a clear message that names the file and what to type next, the documented exit code, nothing lost and
//! nothing half-written.
//!
//! Elsewhere: an interrupted fetch and a wrong digest (`host/src/wheels/fetch/tests.rs`), a GPU that is too old (`path/device.rs`),
//! a cubin of another architecture (`tests/sass.rs`), other processes on a GPU (the environment gate).

mod checkout;

use checkout::{Checkout, Ended, SMOKE};
use std::path::Path;
use std::process::Command;

const PLAN: &str = "harness/experiments/preempt/plan.toml";
const CLAIMS: &str = "harness/experiments/preempt/claims.toml";

fn smoke<'a>(more: &[&'a str]) -> Vec<&'a str> {
    let mut args = SMOKE.to_vec();
    args.push("host");
    args.extend(more);
    args
}

/// The command ended with `code`, and said each of these things.
#[track_caller]
fn check(ended: &Ended, code: i32, said: &[&str]) {
    assert_eq!(ended.code, Some(code), "{}", ended.stderr);
    for part in said {
        assert!(ended.stderr.contains(part), "{part:?} in {}", ended.stderr);
    }
    assert!(!ended.stderr.contains("panicked"), "{}", ended.stderr);
}

#[track_caller]
fn check_nothing_half_written(checkout: &Checkout) {
    for folder in ["results", "manifests", "target/assay/runs"] {
        let partial = checkout.files(folder).into_iter().find(|name| name.ends_with(".partial"));
        assert_eq!(partial, None, "{folder}");
    }
}

#[test]
fn words_and_files_that_make_no_experiment_are_refused_before_anything_is_written() {
    let checkout = Checkout::bare();
    let ask = |args: &[&str], code: i32, said: &[&str]| {
        check(&checkout.run(&smoke(args)), code, said);
        assert!(!checkout.path("results/raw").exists() && !checkout.path("target").exists());
    };
    ask(&["nosuch"], 10, &["there is no experiment \"nosuch\"; the experiments are preempt", "try: cargo xtask list"]);
    ask(
        &["--phase", "nosuch"],
        10,
        &["there is no phase \"nosuch\"", "instrument, calibrate", "try: cargo xtask list"],
    );
    ask(&["--resume", "a", "--fresh"], 2, &["cannot be used with"]);

    let edits: [(&str, &str, &str, &[&str]); 5] = [
        (PLAN, "offset_rounds = 50", "offset_rounds = ", &["plan.toml is invalid: line 12: "]),
        (PLAN, "phases =", "phase =", &["line 7: unknown field `phase`", "phases"]),
        (PLAN, "format = 1", "format = 2", &["has format 2", "up to 1", "newer Assay"]),
        (CLAIMS, "format = 1", "format = 1\nclaim = 3", &["claims.toml is invalid: line "]),
        (CLAIMS, "threshold = \"", "threshold = \"about ", &["claims.toml is invalid: claim N1", "is not a decimal"]),
    ];
    for (file, from, to, said) in edits {
        checkout.edit(file, from, to);
        ask(&[], 10, &[said, &["try: edit ", file]].concat());
        checkout.edit(file, to, from);
    }
}

/// An experiment's own code reads its numbers, so this comes after the build and before the first cell.
#[test]
fn numbers_that_the_experiment_cannot_use_are_refused_before_anything_is_measured() {
    let Some(checkout) = Checkout::built("host") else { return };
    let edits: [(&str, &str, &[&str]); 3] = [
        ("offset_rounds = 50", "offset_rounds = \"many\"", &["expected u32"]),
        ("offset_rounds = 50", "ofset_rounds = 50", &["unknown field `ofset_rounds`", "offset_rounds"]),
        ("k = [32, 64]", "k = [32, 40]", &["40", "multiple of 16"]),
    ];
    for (from, to, said) in edits {
        checkout.edit(PLAN, from, to);
        check(&checkout.run(&smoke(&[])), 10, &[said, &["try: edit ", PLAN]].concat());
        assert_eq!(checkout.files("results/raw").iter().filter(|name| name.contains("/cells/")).count(), 0);
        checkout.edit(PLAN, to, from);
    }
}

/// The notebook command, which must end well; the id it gave.
fn noted(checkout: &Checkout, words: &[&str]) -> String {
    let ended = checkout.run(&[&["notebook"], words, &["--text", "As a test.", "--json"]].concat());
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    let object: serde_json::Value = serde_json::from_str(&ended.stdout).unwrap();
    object["id"].as_str().unwrap().to_owned()
}

const CLOSE: [&str; 11] = [
    "close",
    "--topic",
    "preempt/yield",
    "--evidence",
    "a log",
    "--reason",
    "slower",
    "--preserve",
    "the log",
    "--reopens-when",
    "only with another pipeline",
];

#[test]
fn work_that_the_notebook_does_not_let_run_is_refused_before_anything_is_written() {
    let checkout = Checkout::bare();
    let ask = |args: &[&str], code: i32, said: &[&str]| {
        check(&checkout.run(&smoke(args)), code, said);
        assert!(!checkout.path("results/raw").exists() && !checkout.path("target").exists());
    };
    let closed = noted(&checkout, &CLOSE);
    let why = format!(
        "phase preempt/yield is closed work (preempt/yield, entry {closed}); it says: only with another pipeline"
    );
    ask(&[], 15, &[&why, "try: name what has changed: --reopen ID --changed CONDITION"]);
    ask(&["--dry-run"], 15, &[&why]);
    ask(&["--reopen", &closed], 2, &["--changed"]);
    ask(&["--reopen", &closed, "--changed", " "], 2, &["names the condition which has changed"]);
    ask(&["--phase", "baseline", "--reopen", &closed, "--changed", "x"], 15, &["so there is nothing to reopen"]);
    noted(&checkout, &["retract", "--title", "t", "--about", &closed, "--reason", "it was not slower"]);

    checkout.edit(
        PLAN,
        "[profile.smoke.instrument]",
        "[terms.yield]\nrequires = [\"D-901\"]\n\n[profile.smoke.instrument]",
    );
    ask(&[], 15, &["phase preempt/yield requires decision D-901", "holds no such decision"]);
    checkout.edit(PLAN, "requires = [\"D-901\"]", "needs = [\"canonical inputs\"]");
    let missing = noted(&checkout, &["missing", "--title", "t", "--item", "canonical inputs"]);
    ask(&[], 15, &[&format!("phase preempt/yield needs canonical inputs, which entry {missing} records as missing")]);
    checkout.edit(PLAN, "needs = [\"canonical inputs\"]", "requires = [\"P-001\"]");
    ask(&[], 10, &["\"P-001\" is no decision's id", "try: edit ", PLAN]);
}

#[test]
fn closed_work_taken_up_again_says_so_in_the_run() {
    let Some(checkout) = Checkout::built("host") else { return };
    let closed = noted(&checkout, &CLOSE);
    checkout.commit("closed");
    let object = checkout.reproduce("host", &["--reopen", &closed, "--changed", "two producers now"]);
    let run = object["run"].as_str().unwrap();
    let kept = std::fs::read_to_string(checkout.path(format!("results/raw/{run}/reopened.toml"))).unwrap();
    assert_eq!(kept, format!("format = 1\n\n[[reopened]]\nentry = \"{closed}\"\nchanged = \"two producers now\"\n"));
    let gate = object["gates"].as_array().unwrap().iter().find(|gate| gate["name"] == "registration").unwrap();
    assert_eq!(gate["evidence"]["reopened"], serde_json::json!([closed]));
    assert!(!gate["reason"].as_str().unwrap().contains("closed work"), "{gate}");
    assert_eq!(checkout.run(&["verify", run]).code, Some(0));
    // Another condition is another run; the same one is found again.
    let again = checkout.reproduce("host", &["--reopen", &closed, "--changed", "two producers now"]);
    assert_eq!(again["run"], run);
    check(&checkout.run(&smoke(&[])), 15, &["is closed work"]);
}

#[test]
fn a_device_that_is_not_there_is_refused_before_anything_is_written() {
    let checkout = Checkout::bare();
    let place = ["reproduce", "--runtime", "host", "--offline", "--device"];
    let ask = |device: &str| checkout.run(&[&place[..], &[device]].concat());
    check(&ask("gpu"), 2, &["\"gpu\" is no device", "try: --device auto"]);
    check(&ask("cuda:x"), 2, &["cuda:x names no GPU", "--device cuda:0"]);
    if Path::new("/dev/nvidiactl").exists() {
        eprintln!("skipped: no GPU (this machine has one)");
    } else {
        check(&ask("cuda:0"), 17, &["no usable GPU", "try: cargo xtask doctor", "--device emulated"]);
    }
    assert!(!checkout.path("results/raw").exists());
}

#[test]
fn an_architecture_without_kernels_is_refused() {
    let Some(checkout) = Checkout::built("host") else { return };
    let ask = |arch: &str| checkout.run(&["build", "--runtime", "host", "--offline", "--arch", arch]);
    check(&ask("sm_75"), 2, &["sm_75", "sm_80"]);
    check(&ask("hopper"), 2, &["hopper", "try: --arch sm_90"]);
}

#[test]
fn more_blocks_than_slots_are_refused_with_the_number_that_fits() {
    let Some(checkout) = Checkout::built("host") else { return };
    checkout.edit(
        PLAN,
        "{ blocks = \"full\", poll = 1, set = \"device\", cost = true }",
        "{ blocks = 100, poll = 1, set = \"device\", cost = true }",
    );
    let ended = checkout.run(&smoke(&[]));
    check(&ended, 10, &["asks for 100 blocks", "holds 4 of that kernel", "try: edit "]);
    check_nothing_half_written(&checkout);
    assert_eq!(checkout.files("results/raw").iter().filter(|name| name.contains("/cells/")).count(), 0);
}

#[test]
fn a_dirty_tree_is_measured_and_never_published() {
    let Some(checkout) = Checkout::built("host") else { return };
    checkout.append("scripts/recompute.py", "# Not committed.\n");
    let object = checkout.reproduce("host", &[]);
    let run = object["run"].as_str().unwrap();
    let ended = checkout.run(&["publish", run]);
    check(&ended, 15, &["the emulated device, and such a run is never published"]);
    let verdict = std::fs::read_to_string(checkout.path("results/raw").join(run).join("verdict.json")).unwrap();
    for said in ["the tree was not clean when the run began", "commit the changes and measure again"] {
        assert!(verdict.contains(said), "{said} in {verdict}");
    }
    check(&checkout.run(&["publish", "nosuch"]), 2, &["there is no run directory", "nosuch", "try: "]);
    check(&checkout.run(&["verify", "nosuch"]), 2, &["nosuch", "try: "]);
    assert_eq!(checkout.files("manifests").iter().filter(|name| name.contains(run)).count(), 0);
    check_nothing_half_written(&checkout);
}

#[test]
fn a_run_goes_on_only_with_what_it_was_begun_with() {
    let Some(checkout) = Checkout::built("host") else { return };
    let object = checkout.reproduce("host", &[]);
    let run = object["run"].as_str().unwrap();
    let fresh = "try: cargo xtask reproduce --fresh";
    check(&checkout.run(&smoke(&["--resume", "nosuch"])), 17, &["there is no run \"nosuch\" to resume", fresh]);
    checkout.edit(PLAN, "events = 40", "events = 41");
    check(&checkout.run(&smoke(&["--resume", run])), 17, &["was begun with another plan", fresh]);
    checkout.edit(PLAN, "events = 41", "events = 40");

    // As it would look from a second GPU: the record of the run names another device.
    let record = checkout.files("target/assay/runs").remove(0);
    checkout.edit(
        &format!("target/assay/runs/{record}"),
        "\"device\": \"emulated\"",
        "\"device\": \"0123456789abcdef\"",
    );
    let folder = checkout.path("target/assay/runs");
    std::fs::rename(folder.join(record), folder.join("0123456789abcdef.json")).unwrap();
    check(&checkout.run(&smoke(&["--resume", run])), 17, &["was begun on another GPU", fresh]);
    assert_eq!(checkout.runs(), [run]);
    assert_eq!(checkout.run(&["verify", run]).code, Some(0));
}

#[test]
fn a_run_of_a_newer_format_is_named_as_such() {
    let Some(checkout) = Checkout::built("host") else { return };
    let object = checkout.reproduce("host", &[]);
    let run = object["run"].as_str().unwrap();
    let manifest = format!("results/raw/{run}/manifest.json");
    // A newer format says so, and may say more than we know.
    checkout.edit(&manifest, "\"format\": 1,", "\"a_later_field\": true, \"format\": 2,");
    for command in [&["verify", run][..], &["publish", run], &smoke(&[])] {
        let ended = checkout.run(command);
        check(&ended, 16, &["manifest.json", "format 2"]);
    }
    check_nothing_half_written(&checkout);
}

#[test]
fn a_full_disk_loses_nothing() {
    let Some(checkout) = Checkout::built("host") else { return };
    // Enough for some cells, not for all.
    let Some(mount) = Mount::tmpfs(&checkout, "size=150k") else { return };
    let ended = checkout.run(&smoke(&[]));
    check(&ended, 11, &["No space left on device", "try: "]);
    let run = checkout.runs().remove(0);
    mount.remount("size=100m");
    let object = checkout.reproduce("host", &[]);
    assert_eq!(object["run"], run.as_str(), "it goes on with the run that ran out of space");
    check_nothing_half_written(&checkout);
    assert_eq!(checkout.run(&["verify", &run]).code, Some(0));
}

#[test]
fn results_that_cannot_be_written_are_named() {
    let Some(checkout) = Checkout::built("host") else { return };
    if let Some(mount) = Mount::tmpfs(&checkout, "ro") {
        let ended = checkout.run(&smoke(&[]));
        check(&ended, 11, &["results/raw", "Read-only file system", "try: make results/raw/ writable"]);
        drop(mount);
        std::fs::remove_dir(checkout.path("results/raw")).unwrap();
    }
    std::fs::write(checkout.path("results/raw"), "not a folder").unwrap();
    check(&checkout.run(&smoke(&[])), 11, &["results/raw", "try: make results/raw/ writable"]);
    assert_eq!(std::fs::read_to_string(checkout.path("results/raw")).unwrap(), "not a folder");
}

/// A small filesystem of its own over `results/raw`, while this lives.
struct Mount {
    at: std::path::PathBuf,
}

impl Mount {
    /// Mounts; absent, and said aloud, where that is not allowed.
    fn tmpfs(checkout: &Checkout, options: &str) -> Option<Self> {
        let at = checkout.path("results/raw");
        std::fs::create_dir_all(&at).unwrap();
        let output = Command::new("mount").args(["-t", "tmpfs", "-o", options, "assay-test"]).arg(&at).output().ok();
        if output.as_ref().is_some_and(|output| output.status.success()) {
            return Some(Self { at });
        }
        eprintln!("skipped: mounting a small filesystem is not allowed here");
        None
    }

    fn remount(&self, options: &str) {
        let options = format!("remount,{options}");
        assert!(Command::new("mount").args(["-o", &options]).arg(&self.at).status().unwrap().success());
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("--lazy").arg(&self.at).status();
    }
}
