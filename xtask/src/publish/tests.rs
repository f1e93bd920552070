//! Tests of publishing: all or nothing, repeated, interrupted, signed.

use super::*;
use crate::ask::verify::verify;
use crate::steps::gate::{Judged, gate};
use crate::steps::seal::Sealed;
use crate::trial::{OnDisk, RUN, Trial, copy};
use host::failure::code_of;
use pure::book::notebook::{Fields, Kind, NewEntry, Status, append};

pub(super) fn judged(disk: &OnDisk) -> Judged {
    gate(&disk.paths, Sealed::load(&disk.run()).unwrap(), Some(&disk.build)).unwrap()
}

fn published(disk: &OnDisk) -> Written {
    publish(&disk.paths, &judged(disk).pass().unwrap(), None).unwrap()
}

#[test]
fn what_is_written_is_what_is_said_and_no_detached_file() {
    let disk = copy();
    let written = published(&disk);
    assert!(!written.already && written.next[0] == format!("cargo xtask verify {RUN}"));
    for path in &written.paths {
        assert!(disk.root.path().join(path).is_file(), "{path}");
        assert!(!path.ends_with(".cubin") && !path.ends_with(".blocks.parquet") && !path.ends_with(".clock.parquet"));
    }
    for expected in ["manifests", "results/summary", "results/events", "RESULTS.md"] {
        assert!(written.paths.iter().any(|path| path.starts_with(expected)), "{expected}");
    }
    assert!(written.paths.iter().any(|path| path.ends_with(".sample.parquet")));
    let manifest = fs_err::read(disk.paths.manifests().join(format!("{RUN}.json"))).unwrap();
    assert_eq!(manifest, fs_err::read(disk.run().join(MANIFEST)).unwrap());
}

#[test]
fn publishing_again_writes_nothing_and_another_manifest_is_refused() {
    let disk = copy();
    published(&disk);
    let again = published(&disk);
    assert!(again.already && !again.paths.contains(&"RESULTS.md".to_owned()));
    let place = disk.paths.manifests().join(format!("{RUN}.json"));
    fs_err::write(&place, b"{}").unwrap();
    let error = publish(&disk.paths, &judged(&disk).pass().unwrap(), None).unwrap_err();
    assert_eq!(code_of(&error), ExitCode::Refused);
    assert_eq!(fs_err::read(&place).unwrap(), b"{}");
}

#[test]
fn an_interrupted_publication_is_undone_by_the_next() {
    let disk = copy();
    disk.put(&format!("results/events/{RUN}/left-over.parquet"), "x");
    disk.put(&format!("manifests/{RUN}.verdict.json"), "x");
    published(&disk);
    assert!(!disk.paths.events().join(RUN).join("left-over.parquet").exists());
}

#[test]
fn a_failure_on_the_way_leaves_nothing_behind() {
    let disk = copy();
    disk.put("manifests", "a file where the folder must be");
    assert!(publish(&disk.paths, &judged(&disk).pass().unwrap(), None).is_err());
    assert!(!disk.paths.events().join(RUN).exists() && !disk.paths.summary().join(RUN).exists());
    let disk = copy();
    disk.put("RESULTS.md", "no region");
    assert!(publish(&disk.paths, &judged(&disk).pass().unwrap(), None).is_err());
    assert!(!disk.paths.manifests().join(format!("{RUN}.json")).exists());
}

