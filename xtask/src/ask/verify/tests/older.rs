//! Runs that were judged under older rules, and runs that only say so.

use super::*;
use crate::publish::render;
use crate::runs::history::rules_of;
use crate::steps::gate::Judged;
use crate::trial::Trial;
use host::git::Git;
use pure::gate::rules;
use schema::manifest::Attempt;
use schema::sanitize::SanitizerVerdict;

/// A run of rules 1, which had one gate and one metric fewer than today's.
fn older() -> (OnDisk, Judged) {
    let (disk, _) = Trial { rules: None, ..Trial::passing() }.judged();
    let csv = fs_err::read_to_string(disk.run().join("summary/metrics.csv")).unwrap();
    let (rest, last) = csv.trim_end().rsplit_once('\n').unwrap();
    assert!(!last.is_empty());
    reseal(&disk, "summary/metrics.csv", format!("{rest}\n").as_bytes());
    let judged = gate(&disk.paths, Sealed::load(&disk.run()).unwrap(), Some(&disk.build)).unwrap();
    let refused: Vec<&str> =
        judged.verdict().gates.iter().filter(|gate| !gate.passed).map(|gate| gate.name.as_str()).collect();
    assert_eq!(refused, ["source", "recompute"]);
    let mut verdict = judged.verdict().clone();
    verdict.gates.retain(|gate| gate.name != "freshness");
    for gate in &mut verdict.gates {
        (gate.passed, gate.reason, gate.remedy) = (true, String::new(), String::new());
    }
    (verdict.rules, verdict.passed) = (1, true);
    fs_err::write(disk.run().join(VERDICT), to_bytes(&verdict).unwrap()).unwrap();
    reseal_manifest(&disk, &fs_err::read_to_string(disk.run().join(MANIFEST)).unwrap());
    (disk, judged.with(verdict))
}

/// That run published by a tree of its rules, in a repository that has today's rules since; and the commit that published it.
fn published_older() -> (OnDisk, String) {
    let (disk, judged) = older();
    publish(&disk.paths, &judged.pass().unwrap(), None).unwrap();
    let commit = disk.commit();
    disk.put(pure::gate::rules::FILE, &format!("{}\n", rules()));
    disk.commit();
    (disk, commit)
}

#[test]
fn a_gate_and_a_metric_that_were_added_leave_a_published_run_as_it_is() {
    let (disk, commit) = published_older();
    let report = verify(&disk.paths, &[]).unwrap();
    assert_eq!(report.problems, []);
    assert_eq!((report.exit_code(), report.level), (ExitCode::Done, Some("L0")));
    let run = &report.runs[0];
    assert_eq!((run.rules, run.passed, run.recomputed), (Some(1), None, false));
    let text = report.to_string();
    for words in [
        "published, judged under rules 1, not judged again here",
        "its recipes are those of rules 1",
        &format!("by the tree of commit {commit}, where it was published: cargo xtask verify {RUN} --as-published"),
        "not recomputed here: 1",
    ] {
        assert!(text.contains(words), "{words}: {text}");
    }
    // Beside it, a run under today's rules is judged as ever.
    assert_eq!(render(&disk.paths).unwrap(), Vec::<String>::new());
    let shared = published_trial();
    assert_eq!(verify(&shared.paths, &[]).unwrap().runs[0].rules, Some(rules()));
}

