//! Clocks against a fake NVML library and real holder processes: this test binary, started again as the root child.

mod fake_nvml;

use clap::Parser;
use fake_nvml::Fake;
use host::failure::{code_of, fail, remedy_of};
use host::gpu::lease::{Before, Lease, Process, Standing};
use host::gpu::nvml::{Gpu, GpuChoice, GpuError, Library, Violations, device_id};
use schema::ExitCode;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tables::Table;
use words::personal::{Names, impersonal};
use xtask::steps::clocks::holder::HoldCommand;
use xtask::steps::clocks::prove::Load;
use xtask::steps::clocks::telemetry::Sampler;
use xtask::steps::clocks::{self, ClockContext, ClockSession, Mode, facts, hold, with_clocks};

/// The name of the environment variable that turns this test binary into a clock holder.
const HOLD: &str = "ASSAY_TEST_HOLD";
/// The name of the one that says a test has a process to itself.
const ALONE: &str = "ASSAY_TEST_ALONE";

#[derive(Parser)]
struct HoldWords {
    #[command(flatten)]
    args: hold::HoldArgs,
}

/// The holder process of the other tests; in a run of its own it has nothing to do.
#[test]
fn hold_child() {
    let Ok(words) = std::env::var(HOLD) else { return };
    // Libtest has begun a line with this test's name.
    println!();
    let words = HoldWords::parse_from(std::iter::once("hold").chain(words.split(' ')));
    let status = match hold::hold(&words.args) {
        Ok(()) => 0,
        Err(error) => {
            eprintln!("{error:#}");
            code_of(&error).status()
        }
    };
    std::process::exit(status);
}

/// A load that sees what NVML says, times a factor.
struct FakeLoad {
    gpu: Arc<dyn Gpu>,
    factor: f64,
}

impl Load for FakeLoad {
    fn burn(&self, _seconds: f64, on_window: &mut dyn FnMut(f64)) -> anyhow::Result<()> {
        for _ in 0..9 {
            on_window(self.gpu.sm_mhz().map_or(0.0, f64::from) * self.factor);
        }
        Ok(())
    }
}

fn script(dir: &Path, name: &str, body: &str) -> PathBuf {
    let (text, path) = (dir.join(format!("{name}.text")), dir.join(name));
    std::fs::write(&text, format!("#!/bin/sh\n{body}\n")).unwrap();
    // By another process: a file that this one wrote cannot be executed while a child of another thread still holds it open.
    let copied = std::process::Command::new("install").args(["-m", "755"]).args([&text, &path]).status();
    assert!(copied.unwrap().success());
    path
}

fn hold_command(fake: &Fake) -> HoldCommand {
    let exe = std::env::current_exe().unwrap();
    let body = format!("exec env {HOLD}=\"$*\" {} --exact hold_child --nocapture --test-threads 1", exe.display());
    command_of(fake, &script(fake.dir.path(), "holder", &body))
}

fn command_of(fake: &Fake, program: &Path) -> HoldCommand {
    let words = vec![program.display().to_string()];
    HoldCommand { words, library: Some(fake.library.clone()), lease: fake.lease() }
}

fn run<T>(
    fake: &Fake,
    mode: Mode,
    body: impl FnOnce(&ClockSession) -> anyhow::Result<T>,
) -> anyhow::Result<(T, schema::environment::ClockRecord)> {
    let load = FakeLoad { gpu: fake.gpu(), factor: 1.0 };
    with_clocks(&ClockContext { gpu: fake.gpu(), load: &load, hold: hold_command(fake) }, mode, body)
}

fn lock(mhz: u32) -> Mode {
    Mode::Lock { mhz: Some(mhz) }
}

fn assert_restored(fake: &Fake) {
    assert_eq!(fake.locked(), "");
    assert!(!fake.lease().exists(), "the lease is left behind");
}

fn stale_lease(fake: &Fake) -> Lease {
    let gone = Process { start_ticks: 1, ..Process::this().unwrap() };
    let before = Before { sm_mhz: None, memory_mhz: None, throttle: None };
    Lease { format: schema::FORMAT, gpu: fake.open().uuid().to_owned(), holder: gone, before }
}

