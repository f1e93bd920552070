//! Every byte of a sealed or published run counts. Each test damages a copy of the made-up run that passes.

use super::*;
use crate::publish::publish;
use crate::runs::layout::{MANIFEST, SUMS, VERDICT, is_detached};
use crate::steps::gate::gate;
use crate::steps::seal::Sealed;
use crate::trial::{OnDisk, RUN, copy, shared};
use host::files as disk_files;
use pure::book::notebook::{Entry, Fields, Kind, Measured, NewEntry, Status, append, parse};
use pure::records::json::to_bytes;
use pure::records::sums;
use schema::Digest;
use schema::manifest::Manifest;
use schema::verdict::{ClaimResult, Verdict};
use std::collections::BTreeMap;

mod details;
mod older;

pub(super) fn verify_raw(disk: &OnDisk) -> Report {
    verify(&disk.paths, &[disk.run().display().to_string()]).unwrap()
}

/// Expects exit 16 and a problem that names the file.
#[track_caller]
pub(super) fn names(report: &Report, path: &str) {
    assert_eq!(report.exit_code(), ExitCode::Integrity, "{path} was not missed");
    assert!(report.problems.iter().any(|problem| problem.path == path), "{path} is not named: {:?}", report.problems);
}

fn all_files(disk: &OnDisk) -> Vec<String> {
    disk_files::scan(&disk.run()).unwrap().files.into_keys().collect()
}

#[test]
fn a_sealed_run_holds() {
    let (disk, judged) = shared();
    let report = verify_raw(disk);
    assert_eq!(report.problems, []);
    assert_eq!(report.exit_code(), ExitCode::Done);
    assert_eq!((report.runs[0].passed, report.level), (Some(true), Some("L2")));
    assert!(report.to_string().contains("every gate passes"));
    assert!(report.checked_files as usize > judged.sealed().manifest().subject.len());
}

#[test]
fn one_flipped_byte_of_any_file_is_found_and_named() {
    let disk = copy();
    for name in all_files(&disk) {
        let path = disk.run().join(&name);
        let whole = fs_err::read(&path).unwrap();
        for at in [0, whole.len() / 2, whole.len() - 1] {
            let mut flipped = whole.clone();
            flipped[at] ^= 1;
            fs_err::write(&path, &flipped).unwrap();
            names(&verify_raw(&disk), &name);
        }
        fs_err::write(&path, &whole).unwrap();
    }
}

#[test]
fn any_byte_of_the_files_about_the_manifest_is_found_and_named() {
    let disk = copy();
    for name in [VERDICT, SUMS] {
        let path = disk.run().join(name);
        let whole = fs_err::read(&path).unwrap();
        for at in (0..whole.len()).step_by(97) {
            let mut flipped = whole.clone();
            flipped[at] ^= 1;
            fs_err::write(&path, &flipped).unwrap();
            names(&verify_raw(&disk), name);
        }
        fs_err::write(&path, &whole).unwrap();
    }
}

#[test]
fn a_deleted_renamed_or_linked_file_is_named() {
    let disk = copy();
    for name in all_files(&disk) {
        let path = disk.run().join(&name);
        let away = disk.root.path().join("away");
        fs_err::rename(&path, &away).unwrap();
        names(&verify_raw(&disk), &name);
        std::os::unix::fs::symlink(&away, &path).unwrap();
        names(&verify_raw(&disk), &name);
        fs_err::remove_file(&path).unwrap();
        let other = disk.run().join(format!("{name}.moved"));
        fs_err::rename(&away, &other).unwrap();
        let report = verify_raw(&disk);
        names(&report, &name);
        // Without a manifest nothing says which file is one too many.
        if name != MANIFEST {
            names(&report, &format!("{name}.moved"));
        }
        fs_err::rename(&other, &path).unwrap();
    }
    assert!(verify_raw(&disk).ok);
}

