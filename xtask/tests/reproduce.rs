//! `cargo xtask reproduce` from outside: the emulated path end to end, and what a change of each input takes out of the cache.

mod checkout;

use checkout::{Checkout, uncached};
use serde_json::Value;
use std::time::{Duration, Instant};

/// A second reproduction with nothing changed ends within this.
const SECOND_TIME: Duration = Duration::from_secs(2);

#[test]
fn the_emulated_path_ends_at_a_verdict_and_costs_nothing_a_second_time() {
    let Some(checkout) = Checkout::built("host") else { return };
    let first = checkout.reproduce("host", &[]);
    check_object(&first);
    assert_eq!(uncached(&first), ["run", "record", "seal", "gate", "verify"]);
    let run = first["run"].as_str().unwrap();
    check_run_directory(&checkout, run);
    check_verify_and_publish(&checkout, run);

    let mut times = Vec::new();
    for _ in 0..5 {
        let began = Instant::now();
        let again = checkout.reproduce("host", &[]);
        times.push(began.elapsed());
        assert_eq!(uncached(&again), [""; 0]);
        assert_eq!(again["run"], first["run"]);
        assert_eq!(again["gates"], first["gates"]);
    }
    eprintln!("reproduce with nothing changed: {times:?}");
    times.sort();
    assert!(times[2] < SECOND_TIME, "the median of {times:?}");
    assert_eq!(checkout.runs(), [run]);
}

/// The keys that DESIGN.md promises.
fn check_object(object: &Value) {
    for key in
        ["run", "experiment", "level", "levels", "device", "runtime", "clocks", "steps", "claims", "gates", "run_dir"]
    {
        assert!(!object[key].is_null(), "{key}");
    }
    for level in ["L0", "L1", "L2", "L3"] {
        assert!(object["levels"][level]["state"].is_string() && object["levels"][level]["why"].is_string());
    }
    check_keys(&object["steps"], &["name", "seconds", "cached"]);
    check_keys(&object["claims"], &["id", "outcome", "value", "unit", "threshold"]);
    check_keys(&object["gates"], &["name", "passed", "evidence", "reason", "remedy"]);
    assert_eq!(object["gates"].as_array().unwrap().len(), 13);
    assert_eq!((&object["device"], &object["runtime"]), (&"emulated".into(), &"host".into()));
}

fn check_keys(list: &Value, keys: &[&str]) {
    let list = list.as_array().unwrap();
    assert!(!list.is_empty());
    for (item, key) in list.iter().flat_map(|item| keys.iter().map(move |key| (item, key))) {
        assert!(item.get(key).is_some(), "{key} in {item}");
    }
}

fn check_run_directory(checkout: &Checkout, run: &str) {
    let files = checkout.files(&format!("results/raw/{run}"));
    for name in [
        "plan.toml",
        "contract.json",
        "claims.toml",
        "environment.json",
        "attempts.jsonl",
        "build/resources.json",
        "summary/metrics.csv",
        "manifest.json",
        "verdict.json",
        "SHA256SUMS",
        "SHA256SUMS.detached",
    ] {
        assert!(files.iter().any(|file| file == name), "{name} in {files:?}");
    }
    assert!(files.iter().any(|file| file.starts_with("cells/yield/") && file.ends_with(".blocks.parquet")));
    assert_eq!(files.iter().find(|file| file.ends_with(".partial") || file.ends_with(".begun")), None);
}

fn check_verify_and_publish(checkout: &Checkout, run: &str) {
    let verified = checkout.run(&["verify", run, "--json"]);
    assert_eq!(verified.code, Some(0), "{}{}", verified.stdout, verified.stderr);
    let report: Value = serde_json::from_str(&verified.stdout).unwrap();
    assert_eq!((&report["ok"], &report["problems"]), (&true.into(), &Value::Array(vec![])));
    assert!(report["checked_files"].as_u64().unwrap() > 50);

    let published = checkout.run(&["publish", run]);
    assert_eq!(published.code, Some(15), "{}", published.stderr);
    for reason in ["the emulated device, and such a run is never published", "try: cargo xtask reproduce, on a GPU"] {
        assert!(published.stderr.contains(reason), "{reason} in {}", published.stderr);
    }
    let verdict = std::fs::read_to_string(checkout.path("results/raw").join(run).join("verdict.json")).unwrap();
    for reason in ["emulated device: its numbers are never published", "no evidence: ", "--device cuda:0"] {
        assert!(verdict.contains(reason), "{reason} in {verdict}");
    }
    assert!(!checkout.path(format!("manifests/{run}.json")).exists());
}

#[test]
fn a_changed_input_takes_out_of_the_cache_what_depends_on_it_and_nothing_else() {
    let Some(checkout) = Checkout::small("host") else { return };
    let wheels = checkout.files("target/assay/wheels");
    let check = |what: &str, expected: &[&str]| {
        let object = checkout.reproduce("host", &[]);
        eprintln!("{what}: {}", object["steps"]);
        assert_eq!(uncached(&object), expected, "{what}");
        object["run"].as_str().unwrap().to_owned()
    };
    let first = check("a first time", &["build", "run", "record", "seal", "gate", "verify"]);
    assert_eq!(check("nothing", &[]), first);

    // No measurement depends on prose. Numbers in it must trace to a manifest, so what is published is looked at again.
    checkout.append("README.md", "\nMore prose.\n");
    assert_eq!(check("README.md", &["verify"]), first);

    let plan = "harness/experiments/preempt/plan.toml";
    checkout.edit(plan, "events = 40", "events = 41");
    let second = check("a number of the plan", &["run", "record", "seal", "gate"]);
    assert_ne!(second, first);

    // A run carries its claims and is judged by them, and so is what is published.
    checkout.append("harness/experiments/preempt/claims.toml", "# A remark.\n");
    let third = check("the claims", &["run", "record", "seal", "gate", "verify"]);
    assert_ne!(third, second);

    checkout.edit("kernels/common/timer.cuh", "kPauseNs = 32;", "kPauseNs = 64;");
    check("a constant of a kernel", &["build", "run", "record", "seal", "gate"]);
    checkout.edit("kernels/common/timer.cuh", "kPauseNs = 64;", "kPauseNs = 32;");
    assert_eq!(check("the constant as it was", &["gate"]), third);

    // Nothing may be fetched here: another lock of the same wheels unpacks those that are there.
    checkout.append("docker/toolkit.lock", "# A remark.\n");
    check("the toolkit's lock", &["provision", "build", "run", "record", "seal", "gate"]);
    assert_eq!(checkout.files("target/assay/wheels"), wheels);
    // Another GPU: `a_run_is_not_resumed_on_another_gpu_or_with_another_plan` in rundir.rs.
}