#[test]
fn observe_calls_no_setter_even_beside_a_stale_lease() {
    let fake = Fake::new("");
    fake.leave_locked();
    stale_lease(&fake).create(&fake.lease()).unwrap();
    let (value, record) = run(&fake, Mode::Observe, |session| {
        assert!(session.locked.is_none());
        let sampler = Sampler::start(Arc::clone(&session.gpu), Instant::now());
        facts::before(&*session.gpu, &[]).unwrap();
        facts::status(&*session.gpu, &fake.lease())?;
        assert!(sampler.finish().table.rows() > 0);
        Ok(7)
    })
    .unwrap();
    assert_eq!((value, record.mode.as_str(), record.setter_calls, record.restored), (7, "observe", 0, None));
    assert_eq!(fake.setters(), Vec::<String>::new());
    assert!(fake.lease().exists());
}

#[test]
fn a_lock_is_proven_and_put_back() {
    let fake = Fake::new("");
    let (locked, record) = run(&fake, lock(1500), |session| {
        assert_eq!(session.gpu.setter_calls(), 0, "the parent sets nothing");
        assert!(fake.lease().exists());
        Ok((fake.locked(), session.locked.clone().unwrap()))
    })
    .unwrap();
    assert_eq!(locked.0, "sm 1500, memory 2619");
    assert_eq!((locked.1.mhz, locked.1.read_back_mhz, locked.1.memory), (1500, 1500, true));
    assert_eq!((record.asked_mhz, record.read_back_mhz, record.memory_locked), (Some(1500), Some(1500), Some(true)));
    assert_eq!((record.restored, record.setter_calls), (Some(true), 4));
    assert_eq!(fake.setters(), ["lock_sm 1500", "lock_memory 2619", "reset_sm 0", "reset_memory 0"]);
    assert_restored(&fake);
}

#[test]
fn a_failing_body_restores_and_keeps_its_exit_code() {
    let fake = Fake::new("");
    let error = run(&fake, lock(1500), |_| Err::<(), _>(fail(ExitCode::Oracle, "wrong sum", ""))).unwrap_err();
    assert_eq!(code_of(&error), ExitCode::Oracle);
    assert_restored(&fake);
}

#[test]
fn a_panicking_body_restores() {
    let fake = Fake::new("");
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let _ = run(&fake, lock(1500), |_| -> anyhow::Result<()> { panic!("a bug in the body") });
    }));
    assert!(panicked.is_err());
    assert_restored(&fake);
}

#[test]
fn the_body_s_and_the_restore_s_errors_are_both_kept() {
    let fake = Fake::new("");
    let error = run(&fake, lock(1500), |_| {
        fake.set("refuse_reset 999");
        Err::<(), _>(fail(ExitCode::Oracle, "wrong sum", ""))
    })
    .unwrap_err();
    let text = format!("{error:#}");
    assert!(text.contains("wrong sum") && text.contains("could not be restored"), "{text}");
    assert_eq!(code_of(&error), ExitCode::Oracle);
    assert!(fake.lease().exists(), "what is still locked keeps its lease");
    fake.set("");
    clocks::repair(&hold_command(&fake)).unwrap();
    assert_restored(&fake);
}

#[test]
fn a_restore_that_fails_after_a_good_body_is_an_error() {
    let fake = Fake::new("");
    let outcome = run(&fake, lock(1500), |_| {
        fake.set("refuse_reset 15");
        Ok(())
    });
    let error = outcome.unwrap_err();
    assert_eq!(code_of(&error), ExitCode::Environment);
    assert_eq!(remedy_of(&error), Some("cargo xtask clocks restore"));
}

#[test]
fn what_a_killed_holder_left_is_repaired_at_the_next_start() {
    let fake = Fake::new("");
    fake.leave_locked();
    stale_lease(&fake).create(&fake.lease()).unwrap();
    assert_eq!(clocks::repair(&hold_command(&fake)).unwrap(), Some(2));
    assert_eq!(fake.setters(), ["reset_sm 0", "reset_memory 0"]);
    assert_restored(&fake);
    assert_eq!(clocks::repair(&hold_command(&fake)).unwrap(), None);
}

#[test]
fn a_lock_repairs_first_and_says_so() {
    let fake = Fake::new("");
    fake.leave_locked();
    stale_lease(&fake).create(&fake.lease()).unwrap();
    let (_, record) = run(&fake, lock(1500), |_| Ok(())).unwrap();
    assert!(record.notes.iter().any(|note| note.contains("killed process")), "{record:?}");
    assert_eq!(record.setter_calls, 6);
    assert_restored(&fake);
}