#[test]
fn an_added_file_is_named() {
    let disk = copy();
    for name in ["extra.txt", "cells/yield/more.parquet", "summary/pretty.svg", "a.partial", "PLAN.toml"] {
        disk_files::write_whole(&disk.run().join(name), b"x").unwrap();
        names(&verify_raw(&disk), name);
        fs_err::remove_file(disk.run().join(name)).unwrap();
    }
    disk_files::write_whole(&disk.paths.run("other").join("x"), b"x").unwrap();
    assert!(verify_raw(&disk).ok);
    names(&verify(&disk.paths, &["other".to_owned()]).unwrap(), MANIFEST);
}

#[test]
fn a_renamed_run_is_not_the_run_that_was_sealed() {
    let disk = copy();
    let other = disk.paths.run("20260101T000001Z-test-00000000");
    fs_err::rename(disk.run(), &other).unwrap();
    names(&verify(&disk.paths, &[other.display().to_string()]).unwrap(), MANIFEST);
}

/// What a forger without our code would do: edit, and make digests and sums anew.
pub(super) fn reseal(disk: &OnDisk, name: &str, bytes: &[u8]) {
    let at = |name: &str| disk.run().join(name);
    fs_err::write(at(name), bytes).unwrap();
    let mut manifest: Manifest = serde_json::from_slice(&fs_err::read(at(MANIFEST)).unwrap()).unwrap();
    let subject = manifest.subject.iter_mut().find(|subject| subject.name == name).unwrap();
    subject.digest.sha256 = Digest::of(bytes);
    reseal_manifest(disk, &String::from_utf8(to_bytes(&manifest).unwrap()).unwrap());
}

/// As [`reseal`], from the manifest on.
pub(super) fn reseal_manifest(disk: &OnDisk, manifest_text: &str) {
    let at = |name: &str| disk.run().join(name);
    let manifest_bytes = manifest_text.as_bytes();
    let manifest: Manifest = serde_json::from_str(manifest_text).unwrap();
    let mut verdict: Verdict = serde_json::from_slice(&fs_err::read(at(VERDICT)).unwrap()).unwrap();
    verdict.manifest = Digest::of(manifest_bytes);
    let verdict_bytes = to_bytes(&verdict).unwrap();
    let subjects = manifest.subject.iter().map(|subject| (subject.name.clone(), subject.digest.sha256));
    let mut committed: BTreeMap<String, Digest> = subjects.filter(|(name, _)| !is_detached(name)).collect();
    committed.insert(MANIFEST.to_owned(), Digest::of(manifest_bytes));
    committed.insert(VERDICT.to_owned(), Digest::of(&verdict_bytes));
    fs_err::write(at(MANIFEST), manifest_bytes).unwrap();
    fs_err::write(at(VERDICT), verdict_bytes).unwrap();
    fs_err::write(at(SUMS), sums::to_text(&committed)).unwrap();
}

#[test]
fn an_edited_summary_is_found_by_recomputation() {
    let disk = copy();
    let csv = fs_err::read_to_string(disk.run().join("summary/metrics.csv")).unwrap();
    reseal(
        &disk,
        "summary/metrics.csv",
        csv.replacen("preempt_latency_us_p99,us,", "preempt_latency_us_p99,us,1", 1).as_bytes(),
    );
    let report = verify_raw(&disk);
    names(&report, "summary/metrics.csv");
    assert!(
        report.problems.iter().all(|problem| ["recompute", "verdict"].contains(&problem.kind.as_str())),
        "{report:?}"
    );
    let judged = gate(&disk.paths, Sealed::load(&disk.run()).unwrap(), Some(&disk.build)).unwrap();
    assert!(judged.pass().unwrap_err().to_string().contains("recompute: summary/metrics.csv line"));
}

