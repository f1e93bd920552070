//! A run directory made by somebody who means harm, or mangled by a tool that says nothing. Each test damages a copy of the
//! made-up run that passes; a damage that needs it makes every digest anew, as a forger would.

use super::tests::{names, reseal, verify_raw};
use super::*;
use crate::runs::layout::{MANIFEST, SUMS, VERDICT};
use crate::steps::seal::Sealed;
use crate::trial::{OnDisk, RUN, Trial, copy};
use host::files::write_whole;
use pure::gate::{self, Evidence, Facts};
use pure::numbers::derive::derive;
use pure::numbers::summary::CellData;
use pure::records::json::to_bytes;
use pure::trial::synthetic::{set_column, take_rows};
use schema::Digest;
use schema::cell::CellRecord;
use schema::manifest::{Manifest, Subject, SubjectDigest};
use std::os::unix::fs::symlink;
use std::process::Command;
use tables::{Column, Table};

const CSV: &str = "summary/metrics.csv";
const HEADER: &str = "cells/yield/k=64,blocks=8,poll=1,set=device.json";

/// The report names the file with a problem of this kind that says so.
#[track_caller]
fn says(report: &Report, path: &str, kind: &str, said: &str) {
    names(report, path);
    let found = report.problems.iter().any(|p| p.path == path && p.kind == kind && p.detail.contains(said));
    assert!(found, "{kind} {said:?} is not said of {path}: {:?}", report.problems);
}

/// Puts one more subject into the manifest, as it was not sealed.
fn claim_also(disk: &OnDisk, name: &str, digest: Digest) {
    let path = disk.run().join(MANIFEST);
    let mut manifest: Manifest = serde_json::from_slice(&fs_err::read(&path).unwrap()).unwrap();
    manifest.subject.push(Subject { name: name.to_owned(), digest: SubjectDigest { sha256: digest } });
    manifest.subject.sort_by(|a, b| a.name.cmp(&b.name));
    fs_err::write(&path, to_bytes(&manifest).unwrap()).unwrap();
}

#[test]
fn line_endings_that_git_rewrote_fail_and_are_explained() {
    let disk = copy();
    let text = fs_err::read_to_string(disk.run().join(CSV)).unwrap();
    fs_err::write(disk.run().join(CSV), text.replace('\n', "\r\n")).unwrap();
    says(&verify_raw(&disk), CSV, "changed", "only its line endings changed (LF to CRLF)");
    assert!(schema::metrics::from_csv(&text.replace('\n', "\r\n")).is_err());
    // Sums that name the rewritten bytes do not help: what is read is strict as well.
    reseal(&disk, CSV, text.replace('\n', "\r\n").as_bytes());
    names(&verify_raw(&disk), CSV);
}

/// This repository's `.gitattributes` keeps what is published as it is, even where git is told to rewrite line endings.
#[test]
fn a_clone_with_autocrlf_keeps_what_is_published() {
    let attributes = include_str!("../../../../.gitattributes");
    let bytes_in_a_clone = |attributes: Option<&str>| {
        let dir = tempfile::tempdir().unwrap();
        let (from, to) = (dir.path().join("from"), dir.path().join("to"));
        let files = ["manifests/r.json", "results/summary/r/metrics.csv", "results/events/r/plan.toml", "NOTEBOOK.md"];
        for name in files {
            write_whole(&from.join(name), b"a\nb\n").unwrap();
        }
        if let Some(attributes) = attributes {
            write_whole(&from.join(".gitattributes"), attributes.as_bytes()).unwrap();
        }
        let git = |args: &[&str]| {
            let mut command = Command::new("git");
            command.args(["-c", "user.name=t", "-c", "user.email=t@t"]).args(args);
            command.env("GIT_CONFIG_GLOBAL", "/dev/null").env("GIT_CONFIG_NOSYSTEM", "1");
            assert!(command.current_dir(&from).output().unwrap().status.success(), "git {args:?}");
        };
        git(&["init", "-q"]);
        git(&["add", "-A"]);
        git(&["commit", "-q", "--no-gpg-sign", "-m", "m"]);
        git(&["clone", "-q", "-c", "core.autocrlf=true", ".", &to.display().to_string()]);
        files.map(|name| fs_err::read(to.join(name)).unwrap())
    };
    for bytes in bytes_in_a_clone(Some(attributes)) {
        assert_eq!(bytes, b"a\nb\n");
    }
    // Without it git does rewrite them, and its status stays clean.
    assert!(bytes_in_a_clone(None).iter().any(|bytes| bytes == b"a\r\nb\r\n"));
}

