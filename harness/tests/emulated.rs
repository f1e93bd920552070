//! Tests of the harness as a program, on the emulated device: a whole smoke run, its tables, resuming, and what it
//! refuses.

use assert_cmd::Command;
use harness_core::experiment::{Experiment, open};
use harness_core::sanitize::sanitize;
use preempt::PREEMPT;
use preempt::plan::{Cell, PreemptPlan, Work};
use schema::cell::{self, CellRecord, LaunchConfig};
use schema::plan::{Plan, PlanFile, ProfileName, Slots};
use schema::progress::Progress;
use schema::timer::delayed_event;
use schema::{Digest, ExitCode};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Output;
use tables::Table;

/// What the emulated device holds.
fn slots() -> Slots {
    ["calibrate_per_sm", "drain_per_sm", "yield_per_sm"].iter().fold(Slots::of_sms(2), |all, name| all.with(name, 2))
}

/// A frozen plan and a run directory that go away with the test.
struct Run {
    dir: tempfile::TempDir,
    plan: Plan,
}

impl Run {
    fn new(phases: &[&str]) -> Self {
        let file = PlanFile::parse(include_str!("../experiments/preempt/plan.toml")).unwrap();
        let phases: Vec<String> = phases.iter().map(|phase| (*phase).to_owned()).collect();
        Self::of(file.freeze(ProfileName::Smoke, &phases).unwrap())
    }

    fn of(plan: Plan) -> Self {
        let run = Self { dir: tempfile::tempdir().unwrap(), plan };
        fs::write(run.plan_path(), toml::to_string(&run.plan).unwrap()).unwrap();
        run
    }

    /// A plan that takes no time to speak of.
    fn tiny() -> Self {
        let mut run = Self::new(&["calibrate"]);
        set(&mut run.plan, "calibrate.k", vec![32]);
        set(&mut run.plan, "instrument.delay_events", 2);
        set(&mut run.plan, "instrument.delay_ns", 1000);
        Self::of(run.plan)
    }

    fn plan_path(&self) -> PathBuf {
        self.dir.path().join("plan.toml")
    }

    fn cells(&self) -> Vec<Cell> {
        self.preempt().cells(&slots())
    }

    fn preempt(&self) -> PreemptPlan {
        PreemptPlan::of(&self.plan).unwrap()
    }

    fn path(&self, cell: &Cell, suffix: &str) -> PathBuf {
        self.dir.path().join("run/cells").join(cell.phase.name()).join(format!("{}{suffix}", cell.name))
    }

    fn header(&self, cell: &Cell) -> CellRecord {
        serde_json::from_slice(&fs::read(self.path(cell, ".json")).unwrap()).unwrap()
    }

    /// Runs it and expects this exit code.
    fn check(&self, more: &[&str], code: ExitCode) -> (Vec<Progress>, String) {
        let (plan, out) = (self.plan_path(), self.dir.path().join("run"));
        let args = ["run", "--device", "emulated", "--nonce", "n7", "--plan", plan.to_str().unwrap(), "--out"];
        let output = harness(&[&args[..], &[out.to_str().unwrap()], more].concat());
        finished(&output, code)
    }

    fn abandoned(&self) -> Vec<String> {
        let files = fs::read_dir(self.dir.path().join("run/abandoned")).into_iter().flatten();
        let mut names: Vec<String> = files.map(|file| file.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }
}

/// Sets a number of the plan's profile, named `phase.number`.
fn set(plan: &mut Plan, name: &str, value: impl Into<toml::Value>) {
    let (phase, number) = name.split_once('.').unwrap();
    plan.profile[phase].as_table_mut().unwrap().insert(number.to_owned(), value.into());
}

fn harness(args: &[&str]) -> Output {
    Command::cargo_bin("harness").unwrap().args(args).output().unwrap()
}

fn finished(output: &Output, code: ExitCode) -> (Vec<Progress>, String) {
    let stderr = String::from_utf8(output.stderr.clone()).unwrap();
    assert_eq!(output.status.code(), Some(code.status()), "{stderr}");
    let lines = String::from_utf8(output.stdout.clone()).unwrap();
    (lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect(), stderr)
}

fn check_columns(path: &Path, names: &[&str]) -> Table {
    let table = Table::read(path).unwrap();
    let found: Vec<&str> = table.columns.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(found, names, "{}", path.display());
    table
}

/// What every launch records, with the counts of preempt.
fn launch_columns() -> Vec<&'static str> {
    let before = ["launch", "config", "warmup", "host_start_ns", "wall_ns"];
    let after = ["sms", "clock_windows", "clock_khz_min", "clock_khz_p50", "clock_khz_max"];
    [&before[..], preempt::tables::COUNTS, &after[..]].concat()
}

