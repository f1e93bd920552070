//! Tests of the run step against a stand-in harness.

use super::*;
use host::failure::{code_of, remedy_of};
use preempt::plan::Phase;
use pure::trial::synthetic;
use schema::build::Cubin;
use schema::cell::{CellFile, Facts, LaunchConfig};
use schema::contract::CellSpec;
use schema::plan::{ProfileName, Slots};
use schema::progress::{Progress, Sites};
use std::sync::Mutex;

/// Two calibrate cells, a yield cell and its cost.
fn contract() -> Contract {
    let mut plan = synthetic::plan(ProfileName::Smoke, 20);
    plan.phases = vec![Phase::Calibrate, Phase::Yield];
    plan.profile.calibrate.k = vec![64];
    plan.profile.yields.cells.truncate(1);
    synthetic::contract(&plan)
}

fn device() -> DeviceFacts {
    DeviceFacts {
        id: "0123456789abcdef".into(),
        name: "NVIDIA H200".into(),
        slug: "h200".into(),
        compute_capability: "9.0".into(),
        arch: "sm_90".into(),
        slots: Slots::of_sms(4).with("calibrate_per_sm", 2).with("drain_per_sm", 2).with("yield_per_sm", 2),
        max_threads_per_sm: 2048,
        fp32_lanes_per_sm: 128,
        memory_bytes: 1,
        l2_bytes: 1,
        driver_cuda: 13000,
        kernel_timeout: false,
        mig: Some(false),
        libcuda: Some(Digest::of("libcuda")),
        pci: Some("0000:3B:00.0".to_owned()),
    }
}

fn end_line(nonce: &str) -> Progress {
    Progress::End {
        nonce: nonce.into(),
        launches: 7,
        sites: Sites::default(),
        cubins: vec![("yield".into(), Digest::of("measure"))],
        configs: vec![],
        wrong: 0,
    }
}

fn config() -> LaunchConfig {
    LaunchConfig {
        symbol: "yield_kernel".into(),
        mode: "drain".into(),
        grid: 8,
        block: 64,
        shared_bytes: 0,
        cooperative: true,
        cubin: Some(Digest::of("measure")),
    }
}

/// A harness that writes every cell that is not there, and says so.
struct Fake {
    device: DeviceFacts,
    /// It ends with this code after so many cells.
    stops: Option<(usize, i32)>,
    /// The last word on stdout, given the nonce.
    end: fn(&str) -> Option<Progress>,
    timed_out: bool,
    /// What a kernel prints in between.
    prints: &'static str,
    tasks: Mutex<Vec<Task>>,
}

impl Fake {
    fn new() -> Self {
        let end: fn(&str) -> Option<Progress> = |nonce| Some(end_line(nonce));
        Self { device: device(), stops: None, end, timed_out: false, prints: "", tasks: Mutex::default() }
    }
}

impl Runtime for Fake {
    fn name(&self) -> &'static str {
        "fake"
    }

    fn run(&self, task: &Task, on_line: &mut dyn FnMut(&str)) -> Result<Ended> {
        self.tasks.lock().unwrap().push(task.clone());
        let nonce = &task.args[task.args.iter().position(|arg| arg == "--nonce").unwrap() + 1];
        let mut stdout = String::new();
        let mut say = |progress: Progress| {
            let line = serde_json::to_string(&progress).unwrap();
            on_line(&line);
            stdout += &(line + "\n");
        };
        say(Progress::Device(self.device.clone()));
        let cells = contract().cells;
        let total = u32::try_from(cells.len()).unwrap();
        let most = self.stops.map_or(cells.len(), |(cells, _)| cells);
        for (index, cell) in (1..).zip(&cells).take(most) {
            let (phase, name) = (cell.phase.clone(), cell.name.clone());
            say(Progress::CellBegin { phase, cell: name, index, total, events: 1, estimate_s: 0.1 });
            say(Progress::Events { done: 1 });
            let resumed = !write_cell(&task.writable, cell, &self.device.id);
            let (phase, cell) = (cell.phase.clone(), cell.name.clone());
            say(Progress::CellEnd { phase, cell, seconds: 0.1, resumed });
        }
        let end = (self.end)(nonce);
        for line in self.prints.lines() {
            on_line(line);
        }
        let mut say = |progress: Progress| {
            let line = serde_json::to_string(&progress).unwrap();
            on_line(&line);
            stdout += &(line + "\n");
        };
        if let Some(end) = end {
            say(end);
        }
        let code = (!self.timed_out).then_some(self.stops.map_or(0, |(_, code)| code));
        Ok(Ended { code, timed_out: self.timed_out, stdout, stderr: "first\nlast word\n".into() })
    }
}