#[test]
fn a_line_of_the_sums_that_coreutils_skips_is_refused() {
    let disk = copy();
    let good = fs_err::read_to_string(disk.run().join(SUMS)).unwrap();
    let (first, rest) = good.split_once('\n').unwrap();
    let cut = format!("{}\n{rest}", &first[1..]);
    let damaged = [
        (cut.clone(), "line 1"),
        (format!("# by hand\n{good}"), "line 1"),
        (format!("{good}\n"), "line"),
        (good.replace('\n', "\r\n"), "line 1"),
        (format!("{first}\n{good}"), "named twice"),
        (first.to_uppercase() + "\n" + rest, "line 1"),
    ];
    for (text, said) in damaged {
        fs_err::write(disk.run().join(SUMS), text).unwrap();
        says(&verify_raw(&disk), SUMS, "sums", said);
    }
    // A shorter list parses, and misses a file.
    fs_err::write(disk.run().join(SUMS), rest).unwrap();
    says(&verify_raw(&disk), SUMS, "sums", "not the sums");
    // What this guards against: the checker that everybody has lets the cut digest pass.
    fs_err::write(disk.run().join(SUMS), cut).unwrap();
    let lenient =
        Command::new("sha256sum").args(["--check", "--quiet", SUMS]).current_dir(disk.run()).output().unwrap();
    assert!(lenient.status.success(), "sha256sum has become strict by default; the reason above is history");
}

#[test]
fn a_pointer_of_git_lfs_is_said_to_be_one() {
    let disk = copy();
    let name = "telemetry.parquet";
    let whole = fs_err::read(disk.run().join(name)).unwrap();
    let pointer = |of: &[u8]| {
        format!("version https://git-lfs.github.com/spec/v1\noid sha256:{}\nsize {}\n", Digest::of(of), of.len())
    };
    fs_err::write(disk.run().join(name), pointer(&whole)).unwrap();
    says(&verify_raw(&disk), name, "changed", "a Git LFS pointer to the sealed file: git lfs pull");
    fs_err::write(disk.run().join(name), pointer(b"other")).unwrap();
    says(&verify_raw(&disk), name, "changed", "a Git LFS pointer to another file: git lfs pull");
}

#[test]
fn names_that_collide_where_case_is_ignored_are_named() {
    let disk = copy();
    write_whole(&disk.run().join("Plan.toml"), b"x").unwrap();
    says(&verify_raw(&disk), "plan.toml", "case-collision", "Plan.toml");
    fs_err::remove_file(disk.run().join("Plan.toml")).unwrap();
    // On a file system that ignores case only the manifest shows it.
    claim_also(&disk, "PLAN.toml", Digest::of("x"));
    says(&verify_raw(&disk), MANIFEST, "case-collision", "\"plan.toml\"");
    for name in ["plan.toml.", "caf\u{e9}.csv", "cafe\u{301}.csv", "aux.json", "a:b"] {
        let disk = copy();
        write_whole(&disk.run().join(name), b"x").unwrap();
        says(&verify_raw(&disk), name, "name", "not a plain name");
    }
}