#[test]
fn a_run_of_a_commit_with_todays_rules_that_claims_older_ones_is_refused() {
    let disk = copy();
    let path = disk.run().join(VERDICT);
    let ours = fs_err::read_to_string(&path).unwrap();
    let rewrite = |text: &str| {
        fs_err::write(&path, text).unwrap();
        verify_raw(&disk)
    };
    // Its first rules have one way to be named, and this is none.
    let line = format!("  \"rules\": {},\n", rules());
    assert!(ours.contains(&line));
    names(&rewrite(&ours.replace(&line, "  \"rules\": 1,\n")), VERDICT);
    // Without the field, and with sums that say so.
    for (claimed, words) in [
        (1, format!("claims rules 1, and the measured commit has rules {}", rules())),
        (rules() + 1, format!("knows up to {}", rules())),
    ] {
        let verdict = Verdict { rules: claimed, ..serde_json::from_str(&ours).unwrap() };
        rewrite(std::str::from_utf8(&to_bytes(&verdict).unwrap()).unwrap());
        reseal_manifest(&disk, &fs_err::read_to_string(disk.run().join(MANIFEST)).unwrap());
        let report = verify_raw(&disk);
        names(&report, VERDICT);
        assert!(report.problems.len() == 1 && report.problems[0].kind == "rules", "{report}");
        assert!(report.problems[0].detail.contains(&words), "{report}");
        assert_eq!((report.runs[0].passed, report.level), (None, None));
    }
    // What no history tells is said.
    fs_err::remove_dir_all(disk.root.path().join(".git")).unwrap();
    let verdict = Verdict { rules: 1, ..serde_json::from_str(&ours).unwrap() };
    rewrite(std::str::from_utf8(&to_bytes(&verdict).unwrap()).unwrap());
    reseal_manifest(&disk, &fs_err::read_to_string(disk.run().join(MANIFEST)).unwrap());
    let report = verify_raw(&disk);
    assert!(report.ok && report.to_string().contains("has rules 1 could not be checked"), "{report}");
    let asked = Asked { allowed_signers: None, as_published: true };
    let report = verify_as(&disk.paths, &[disk.run().display().to_string()], asked).unwrap();
    assert_eq!(report.exit_code(), ExitCode::Environment, "{report}");
}

#[test]
fn the_number_never_falls() {
    let (disk, first) = Trial::passing().repository();
    let git = Git::at(disk.root.path()).unwrap().unwrap();
    let put = |text: &str| {
        disk.put(pure::gate::rules::FILE, text);
        disk.commit()
    };
    assert_eq!(rules_of(&git, &first).unwrap(), rules());
    let (raised, back) = (put("7\n"), put("1\n"));
    assert_eq!([&first, &raised, &back].map(|commit| rules_of(&git, commit).unwrap()), [rules(), 7, 7]);
    let broken = put("seven\n");
    assert!(format!("{:#}", rules_of(&git, &broken).unwrap_err()).contains(&broken));
    // Without the file, rules are the first.
    let (disk, measured) = Trial { rules: None, ..Trial::passing() }.repository();
    assert_eq!(rules_of(&Git::at(disk.root.path()).unwrap().unwrap(), &measured).unwrap(), 1);
}

/// A run of other rules is never published by this tree.
#[test]
fn a_run_of_other_rules_is_refused_by_todays_gates() {
    for other in [None, Some(rules() + 1)] {
        let (_disk, judged) = Trial { rules: other, ..Trial::passing() }.judged();
        let error = judged.pass().unwrap_err().to_string();
        assert!(error.contains(&format!("judges by rules {}, and commit", rules())), "{error}");
    }
}