/// Writes a cell unless it is there.
fn write_cell(run_dir: &Path, cell: &CellSpec, device: &str) -> bool {
    let at = |suffix: &str| run_dir.join("cells").join(&cell.phase).join(format!("{}{suffix}", cell.name));
    if at(".json").exists() {
        return false;
    }
    std::fs::create_dir_all(at("").parent().unwrap()).unwrap();
    std::fs::write(at(".parquet"), "rows").unwrap();
    let record = CellRecord {
        format: 1,
        experiment: "preempt".into(),
        phase: cell.phase.clone(),
        cell: cell.name.clone(),
        plan: Digest::of("plan"),
        device: device.to_owned(),
        configs: vec![config()],
        seed: "0".into(),
        warmup_launches: 0,
        events: 1,
        files: vec![CellFile { suffix: ".parquet".into(), sha256: Digest::of("rows"), bytes: 4 }],
        facts: Facts::default(),
    };
    std::fs::write(at(".json"), serde_json::to_string(&record).unwrap()).unwrap();
    true
}

struct Place {
    dir: tempfile::TempDir,
    program: Program,
}

impl Place {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("plan.toml"), "plan").unwrap();
        let cubin = Cubin {
            file: "preempt/yield".into(),
            arch: "sm_90".into(),
            flavor: "measure".into(),
            path: "yield.cubin".into(),
            sha256: Digest::of("measure"),
            foreign_paths: 0,
        };
        let program = Program {
            harness: "/build/bin/harness".into(),
            harness_digest: Digest::of("harness"),
            cubins: "/build".into(),
            plan: dir.path().join("plan.toml"),
            kernels: vec![],
            built: vec![cubin],
            arch: "sm_90".into(),
            device: "GPU-1".into(),
        };
        Self { dir, program }
    }

    fn run(&self, fake: &Fake, telemetry: &mut dyn Telemetry) -> Result<Measured> {
        let (ui, contract) = (Ui::new(true), contract());
        let deadline = Duration::from_secs(60);
        let ctx = RunContext { ui: &ui, run_dir: self.dir.path(), contract: &contract, deadline };
        run(&ctx, fake, &self.program, telemetry)
    }

    fn refused(&self, fake: &Fake, code: ExitCode, said: &str) {
        let error = self.run(fake, &mut |_| {}).unwrap_err();
        assert_eq!(code_of(&error), code, "{error:#}");
        assert!(error.to_string().contains(said), "{error:#} does not say {said:?}");
    }
}

#[test]
fn a_complete_run_is_accepted_and_loads_again() {
    let (place, fake) = (Place::new(), Fake::new());
    let mut marks = Vec::new();
    let measured = place.run(&fake, &mut |cell| marks.push(cell)).unwrap();
    assert_eq!((measured.cells.len(), measured.launches, measured.resumed), (4, 7, 0));
    assert_eq!(marks, [1, 0, 2, 0, 3, 0, 4, 0, 0]);
    let task = &fake.tasks.lock().unwrap()[0];
    assert!(task.hold_stdin && task.gpu && task.writable == place.dir.path());
    let loaded = Measured::load(place.dir.path(), &contract(), device()).unwrap();
    assert_eq!((loaded.cells, loaded.resumed), (measured.cells, 4));
}

#[test]
fn a_second_call_goes_on_at_the_first_incomplete_cell() {
    let (place, mut fake) = (Place::new(), Fake::new());
    fake.stops = Some((2, 143));
    place.refused(&fake, ExitCode::Terminated, "exit code 143 after calibrate k=64,blocks=8: last word");
    fake.stops = None;
    assert_eq!(place.run(&fake, &mut |_| {}).unwrap().resumed, 2);
}

#[test]
fn the_harness_s_documented_exit_codes_are_passed_on() {
    for (status, code) in [
        (14, ExitCode::Oracle),
        (17, ExitCode::Measurement),
        (11, ExitCode::Environment),
        (2, ExitCode::Bug),
        (101, ExitCode::Measurement),
        (86, ExitCode::Measurement),
    ] {
        let (place, mut fake) = (Place::new(), Fake::new());
        fake.stops = Some((4, status));
        place.refused(&fake, code, "last word");
    }
}

/// A GPU that is lost in the middle of a run ends it: nothing is accepted, and nothing is tried again behind the caller's back.
#[test]
fn a_plan_that_the_harness_refuses_is_named_by_its_file() {
    let (place, mut fake) = (Place::new(), Fake::new());
    for (status, file) in [(ExitCode::Config, true), (ExitCode::Measurement, false)] {
        fake.stops = Some((0, status.status()));
        let error = place.run(&fake, &mut |_| {}).unwrap_err();
        let remedy = remedy_of(&error).unwrap();
        assert_eq!(remedy.contains("harness/experiments/preempt/plan.toml"), file, "{remedy}");
    }
}

#[test]
fn a_gpu_lost_after_some_cells_fails_the_run_in_its_one_container() {
    for done in 0..4 {
        let (place, mut fake) = (Place::new(), Fake::new());
        fake.stops = Some((done, ExitCode::Measurement.status()));
        place.refused(&fake, ExitCode::Measurement, "last word");
        assert_eq!(fake.tasks.lock().unwrap().len(), 1);
        let loaded = Measured::load(place.dir.path(), &contract(), device());
        assert_eq!(code_of(&loaded.unwrap_err()), ExitCode::Measurement, "{done} cells are no run");
    }
}