#[test]
fn an_edited_environment_gives_another_verdict() {
    let disk = copy();
    let text = fs_err::read_to_string(disk.run().join("environment.json")).unwrap();
    reseal(&disk, "environment.json", text.replace("\"ecc_uncorrected\": 0", "\"ecc_uncorrected\": 1").as_bytes());
    names(&verify_raw(&disk), VERDICT);
}

#[test]
fn what_passed_must_still_pass_by_todays_history() {
    let disk = copy();
    let path = "harness/experiments/preempt/claims.toml";
    let claims = fs_err::read_to_string(disk.root.path().join(path)).unwrap();
    disk.put(path, &claims.replace("\"1000\"", "\"2000\""));
    let report = verify_raw(&disk);
    names(&report, VERDICT);
    assert!(report.problems[0].detail.contains("threshold"), "{report:?}");
}

/// Judging again by forged facts gives the forged verdict, to the byte.
#[test]
fn what_a_verdict_recorded_of_history_is_what_history_holds() {
    let disk = copy();
    let path = disk.run().join(VERDICT);
    let mut verdict: Verdict = serde_json::from_slice(&fs_err::read(&path).unwrap()).unwrap();
    let registration = verdict.gates.iter_mut().find(|gate| gate.name == "registration").unwrap();
    registration.evidence.get_mut("history").unwrap()["registered"]["T-1"]["informed"] = true.into();
    registration.evidence.insert("informed".to_owned(), serde_json::json!(["T-1"]));
    fs_err::write(&path, to_bytes(&verdict).unwrap()).unwrap();
    reseal_manifest(&disk, &fs_err::read_to_string(disk.run().join(MANIFEST)).unwrap());
    let report = verify_raw(&disk);
    names(&report, VERDICT);
    assert!(report.problems.len() == 1 && report.problems[0].detail.contains("is not what git shows"), "{report}");
}

#[test]
fn without_history_the_recorded_facts_count_and_it_says_so() {
    let disk = copy();
    fs_err::remove_dir_all(disk.root.path().join(".git")).unwrap();
    let report = verify_raw(&disk);
    assert!(report.ok, "{report:?}");
    assert!(report.notes.iter().any(|note| note.contains("no git history")));
}

#[test]
fn a_newer_format_is_said_to_be_newer() {
    let disk = copy();
    let path = disk.run().join(MANIFEST);
    let text = fs_err::read_to_string(&path).unwrap();
    let newer = text.replacen("\"format\": 1,", "\"format\": 2,\n    \"more\": true,", 1);
    assert_ne!(newer, text);
    fs_err::write(&path, newer).unwrap();
    let report = verify_raw(&disk);
    names(&report, MANIFEST);
    assert!(report.problems[0].detail.contains("has format 2"), "{report}");
}

#[test]
fn a_rewritten_notebook_is_found() {
    let disk = copy();
    let text = fs_err::read_to_string(disk.paths.notebook()).unwrap();
    disk.put("NOTEBOOK.md", &text.replace("Made up.", "Made up!"));
    names(&verify_raw(&disk), "NOTEBOOK.md");
    disk.put("NOTEBOOK.md", "# Notebook\n");
    names(&verify_raw(&disk), "NOTEBOOK.md");
}

/// The notebook's entries written anew by this edit, every chain line made anew as well.
fn forge(text: &str, edit: impl FnOnce(&mut Vec<NewEntry>)) -> String {
    let entries = parse(text).unwrap().entries.into_iter();
    let as_new = |Entry { date, id, title, prose, fields, .. }| NewEntry { date, id, title, prose, fields };
    let mut entries: Vec<NewEntry> = entries.map(as_new).collect();
    edit(&mut entries);
    let preamble = text.split("\n## ").next().unwrap();
    entries.into_iter().fold(preamble.to_owned(), |text, entry| append(&text, entry).unwrap())
}