#[test]
fn references_in_prose_are_filled_and_held_to_what_is_published() {
    let disk = copy();
    published(&disk);
    let path = disk.root.path().join("docs/told.md");
    let problems = || verify(&disk.paths, &[]).unwrap().problems;
    disk.put("docs/told.md", &format!("It yields within <!-- assay:measured {RUN} T-1@claim --><!-- /assay -->.\n"));
    assert!(problems().iter().any(|problem| problem.path == "docs/told.md" && problem.kind == "recompute"));
    assert_eq!(render(&disk.paths).unwrap(), ["docs/told.md"]);
    let told = fs_err::read_to_string(&path).unwrap();
    assert!(told.contains(" us<!-- /assay -->"), "{told}");
    assert_eq!(problems(), []);

    let mut fields = Fields::new(Kind::Retraction, Status::Retracted);
    (fields.run, fields.metric) = (Some(RUN.to_owned()), Some("T-1@claim".to_owned()));
    fields.reason = Some("a wrong unit".to_owned());
    let [date, id, title, prose] = ["2026-01-02", "R-001", "a reason", "Made up."].map(str::to_owned);
    let notebook = fs_err::read_to_string(disk.paths.notebook()).unwrap();
    disk.put("NOTEBOOK.md", &append(&notebook, NewEntry { date, id, title, prose, fields }).unwrap());
    assert!(!problems().is_empty());
    assert!(render(&disk.paths).unwrap().contains(&"docs/told.md".to_owned()));
    assert!(fs_err::read_to_string(&path).unwrap().contains(" us~~ (retracted by R-001)<!-- /assay -->"));
    assert_eq!(problems(), []);

    disk.put("docs/told.md", "<!-- assay:measured nobody x@y -->5 us<!-- /assay -->\n");
    assert!(problems()[0].detail.contains("docs/told.md line 1: no published run nobody"), "{:?}", problems());
}

#[test]
fn a_refused_run_cannot_be_published_and_every_reason_is_given() {
    let mut trial = Trial::passing();
    trial.clean_before = false;
    trial.build.kernels[0].spill_bytes = 4;
    let (_disk, judged) = trial.judged();
    let error = judged.pass().unwrap_err();
    assert_eq!(code_of(&error), ExitCode::Refused);
    let message = error.to_string();
    assert!(message.contains("tree was not clean") && message.contains("spills 4 bytes"), "{message}");
    assert!(host::failure::remedy_of(&error).unwrap().contains("commit the changes"));
}

#[test]
fn a_file_that_changed_after_the_judgement_is_found() {
    let disk = copy();
    let passed = judged(&disk).pass().unwrap();
    fs_err::write(disk.run().join("summary/metrics.csv"), b"x").unwrap();
    assert_eq!(code_of(&publish(&disk.paths, &passed, None).unwrap_err()), ExitCode::Integrity);
    assert!(!disk.paths.manifests().join(format!("{RUN}.json")).exists());
}

#[test]
fn manifest_and_verdict_are_published_as_they_were_judged() {
    let disk = copy();
    let passed = judged(&disk).pass().unwrap();
    for name in [MANIFEST, VERDICT] {
        fs_err::write(disk.run().join(name), b"{}").unwrap();
    }
    publish(&disk.paths, &passed, None).unwrap();
    assert_eq!(verify(&disk.paths, &[]).unwrap().problems, []);
}

#[test]
fn a_signed_publication_names_its_key_and_a_foreign_signature_is_found() {
    let disk = copy();
    let keys = tempfile::tempdir().unwrap();
    let Some(key) = crate::runs::signature::tests::key(keys.path(), "key", "ed25519", "") else { return };
    let key = SigningKey::File(key);
    publish(&disk.paths, &judged(&disk).pass().unwrap(), Some(&key)).unwrap();
    let report = verify(&disk.paths, &[]).unwrap();
    assert!(report.ok && report.runs[0].authorship.starts_with("SHA256:"), "{report}");
    let signature = disk.paths.manifests().join(format!("{RUN}.json.sig"));
    fs_err::remove_file(&signature).unwrap();
    assert!(!verify(&disk.paths, &[]).unwrap().ok);
    let other = keys.path().join("other");
    fs_err::write(&other, b"other bytes").unwrap();
    crate::runs::signature::sign(&key, &other).unwrap();
    fs_err::copy(keys.path().join("other.sig"), &signature).unwrap();
    assert!(verify(&disk.paths, &[]).unwrap().problems.iter().any(|problem| problem.kind == "signature"));
}