#[test]
fn without_its_own_end_marker_nothing_is_accepted() {
    let (place, mut fake) = (Place::new(), Fake::new());
    fake.end = |_| None;
    place.refused(&fake, ExitCode::Measurement, "no end marker");
    fake.end = |_| Some(end_line("other"));
    place.refused(&fake, ExitCode::Measurement, "another nonce");
    fake.end = |nonce| match end_line(nonce) {
        Progress::End { nonce, launches, sites, cubins, configs, .. } => {
            Some(Progress::End { nonce, launches, sites, cubins, configs, wrong: 3 })
        }
        other => Some(other),
    };
    place.refused(&fake, ExitCode::Oracle, "3 outputs");
    fake.end = |nonce| Some(end_line(nonce));
    fake.timed_out = true;
    place.refused(&fake, ExitCode::Measurement, "killed");
}

#[test]
fn what_a_kernel_prints_is_refused_though_all_else_is_well() {
    let (place, mut fake) = (Place::new(), Fake::new());
    fake.prints = "Attempting to use wgmma.fence without CUTE_ARCH_MMA_SM90A_ENABLED\nand more\n";
    place.refused(&fake, ExitCode::Measurement, "printed beside the harness: Attempting to use wgmma.fence");
    fake.prints = "{\"kind\":\"no such kind\"}";
    place.refused(&fake, ExitCode::Measurement, "no such kind");
    fake.prints = "\n  \n";
    assert!(place.run(&fake, &mut |_| {}).is_ok());
}

#[test]
fn other_cubins_than_built_are_refused() {
    let (mut place, mut fake) = (Place::new(), Fake::new());
    place.program.built[0].sha256 = Digest::of("other");
    place.refused(&fake, ExitCode::Integrity, "cubin of yield");
    let place = Place::new();
    fake.end = |nonce| match end_line(nonce) {
        Progress::End { nonce, launches, sites, configs, wrong, .. } => {
            Some(Progress::End { nonce, launches, sites, cubins: vec![], configs, wrong })
        }
        other => Some(other),
    };
    place.refused(&fake, ExitCode::Measurement, "names no cubin");
}

#[test]
fn another_device_than_asked_for_is_refused() {
    let (mut place, mut fake) = (Place::new(), Fake::new());
    place.program.arch = "sm_80".into();
    place.refused(&fake, ExitCode::Measurement, "sm_90");
    fake.device.id = "emulated".into();
    let place = Place::new();
    place.refused(&fake, ExitCode::Measurement, "asked for device GPU-1");
}

#[test]
fn a_harness_that_opened_another_gpu_is_refused() {
    const UUID: &str = "GPU-fa4efa4e-0000-4000-8000-000000000001";
    let (mut place, mut fake) = (Place::new(), Fake::new());
    place.program.device = format!("cuda:{UUID}");
    place.refused(&fake, ExitCode::Measurement, "opened another GPU: 0123456789abcdef");
    fake.device.id = host::gpu::nvml::device_id(UUID);
    let said = place.run(&fake, &mut |_| {}).map_err(|error| error.to_string());
    assert!(!said.is_err_and(|said| said.contains("another GPU")), "its own GPU is not another");
}

#[test]
fn missing_and_changed_cells_are_refused() {
    let (place, fake) = (Place::new(), Fake::new());
    place.run(&fake, &mut |_| {}).unwrap();
    let load = || code_of(&Measured::load(place.dir.path(), &contract(), device()).unwrap_err());
    let cells = place.dir.path().join("cells/yield");
    let header = cells.join("cost,k=64,blocks=8,poll=1.json");
    let text = std::fs::read_to_string(&header).unwrap();
    std::fs::remove_file(&header).unwrap();
    assert_eq!(load(), ExitCode::Measurement);
    for (from, to) in [
        ("\"preempt\"", "\"attention\""),
        ("cost,", ""),
        (&Digest::of("plan").to_string(), &Digest::of("other").to_string()),
        ("0123456789abcdef", "fedcba9876543210"),
        (&Digest::of("rows").to_string(), &Digest::of("row").to_string()),
        ("\"bytes\":4", "\"bytes\":5"),
        ("\".parquet\"", "\"/../x.parquet\""),
        ("\"format\":1", "\"format\":2"),
        ("{", ""),
    ] {
        let edited = text.replace(from, to);
        assert_ne!(edited, text, "{from}");
        std::fs::write(&header, edited).unwrap();
        assert_eq!(load(), ExitCode::Integrity, "{from}");
    }
    std::fs::write(&header, &text).unwrap();
    assert!(Measured::load(place.dir.path(), &contract(), device()).is_ok());
    std::fs::write(cells.join("cost,k=64,blocks=8,poll=1.parquet"), "rowz").unwrap();
    assert_eq!(load(), ExitCode::Integrity);
}