/// Whoever edits, moves, adds or cuts an entry and makes every chain line anew has a notebook that holds by itself. The
/// heads that published manifests hold are no entries of it.
#[test]
fn a_notebook_forged_with_a_chain_of_its_own_is_found_at_every_entry() {
    let disk = copy();
    let mut text = fs_err::read_to_string(disk.paths.notebook()).unwrap();
    let faults = ["F-001", "F-002", "F-003"];
    let fault = |id: &str| NewEntry {
        date: "2026-01-01".into(),
        id: id.into(),
        title: "t".into(),
        prose: "Made up.".into(),
        fields: Fields::new(Kind::Fault, Status::Invalid),
    };
    for id in faults {
        text = append(&text, fault(id)).unwrap();
    }
    disk.put("NOTEBOOK.md", &text);
    let head = parse(&text).unwrap().head;
    let check = |forged: &str, what: &str| {
        disk.put("NOTEBOOK.md", forged);
        let mut report = Report::default();
        let layouts = [Layout::Raw(disk.run())];
        let notebook = notebook::check(&disk.paths, &layouts, &mut report).expect(what);
        notebook::check_head(Some(&notebook), &layouts[0], head, &mut report);
        names(&report, "NOTEBOOK.md");
    };
    for at in 0..4 {
        check(&forge(&text, |entries| entries[at].prose = "Made up!".into()), &format!("edit {at}"));
        check(&forge(&text, |entries| entries[at].date = "2026-01-02".into()), &format!("date {at}"));
        check(&forge(&text, |entries| drop(entries.remove(at))), &format!("cut {at}"));
        check(&forge(&text, |entries| entries.insert(at, fault("F-009"))), &format!("insert {at}"));
        if at < 3 {
            check(&forge(&text, |entries| entries.swap(at, at + 1)), &format!("swap {at}"));
        }
    }
    // What the run itself holds is the head before the faults: they may come, and the run's own past may not change.
    let later = forge(&text, |entries| entries.push(fault("F-009")));
    disk.put("NOTEBOOK.md", &later);
    assert_eq!(verify_raw(&disk).problems, []);
    disk.put("NOTEBOOK.md", &forge(&text, |entries| entries[0].prose = "Made up!".into()));
    names(&verify_raw(&disk), "NOTEBOOK.md");
}

#[test]
fn an_outcome_says_what_its_run_gave() {
    let disk = published_trial();
    let text = fs_err::read_to_string(disk.paths.notebook()).unwrap();
    let claim = &shared().1.verdict().claims[0];
    let says = |value: &str, kind: Kind, metric: Option<&str>| {
        let told = ClaimResult { value: value.to_owned(), ..claim.clone() };
        let name = metric.unwrap_or(&claim.id).to_owned();
        let mut fields = Fields::new(kind, Status::ResearchRetained);
        fields.run = Some(RUN.to_owned());
        fields.measure([(name.clone(), Measured::of_claim(&told).unwrap())]);
        if kind == Kind::Retraction {
            (fields.status, fields.metric, fields.reason) =
                (Status::Retracted, Some(name), Some("a wrong unit".into()));
        }
        let [date, id, title, prose] = ["2026-01-02", "O-001", "an outcome", "Made up."].map(str::to_owned);
        disk.put("NOTEBOOK.md", &append(&text, NewEntry { date, id, title, prose, fields }).unwrap());
        verify(&disk.paths, &[RUN.to_owned()]).unwrap()
    };
    let id = format!("{}@claim", claim.id);
    for (kind, metric) in [(Kind::Outcome, None), (Kind::Retraction, Some(id.as_str()))] {
        assert_eq!(says(&claim.value, kind, metric).problems, []);
        let report = says("1.5", kind, metric);
        names(&report, "NOTEBOOK.md");
        assert!(report.problems[0].detail.contains("is 1.5, and the run gave"), "{report}");
    }
    assert!(says("1.5", Kind::Outcome, Some("nothing@yield/k=64")).to_string().contains("gave no such number"));
}