#[test]
fn what_the_bytes_of_an_older_run_show_is_checked() {
    let (whole, _) = older();
    let report = verify_raw(&whole);
    assert_eq!(report.problems, []);
    assert!(report.to_string().contains("where it was measured"), "{report}");
    let says = |disk: &OnDisk, path: &str, words: &str| {
        let report = verify_raw(disk);
        names(&report, path);
        assert!(report.problems.iter().any(|problem| problem.detail.contains(words)), "{words}: {report}");
    };
    let damaged = |name: &str, edit: &dyn Fn(String) -> String, words: &str| {
        let disk = whole.copied();
        let text = fs_err::read_to_string(disk.run().join(name)).unwrap();
        reseal(&disk, name, edit(text).as_bytes());
        says(&disk, name, words);
    };
    let verdict = |text: String| serde_json::from_str::<SanitizerVerdict>(&text).unwrap();
    let sanitized = "sanitize/memcheck-everything.json";
    let more = |text| serde_json::to_string(&SanitizerVerdict { launches: 9, ..verdict(text) }).unwrap();
    damaged(sanitized, &more, "other launches");
    let other_log = |text| serde_json::to_string(&SanitizerVerdict { log: "no.log".into(), ..verdict(text) }).unwrap();
    damaged(sanitized, &other_log, "is absent");
    damaged("attempts.jsonl", &|text| text.replacen("measured", "failed: x", 1), "as the chain has them");
    damaged("attempts.jsonl", &|text| text.replacen("\"open\"", "\"shut\"", 1), "line 1");

    let manifest = |edit: &dyn Fn(&mut Manifest), words: &str| {
        let disk = whole.copied();
        let text = fs_err::read_to_string(disk.run().join(MANIFEST)).unwrap();
        let mut manifest: Manifest = serde_json::from_str(&text).unwrap();
        edit(&mut manifest);
        reseal_manifest(&disk, std::str::from_utf8(&to_bytes(&manifest).unwrap()).unwrap());
        let report = verify_raw(&disk);
        assert_eq!(report.exit_code(), ExitCode::Integrity, "{words}");
        assert!(report.problems.iter().any(|problem| problem.detail.contains(words)), "{words}: {report}");
    };
    manifest(&|m| m.predicate.source.digest = Digest::of(b"x"), "the source that was built is not what commit");
    manifest(&|m| m.predicate.source.commit = None, "does not hold the measured commit");
    manifest(&|m| m.predicate.source.commit = Some("0".repeat(40)), "does not hold the measured commit");
    manifest(&|m| m.predicate.source.commit = Some("main".to_owned()), "its measured commit");
    manifest(&|m| m.predicate.attempts.push(Attempt { n: 9, ..m.predicate.attempts[0].clone() }), "every attempt");

    let disk = whole.copied();
    let path = disk.run().join(VERDICT);
    let mut verdict: Verdict = serde_json::from_slice(&fs_err::read(&path).unwrap()).unwrap();
    verdict.gates[3].passed = false;
    fs_err::write(&path, to_bytes(&verdict).unwrap()).unwrap();
    reseal_manifest(&disk, &fs_err::read_to_string(disk.run().join(MANIFEST)).unwrap());
    says(&disk, VERDICT, "passes although a gate refuses");
}

#[test]
fn a_run_of_older_rules_is_not_published_by_a_tree_of_newer_ones() {
    let (disk, judged) = older();
    disk.put(pure::gate::rules::FILE, &format!("{}\n", rules()));
    disk.commit();
    publish(&disk.paths, &judged.pass().unwrap(), None).unwrap();
    disk.commit();
    let report = verify(&disk.paths, &[RUN.to_owned()]).unwrap();
    names(&report, &format!("manifests/{RUN}.verdict.json"));
    assert!(report.to_string().contains(&format!("whose tree judges by rules {}", rules())), "{report}");
}

/// Provenance statements are younger than the first rules.
#[test]
fn a_provenance_from_before_there_was_any_is_not_missed() {
    let (disk, judged) = older();
    publish(&disk.paths, &judged.pass().unwrap(), None).unwrap();
    let name = format!("manifests/{RUN}.provenance.json");
    fs_err::remove_file(disk.root.path().join(&name)).unwrap();
    let sums = disk.paths.manifests().join(format!("{RUN}.SHA256SUMS"));
    let text = fs_err::read_to_string(&sums).unwrap();
    let without: String = text.lines().filter(|line| !line.ends_with(&name)).map(|line| format!("{line}\n")).collect();
    assert_ne!(without, text);
    fs_err::write(&sums, without).unwrap();
    disk.commit();
    disk.put(pure::gate::rules::FILE, &format!("{}\n", rules()));
    disk.commit();
    let report = verify(&disk.paths, &[]).unwrap();
    assert!(report.ok && report.notes.iter().any(|note| note.contains("no provenance statement")), "{report}");
}

/// What a run names its recipes in lets other versions recompute it; where theirs give something else, nothing is claimed.
#[test]
fn a_run_with_a_contract_is_recomputed_where_its_recipes_give_the_same() {
    let (disk, _) = Trial { rules: None, ..Trial::passing() }.judged();
    let path = disk.run().join(VERDICT);
    let mut verdict: Verdict = serde_json::from_slice(&fs_err::read(&path).unwrap()).unwrap();
    (verdict.rules, verdict.passed) = (1, false);
    fs_err::write(&path, to_bytes(&verdict).unwrap()).unwrap();
    reseal_manifest(&disk, &fs_err::read_to_string(disk.run().join(MANIFEST)).unwrap());
    let report = verify_raw(&disk);
    assert!(report.ok && report.runs[0].recomputed && report.level == Some("L2"), "{report}");
    assert!(report.to_string().contains("its summary recomputes to the same bytes"), "{report}");
}
