//! What a report says, word for word and count for count: kinds, details, counts and the last line.

use super::*;
use crate::runs::layout::SUMS_DETACHED;

/// The trial with a change in its manifest, written as Assay writes it.
fn with_manifest(change: impl FnOnce(&mut Manifest)) -> Report {
    let disk = copy();
    let path = disk.run().join(MANIFEST);
    let mut manifest: Manifest = serde_json::from_slice(&fs_err::read(&path).unwrap()).unwrap();
    change(&mut manifest);
    fs_err::write(&path, to_bytes(&manifest).unwrap()).unwrap();
    verify_raw(&disk)
}

/// The trial with a manifest of this format that says more than ours do.
fn with_more(format: u32) -> Report {
    let disk = copy();
    let path = disk.run().join(MANIFEST);
    let text = fs_err::read_to_string(&path).unwrap();
    let more = text.replacen("\"format\": 1,", &format!("\"format\": {format},\n    \"more\": true,"), 1);
    assert_ne!(more, text);
    fs_err::write(&path, more).unwrap();
    verify_raw(&disk)
}

fn says(report: &Report, path: &str, kind: &str, words: &str) {
    let found = report.problems.iter().any(|p| p.path == path && p.kind == kind && p.detail.contains(words));
    assert!(found, "{path} {kind} {words:?}: {:?}", report.problems);
}

#[test]
fn every_file_and_byte_is_counted_once() {
    let (disk, judged) = shared();
    let report = verify_raw(disk);
    let sealed = judged.sealed().manifest().subject.len() as u64;
    // Manifest, verdict, both sums and the notebook.
    assert_eq!((report.checked_files, report.detached_checked, report.detached_absent), (sealed + 5, 0, 0));
    let bytes: u64 = disk_files::scan(&disk.run()).unwrap().files.values().sum();
    assert_eq!(report.checked_bytes, bytes);
    assert_eq!(report.runs[0].authorship, "unproven");

    let disk = published_trial();
    let listed = |name: &str| {
        let sums = disk.paths.manifests().join(format!("{RUN}.{name}"));
        fs_err::read_to_string(sums).unwrap().lines().count() as u64
    };
    let (committed, detached) = (listed(SUMS), listed(SUMS_DETACHED));
    let all = verify(&disk.paths, &[]).unwrap();
    let pages = published::rendered(&disk.paths, &published::runs(&disk.paths).unwrap()).unwrap().len() as u64;
    assert_eq!((all.checked_files, all.detached_checked), (committed + detached + 3 + pages, detached));
    fs_err::remove_dir_all(disk.run()).unwrap();
    let alone = verify(&disk.paths, &[RUN.to_owned()]).unwrap();
    assert_eq!((alone.checked_files, alone.detached_checked, alone.detached_absent), (committed + 3, 0, detached));
}

#[test]
fn a_manifest_that_is_none_of_ours() {
    let not = "not a Statement of a run";
    says(&with_manifest(|m| m.statement_type = "https://example.org/Statement".to_owned()), MANIFEST, "malformed", not);
    says(&with_manifest(|m| m.predicate_type = "https://example.org/run".to_owned()), MANIFEST, "malformed", not);
    let twice = with_manifest(|m| m.subject.insert(0, m.subject[0].clone()));
    says(&twice, MANIFEST, "malformed", "or one is named twice");
    for name in ["../elsewhere", "verdict.json"] {
        let report = with_manifest(|m| m.subject[0].name = name.to_owned());
        says(&report, MANIFEST, "malformed", &format!("{name:?} is no file of a run"));
    }
    let detached = with_manifest(|m| drop(m.predicate.detached.pop()));
    says(&detached, MANIFEST, "malformed", "its list of detached files");
    let plain = with_manifest(|_| {});
    assert_eq!(plain.problems, []);
}

#[test]
fn a_newer_manifest_is_not_judged_and_an_equal_one_not_called_newer() {
    let newer = with_manifest(|m| m.predicate.format = 2);
    says(&newer, MANIFEST, "malformed", "has format 2, and this program reads up to 1");
    assert!(newer.problems.iter().all(|problem| problem.path == MANIFEST), "{newer}");
    assert_eq!((newer.runs[0].passed, newer.level), (None, None));
    for format in [0, 1] {
        let odd = with_more(format);
        says(&odd, MANIFEST, "malformed", "more");
        assert!(!odd.to_string().contains("reads up to"), "{odd}");
    }
}

#[test]
fn a_moved_file_is_said_to_be_renamed_and_where_it_lies() {
    let disk = copy();
    fs_err::rename(disk.run().join("plan.toml"), disk.run().join("plan.old")).unwrap();
    fs_err::write(disk.run().join("cells/yield/x.sample.parquet"), "x").unwrap();
    let report = verify_raw(&disk);
    says(&report, "plan.toml", "renamed", "its bytes lie at plan.old");
    says(&report, "plan.old", "extra", "");
    says(&report, "cells/yield/x.sample.parquet", "extra", "the manifest does not name it");
    fs_err::remove_file(disk.run().join("plan.old")).unwrap();
    says(&verify_raw(&disk), "plan.toml", "missing", "the manifest names it");
}