#[test]
fn a_notebook_that_is_gone_is_named_where_something_is_published() {
    let disk = published_trial();
    fs_err::remove_file(disk.paths.notebook()).unwrap();
    names(&verify(&disk.paths, &[]).unwrap(), "NOTEBOOK.md");
}

pub(super) fn published_trial() -> OnDisk {
    let disk = copy();
    let judged = gate(&disk.paths, Sealed::load(&disk.run()).unwrap(), Some(&disk.build)).unwrap();
    publish(&disk.paths, &judged.pass().unwrap(), None).unwrap();
    disk
}

#[test]
fn everything_published_holds_with_and_without_its_detached_files() {
    let disk = published_trial();
    let report = verify(&disk.paths, &[]).unwrap();
    assert_eq!(report.problems, []);
    assert!(report.detached_checked > 0 && report.detached_absent == 0);
    fs_err::remove_dir_all(disk.run()).unwrap();
    let report = verify(&disk.paths, &[format!("{}/{RUN}.json", disk.paths.manifests().display())]).unwrap();
    assert_eq!(report.problems, []);
    assert!(report.detached_checked == 0 && report.detached_absent > 0);
    let sums = disk.paths.manifests().join(format!("{RUN}.SHA256SUMS"));
    let mut check = std::process::Command::new("sha256sum");
    check.args(["--check", "--quiet", "--strict"]).arg(sums).current_dir(disk.root.path());
    assert!(check.status().unwrap().success(), "coreutils rejects the sums");
}

#[test]
fn a_clone_whose_history_is_cut_off_is_not_accused() {
    let disk = published_trial();
    disk.commit();
    let origin = format!("file://{}", disk.root.path().display());
    let mut count = std::process::Command::new("git");
    let counted = count.args(["rev-list", "--count", "HEAD"]).current_dir(disk.root.path()).output().unwrap();
    let commits: usize = String::from_utf8(counted.stdout).unwrap().trim().parse().unwrap();
    let mut told = 0;
    for depth in 1..=commits {
        let clone = tempfile::tempdir().unwrap();
        let args = ["clone", "-q", "--depth", &depth.to_string(), &origin, "."];
        assert!(std::process::Command::new("git").args(args).current_dir(clone.path()).status().unwrap().success());
        let report = verify(&Paths::new(clone.path()), &[]).unwrap();
        assert_eq!(report.problems, [], "depth {depth} of {commits}");
        told += usize::from(report.notes.iter().any(|note| note.contains("git fetch --unshallow")));
    }
    // The whole history tells; the newest commit alone, and one that ends right at the measured commit, do not.
    assert!(told >= 2 && told < commits, "{told} of {commits}");
}

#[test]
fn what_cannot_be_looked_at_is_no_finding() {
    let unreadable = |kind: &str, errno: rustix::io::Errno| {
        let mut report = Report::default();
        report.fault("a", kind, &anyhow::Error::from(errno).context("failed to open a"));
        report
    };
    use rustix::io::Errno;
    for errno in [Errno::ACCESS, Errno::MFILE, Errno::NOMEM, Errno::IO, Errno::STALE] {
        let mut report = unreadable("changed", errno);
        assert_eq!((report.problems[0].kind.as_str(), report.exit_code()), ("unreadable", ExitCode::Environment));
        // Beside it, what does not hold is still found.
        report.problem("b", "changed", "x");
        assert_eq!(report.exit_code(), ExitCode::Integrity);
    }
    for errno in [Errno::LOOP, Errno::NOTDIR] {
        assert_eq!(unreadable("changed", errno).exit_code(), ExitCode::Integrity);
    }
}

