//! Runs that supersede each other in a made-up repository: what leaves the tree, what is read from history, what is refused.

use super::*;
use crate::ask::compare::compare;
use crate::ask::verify::{Report, verify};
use crate::path::levels::published_builds;
use crate::publish::{Written, publish_within};
use crate::repo::tidy::TREE_LIMIT_BYTES;
use crate::steps::gate::gate;
use crate::steps::seal::Sealed;
use crate::trial::{OnDisk, RUN, Trial, copy};
use host::failure::{code_of, remedy_of};
use pure::trial::synthetic::{set_column, take_rows};
use std::process::Command;
use std::sync::OnceLock;
use tables::Column;

const SECOND: &str = "20260102T000000Z-test-00000000";
const THIRD: &str = "20260103T000000Z-test-00000000";

fn publish(disk: &OnDisk, run: &str, limit: u64) -> Result<Written> {
    let sealed = Sealed::load(&disk.paths.run(run))?;
    let passed = gate(&disk.paths, sealed, Some(&disk.build)).unwrap().pass().unwrap();
    publish_within(&disk.paths, &passed, None, limit)
}

/// The first run published and committed, the second sealed, the third sealed; made once.
fn one_published() -> OnDisk {
    static MADE: OnceLock<OnDisk> = OnceLock::new();
    let made = MADE.get_or_init(|| {
        let disk = copy();
        publish(&disk, RUN, TREE_LIMIT_BYTES).unwrap();
        disk.commit();
        for (n, run) in (1..).zip([SECOND, THIRD]) {
            let mut trial = Trial { run: run.to_owned(), ..Trial::passing() };
            // No two runs hold the same table.
            for cell in &mut trial.cells {
                let mut order: Vec<usize> = (0..cell.events.rows()).collect();
                order.swap(n - 1, n);
                cell.events = take_rows(&cell.events, &order);
                if let Some(launches) = &mut cell.launches {
                    let later = launches.i64("host_start_ns").unwrap().iter().map(|start| start + n as i64);
                    set_column(launches, "host_start_ns", Column::I64(later.collect()));
                }
            }
            trial.sealed_in(&disk);
        }
        disk
    });
    made.copied()
}

/// Two runs published and committed, the third sealed.
fn two_published() -> OnDisk {
    static MADE: OnceLock<OnDisk> = OnceLock::new();
    let made = MADE.get_or_init(|| {
        let disk = one_published();
        assert!(publish(&disk, SECOND, TREE_LIMIT_BYTES).unwrap().left.is_empty());
        disk.commit();
        disk
    });
    made.copied()
}

/// The third published, which took the first's events out of the tree, and committed.
fn one_left() -> OnDisk {
    static MADE: OnceLock<OnDisk> = OnceLock::new();
    let made = MADE.get_or_init(|| {
        let disk = two_published();
        publish(&disk, THIRD, too_small_by(&disk, 1)).unwrap();
        disk.commit();
        disk
    });
    made.copied()
}

/// A limit that one more run exceeds by so many bytes.
fn too_small_by(disk: &OnDisk, bytes: u64) -> u64 {
    let roomy = disk.copied();
    let added = publish(&roomy, THIRD, u64::MAX).unwrap().bytes;
    git(disk).tree_with(&[]).unwrap().values().sum::<u64>() + added + HEADROOM_BYTES - bytes
}

fn git(disk: &OnDisk) -> Git {
    Git::at(disk.root.path()).unwrap().unwrap()
}

fn has_events(disk: &OnDisk, run: &str) -> bool {
    disk.paths.events().join(run).is_dir()
}

fn verified(disk: &OnDisk) -> Report {
    verify(&disk.paths, &[]).unwrap()
}

fn record_of(disk: &OnDisk, commit: &str) -> Vec<u8> {
    let record = EventsRecord { format: FORMAT, commit: commit.to_owned(), superseded_by: THIRD.to_owned() };
    let bytes = to_bytes(&record).unwrap();
    disk.put(&record_name(RUN), std::str::from_utf8(&bytes).unwrap());
    bytes
}