/// Checks one cell's files against its header and its work, and returns its events.
fn check_cell(run: &Run, cell: &Cell, plan: Digest) -> Table {
    let header = run.header(cell);
    assert_eq!((header.plan, header.device.as_str(), header.cell.as_str()), (plan, "emulated", cell.name.as_str()));
    for file in &header.files {
        let bytes = fs::read(run.path(cell, &file.suffix)).unwrap();
        assert_eq!((Digest::of(&bytes), bytes.len() as u64), (file.sha256, file.bytes), "{}{}", cell.name, file.suffix);
    }
    check_columns(&run.path(cell, ".clock.parquet"), cell::CLOCK_ROWS);
    let launches = check_columns(&run.path(cell, ".launches.parquet"), &launch_columns());
    let warmup = launches.u32("warmup").unwrap();
    assert_eq!(warmup.iter().sum::<u32>(), header.warmup_launches);
    let kept_wrong = launches.u32("wrong_tiles").unwrap().iter().zip(warmup).filter(|(_, warmup)| **warmup == 0);
    assert_eq!(kept_wrong.map(|(wrong, _)| wrong).sum::<u32>(), 0);
    assert_eq!(launches.u32("tasks").unwrap(), launches.u32("executed").unwrap());
    let columns = match cell.work {
        Work::Timer => None,
        Work::Calibrate { .. } => Some(preempt::tables::TILES),
        Work::Baseline { .. } => Some(preempt::tables::WAITS),
        Work::Delay(_) | Work::Yield { .. } => Some(preempt::tables::YIELDS),
        Work::Cost { .. } => Some(preempt::tables::DRAINS),
    };
    let names = columns.map_or(cell::TIMER_EVENTS.to_vec(), |all| all.iter().map(|(name, ..)| *name).collect());
    let events = run.preempt().events(&cell.work, &slots());
    let table = check_columns(&run.path(cell, ".parquet"), &names);
    // A launch that would not fit is split, and events are spread evenly, rounded up.
    // Tiles count only while all blocks record, and threads that share a few cores seldom do.
    let planned = if matches!(cell.work, Work::Calibrate { .. }) { 1..u64::MAX } else { events..events * 2 };
    assert!(planned.contains(&(table.rows() as u64)), "{}: {}", cell.name, table.rows());
    assert_eq!(table.rows() as u64, header.events, "{}", cell.name);
    if names.contains(&"anomaly") {
        assert!(table.u32("anomaly").unwrap().iter().all(|bits| *bits == 0), "{}", cell.name);
    }
    table
}

#[test]
fn a_smoke_run_records_every_cell() {
    let run = Run::new(&[]);
    let (lines, _) = run.check(&[], ExitCode::Done);
    assert!(matches!(&lines[0], Progress::Device(facts) if facts.id == "emulated"));
    let Some(Progress::End { nonce, launches, sites, wrong, configs, .. }) = lines.last() else {
        panic!("no end marker")
    };
    assert!(
        nonce == "n7" && *launches > 0 && sites.values().all(|times| *times > 0) && sites.len() == 3 && *wrong == 0
    );
    let plan = Digest::of_file(run.plan_path()).unwrap();
    for cell in run.cells() {
        let table = check_cell(&run, &cell, plan);
        let header = run.header(&cell);
        match cell.work {
            Work::Timer => assert!(header.facts.whole("timer_quantum_ns").unwrap() > 0),
            Work::Delay(leg) => {
                let delayed = table.u32("delay_leg").unwrap().iter().filter(|found| **found == leg as u32).count();
                let due = table.u32("event").unwrap().iter().filter(|event| delayed_event(**event)).count();
                assert_eq!(delayed, due);
                let spent = table.i64("delay_ns").unwrap().iter().filter(|spent| **spent > 0).count();
                assert_eq!(spent, due);
            }
            Work::Calibrate { .. } => {
                assert_eq!(header.facts.flag("poison_caught"), Some(true));
                assert_eq!(header.facts.number("max_relative_error"), Some(0.0));
            }
            Work::Yield { .. } => {
                let blocks = check_columns(&run.path(&cell, ".blocks.parquet"), preempt::tables::BLOCK_ROWS);
                assert_eq!(blocks.rows(), table.rows() * 3);
            }
            Work::Cost { .. } => {
                assert_eq!(table.u32("arm").unwrap()[..4], [0, 1, 1, 0]);
                let pilot = header.facts.get("pilot").and_then(|pilot| pilot.as_array()).unwrap();
                assert!(pilot.len() == 2 && header.facts.whole("poll_free_blocks").is_some());
            }
            Work::Baseline { .. } => assert!(header.facts.whole("tasks").unwrap() > 0),
        }
    }
    assert!(run.abandoned().is_empty());
    let sanitized = sanitized(&run.plan);
    for config in configs {
        assert!(sanitized.contains(&kind(config)), "no sanitizer program covers {config:?}");
    }
}

