//! States of a published run's numbers, after changes to a made-up repository; with the real compiler in `compiled`.

mod compiled;

use super::*;
use crate::publish::publish;
use crate::steps::gate::gate;
use crate::steps::seal::Sealed;
use crate::trial::{LOCK, OnDisk, RUN, copy};
use pure::book::notebook::{Fields, Kind, NewEntry, Status, append};
use schema::Digest;
use schema::plan::{PlanFile, ProfileName};

/// The passing trial, published.
fn published() -> OnDisk {
    let disk = copy();
    publish_run(&disk);
    disk
}

fn publish_run(disk: &OnDisk) {
    let judged = gate(&disk.paths, Sealed::load(&disk.run()).unwrap(), Some(&disk.build)).unwrap();
    publish(&disk.paths, &judged.pass().unwrap(), None).unwrap();
    disk.commit();
}

fn built(disk: &OnDisk) -> Result<TreeSass, String> {
    Ok(TreeSass { nvcc: disk.build.nvcc.clone(), kernels: disk.build.kernels.clone() })
}

fn ask(disk: &OnDisk) -> Report {
    status(&disk.paths, &built(disk)).unwrap()
}

/// Every number must be in this state, for a reason with these words.
fn check_all(report: &Report, state: State, words: &str) {
    assert!(report.unknown.is_empty() && report.numbers.len() > 20, "{report}");
    for number in &report.numbers {
        assert!(number.state == state && number.why.contains(words), "{number:?} is not {state:?} for {words:?}");
    }
}

/// Exactly the numbers for which `expected` holds are stale, for a reason with these words; all others are current.
fn check_stale(report: &Report, words: &str, expected: impl Fn(&str) -> bool) {
    assert!(report.unknown.is_empty(), "{report}");
    let mut stale = 0;
    for number in &report.numbers {
        let state = if expected(&number.id) { State::Stale } else { State::Current };
        assert_eq!(number.state, state, "{number:?}");
        assert!(state == State::Current || number.why.contains(words), "{number:?}");
        stale += usize::from(state == State::Stale);
    }
    assert!(stale > 0 && stale < report.numbers.len(), "{stale} stale of {}", report.numbers.len());
}

fn of_phase(id: &str, phase: &str) -> bool {
    id.contains(&format!("@{phase}/"))
}

fn carry_over(run: &str) -> Fields {
    let mut fields = Fields::new(Kind::CarryOver, Status::ResearchRetained);
    (fields.run, fields.reason) = (Some(run.to_owned()), Some("kernels unchanged".to_owned()));
    fields
}

fn retraction(run: Option<&str>, about: Option<&str>, metric: Option<&str>) -> Fields {
    let mut fields = Fields::new(Kind::Retraction, Status::Retracted);
    fields.reason = Some("a wrong unit".to_owned());
    (fields.run, fields.about, fields.metric) =
        (run.map(str::to_owned), about.map(str::to_owned), metric.map(str::to_owned));
    fields
}

fn note(disk: &OnDisk, id: &str, fields: Fields) {
    let text = fs_err::read_to_string(disk.paths.notebook()).unwrap();
    let [date, title, prose] = ["2026-01-02", "a reason", "Made up."].map(str::to_owned);
    disk.put("NOTEBOOK.md", &append(&text, NewEntry { date, id: id.into(), title, prose, fields }).unwrap());
}

fn replace(disk: &OnDisk, name: &str, from: &str, to: &str) {
    let text = fs_err::read_to_string(disk.root.path().join(name)).unwrap();
    assert!(text.contains(from), "{name} lacks {from:?}");
    disk.put(name, &text.replacen(from, to, 1));
}

#[test]
fn an_unchanged_tree_keeps_every_number_current() {
    let disk = published();
    let report = ask(&disk);
    check_all(&report, State::Current, "nothing it rests on has changed");
    let metrics = fs_err::read_to_string(disk.paths.summary().join(RUN).join("metrics.csv")).unwrap();
    assert_eq!(report.numbers.len(), metrics.lines().count() - 1 + 1, "every row and the one claim");
    assert!(report.numbers.iter().any(|number| number.id == "T-1@claim" && number.unit == "us"));
    assert_eq!(report.exit_code(), ExitCode::Done);
    assert_eq!(serde_json::to_value(&report).unwrap()["numbers"][0]["state"], "current");
    assert!(report.to_string().ends_with(" current, 0 carried-over, 0 stale, 0 retracted"), "{report}");
}