/// A manifest that names files outside its directory, whose digests must not be told.
#[test]
fn no_name_in_a_manifest_leads_out_and_nothing_outside_is_told() {
    let disk = copy();
    let secret = disk.root.path().join("secret.txt");
    fs_err::write(&secret, "what only this machine knows").unwrap();
    let told = Digest::of("what only this machine knows").to_string();
    let relative = "../../../secret.txt";
    let absolute = secret.display().to_string();
    symlink(disk.root.path(), disk.run().join("up")).unwrap();
    symlink(&secret, disk.run().join("link.txt")).unwrap();
    for name in
        [relative, &absolute, "cells/../../../../secret.txt", "up/secret.txt", "link.txt", "out\\..\\x", "a//b", "."]
    {
        let path = disk.run().join(MANIFEST);
        let whole = fs_err::read(&path).unwrap();
        claim_also(&disk, name, Digest::of("guess"));
        let report = verify_raw(&disk);
        let named = |p: &Problem| p.path.contains(name) || p.detail.contains(&format!("{name:?}"));
        assert!(!report.ok && report.problems.iter().any(named), "{name}: {:?}", report.problems);
        let all = format!("{report}{}", serde_json::to_string(&report).unwrap());
        assert!(!all.contains(&told) && !all.contains(&told[..16]), "{name}: {all}");
        fs_err::write(&path, whole).unwrap();
    }
}

#[test]
fn a_linked_parent_a_pipe_and_a_second_name_are_named() {
    let disk = copy();
    let away = disk.root.path().join("away");
    fs_err::rename(disk.run().join("cells"), &away).unwrap();
    symlink(&away, disk.run().join("cells")).unwrap();
    let report = verify_raw(&disk);
    says(&report, "cells", "symlink", "a symlink");
    says(&report, HEADER, "changed", "does not lie below a folder of its own");
    fs_err::remove_file(disk.run().join("cells")).unwrap();
    fs_err::rename(&away, disk.run().join("cells")).unwrap();

    for name in [MANIFEST, VERDICT, SUMS, "plan.toml", CSV] {
        let path = disk.run().join(name);
        let kept = fs_err::read(&path).unwrap();
        fs_err::remove_file(&path).unwrap();
        let pipe = Command::new("mkfifo").arg(&path).status().unwrap();
        assert!(pipe.success());
        names(&verify_raw(&disk), name);
        fs_err::remove_file(&path).unwrap();
        fs_err::write(&path, kept).unwrap();
    }
    fs_err::hard_link(disk.run().join(CSV), disk.root.path().join("target-of-nobody.csv")).unwrap();
    let report = verify_raw(&disk);
    assert!(
        report.ok && report.notes.iter().any(|note| note.contains("second name") && note.contains(CSV)),
        "{report}"
    );
}

/// A cell of another run, whole and with digests to match, is still another run's.
#[test]
fn a_cell_of_another_run_is_refused_though_every_digest_matches() {
    let disk = copy();
    let mut record: CellRecord = serde_json::from_slice(&fs_err::read(disk.run().join(HEADER)).unwrap()).unwrap();
    record.plan = Digest::of("another plan");
    reseal(&disk, HEADER, &serde_json::to_vec_pretty(&record).unwrap());
    says(&verify_raw(&disk), VERDICT, "verdict", "gate samples: stored as passed, judged again refused");
    let disk = copy();
    let csv = fs_err::read_to_string(disk.run().join(CSV)).unwrap();
    let other = csv.replace("20260101T000000Z-test-00000000", "20260102T000000Z-test-00000000");
    assert_ne!(other, csv);
    reseal(&disk, CSV, other.as_bytes());
    says(&verify_raw(&disk), CSV, "recompute", "a different summary");
    // A sealed run is never sealed anew as something else.
    let (disk, inputs) = Trial::of_events(50).write();
    let sealed = crate::steps::seal::seal(&disk.run(), inputs.clone()).unwrap();
    write_whole(&disk.run().join("telemetry.parquet"), b"replaced").unwrap();
    let again = crate::steps::seal::seal(&disk.run(), inputs).unwrap_err();
    assert_eq!(host::failure::code_of(&again), ExitCode::Integrity);
    assert_eq!(Digest::of(fs_err::read(disk.run().join(MANIFEST)).unwrap()), sealed.digest());
}