/// What a sanitizer verdict is about: a configuration without grid and cubin.
fn kind(config: &LaunchConfig) -> (String, String, u32, u32) {
    (config.symbol.clone(), config.mode.clone(), config.block, config.shared_bytes)
}

/// What the sanitizer programs of a plan launch, all together.
fn sanitized(plan: &Plan) -> Vec<(String, String, u32, u32)> {
    let mut kinds = Vec::new();
    for program in PREEMPT.programs(plan).unwrap() {
        let mut say = |line: &Progress| {
            if let Progress::End { configs, .. } = line {
                kinds.extend(configs.iter().map(kind));
            }
            Ok(())
        };
        let mut bench = open(&PREEMPT, "emulated", None, "lineinfo").unwrap();
        sanitize(&PREEMPT, &mut *bench, plan, &program.name, "n", &mut say).unwrap();
    }
    kinds
}

#[test]
fn a_run_resumes_at_the_first_incomplete_cell() {
    let run = Run::tiny();
    let first = &run.cells()[0];
    let (lines, stderr) = run.check(&["--stop-after-cell", &first.name], ExitCode::Measurement);
    assert!(!lines.iter().any(|line| matches!(line, Progress::End { .. })) && stderr.contains("resume"));
    run.check(&[], ExitCode::Done);
    let victim = run.cells()[3].clone();
    // Killed while it wrote the header, its last file.
    fs::rename(run.path(&victim, ".json"), run.path(&victim, ".json.partial")).unwrap();
    let (lines, _) = run.check(&[], ExitCode::Done);
    let again: Vec<&str> = lines
        .iter()
        .filter_map(|line| match line {
            Progress::CellEnd { cell, resumed: false, .. } => Some(cell.as_str()),
            _ => None,
        })
        .collect();
    assert_eq!(again, [victim.name.as_str()]);
    let expected = ["", ".clock", ".launches"].map(|kind| format!("1-instrument-{}{kind}.parquet", victim.name));
    let mut expected = expected.to_vec();
    expected.push(format!("1-instrument-{}.json.cut", victim.name));
    expected.sort();
    assert_eq!(run.abandoned(), expected);
}

#[test]
fn a_cell_whose_file_changed_is_measured_again_and_a_killed_one_is_counted() {
    let run = Run::tiny();
    run.check(&[], ExitCode::Done);
    let (changed, killed) = (&run.cells()[0], &run.cells()[1]);
    fs::write(run.path(changed, ".parquet"), "x").unwrap();
    for suffix in [".json", ".parquet", ".launches.parquet", ".clock.parquet"] {
        fs::remove_file(run.path(killed, suffix)).unwrap();
    }
    fs::write(run.path(killed, ".begun"), "seed\n").unwrap();
    run.check(&[], ExitCode::Done);
    let abandoned = run.abandoned();
    assert!(abandoned.contains(&format!("1-instrument-{}.json", changed.name)), "{abandoned:?}");
    assert!(abandoned.contains(&format!("2-instrument-{}.begun", killed.name)), "{abandoned:?}");
}

#[test]
fn cells_of_another_device_plan_or_format_are_refused_and_left_alone() {
    let check = |change: &dyn Fn(&mut CellRecord), why: &str| {
        let run = Run::tiny();
        let first = run.cells()[0].clone();
        run.check(&["--stop-after-cell", &first.name], ExitCode::Measurement);
        let mut header = run.header(&first);
        change(&mut header);
        let bytes = serde_json::to_vec(&header).unwrap();
        fs::write(run.path(&first, ".json"), &bytes).unwrap();
        let (_, stderr) = run.check(&[], ExitCode::Measurement);
        assert!(stderr.contains(why), "{stderr}");
        assert_eq!(fs::read(run.path(&first, ".json")).unwrap(), bytes);
    };
    check(&|header| header.device = "0123456789abcdef".to_owned(), "resuming on another GPU");
    check(&|header| header.device = "0123456789abcdef".to_owned(), "0123456789abcdef");
    check(&|header| header.plan = Digest::of("other"), "measured under plan");
    check(&|header| header.format = schema::FORMAT + 1, "use a newer Assay");
}

