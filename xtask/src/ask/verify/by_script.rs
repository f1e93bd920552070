//! `scripts/recompute.py`, which shares no code with ours, against our own summary of a made-up run.

use pure::numbers::summary::{CellData, summarize};
use pure::trial::synthetic::{cells, contract, plan};
use schema::Digest;
use schema::metrics::Metric;
use schema::plan::ProfileName;
use std::path::{Path, PathBuf};
use std::process::Command;

const RUN: &str = "20260101T000000Z-synthetic-00000000";

fn script() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../scripts/recompute.py")
}

/// A Python that has pyarrow: the one `ASSAY_TEST_PYTHON` names, or `python3`.
fn python() -> Option<String> {
    let python = std::env::var("ASSAY_TEST_PYTHON").unwrap_or_else(|_| "python3".to_owned());
    let found = Command::new(&python).args(["-c", "import pyarrow.parquet"]).output();
    found.is_ok_and(|output| output.status.success()).then_some(python)
}

/// A run as `publish` lays it out.
fn publish(root: &Path, metrics: &[Metric], cells: &[CellData]) {
    for CellData { record, events, launches } in cells {
        let dir = root.join("results/events").join(RUN).join("cells").join(&record.phase);
        fs_err::create_dir_all(&dir).unwrap();
        events.write(&dir.join(format!("{}.parquet", record.cell))).unwrap();
        if let Some(launches) = launches {
            launches.write(&dir.join(format!("{}.launches.parquet", record.cell))).unwrap();
        }
    }
    let dir = root.join("results/summary").join(RUN);
    fs_err::create_dir_all(&dir).unwrap();
    fs_err::write(dir.join("metrics.csv"), schema::metrics::to_csv(metrics)).unwrap();
    seal(root);
}

/// A manifest over all of it, as far as the script reads one.
fn seal(root: &Path) {
    let mut subjects = Vec::new();
    for (folder, below) in [("results/events", ""), ("results/summary", "summary/")] {
        let dir = root.join(folder).join(RUN);
        for name in host::files::scan(&dir).unwrap().files.into_keys() {
            let sha256 = Digest::of_file(dir.join(&name)).unwrap();
            subjects.push(serde_json::json!({"name": format!("{below}{name}"), "digest": {"sha256": sha256}}));
        }
    }
    let manifest = serde_json::json!({"subject": subjects, "predicate": {"run": RUN}});
    fs_err::create_dir_all(root.join("manifests")).unwrap();
    fs_err::write(root.join(format!("manifests/{RUN}.json")), manifest.to_string()).unwrap();
}

#[test]
fn a_script_without_our_code_gets_the_same_digits() {
    let Some(python) = python() else {
        eprintln!("skipped: no pyarrow");
        return;
    };
    // Enough events for a p99 in the yield cells; a baseline of few keeps the files small.
    let mut plan = plan(ProfileName::Full, 10_000);
    plan.profile.baseline.events = 500;
    let cells = cells(&plan);
    let mut metrics = summarize(&contract(&plan), RUN, &cells).unwrap();
    let dir = tempfile::tempdir().unwrap();
    publish(dir.path(), &metrics, &cells);
    let run = || {
        let output = Command::new(&python).arg(script()).arg(RUN).arg(dir.path()).output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
        (output.status.code(), text)
    };
    let (code, text) = run();
    assert!(code == Some(0) && text.contains("32 values compared, 0 differ"), "{text}");
    // What launches off the clock did: a number that does not stand has no value, and a ratio may say more beside it.
    let mut told = metrics.clone();
    let of = |name: &str, rows: &[Metric]| rows.iter().position(|m| m.metric == name).unwrap();
    let (wall, ratio) = (of("tile_wall_us_p50", &told), of("ratio", &told));
    told[ratio].note += "; 31.2 without 3 of 500 launches off the clock";
    (told[wall].value, told[wall].note) = (String::new(), format!("{}5 of 9 launches", Metric::REFUSED));
    publish(dir.path(), &told, &[]);
    let (code, text) = run();
    assert!(code == Some(0) && text.contains("31 values compared, 0 differ"), "{text}");
    let edited = ["tile_wall_us_p50", "host_e2e_us_p50", "preempt_latency_us_p99", "poll_cost_pct", "ratio"];
    for metric in edited {
        metrics.iter_mut().find(|m| m.metric == metric).unwrap().value = "1.001".to_owned();
    }
    publish(dir.path(), &metrics, &[]);
    let (code, text) = run();
    assert!(code == Some(1) && text.contains("32 values compared, 5 differ"), "{text}");
    assert!(edited.iter().all(|metric| text.contains(metric)), "{text}");
}