#[test]
fn a_publication_that_would_not_fit_takes_the_oldest_superseded_events_out_of_the_tree() {
    let disk = two_published();
    let (commit, before) = (git(&disk).head().unwrap(), verified(&disk));
    assert!(publish(&disk.copied(), THIRD, too_small_by(&disk, 0)).unwrap().left.is_empty());
    let written = publish(&disk, THIRD, too_small_by(&disk, 1)).unwrap();
    let record = EventsRecord { format: FORMAT, commit: commit.clone(), superseded_by: THIRD.to_owned() };
    assert_eq!(written.left, [Leaving { run: RUN.to_owned(), record }]);
    assert_eq!([RUN, SECOND, THIRD].map(|run| has_events(&disk, run)), [false, true, true]);
    assert!(written.paths.iter().all(|path| disk.root.path().join(path).is_file()));
    assert!(written.paths.contains(&record_name(RUN)));

    let holds_whole = || {
        let report = verified(&disk);
        assert!(report.ok && report.level == Some("L2"), "{report}");
        assert_eq!(report.runs[0].passed, Some(true));
        assert!(report.checked_files > before.checked_files);
    };
    holds_whole();
    disk.commit();
    holds_whole();
    assert_eq!(published_builds(&disk.paths).unwrap().records.len(), 3);
    // The same run: from history, and from its run directory.
    let raw = disk.run().display().to_string();
    assert!(compare(&disk.paths, RUN, &raw).unwrap().first_difference.is_none());
    let again = publish(&disk, THIRD, TREE_LIMIT_BYTES).unwrap();
    assert!(again.already && again.left.is_empty());

    // A stranger has them back with one line, which the Markdown says, and checks them with coreutils.
    let back = format!("git checkout {commit} -- results/events/{RUN}");
    assert!(fs_err::read_to_string(disk.root.path().join("RESULTS.md")).unwrap().contains(&back));
    let sums = format!("sha256sum --check --strict --quiet manifests/{RUN}.SHA256SUMS");
    let holds = |line: &str| {
        let shell = Command::new("sh").args(["-c", line]).current_dir(disk.root.path()).output().unwrap();
        shell.status.success()
    };
    assert!(!holds(&sums));
    assert!(holds(&back) && holds(&sums) && verified(&disk).ok);
}

#[test]
fn as_many_leave_as_must_and_what_never_fits_is_refused_with_what_is_large() {
    let disk = two_published();
    let events_of = |run: &str| files::scan(&disk.paths.events().join(run)).unwrap().files.values().sum::<u64>();
    let (first, second) = (events_of(RUN), events_of(SECOND));
    let both = disk.copied();
    publish(&both, THIRD, too_small_by(&disk, first + 1)).unwrap();
    assert_eq!([RUN, SECOND, THIRD].map(|run| has_events(&both, run)), [false, false, true]);
    assert!(verified(&both).ok);
    let error = publish(&disk, THIRD, too_small_by(&disk, first + second + 1)).unwrap_err();
    assert_eq!(code_of(&error), ExitCode::Refused);
    let message = error.to_string();
    assert!(message.contains("without the events of 2 superseded runs") && message.contains(SECOND), "{message}");
    assert_eq!([RUN, SECOND, THIRD].map(|run| has_events(&disk, run)), [true, true, false]);
    assert!(!disk.root.path().join(record_name(RUN)).exists() && verified(&disk).ok);
    let error = publish(&copy(), RUN, 1).unwrap_err();
    assert!(error.to_string().contains("it holds no events of superseded runs"), "{error}");
}