#[test]
fn any_damage_to_a_published_file_is_named() {
    let disk = published_trial();
    let root = disk.root.path().to_owned();
    let listed = fs_err::read_to_string(disk.paths.manifests().join(format!("{RUN}.SHA256SUMS"))).unwrap();
    let mut published: Vec<String> = listed.lines().map(|line| line.split_once("  ").unwrap().1.to_owned()).collect();
    published.push(format!("manifests/{RUN}.SHA256SUMS"));
    published.push(format!("manifests/{RUN}.SHA256SUMS.detached"));
    for name in published {
        let path = root.join(&name);
        let whole = fs_err::read(&path).unwrap();
        let mut flipped = whole.clone();
        flipped[whole.len() / 2] ^= 1;
        fs_err::write(&path, &flipped).unwrap();
        names(&verify(&disk.paths, &[]).unwrap(), &name);
        fs_err::write(&path, &whole).unwrap();
    }
    let results = fs_err::read_to_string(root.join("RESULTS.md")).unwrap();
    assert!(results.contains(RUN), "the run is not in RESULTS.md");
    disk.put("RESULTS.md", &results.replacen("10000", "10001", 1));
    names(&verify(&disk.paths, &[]).unwrap(), "RESULTS.md");
    for name in ["results/summary/x/m.csv", "results/events/x/e.parquet", "manifests/x.SHA256SUMS"] {
        disk.put(name, "x");
    }
    let report = verify(&disk.paths, &[]).unwrap();
    for name in ["results/summary/x", "results/events/x", "manifests/x.SHA256SUMS"] {
        names(&report, name);
    }
}

#[test]
fn a_linked_folder_is_named() {
    let disk = copy();
    let link = disk.paths.run("20260101T000002Z-test-00000000");
    std::os::unix::fs::symlink(disk.run(), &link).unwrap();
    names(&verify(&disk.paths, &["20260101T000002Z-test-00000000".to_owned()]).unwrap(), ".");
    let disk = published_trial();
    for name in ["events", "summary"] {
        let path = disk.root.path().join("results").join(name).join(RUN);
        let away = disk.root.path().join("away");
        fs_err::rename(&path, &away).unwrap();
        std::os::unix::fs::symlink(&away, &path).unwrap();
        names(&verify(&disk.paths, &[]).unwrap(), &format!("results/{name}/{RUN}/."));
        fs_err::remove_file(&path).unwrap();
        fs_err::rename(&away, &path).unwrap();
    }
    assert!(verify(&disk.paths, &[]).unwrap().ok);
}

#[test]
fn results_without_their_region_are_named() {
    let disk = published_trial();
    disk.put("RESULTS.md", "# Results\n\nAll is well.\n");
    names(&verify(&disk.paths, &[]).unwrap(), "RESULTS.md");
    fs_err::remove_file(disk.root.path().join("RESULTS.md")).unwrap();
    names(&verify(&disk.paths, &[]).unwrap(), "RESULTS.md");
}

/// Block rows of a cell that has none, with sums that name them.
#[test]
fn rows_that_nobody_chose_are_named() {
    let disk = published_trial();
    let name = format!("results/events/{RUN}/cells/yield/more.sample.parquet");
    disk.put(&name, "x");
    let sums = disk.paths.manifests().join(format!("{RUN}.SHA256SUMS"));
    let mut lines: Vec<String> = fs_err::read_to_string(&sums).unwrap().lines().map(str::to_owned).collect();
    lines.push(format!("{}  {name}", Digest::of("x")));
    lines.sort_by_key(|line| line[66..].to_owned());
    fs_err::write(&sums, format!("{}\n", lines.join("\n"))).unwrap();
    let report = verify(&disk.paths, &[]).unwrap();
    names(&report, &name);
    assert_eq!(report.problems.len(), 1, "{report}");
}

#[test]
fn nothing_published_is_a_state_of_its_own_and_an_unknown_target_an_error() {
    let disk = copy();
    let report = verify(&disk.paths, &[]).unwrap();
    assert!(report.ok && report.notes.contains(&"nothing is published yet".to_owned()));
    for target in ["", "no-such-run", "../x", "manifests/no.json"] {
        assert_eq!(host::failure::code_of(&verify(&disk.paths, &[target.to_owned()]).unwrap_err()), ExitCode::Usage);
    }
}