#[test]
fn a_living_holder_is_left_alone() {
    let fake = Fake::new("");
    fake.leave_locked();
    Lease { holder: Process::this().unwrap(), ..stale_lease(&fake) }.create(&fake.lease()).unwrap();
    for outcome in [
        clocks::repair(&hold_command(&fake)).map(|_| ()),
        run(&fake, lock(1500), |_| Ok(())).map(|_| ()),
        xtask::steps::clocks::holder::restore_by_child(&hold_command(&fake), fake.open().uuid()).map(|_| ()),
    ] {
        let error = outcome.unwrap_err();
        assert_eq!(code_of(&error), ExitCode::Environment);
        assert!(remedy_of(&error).unwrap().contains(&std::process::id().to_string()), "{error:#}");
    }
    assert_eq!(fake.setters(), Vec::<String>::new());
    assert!(fake.lease().exists());
}

#[test]
fn a_holder_killed_meanwhile_is_made_good() {
    let fake = Fake::new("");
    let (_, record) = run(&fake, lock(1500), |_| {
        let holder = Lease::read(&fake.lease())?.unwrap().holder;
        signal(holder.pid, rustix::process::Signal::KILL);
        while Lease::read(&fake.lease())?.unwrap().standing()? == Standing::Held {
            std::thread::sleep(Duration::from_millis(2));
        }
        assert_eq!(fake.locked(), "sm 1500, memory 2619");
        Ok(())
    })
    .unwrap();
    assert!(record.notes.iter().any(|note| note.contains("another child")), "{record:?}");
    assert_restored(&fake);
}

#[test]
fn a_holder_restores_at_the_end_of_its_stdin_and_on_signals() {
    use rustix::process::Signal;
    for end in [None, Some(Signal::TERM), Some(Signal::INT), Some(Signal::HUP)] {
        let fake = Fake::new("");
        let command = hold_command(&fake);
        let mut child = std::process::Command::new(&command.words[0])
            .args(["--gpu", fake.open().uuid(), "--mhz", "1200", "--lease"])
            .args([&fake.lease(), Path::new("--library"), &fake.library])
            .stdin(std::process::Stdio::piped())
            .stdout(std::process::Stdio::null())
            .spawn()
            .unwrap();
        wait_until(|| fake.locked() == "sm 1200, memory 2619");
        match end {
            // A killed parent is just this: its end of the pipe closes.
            None => drop(child.stdin.take()),
            Some(number) => signal(child.id(), number),
        }
        wait_until(|| !fake.lease().exists());
        drop(child.stdin.take());
        assert!(child.wait().unwrap().success(), "{end:?}");
        assert_restored(&fake);
    }
}

#[test]
fn restore_all_lets_go_of_everything() {
    // It acts on the whole process, so it gets one of its own.
    if std::env::var_os(ALONE).is_none() {
        let exe = std::env::current_exe().unwrap();
        let mut alone = std::process::Command::new(exe);
        alone.args(["--exact", "restore_all_lets_go_of_everything"]).env(ALONE, "1");
        assert!(alone.output().unwrap().status.success());
        return;
    }
    let fake = Fake::new("");
    let (problems, _) = run(&fake, lock(1500), |_| Ok(clocks::restore_all().len())).unwrap();
    assert_eq!(problems, 0);
    assert_restored(&fake);
}

#[test]
fn a_refused_lock_names_its_remedy_and_leaves_nothing() {
    for (code, words) in [(4, "owner keeps"), (3, "no clock lock"), (15, "doctor")] {
        let fake = Fake::new(&format!("refuse {code}"));
        let error = run(&fake, lock(1500), |_| -> anyhow::Result<()> { panic!("nothing may run") }).unwrap_err();
        assert_eq!(code_of(&error), ExitCode::Environment);
        assert!(remedy_of(&error).unwrap().contains(words), "{error:#}");
        assert_restored(&fake);
    }
}

#[test]
fn without_sudo_the_message_says_what_to_type() {
    let fake = Fake::new("");
    let sudo = script(fake.dir.path(), "sudo", "echo 'sudo: a password is required' >&2; exit 1");
    let silent = script(fake.dir.path(), "silent", "exit 0");
    let missing = fake.dir.path().join("no-such-program");
    for (program, message, remedy) in [
        (&sudo, "a password is required", "sudo -v"),
        (&silent, "it said nothing", "--clocks observe"),
        (&missing, "failed to start", "--clocks observe"),
    ] {
        let load = FakeLoad { gpu: fake.gpu(), factor: 1.0 };
        let context = ClockContext { gpu: fake.gpu(), load: &load, hold: command_of(&fake, program) };
        let error = with_clocks(&context, lock(1500), |_| Ok(())).unwrap_err();
        assert_eq!(code_of(&error), ExitCode::Environment);
        assert!(format!("{error:#}").contains(message), "{error:#}");
        assert!(remedy_of(&error).unwrap().contains(remedy), "{error:#}");
    }
}