#[test]
fn what_must_not_be_sealed_is_not() {
    for (name, bytes, said) in [
        ("Plan.toml", "x", "only in case"),
        ("caf\u{e9}.csv", "x", "not a plain name"),
        ("a.txt", "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 1\n", "Git LFS pointer"),
    ] {
        let (disk, inputs) = Trial::of_events(50).write();
        write_whole(&disk.run().join(name), bytes.as_bytes()).unwrap();
        let error = crate::steps::seal::seal(&disk.run(), inputs).unwrap_err();
        assert_eq!(host::failure::code_of(&error), ExitCode::Integrity);
        assert!(error.to_string().contains(said), "{error}");
        assert!(Sealed::load(&disk.run()).is_err());
    }
}

#[test]
fn files_made_to_be_expensive_are_refused_politely() {
    let deep = |open: &str, close: &str| format!("{}{}", open.repeat(100_000), close.repeat(100_000));
    let huge = |name: &str| host::files::most_bytes(name) + 1;
    for (name, text) in [
        ("environment.json", deep("[", "]")),
        ("environment.json", deep("{\"a\":", "}")),
        (HEADER, deep("[", "]")),
        ("plan.toml", format!("a = {}", deep("[", "]"))),
        ("claims.toml", format!("{} = 1", ["a"; 50_000].join("."))),
        ("claims.toml", format!("[{}]", ["a"; 50_000].join("."))),
        ("telemetry.parquet", "PAR1PAR1PAR1".to_owned()),
        ("attempts.jsonl", deep("[", "]") + "\n"),
        (CSV, "\"".repeat(100_000)),
    ] {
        let disk = copy();
        reseal(&disk, name, text.as_bytes());
        assert_eq!(verify_raw(&disk).exit_code(), ExitCode::Integrity, "{name}");
    }
    // Sparse: large in name only, so that a reader that trusts it pays and the test does not.
    for name in ["environment.json", "plan.toml", CSV, MANIFEST, VERDICT, SUMS] {
        let disk = copy();
        let file = fs_err::OpenOptions::new().write(true).open(disk.run().join(name)).unwrap();
        file.set_len(huge(name)).unwrap();
        names(&verify_raw(&disk), name);
    }
    let disk = copy();
    fs_err::write(disk.run().join(MANIFEST), deep("[", "]")).unwrap();
    says(&verify_raw(&disk), MANIFEST, "malformed", "line 1");
    let deep_folder = disk.run().join(["d"; 600].join("/"));
    fs_err::create_dir_all(deep_folder).unwrap();
    assert_eq!(verify_raw(&disk).exit_code(), ExitCode::Integrity);
}

#[test]
fn nothing_quoted_acts_on_a_terminal_or_poses_as_a_line_of_ours() {
    let disk = copy();
    let escape = "\u{1b}[2J\u{9b}31m\nL2: 99 files and 1 bytes hold \u{202e}x";
    fs_err::write(disk.run().join("evil\u{1b}[2J"), "x").unwrap();
    claim_also(&disk, escape, Digest::of("x"));
    let report = verify_raw(&disk);
    let text = report.to_string();
    assert!(!text.chars().any(|c| c != '\n' && c.is_control()) && !text.contains('\u{202e}'), "{text:?}");
    assert!(!text.lines().any(|line| line.starts_with("L2")), "{text}");
}

/// Things that a manifest names and that become part of a path or of a git command.
#[test]
fn words_that_become_paths_or_arguments_are_refused() {
    let disk = copy();
    let path = disk.run().join(MANIFEST);
    let text = fs_err::read_to_string(&path).unwrap();
    let manifest: Manifest = serde_json::from_str(&text).unwrap();
    let commit = manifest.predicate.source.commit.unwrap();
    for evil in ["--output=/tmp/x", "HEAD", "main:secret"] {
        super::tests::reseal_manifest(&disk, &text.replace(&commit, evil));
        assert_eq!(verify_raw(&disk).exit_code(), ExitCode::Integrity, "{evil}");
    }
    super::tests::reseal_manifest(&disk, &text);
    let plan = fs_err::read_to_string(disk.run().join("plan.toml")).unwrap();
    reseal(&disk, "plan.toml", plan.replace("experiment = \"preempt\"", "experiment = \"../../x\"").as_bytes());
    says(&verify_raw(&disk), MANIFEST, "malformed", "is no experiment");
}