#[test]
fn another_gpu_profile_or_experiment_supersedes_nothing() {
    let disk = two_published();
    let mut trial = Trial { run: "20260104T000000Z-test-00000000".to_owned(), ..Trial::passing() };
    trial.environment.device.name = "Another GPU".to_owned();
    trial.sealed_in(&disk);
    let sealed = Sealed::load(&disk.paths.run(&trial.run)).unwrap();
    let passed = gate(&disk.paths, sealed, Some(&disk.build)).unwrap().pass().unwrap();
    assert_eq!(superseded(&disk.paths, &passed).unwrap(), [(RUN.to_owned(), SECOND.to_owned())]);
    // One that is published late, after a newer one, supersedes what is older still.
    let disk = one_published();
    publish(&disk, THIRD, u64::MAX).unwrap();
    let passed = gate(&disk.paths, Sealed::load(&disk.paths.run(SECOND)).unwrap(), Some(&disk.build)).unwrap();
    assert_eq!(superseded(&disk.paths, &passed.pass().unwrap()).unwrap(), [(RUN.to_owned(), THIRD.to_owned())]);
}

/// What is done to a repository before it is asked.
type Plant<'a> = &'a dyn Fn(&OnDisk);

#[test]
fn events_that_the_commit_does_not_hold_as_they_were_sealed_never_leave() {
    let plan = format!("{}/plan.toml", folder_name(RUN));
    let uncommitted = |disk: &OnDisk| disk.git(&["rm", "-q", "-r", "--cached", &folder_name(RUN)]);
    let cases: [(&str, Plant<'_>); 5] = [
        ("no such folder", &|disk| {
            uncommitted(disk);
            disk.git(&["-c", "user.name=t", "-c", "user.email=t@t", "commit", "-q", "--no-gpg-sign", "-m", "m"]);
        }),
        ("plan.toml is not as committed", &|disk| disk.put(&plan, "edited")),
        ("more.txt is not as committed", &|disk| disk.put(&format!("{}/more.txt", folder_name(RUN)), "x")),
        ("plan.toml: changed", &|disk| {
            disk.put(&plan, "edited");
            disk.commit();
        }),
        ("link: a symlink", &|disk| {
            std::os::unix::fs::symlink("plan.toml", disk.paths.events().join(RUN).join("link")).unwrap();
        }),
    ];
    let limit = too_small_by(&two_published(), 4096);
    for (words, plant) in cases {
        let disk = two_published();
        plant(&disk);
        let error = publish(&disk, THIRD, limit).unwrap_err();
        assert_eq!(code_of(&error), ExitCode::Refused);
        assert!(error.to_string().contains(words), "{words}: {error}");
        assert!(
            has_events(&disk, RUN) && !has_events(&disk, THIRD) && !disk.root.path().join(record_name(RUN)).exists()
        );
    }
}

/// Expects exit 16, and a problem of this path that says so.
#[track_caller]
fn names(report: &Report, path: &str, words: &str) {
    assert_eq!(report.exit_code(), ExitCode::Integrity, "{words} was not missed");
    let found = report.problems.iter().any(|problem| problem.path == path && problem.detail.contains(words));
    assert!(found, "{path}: {words} is not told: {report}");
}

#[test]
fn a_record_that_leads_elsewhere_is_named() {
    let disk = one_left();
    let record = record_name(RUN);
    let kept = fs_err::read_to_string(disk.root.path().join(&record)).unwrap();
    let commit = serde_json::from_str::<EventsRecord>(&kept).unwrap().commit;
    record_of(&disk, &git(&disk).head().unwrap());
    names(&verified(&disk), &record, "has no such folder");
    record_of(&disk, &"0".repeat(40));
    names(&verified(&disk), &record, "not an ancestor of this work tree's commit");
    // The very bytes, in a commit that nobody would clone.
    let tree = format!("{commit}^{{tree}}");
    let aside = ["-c", "user.name=t", "-c", "user.email=t@t", "commit-tree", "-m", "aside", &tree];
    let aside = Command::new("git").args(aside).current_dir(disk.root.path()).output().unwrap();
    record_of(&disk, String::from_utf8(aside.stdout).unwrap().trim());
    names(&verified(&disk), &record, "not an ancestor of this work tree's commit");
    for (from, to, words) in [
        (commit.as_str(), "HEAD", "is no commit's id"),
        (commit.as_str(), "--output=x", "is no commit's id"),
        (THIRD, RUN, "is no newer published run"),
        (THIRD, "20260109T000000Z-test-00000000", "is no newer published run"),
        (THIRD, "../../x", "is no newer published run"),
        ("\"format\": 1", "\"format\": 2", "format"),
        ("\"format\"", "\"formal\"", "formal"),
        ("{", "{ ", "not the bytes that Assay writes"),
    ] {
        assert!(kept.contains(from));
        disk.put(&record, &kept.replacen(from, to, 1));
        let report = verified(&disk);
        names(&report, &record, words);
        assert_eq!(report.problems.len(), 1, "{report}");
    }
    let error = compare(&disk.paths, RUN, SECOND).unwrap_err();
    assert_eq!(code_of(&error), ExitCode::Integrity);
    fs_err::remove_file(disk.root.path().join(&record)).unwrap();
    names(&verified(&disk), &format!("{}/plan.toml", folder_name(RUN)), "the manifest names it");
    disk.put(&record, &kept);
    disk.put(&record_name("20260109T000000Z-test-00000000"), &kept);
    names(&verified(&disk), &record_name("20260109T000000Z-test-00000000"), "belongs to no manifest");
}

#[test]
fn other_bytes_in_the_commit_that_is_named_are_named() {
    let disk = one_left();
    let kept = fs_err::read_to_string(disk.root.path().join(record_name(RUN))).unwrap();
    let commit = serde_json::from_str::<EventsRecord>(&kept).unwrap().commit;
    let folder = disk.paths.events().join(RUN);
    let at = |name: &str| format!("{}/{name}", folder_name(RUN));
    disk.git(&["checkout", "-q", &commit, "--", &folder_name(RUN)]);
    disk.put(&at("plan.toml"), "edited");
    disk.put(&at("more.txt"), "x");
    fs_err::remove_file(folder.join("environment.json")).unwrap();
    fs_err::remove_file(folder.join("claims.toml")).unwrap();
    std::os::unix::fs::symlink("plan.toml", folder.join("claims.toml")).unwrap();
    let edited = disk.commit();
    fs_err::remove_dir_all(&folder).unwrap();
    record_of(&disk, &edited);
    disk.commit();
    let report = verified(&disk);
    names(&report, &at("plan.toml"), "was sealed as");
    names(&report, &at("more.txt"), "the manifest does not name it");
    names(&report, &at("environment.json"), "the manifest names it");
    names(&report, &at("claims.toml"), "a symlink");
    assert_eq!(report.runs[0].passed, None);
}

#[test]
fn a_clone_without_the_commit_says_what_to_fetch_and_a_tree_without_history_what_to_clone() {
    let disk = one_left();
    let clone = tempfile::tempdir().unwrap();
    let from = format!("file://{}", disk.root.path().display());
    disk.git(&["clone", "-q", "--depth", "1", &from, &clone.path().display().to_string()]);
    let clone = OnDisk { paths: Paths::new(clone.path()), build: disk.build.clone(), root: clone };
    names(&verified(&clone), &record_name(RUN), "git fetch --unshallow");
    let builds = published_builds(&clone.paths).unwrap();
    assert_eq!((builds.records.len(), builds.out_of_reach.len()), (2, 1));
    assert!(builds.out_of_reach[0].contains("git fetch --unshallow"));
    let error = published::runs(&clone.paths).unwrap_err();
    assert_eq!((code_of(&error), remedy_of(&error)), (ExitCode::Environment, Some("git fetch --unshallow")));
    clone.git(&["fetch", "-q", "--unshallow"]);
    let report = verified(&clone);
    assert!(report.ok, "{report}");
    fs_err::remove_dir_all(clone.root.path().join(".git")).unwrap();
    names(&verified(&clone), &record_name(RUN), "no git repository here: git clone");
}