#[test]
fn a_lock_that_lies_is_found_by_nvml_and_by_the_gpu_itself() {
    let fake = Fake::new("lie 1200\nsm_min 1400");
    let error = run(&fake, lock(1500), |_| Ok(())).unwrap_err();
    assert_eq!(code_of(&error), ExitCode::Measurement);
    assert!(format!("{error:#}").contains("reads back 1200"), "{error:#}");
    assert_restored(&fake);

    let fake = Fake::new("sm_min 1400");
    let load = FakeLoad { gpu: fake.gpu(), factor: 0.95 };
    let context = ClockContext { gpu: fake.gpu(), load: &load, hold: hold_command(&fake) };
    let error = with_clocks(&context, lock(1500), |_| Ok(())).unwrap_err();
    assert_eq!(code_of(&error), ExitCode::Measurement);
    assert!(format!("{error:#}").contains("counts 1425"), "{error:#}");
    assert_restored(&fake);
}

#[test]
fn a_sagging_clock_is_searched_for_or_refused_with_the_highest_that_held() {
    let fake = Fake::new("sag 1610");
    let (mhz, record) =
        run(&fake, Mode::Lock { mhz: None }, |session| Ok(session.locked.clone().unwrap().mhz)).unwrap();
    assert_eq!((mhz, record.asked_mhz, record.read_back_mhz), (1605, Some(1605), Some(1605)));
    assert_restored(&fake);

    let error = run(&fake, lock(1800), |_| Ok(())).unwrap_err();
    assert_eq!(code_of(&error), ExitCode::Measurement);
    assert!(remedy_of(&error).unwrap().contains("1605 MHz"), "{error:#}");
    assert_restored(&fake);
}

#[test]
fn throttling_and_growing_violation_counters_refuse() {
    for (state, needle) in [("throttle 32", "software thermal"), ("violation_step_ns 5000", "by power")] {
        let fake = Fake::new(&format!("{state}\nsm_min 1950"));
        let error = run(&fake, Mode::Lock { mhz: None }, |_| Ok(())).unwrap_err();
        assert_eq!(code_of(&error), ExitCode::Measurement);
        assert!(format!("{error:#}").contains(needle), "{error:#}");
        assert_restored(&fake);
    }
}

#[test]
fn without_persistence_the_lock_lasts_as_long_as_its_holder_lives() {
    let fake = Fake::new("persistence 0");
    let (locked, record) = run(&fake, lock(1500), |session| Ok(session.gpu.sm_mhz().unwrap())).unwrap();
    assert_eq!((locked, record.read_back_mhz), (1500, Some(1500)));
    assert!(record.notes.iter().any(|note| note.contains("persistence mode is off")), "{record:?}");
    assert_restored(&fake);
    // A lock set by a process that is gone is none: this is what the proof under load, and the holder, are for.
    let gone = std::process::Command::new("true").spawn().and_then(|mut child| child.wait().map(|_| child.id()));
    let left = format!("sm 1500\nby {}\n", gone.unwrap());
    std::fs::write(format!("{}.locked", fake.library.display()), left).unwrap();
    assert_eq!(fake.open().sm_mhz(), Ok(1980));
}

#[test]
fn a_reset_that_resets_nothing_is_noted() {
    let fake = Fake::new("lie_reset 1");
    let (_, record) = run(&fake, lock(1500), |_| Ok(())).unwrap();
    assert!(record.notes.iter().any(|note| note.contains("still reports the locked clock")), "{record:?}");
}

#[test]
fn a_lock_that_we_may_not_set_or_that_is_none_is_refused_for_every_code_and_never_replaced_by_another_kind() {
    let codes = [(3, "no clock lock"), (4, "owner keeps"), (17, "owner keeps"), (26, "no clock lock"), (999, "doctor")];
    for (code, words) in codes {
        let fake = Fake::new(&format!("refuse {code}"));
        let error = run(&fake, lock(1500), |_| -> anyhow::Result<()> { panic!("nothing may run") }).unwrap_err();
        assert_eq!(code_of(&error), ExitCode::Environment);
        let remedy = remedy_of(&error).unwrap();
        assert!(remedy.contains(words) && !remedy.contains("privileged"), "{code}: {remedy}");
        assert!(!fake.setters().iter().any(|call| call.starts_with("application_clocks")), "{:?}", fake.setters());
        assert_restored(&fake);
    }
}