/// Columns of every table made extreme, empty or absent, as a forger may seal it: judging it again ends in a verdict or an
/// error, never in a panic. A judgement takes a while, so each cell meets a few of them.
#[test]
fn no_forged_table_makes_the_judgement_panic() {
    let (_disk, judged) = Trial::of_events(50).judged();
    let (evidence, facts) = (judged.evidence(), Facts::stored(&judged.verdict().gates));
    let judge = |mut forged: Evidence| {
        // As loading does.
        if forged.cells.iter().any(|cell| cell.data.check_range().is_err()) {
            return;
        }
        let data: Vec<CellData> = forged.cells.iter().map(|cell| cell.data.clone()).collect();
        forged.recomputed = derive(&forged.contract, RUN, &data);
        drop(gate::verdict(&forged, &facts, Digest::of("forged")));
        drop(forged.sampled_events(Digest::of("forged")));
    };
    let mut panicked = Vec::new();
    for at in 0..evidence.cells.len() {
        for launches in [false, true] {
            let table_of = |evidence: &Evidence| match launches {
                false => Some(evidence.cells[at].data.events.clone()),
                true => evidence.cells[at].data.launches.clone(),
            };
            let Some(table) = table_of(evidence) else { continue };
            for (what, forged_table) in forgeries(&table).into_iter().skip(at % 29).step_by(58) {
                let mut forged = evidence.clone();
                match launches {
                    false => forged.cells[at].data.events = forged_table,
                    true => forged.cells[at].data.launches = Some(forged_table),
                }
                if std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| judge(forged))).is_err() {
                    panicked.push(format!(
                        "{} {}: {what}",
                        evidence.cells[at].name(),
                        if launches { "launches" } else { "events" }
                    ));
                }
            }
        }
    }
    assert!(panicked.is_empty(), "{} of them: {panicked:#?}", panicked.len());
}

#[test]
fn numbers_that_no_cell_measures_are_refused() {
    let (_disk, judged) = Trial::of_events(50).judged();
    let yields = judged.evidence().cells.iter().find(|cell| cell.name().starts_with("yield/k")).unwrap();
    yields.data.check_range().unwrap();
    for column in [Column::I64(vec![i64::MIN; 50]), Column::I64(vec![(1 << 48) + 1; 50])] {
        let mut data = yields.data.clone();
        set_column(&mut data.events, "first_observer_ns", column);
        assert!(data.check_range().unwrap_err().to_string().contains("first_observer_ns"));
    }
}

/// A table with one column made extreme or taken away, with no rows, and with its rows twice.
fn forgeries(table: &Table) -> Vec<(String, Table)> {
    const MOST: i64 = 1 << 48;
    let none: Vec<usize> = Vec::new();
    let twice: Vec<usize> = (0..table.rows()).chain(0..table.rows()).collect();
    let mut all =
        vec![("no rows".to_owned(), take_rows(table, &none)), ("rows twice".to_owned(), take_rows(table, &twice))];
    for (name, column) in &table.columns {
        let n = column.len();
        let extremes = match column {
            Column::U32(_) => vec![Column::U32(vec![0; n]), Column::U32(vec![u32::MAX; n])],
            Column::OptU32(_) => vec![Column::OptU32(vec![None; n]), Column::OptU32(vec![Some(u32::MAX); n])],
            Column::I64(_) => [i64::MIN, -MOST, MOST].map(|ns| Column::I64(vec![ns; n])).to_vec(),
            Column::OptI64(_) => {
                [None, Some(i64::MAX), Some(-MOST), Some(MOST)].map(|ns| Column::OptI64(vec![ns; n])).to_vec()
            }
            Column::F64(_) => vec![Column::F64(vec![f64::NAN; n]), Column::F64(vec![f64::INFINITY; n])],
        };
        for (i, extreme) in extremes.into_iter().enumerate() {
            let mut forged = table.clone();
            set_column(&mut forged, name, extreme);
            all.push((format!("{name} made extreme ({i})"), forged));
        }
        let mut forged = table.clone();
        forged.columns.retain(|(other, _)| other != name);
        all.push((format!("{name} taken away"), forged));
    }
    all
}