#[test]
fn an_extra_file_of_a_published_run_is_named() {
    let disk = published_trial();
    let name = format!("results/events/{RUN}/more.txt");
    disk.put(&name, "x");
    says(&verify(&disk.paths, &[]).unwrap(), &name, "extra", "the manifest does not name it");
}

#[test]
fn what_does_not_hold_as_bytes_is_not_judged() {
    let disk = copy();
    let path = disk.run().join("environment.json");
    fs_err::write(&path, fs_err::read_to_string(&path).unwrap().replace("Test GPU", "Best GPU")).unwrap();
    let report = verify_raw(&disk);
    names(&report, "environment.json");
    assert_eq!((report.runs[0].passed, report.level), (None, None));
    let text = report.to_string();
    assert!(
        text.contains("not judged") && text.ends_with(&format!("1 problem in {} files", report.checked_files)),
        "{text}"
    );
}

#[test]
fn another_verdict_says_which_gate_and_only_that() {
    let disk = copy();
    let text = fs_err::read_to_string(disk.run().join("environment.json")).unwrap();
    reseal(&disk, "environment.json", text.replace("\"ecc_uncorrected\": 0", "\"ecc_uncorrected\": 1").as_bytes());
    let report = verify_raw(&disk);
    assert_eq!(report.runs[0].passed, Some(false));
    let gates = || report.problems.iter().filter(|problem| problem.detail.contains("judged again refused"));
    assert_eq!(gates().count(), 1, "{report}");
    says(&report, VERDICT, "verdict", "gate environment: stored as passed, judged again refused");
    assert!(!report.to_string().contains("judging again gives other outcomes of claims"), "{report}");
    assert!(report.to_string().contains("refused by its gates"));
}

#[test]
fn edited_claims_of_a_verdict_are_found() {
    let disk = copy();
    let path = disk.run().join(VERDICT);
    let mut verdict: Verdict = serde_json::from_slice(&fs_err::read(&path).unwrap()).unwrap();
    verdict.claims[0].why = "because".to_owned();
    let bytes = to_bytes(&verdict).unwrap();
    fs_err::write(&path, &bytes).unwrap();
    let sums = disk.run().join(SUMS);
    let (old, new) = (shared_digest(VERDICT), Digest::of(&bytes).to_string());
    fs_err::write(&sums, fs_err::read_to_string(&sums).unwrap().replace(&old, &new)).unwrap();
    says(&verify_raw(&disk), VERDICT, "verdict", "judging again gives other outcomes of claims");
}

fn shared_digest(name: &str) -> String {
    Digest::of(fs_err::read(shared().0.run().join(name)).unwrap()).to_string()
}

#[test]
fn an_edited_figure_is_found_by_recomputation() {
    let disk = copy();
    let name = all_files(&disk).into_iter().find(|name| name.ends_with(".svg")).unwrap();
    let text = fs_err::read_to_string(disk.run().join(&name)).unwrap();
    reseal(&disk, &name, text.replacen("</svg>", "<!-- --></svg>", 1).as_bytes());
    let report = verify_raw(&disk);
    says(&report, &name, "recompute", "the values give a different figure");
    let figures = report.problems.iter().filter(|problem| problem.kind == "recompute");
    assert_eq!(figures.count(), 1, "{report}");
}

/// Pages are looked at where everything is, and not where one run was asked for.
#[test]
fn a_page_is_no_part_of_one_run() {
    let disk = published_trial();
    disk.put("RESULTS.md", "# Results\n");
    assert!(verify(&disk.paths, &[RUN.to_owned()]).unwrap().ok);
    assert!(!verify(&disk.paths, &[]).unwrap().ok);
}

#[test]
fn files_that_keep_a_folder_are_no_orphans() {
    let disk = published_trial();
    for folder in ["manifests", "results/summary", "results/events"] {
        for keeper in [".gitkeep", "README.md"] {
            disk.put(&format!("{folder}/{keeper}"), "");
        }
    }
    let report = verify(&disk.paths, &[]).unwrap();
    assert_eq!(report.problems, []);
    disk.put("manifests/readme.md", "");
    says(&verify(&disk.paths, &[]).unwrap(), "manifests/readme.md", "extra", "belongs to no manifest");
}

#[test]
fn the_last_line_says_whether_everything_holds() {
    let line = |report: Report| report.to_string().lines().last().unwrap().to_owned();
    let good = Report { ok: true, level: Some("L2"), checked_files: 7, checked_bytes: 9, ..Report::default() };
    assert_eq!(line(good.clone()), "L2: 7 files and 9 bytes hold (0 detached at hand, 0 not)");
    assert_eq!(line(Report { level: None, ..good.clone() }), "7 files hold");
    assert_eq!(line(Report { ok: false, level: None, ..good.clone() }), "0 problems in 7 files");
    assert_eq!(line(Report { ok: false, ..good.clone() }), "0 problems in 7 files");
    assert!(Report { ok: false, ..good }.to_string().contains("try: git status"));
    let nothing = verify(&copy().paths, &[]).unwrap();
    assert_eq!((nothing.ok, nothing.level), (true, None));
}