#[test]
fn a_changed_kernel_makes_stale_what_rests_on_it_and_nothing_else() {
    let disk = published();
    let with = |symbol: &str| {
        let mut built = built(&disk).unwrap();
        let kernel = built.kernels.iter_mut().find(|kernel| kernel.symbol == symbol).unwrap();
        kernel.sass_digest = Digest::of("changed");
        status(&disk.paths, &Ok(built)).unwrap()
    };
    let words = "kernel preempt_calibrate: measured";
    check_stale(&with("preempt_calibrate"), words, |id| of_phase(id, "calibrate"));
    // The ratio divides by a wait that the drain kernel made.
    check_stale(&with("preempt_urgent"), "kernel preempt_urgent", |id| {
        of_phase(id, "baseline") || id.starts_with("ratio@yield/")
    });
    let timer = with("preempt_timer_offset");
    // Visibility is so short that it is printed as two steps of the timer.
    check_stale(&timer, "kernel preempt_timer_offset", |id| {
        id.ends_with("@instrument/timer") || id.starts_with("visibility_us_")
    });
    assert!(timer.to_string().contains("timer_quantum_ns@instrument/timer"), "{timer}");
}

#[test]
fn comments_keep_numbers_and_the_harness_s_timing_does_not() {
    let disk = published();
    replace(&disk, "harness/core/src/timing.rs", "/// How long.", "// Reworded.\n\n/// For how long it settles.");
    replace(&disk, "kernels/preempt/made_up.cu", "// Made up.", "// Reworded.");
    check_all(&ask(&disk), State::Current, "2 source files changed, but SASS, protocol");
    note(&disk, "K-001", carry_over(RUN));
    check_all(&ask(&disk), State::CarriedOver, "carried over by K-001: a reason; 2 source files changed");
    replace(&disk, "harness/core/src/timing.rs", "100", "200");
    check_all(&ask(&disk), State::Stale, "harness: harness/core/src/timing.rs");
}

#[test]
fn a_carry_over_that_was_withdrawn_or_is_of_another_run_carries_nothing() {
    let disk = published();
    replace(&disk, "kernels/preempt/made_up.cu", "// Made up.", "// Reworded.");
    note(&disk, "K-001", carry_over("another"));
    note(&disk, "K-002", carry_over(RUN));
    check_all(&ask(&disk), State::CarriedOver, "K-002");
    note(&disk, "R-001", retraction(None, Some("K-002"), None));
    check_all(&ask(&disk), State::Current, "1 source file changed");
}

#[test]
fn a_retraction_that_was_withdrawn_retracts_nothing() {
    let disk = published();
    note(&disk, "R-001", retraction(Some(RUN), None, None));
    check_all(&ask(&disk), State::Retracted, "retracted by R-001");
    note(&disk, "R-002", retraction(None, Some("R-001"), None));
    check_all(&ask(&disk), State::Current, "nothing it rests on has changed");
}

#[test]
fn a_changed_plan_makes_stale_the_numbers_of_that_phase() {
    let disk = published();
    let name = "harness/experiments/preempt/plan.toml";
    let edit = |change: fn(&mut PlanFile)| {
        let mut plan = PlanFile::parse(&fs_err::read_to_string(disk.root.path().join(name)).unwrap()).unwrap();
        change(&mut plan);
        disk.put(name, &toml::to_string(&plan).unwrap());
    };
    fn calibrate(plan: &mut PlanFile) -> &mut toml::Table {
        plan.profile.get_mut(&ProfileName::Full).unwrap()["calibrate"].as_table_mut().unwrap()
    }
    fn add_launches(plan: &mut PlanFile, more: i64) {
        let launches = calibrate(plan).get_mut("launches").unwrap();
        *launches = (launches.as_integer().unwrap() + more).into();
    }
    edit(|plan| add_launches(plan, 1));
    check_stale(&ask(&disk), "plan: the plan's numbers of phase calibrate differ", |id| of_phase(id, "calibrate"));
    edit(|plan| {
        add_launches(plan, -1);
        calibrate(plan).get_mut("k").unwrap().as_array_mut().unwrap().push(96.into());
    });
    check_all(&ask(&disk), State::Current, "");
    edit(|plan| drop(calibrate(plan).insert("k".to_owned(), vec![96].into())));
    check_stale(&ask(&disk), "the plan's lists of phase calibrate lack an entry that they had", |id| {
        of_phase(id, "calibrate")
    });
    fs_err::remove_file(disk.root.path().join(name)).unwrap();
    check_all(&ask(&disk), State::Stale, "plan: this tree's plan file no longer has such a run");
}