#[test]
fn an_unknown_clock_is_a_usage_error_with_its_neighbours() {
    let fake = Fake::new("");
    let error = run(&fake, lock(1501), |_| Ok(())).unwrap_err();
    assert_eq!(code_of(&error), ExitCode::Usage);
    assert_eq!(remedy_of(&error), Some("ask for 1500 or 1515 MHz"));
    assert_eq!(fake.setters(), Vec::<String>::new());
}

#[test]
fn an_unsupported_memory_lock_is_noted() {
    let fake = Fake::new("refuse_memory 3");
    let (_, record) = run(&fake, lock(1500), |_| Ok(())).unwrap();
    assert_eq!((record.memory_locked, record.restored), (Some(false), Some(true)));
    assert!(record.notes[0].contains("memory clock not locked: not supported"), "{record:?}");
    assert_eq!(fake.setters(), ["lock_sm 1500", "lock_memory 2619", "reset_sm 0"]);
}

#[test]
fn telemetry_marks_cells_and_notes_a_gpu_lost_meanwhile() {
    let fake = Fake::new("process 1");
    let gpu = fake.gpu();
    let sampler = Sampler::start(Arc::clone(&gpu), Instant::now());
    std::thread::sleep(Duration::from_millis(150));
    sampler.mark(3);
    std::thread::sleep(Duration::from_millis(250));
    fake.set("lost_after 0");
    std::thread::sleep(Duration::from_millis(250));
    let telemetry = sampler.finish();
    let table: &Table = &telemetry.table;
    let names: Vec<&str> = table.columns.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, schema::environment::TELEMETRY);
    let cells = table.u32("cell").unwrap();
    assert!(cells[0] == 0 && cells.contains(&3));
    let clocks = table.opt_u32("sm_mhz").unwrap();
    assert_eq!((clocks[0], clocks[clocks.len() - 1]), (Some(1980), None));
    assert_eq!(table.opt_i64("throttle").unwrap().last().unwrap(), &None);
    assert!(telemetry.notes.iter().any(|note| note.contains("SM clock: the GPU is lost")), "{:?}", telemetry.notes);
}

#[test]
fn a_value_an_error_unsupported_and_zero_are_four_answers() {
    let fake = Fake::new("unsupported ecc\nunsupported violations\nempty 1");
    let gpu = fake.open();
    assert_eq!(gpu.sm_mhz(), Ok(1980));
    assert_eq!(gpu.ecc(), Err(GpuError::Unsupported));
    assert_eq!(gpu.violations(), Err(GpuError::Unsupported));
    assert!(matches!(gpu.name(), Err(GpuError::Other(_))));
    assert_eq!(gpu.compute_processes(), Ok(vec![]));
    fake.set("");
    assert_eq!(gpu.ecc_uncorrected(), Ok(0));
    assert_eq!(gpu.violations(), Ok(Violations { power_ns: 1000, thermal_ns: 0 }));
    fake.set("lost_after 0");
    assert_eq!(gpu.ecc(), Err(GpuError::Lost));
    assert_eq!(gpu.setter_calls(), 0);
}

#[test]
fn facts_hold_what_was_read_and_nothing_else() {
    let fake = Fake::new("process 11\nprocess 12\nunsupported mig");
    let gpu = fake.open();
    let mut facts = facts::before(&gpu, &[12]).unwrap();
    assert_eq!(facts.library, Some(schema::Digest::of_file(&fake.library).unwrap()));
    assert_eq!(
        (facts.driver.as_str(), facts.ecc, facts.mig, facts.remap_problem),
        ("580.95.05", Some(true), None, Some(false))
    );
    assert_eq!((facts.power_cap_mw, facts.other_processes_before), (Some(700_000), Some(1)));
    fake.set("ecc_errors 2\nremap_pending 1");
    facts::after(&mut facts, &gpu, &[12], true);
    assert_eq!((facts.ecc_uncorrected, facts.remap_problem), (Some(2), Some(true)));
    assert_eq!((facts.other_processes_before, facts.other_processes_after), (Some(1), Some(0)));
    // A list that never showed our own process cannot show others either.
    facts::after(&mut facts, &gpu, &[12], false);
    assert_eq!((facts.other_processes_before, facts.other_processes_after), (None, None));
}