#[test]
fn impossible_plans_are_configuration_errors() {
    let check = |change: &dyn Fn(&mut Plan), why: &str| {
        let mut run = Run::tiny();
        change(&mut run.plan);
        let run = Run::of(run.plan);
        let (_, stderr) = run.check(&[], ExitCode::Config);
        assert!(stderr.contains(why), "{stderr}");
        assert!(!run.dir.path().join("run/cells").exists());
    };
    check(&|plan| set(plan, "calibrate.k", vec![24]), "24 is not a multiple of 16");
    check(&|plan| set(plan, "yield.events", 0), "yield.events is 0");
    check(
        &|plan| {
            plan.phases.push("yield".to_owned());
            plan.profile["yield"]["cells"][0]["blocks"] = 16.into();
        },
        "asks for 16 blocks; this device holds 4",
    );
}

#[test]
fn device_burn_and_sanitize_say_what_they_should() {
    let (lines, _) = finished(&harness(&["device", "--device", "emulated"]), ExitCode::Done);
    assert!(lines.len() == 1 && matches!(&lines[0], Progress::Device(_)));
    let run = Run::new(&[]);
    let plan = run.plan_path();
    let burn = ["burn", "--device", "emulated", "--plan", plan.to_str().unwrap(), "--seconds", "0.1"];
    let (lines, _) = finished(&harness(&burn), ExitCode::Done);
    assert!(matches!(lines.last(), Some(Progress::Burn { seconds, .. }) if *seconds >= 0.1));
    let listed = harness(&["sanitize", "--list", "--plan", plan.to_str().unwrap()]);
    assert!(
        String::from_utf8(listed.stdout).unwrap().lines().any(|line| line.split(' ').next() == Some("yield_p4_device"))
    );
    let args = ["sanitize", "--plan", plan.to_str().unwrap(), "--device", "emulated", "--nonce", "n9", "--program"];
    let (lines, _) = finished(&harness(&[&args[..], &["yield_p1_host"]].concat()), ExitCode::Done);
    assert!(matches!(lines.last(), Some(Progress::End { nonce, sites, .. }) if nonce == "n9" && sites["claim"] == 3));
    finished(&harness(&[&args[..], &["control_shared_race"]].concat()), ExitCode::Measurement);
    finished(&harness(&[&args[..], &["nonsense"]].concat()), ExitCode::Usage);
    finished(&harness(&["device", "--device", "gpu0"]), ExitCode::Usage);
    finished(&harness(&["fly"]), ExitCode::Usage);
}

#[test]
fn the_end_of_stdin_ends_a_held_run() {
    let run = Run::tiny();
    let plan = run.plan_path();
    let args = ["burn", "--device", "emulated", "--plan", plan.to_str().unwrap(), "--seconds", "60", "--hold"];
    let output = Command::cargo_bin("harness").unwrap().args(args).write_stdin("").output().unwrap();
    assert_eq!(output.status.code(), Some(ExitCode::Terminated.status()));
}

#[test]
fn signals_end_a_run_with_their_codes() {
    use rustix::process::{Pid, Signal, kill_process};
    let run = Run::tiny();
    for (signal, code) in [(Signal::TERM, ExitCode::Terminated), (Signal::INT, ExitCode::Interrupted)] {
        let mut child = std::process::Command::new(assert_cmd::cargo::cargo_bin("harness"))
            .args(["burn", "--device", "emulated", "--seconds", "60", "--plan"])
            .arg(run.plan_path())
            .stdout(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        // The first line says that the handlers are in place.
        let mut line = [0; 1];
        std::io::Read::read_exact(child.stdout.as_mut().unwrap(), &mut line).unwrap();
        kill_process(Pid::from_child(&child), signal).unwrap();
        assert_eq!(child.wait().unwrap().code(), Some(code.status()));
    }
}

#[test]
fn a_run_directory_that_cannot_be_made_is_named() {
    let run = Run::tiny();
    fs::write(run.dir.path().join("run"), "a file").unwrap();
    let (_, stderr) = run.check(&[], ExitCode::Measurement);
    assert!(stderr.contains("run/cells"), "{stderr}");
}