#[test]
fn another_toolkit_or_image_makes_every_number_stale_and_a_remark_in_their_files_does_not() {
    let disk = published();
    disk.put("docker/toolkit.lock", &format!("# A remark.\n{LOCK}"));
    disk.put("docker/Dockerfile", "# A remark.\nDockerfile");
    check_all(&ask(&disk), State::Current, "2 source files changed");
    disk.put("docker/toolkit.lock", &LOCK.replace("13.0.88", "13.1.0"));
    check_all(
        &ask(&disk),
        State::Stale,
        "toolkit: docker/toolkit.lock: nvidia-cuda-nvcc==13.0.88, docker/toolkit.lock: nvidia-cuda-nvcc==13.1.0",
    );
    disk.put("docker/toolkit.lock", LOCK);
    disk.put("docker/image.lock", "# no base\n");
    check_all(&ask(&disk), State::Stale, "image: rust:1-bookworm is no longer a base of docker/image.lock");
}

#[test]
fn a_retraction_takes_one_number_or_the_whole_run() {
    let disk = published();
    let one = "timer_quantum_ns@instrument/timer";
    note(&disk, "R-001", retraction(Some(RUN), None, Some(one)));
    let report = ask(&disk);
    let retracted: Vec<&Number> = report.numbers.iter().filter(|number| number.state == State::Retracted).collect();
    assert!(retracted.len() == 1 && retracted[0].id == one, "{report}");
    assert_eq!(retracted[0].why, "retracted by R-001: a reason");
    note(&disk, "R-002", retraction(Some(RUN), None, None));
    check_all(&ask(&disk), State::Retracted, "retracted by R-00");
}

#[test]
fn what_cannot_be_known_here_is_said_and_never_called_stale() {
    let disk = published();
    let unbuilt = Err("not rebuilt here: cargo xtask provision".to_owned());
    let report = status(&disk.paths, &unbuilt).unwrap();
    assert!(report.numbers.is_empty() && report.unknown.len() > 20, "{report}");
    assert!(report.unknown.iter().all(|number| number.why.contains("not rebuilt here")));
    assert_eq!(report.exit_code(), ExitCode::Environment);
    assert!(report.to_string().ends_with("cannot be judged on this machine"), "{report}");
    replace(&disk, "harness/core/src/timing.rs", "100", "200");
    check_all(&status(&disk.paths, &unbuilt).unwrap(), State::Stale, "harness: harness/core/src/timing.rs");

    let mut other = built(&disk).unwrap();
    other.nvcc = "another nvcc".to_owned();
    replace(&disk, "harness/core/src/timing.rs", "200", "100");
    check_all(&status(&disk.paths, &Ok(other.clone())).unwrap(), State::Current, "");
    other.kernels[0].sass_digest = Digest::of("changed");
    let report = status(&disk.paths, &Ok(other)).unwrap();
    assert!(report.unknown[0].why.contains("this machine has another nvcc"), "{report}");
}

#[test]
fn a_shallow_clone_says_how_to_get_the_measured_commit() {
    let disk = published();
    let clone = tempfile::tempdir().unwrap();
    let origin = format!("file://{}", disk.root.path().display());
    let args = ["clone", "-q", "--depth", "1", &origin, "."];
    let status_of = std::process::Command::new("git").args(args).current_dir(clone.path()).status().unwrap();
    assert!(status_of.success());
    let report = status(&Paths::new(clone.path()), &built(&disk)).unwrap();
    assert!(report.numbers.is_empty(), "{report}");
    assert!(report.unknown.iter().all(|number| number.why.contains("git fetch --unshallow")), "{report}");
}

#[test]
fn a_harness_that_does_not_parse_is_an_error_of_the_build() {
    let disk = published();
    replace(&disk, "harness/core/src/timing.rs", "fn settle_ns", "fn (");
    let error = status(&disk.paths, &built(&disk)).unwrap_err();
    assert_eq!(host::failure::code_of(&error), ExitCode::Build);
    assert!(error.to_string().contains("harness/core/src/timing.rs does not parse"), "{error:#}");
}

#[test]
fn nothing_published_is_a_state_of_its_own() {
    let (disk, _) = crate::trial::Trial::passing().repository();
    assert_eq!(ask(&disk).to_string(), "nothing is published yet");
}