#[test]
fn what_nvml_says_of_a_gpu_holds_neither_its_uuid_nor_its_serial() {
    let fake = Fake::new("");
    let gpu = fake.open();
    let uuid = gpu.uuid().to_owned();
    let mut found = facts::before(&gpu, &[]).unwrap();
    facts::after(&mut found, &gpu, &[], true);
    let status = facts::status(&gpu, &fake.lease()).unwrap();
    let text = serde_json::to_string(&found).unwrap() + &serde_json::to_string(&status).unwrap();
    let planted = &uuid["GPU-".len()..][..8];
    assert!(!text.contains(planted), "{text}");
    // Its id is a digest, and text that quotes the UUID goes without it.
    assert!(status.device.len() == 16 && !status.device.contains(planted));
    let quoted = impersonal(&format!("{uuid} fell off the bus"), &Names::default());
    assert_eq!(quoted, "<gpu> fell off the bus");
}

#[test]
fn a_gpu_is_found_by_uuid_hash_or_index_and_nothing_else() {
    let fake = Fake::new("");
    let library = Library::open(Some(&fake.library)).unwrap();
    let uuid = fake.open().uuid().to_owned();
    for choice in [GpuChoice::Uuid(uuid.clone()), GpuChoice::DeviceId(device_id(&uuid)), GpuChoice::Index(0)] {
        assert_eq!(library.gpu(&choice).unwrap().uuid(), uuid);
    }
    assert!(matches!(library.gpu(&GpuChoice::Index(1)), Err(GpuError::NotFound(_))));
    assert!(matches!(library.gpu(&GpuChoice::Uuid("GPU-0".to_owned())), Err(GpuError::NotFound(_))));
}

#[test]
fn no_library_and_no_driver_are_said_as_such() {
    let nowhere = Library::open(Some(Path::new("/nonexistent/libnvidia-ml.so.1"))).err();
    assert!(matches!(nowhere, Some(GpuError::NotFound(_))), "{nowhere:?}");
    let fake = Fake::new("init 9");
    assert!(matches!(Library::open(Some(&fake.library)).err(), Some(GpuError::NotFound(_))));
}

#[test]
fn status_and_restore_work_without_a_lease() {
    let fake = Fake::new("");
    fake.leave_locked();
    let load = FakeLoad { gpu: fake.gpu(), factor: 1.0 };
    let context = ClockContext { gpu: fake.gpu(), load: &load, hold: hold_command(&fake) };
    let status = facts::status(&*context.gpu, &fake.lease()).unwrap();
    assert_eq!(status.sm_mhz, facts::Reading::Value(1500));
    assert!(status.lease.is_none());
    assert_eq!(clocks::restore(&context).unwrap().setter_calls, 2);
    assert_restored(&fake);
}

#[test]
fn the_real_library_is_read_where_there_is_one() {
    let gpu = match Library::open(None).and_then(|library| library.gpu(&GpuChoice::Index(0))) {
        Ok(gpu) => Arc::new(gpu),
        Err(error) => return eprintln!("skipped: no GPU to read: {error}"),
    };
    assert!(gpu.library().is_some(), "the loaded library's file is found");
    let facts = facts::before(&*gpu, &[]).unwrap();
    let sampler = Sampler::start(Arc::<host::gpu::nvml::NvmlGpu>::clone(&gpu), Instant::now());
    sampler.mark(1);
    std::thread::sleep(Duration::from_millis(550));
    let telemetry = sampler.finish();
    eprintln!("{facts:?}\n{telemetry:?}\n{:?}", facts::status(&*gpu, Path::new("no-lease")).unwrap());
    assert!(telemetry.table.rows() >= 3);
    assert_eq!(gpu.setter_calls(), 0);
}

fn signal(pid: u32, signal: rustix::process::Signal) {
    let pid = rustix::process::Pid::from_raw(pid.cast_signed()).unwrap();
    rustix::process::kill_process(pid, signal).unwrap();
}

fn wait_until(holds: impl Fn() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(20);
    while !holds() {
        assert!(Instant::now() < deadline, "waited in vain");
        std::thread::sleep(Duration::from_millis(2));
    }
}
