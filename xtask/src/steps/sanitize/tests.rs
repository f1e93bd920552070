//! Tests of the sanitize step against a stand-in compute-sanitizer.

use super::*;
use host::failure::{code_of, remedy_of};
use schema::cell::LaunchConfig;
use schema::progress::{Progress, Sites};
use std::collections::BTreeSet;
use std::sync::Mutex;

const SYMBOL: &str = "yield_kernel";
const VERSION: &str = "NVIDIA (R) Compute Sanitizer\nVersion 2026.4.0.0 (build 39022338) (public-release)\n";

/// How the pretended compute-sanitizer misbehaves.
#[derive(Clone, Copy, PartialEq)]
enum Trick {
    /// Catches controls, finds nothing else.
    None,
    /// Finds nothing at all, planted faults included.
    Blind,
    /// Finds something in every program.
    Finding,
    /// Never runs the harness, and still prints a clean summary.
    NeverRuns,
    /// Ends by its deadline without a summary.
    Hangs,
    /// The harness prints a clean summary, the tool none.
    Forged,
    /// A kernel prints beside the harness.
    Prints,
    /// Says where it ran: in the logs of controls, and on stderr of programs that hang.
    Tells,
}

/// What names a machine, a user and a GPU.
const TOLD: &str = " in /home/alice/assay/harness at 10.9.8.7 on GPU-fa4efa4e-0000-4000-8000-000000000001";

/// A runtime that pretends to be tool, harness and sha256sum.
struct Fake {
    trick: Mutex<Trick>,
    only: Option<Tool>,
    files: BTreeSet<PathBuf>,
    version: String,
    list: String,
    env: String,
    /// How long a program takes without a tool.
    plain: Duration,
    /// What a program ends with without a tool.
    plain_code: i32,
    tasks: Mutex<Vec<Task>>,
}

impl Fake {
    fn new(trick: Trick) -> Self {
        let files = ["compute-sanitizer", "TreeLauncherSubreaper", "libsanitizer-collection.so"];
        Self {
            trick: Mutex::new(trick),
            only: None,
            files: files.iter().map(|name| Path::new("/toolkit/compute-sanitizer").join(name)).collect(),
            version: VERSION.to_owned(),
            list: "yield_small\ndrain_small\ncontrol_shared_race\n".to_owned(),
            env: "PATH=/usr/bin\nNVCC_CCBIN=/usr/bin/g++\n".to_owned(),
            plain: Duration::ZERO,
            plain_code: 0,
            tasks: Mutex::default(),
        }
    }

    /// How often a program was started under the tool.
    fn runs(&self) -> usize {
        self.tasks.lock().unwrap().iter().filter(|task| task.args.contains(&"--tool".to_owned())).count()
    }

    fn hashed(&self, args: &[String]) -> Ended {
        let there = args.iter().filter(|arg| self.files.contains(Path::new(arg)));
        let lines: Vec<String> = there.map(|file| format!("{}  {file}\n", Digest::of(file))).collect();
        ended(i32::from(lines.len() != args.len() - 1), &lines.concat())
    }

    fn sanitized(&self, task: &Task) -> Ended {
        let after = |flag: &str| task.args[task.args.iter().position(|arg| arg == flag).unwrap() + 1].clone();
        let tool = Tool::ALL.into_iter().find(|tool| tool.name() == after("--tool")).unwrap();
        let log = PathBuf::from(after("--log-file").replace("%%", "%"));
        assert!(log.starts_with(&task.writable));
        let trick = if self.only.is_none_or(|only| only == tool) { *self.trick.lock().unwrap() } else { Trick::None };
        let data = |kind: &str| {
            let name = format!("captured-2025.3.1-{}-{kind}.log", tool.name());
            std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/sanitizer").join(name))
                .unwrap()
        };
        let control = after("--program") == tool.control();
        let end = end(&after("--nonce"));
        let (text, mut ended) = match trick {
            Trick::Tells if control => (data("control").replace(" in harness", TOLD), ended(FOUND, "")),
            Trick::Hangs | Trick::Tells => ("========= COMPUTE-SANITIZER\n".to_owned(), ended(0, "")),
            Trick::Forged if !control => (String::new(), ended(0, &(data("clean") + &end))),
            Trick::NeverRuns if !control => (data("clean"), ended(0, "")),
            Trick::Blind => (data("clean"), ended(0, &end)),
            Trick::Prints if !control => (data("clean"), ended(0, &format!("Attempting to use wgmma.fence\n{end}"))),
            Trick::Finding if !control => (data("control"), ended(FOUND, &end)),
            _ if control => (data("control"), ended(FOUND, "")),
            _ => (data("clean"), ended(0, &end)),
        };
        std::fs::write(log, text).unwrap();
        if trick == Trick::Hangs || trick == Trick::Tells && !control {
            (ended.code, ended.timed_out) = (None, true);
        }
        if trick == Trick::Tells {
            ended.stderr = TOLD.to_owned();
        }
        ended
    }
}

impl Runtime for Fake {
    fn name(&self) -> &'static str {
        "fake"
    }

    fn run(&self, task: &Task, _: &mut dyn FnMut(&str)) -> Result<Ended> {
        self.tasks.lock().unwrap().push(task.clone());
        Ok(match task.program.as_str() {
            "sha256sum" => self.hashed(&task.args),
            "env" => ended(0, &self.env),
            _ if task.args == ["--version"] => ended(0, &self.version),
            _ if task.args.contains(&"--list".to_owned()) => ended(0, &self.list),
            _ if task.label == "sanitize-plain" => {
                std::thread::sleep(self.plain);
                ended(self.plain_code, "")
            }
            _ => self.sanitized(task),
        })
    }
}

fn ended(code: i32, stdout: &str) -> Ended {
    Ended { code: Some(code), timed_out: false, stdout: stdout.to_owned(), stderr: "the harness said so\n".to_owned() }
}

fn end(nonce: &str) -> String {
    let config = LaunchConfig {
        symbol: SYMBOL.into(),
        mode: "event_device".into(),
        grid: 4,
        block: 64,
        shared_bytes: 0,
        cooperative: true,
        cubin: Some(Digest::of("lineinfo")),
    };
    let end = Progress::End {
        nonce: nonce.to_owned(),
        launches: 2,
        sites: Sites::from([("yield".to_owned(), 1), ("claim".to_owned(), 1), ("copy".to_owned(), 1)]),
        cubins: vec![("yield".into(), Digest::of("lineinfo"))],
        configs: vec![config],
        wrong: 0,
    };
    serde_json::to_string(&end).unwrap() + "\n"
}

/// A root with a built program, and a toolkit.
struct Place {
    dir: tempfile::TempDir,
    paths: Paths,
    toolkit: Toolkit,
    program: Program,
    ui: Ui,
}

impl Place {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let program = Program::made_up(dir.path(), SYMBOL);
        let toolkit = Toolkit {
            origin: "wheels".into(),
            root: "/toolkit".into(),
            nvcc: "/toolkit/bin/nvcc".into(),
            sanitizer: Some("/toolkit/bin/compute-sanitizer".into()),
            lock: Digest::of("lock"),
        };
        let paths = Paths::new(dir.path());
        Self { dir, paths, toolkit, program, ui: Ui::new(true) }
    }

    fn sanitize(&self, runtime: &Fake) -> Result<Sanitized> {
        self.sanitize_within(runtime, Bounds::STATED)
    }

    fn sanitize_within(&self, runtime: &dyn Runtime, bounds: Bounds) -> Result<Sanitized> {
        let ctx = Context { paths: &self.paths, toolkit: &self.toolkit, ui: &self.ui, bounds };
        sanitize(&ctx, runtime, &self.program)
    }
}

#[test]
fn nothing_that_names_the_machine_is_kept_and_what_is_kept_reads_as_it_was_judged() {
    let place = Place::new();
    let sanitized = place.sanitize(&Fake::new(Trick::Tells)).unwrap();
    let dir = sanitized.dir.as_ref().unwrap();
    let (mut controls, mut hanging) = (0, 0);
    for verdict in &sanitized.verdicts {
        let log = std::fs::read_to_string(dir.join(&verdict.log)).unwrap();
        assert_eq!(Digest::of(&log), verdict.log_digest);
        if verdict.control_caught == Some(true) {
            assert!(log.contains("in /home/<user>/assay/harness at <address> on <gpu>"), "{log}");
            controls += 1;
        } else {
            assert!(verdict.why.contains("<address>"), "{}", verdict.why);
            hanging += 1;
        }
        for file in [log, serde_json::to_string(verdict).unwrap()] {
            assert!(!["alice", "10.9.8.7", "fa4efa4e"].iter().any(|word| file.contains(word)), "{file}");
        }
    }
    assert_eq!(controls, Tool::ALL.len());
    assert!(hanging > 0);
}

/// Something else that goes in.
type Change = fn(&mut Place, &mut Fake);

fn message(sanitized: &Sanitized) -> String {
    let failure = sanitized.failure().expect("it is not clean");
    assert_eq!(failure.code, ExitCode::Sanitizer);
    failure.message
}

#[test]
fn a_clean_program_passes_once_and_is_then_remembered() {
    let (place, fake) = (Place::new(), Fake::new(Trick::None));
    let first = place.sanitize(&fake).unwrap();
    assert!(first.failure().is_none(), "{:?}", first.failure());
    assert_eq!((first.verdicts.len(), fake.runs(), first.cached), (12, 12, false));
    let again = place.sanitize(&fake).unwrap();
    assert_eq!((fake.runs(), again.cached, &again.verdicts), (12, true, &first.verdicts));
    assert_eq!(Sanitized::load(first.dir.as_ref().unwrap()).unwrap(), again);
    let json = first.json();
    assert_eq!(json["verdicts"][0]["tool"], "memcheck");
    assert_eq!(json["verdicts"][0]["control_caught"], true);
    assert_eq!(json["verdicts"][1]["state"], "clean");
}

#[test]
fn each_tool_runs_its_control_first_and_the_harness_prints_into_no_log() {
    let (place, fake) = (Place::new(), Fake::new(Trick::None));
    let done = place.sanitize(&fake).unwrap();
    let order: Vec<&str> = done.verdicts.iter().map(|verdict| verdict.program.as_str()).collect();
    let expected = Tool::ALL.map(|tool| [tool.control(), "yield_small", "drain_small"]).concat();
    assert_eq!(order, expected);
    for task in fake.tasks.lock().unwrap().iter().filter(|task| task.gpu && task.label != "sanitize-plain") {
        assert!(task.args.windows(2).any(|pair| pair == ["--error-exitcode", "86"]));
        assert!(task.hold_stdin && task.deadline == Bounds::STATED.least);
        assert_eq!(task.program, "/toolkit/compute-sanitizer/compute-sanitizer");
    }
}

#[test]
fn racecheck_reports_all_it_knows_at_the_level_of_warnings() {
    let (place, fake) = (Place::new(), Fake::new(Trick::None));
    place.sanitize(&fake).unwrap();
    for task in fake.tasks.lock().unwrap().iter().filter(|task| task.label == "sanitize-racecheck") {
        for pair in [["--racecheck-report", "all"], ["--racecheck-detect-level", "warn"]] {
            assert!(task.args.windows(2).any(|found| found == pair), "{:?}", task.args);
        }
        assert!(!task.args.iter().any(|arg| arg.contains("suppress") || arg.starts_with("--kernel-name")));
    }
}

#[test]
fn whatever_goes_in_changes_the_key() {
    let fake = Fake::new(Trick::None);
    let changes: [Change; 7] = [
        |place, _| place.program.kernels[0].sass_digest = Digest::of("other"),
        |place, _| place.program.built[1].sha256 = Digest::of("other"),
        |place, _| std::fs::write(&place.program.plan, "other").unwrap(),
        |place, _| place.program.device = "GPU-2".into(),
        |place, _| place.program.harness_digest = Digest::of("other"),
        |_, fake| fake.version = VERSION.replace("39022338", "39022339"),
        |_, fake| {
            fake.files =
                fake.files.iter().map(|file| Path::new("/toolkit/bin").join(file.file_name().unwrap())).collect();
        },
    ];
    let key = key_of(&Place::new(), &fake);
    for (i, change) in changes.into_iter().enumerate() {
        let (mut place, mut fake) = (Place::new(), Fake::new(Trick::None));
        change(&mut place, &mut fake);
        assert_ne!(key_of(&place, &fake), key, "change {i}");
    }
    assert_eq!(key_of(&Place::new(), &fake), key);
}

/// The folder that verdicts over this would be kept in.
fn key_of(place: &Place, fake: &Fake) -> String {
    let tool = tool::identify(&place.toolkit, fake, place.dir.path()).unwrap();
    let store = Store::at(place.dir.path(), &Inputs::of(&place.program, &tool).unwrap()).unwrap();
    store.dir.file_name().unwrap().to_str().unwrap().to_owned()
}

#[test]
fn a_blind_tool_is_refused_and_its_programs_are_not_run() {
    let (place, mut fake) = (Place::new(), Fake::new(Trick::Blind));
    fake.only = Some(Tool::Initcheck);
    let done = place.sanitize(&fake).unwrap();
    let message = message(&done);
    assert!(message.contains("initcheck control_uninitialised: missed"), "{message}");
    assert!(message.contains("initcheck: no program was run"), "{message}");
    assert_eq!(done.verdicts.len(), 10);
}

#[test]
fn findings_refuse_and_stay() {
    let (place, mut fake) = (Place::new(), Fake::new(Trick::Finding));
    fake.only = Some(Tool::Racecheck);
    let first = place.sanitize(&fake).unwrap();
    assert!(message(&first).contains("racecheck yield_small: finding: 125 findings"), "{}", message(&first));
    // A second try that would be clean does not wash it away.
    *fake.trick.lock().unwrap() = Trick::None;
    let runs = fake.runs();
    let again = place.sanitize(&fake).unwrap();
    assert_eq!((fake.runs(), message(&again)), (runs, message(&first)));
}

#[test]
fn what_did_not_really_happen_is_refused_and_tried_again() {
    for (trick, said) in [
        (Trick::NeverRuns, "no end marker"),
        (Trick::Hangs, "TIMEOUT"),
        (Trick::Forged, "the tool wrote no log"),
        (Trick::Prints, "stdout holds a line that the harness does not print: Attempting to use wgmma.fence"),
    ] {
        let (place, fake) = (Place::new(), Fake::new(trick));
        let first = place.sanitize(&fake).unwrap();
        assert!(message(&first).contains(said), "{}", message(&first));
        *fake.trick.lock().unwrap() = Trick::None;
        let again = place.sanitize(&fake).unwrap();
        assert!(again.failure().is_none() && !again.cached);
    }
}

#[test]
fn an_interrupted_call_goes_on_where_it_stopped() {
    let (place, fake) = (Place::new(), Fake::new(Trick::None));
    let dir = place.sanitize(&fake).unwrap().dir.unwrap();
    std::fs::remove_file(dir.join("done.json")).unwrap();
    std::fs::remove_file(dir.join("racecheck-yield_small.json")).unwrap();
    std::fs::write(dir.join("racecheck-yield_small.json.partial"), "{").unwrap();
    std::fs::write(dir.join("memcheck-drain_small.log"), "edited").unwrap();
    let again = place.sanitize(&fake).unwrap();
    assert!(again.failure().is_none());
    assert_eq!(fake.runs(), 12 + 2);
    assert!(Sanitized::load(&dir).is_ok());
}

#[test]
fn changed_added_and_removed_files_are_found() {
    let (place, fake) = (Place::new(), Fake::new(Trick::None));
    let done = place.sanitize(&fake).unwrap();
    let dir = done.dir.clone().unwrap();
    let names: Vec<PathBuf> = std::fs::read_dir(&dir).unwrap().map(|entry| entry.unwrap().path()).collect();
    for file in names.iter().filter(|file| !file.ends_with("done.json")) {
        let bytes = std::fs::read(file).unwrap();
        for change in [Some([bytes.as_slice(), b" "].concat()), None] {
            match change {
                Some(other) => std::fs::write(file, other).unwrap(),
                None => std::fs::remove_file(file).unwrap(),
            }
            assert_eq!(code_of(&place.sanitize(&fake).unwrap_err()), ExitCode::Integrity, "{}", file.display());
        }
        std::fs::write(file, bytes).unwrap();
    }
    std::fs::write(dir.join("more.json"), "{}").unwrap();
    assert_eq!(code_of(&Sanitized::load(&dir).unwrap_err()), ExitCode::Integrity);
}

#[test]
fn a_run_gets_its_own_copy() {
    let (place, fake) = (Place::new(), Fake::new(Trick::None));
    let done = place.sanitize(&fake).unwrap();
    let folder = place.dir.path().join("run/sanitize");
    done.copy_to(&folder).unwrap();
    assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 36);
    let log = done.dir.as_ref().unwrap().join("memcheck-drain_small.log");
    std::fs::write(log, "edited").unwrap();
    assert_eq!(code_of(&done.copy_to(&folder).unwrap_err()), ExitCode::Integrity);
}

#[test]
fn the_emulated_device_has_nothing_to_sanitize() {
    let (mut place, fake) = (Place::new(), Fake::new(Trick::None));
    place.program.device = "emulated".into();
    let none = place.sanitize(&fake).unwrap();
    assert_eq!((none.verdicts.len(), fake.runs(), none.failure().is_none()), (0, 0, true));
    assert_eq!(none.not_applicable.as_deref(), Some("emulated"));
}

#[test]
fn a_tool_that_cannot_work_is_refused_with_what_to_do() {
    let changes: [(Change, &str); 4] = [
        (|place, _| place.toolkit.sanitizer = None, "has no compute-sanitizer"),
        (|_, fake| fake.files.retain(|file| !file.ends_with("TreeLauncherSubreaper")), "cannot start programs"),
        (|_, fake| fake.files.clear(), "not a whole compute-sanitizer"),
        (|_, fake| fake.version = "Version 2022.4.0.0 (build 1)\n".into(), "too old"),
    ];
    for (change, said) in changes {
        let (mut place, mut fake) = (Place::new(), Fake::new(Trick::None));
        change(&mut place, &mut fake);
        let error = place.sanitize(&fake).unwrap_err();
        assert_eq!(code_of(&error), ExitCode::Environment);
        assert!(error.to_string().contains(said), "{error}");
        assert!(remedy_of(&error).unwrap().contains("toolkit.lock"));
    }
}

#[test]
fn variables_that_switch_checks_off_are_refused_wherever_they_come_from() {
    for set in
        ["NV_COMPUTE_SANITIZER_BINARY_PATCHING=0", "NVCC_APPEND_FLAGS=-allow-unsupported-compiler", "LD_PRELOAD=/x"]
    {
        let (place, mut fake) = (Place::new(), Fake::new(Trick::None));
        fake.env = format!("PATH=/usr/bin\n{set}\n");
        let error = place.sanitize(&fake).unwrap_err();
        assert_eq!(code_of(&error), ExitCode::Environment);
        assert!(error.to_string().contains(set.split('=').next().unwrap()), "{error}");
        assert!(remedy_of(&error).unwrap().contains("base image"));
        assert_eq!(fake.runs(), 0);
    }
}

#[test]
fn a_program_that_is_slow_without_a_tool_gets_longer_under_one() {
    let (place, mut fake) = (Place::new(), Fake::new(Trick::None));
    fake.plain = Duration::from_millis(400);
    place.sanitize(&fake).unwrap();
    let tasks = fake.tasks.lock().unwrap();
    for tool in Tool::ALL {
        let label = format!("sanitize-{}", tool.name());
        let deadlines: Vec<Duration> = tasks.iter().filter(|t| t.label == label).map(|t| t.deadline).collect();
        let longer = deadlines[1..].iter().all(|deadline| *deadline > Bounds::STATED.least);
        assert_eq!((deadlines.len(), longer), (3, tool == Tool::Racecheck), "{tool:?}: {deadlines:?}");
    }
    // Each program is timed once, and no planted fault runs where no tool watches it.
    let plain: Vec<&Task> = tasks.iter().filter(|task| task.label == "sanitize-plain").collect();
    assert_eq!(plain.len(), 2);
    assert!(plain.iter().all(|task| !task.args.iter().any(|arg| arg.starts_with("control_"))), "{plain:?}");
}

/// Slowed down by a tool, a race may never show.
#[test]
fn a_program_that_fails_without_a_tool_is_not_clean_under_one() {
    let (place, mut fake) = (Place::new(), Fake::new(Trick::None));
    fake.plain_code = 17;
    let done = place.sanitize(&fake).unwrap();
    let programs = done.verdicts.iter().filter(|verdict| verdict.control_caught.is_none());
    let states: Vec<State> = programs.map(|verdict| verdict.state).collect();
    assert_eq!(states, vec![State::Inconclusive; 8]);
    assert_eq!(done.failure().unwrap().code, ExitCode::Sanitizer);
    assert!(message(&done).contains("without a tool: exit code 17"), "{}", message(&done));
    assert!(message(&done).contains("the harness said so"), "{}", message(&done));
    // It is asked again once it ends well, and only what was caught is kept.
    fake.plain_code = 0;
    let done = place.sanitize(&fake).unwrap();
    assert!(done.failure().is_none(), "{}", message(&done));
}

#[test]
fn an_empty_or_odd_list_of_programs_is_refused() {
    for list in ["", "control_shared_race\n", "../escape\n", "-flag\n", "name ../site\n"] {
        let (place, mut fake) = (Place::new(), Fake::new(Trick::None));
        fake.list = list.to_owned();
        assert_eq!(code_of(&place.sanitize(&fake).unwrap_err()), ExitCode::Sanitizer, "{list:?}");
    }
}

/// A folder with a compute-sanitizer of our own: a script that writes its log file, and may start the harness.
fn stand_in(place: &mut Place, script: &str) {
    let folder = place.dir.path().join("compute-sanitizer");
    std::fs::create_dir(&folder).unwrap();
    let write = |path: PathBuf, text: &str| {
        // Another process writes the program: were it open for writing in ours, a child forked meanwhile could keep it busy.
        let source = path.with_extension("source");
        std::fs::write(&source, text).unwrap();
        let installed = std::process::Command::new("install").args(["-m", "755"]).args([&source, &path]).status();
        assert!(installed.unwrap().success());
    };
    let harness = format!(
        "#!/bin/sh\nif [ $2 = --list ]; then echo yield_small; exit; fi\n\
         while [ $1 != --nonce ]; do shift; done\ncat <<END\n{}END\n",
        end("$2")
    );
    write(place.program.harness.clone(), &harness);
    write(
        folder.join("compute-sanitizer"),
        &format!("#!/bin/sh\n[ $1 = --version ] && echo Version 2026.4.0 && exit\n{script}"),
    );
    write(folder.join("TreeLauncherSubreaper"), "");
    write(folder.join("libsanitizer-collection.so"), "");
    place.toolkit.sanitizer = Some(folder.join("compute-sanitizer"));
}

fn on_host(place: &Place) -> Sanitized {
    let runtime = host::container::HostRuntime { name: "host", env: vec![("PATH".into(), "/usr/bin:/bin".into())] };
    place.sanitize_within(&runtime, Bounds::STATED).unwrap()
}

#[test]
fn a_real_child_that_prints_a_clean_log_to_stdout_proves_nothing() {
    let mut place = Place::new();
    let clean = "========= COMPUTE-SANITIZER\\n========= ERROR SUMMARY: 0 errors\\n";
    stand_in(&mut place, &format!("printf '{clean}'\nexit 0\n"));
    let done = on_host(&place);
    assert!(message(&done).contains("the tool wrote no log"), "{}", message(&done));
    assert_eq!(done.verdicts.len(), 4);
}

#[test]
fn real_children_with_logs_of_their_own_pass() {
    let mut place = Place::new();
    let data = format!("{}/testdata/sanitizer", env!("CARGO_MANIFEST_DIR"));
    let script = format!(
        "tool=$2\nwhile [ $1 != --log-file ]; do shift; done\nlog=$2\n\
         case $log in *control_*) cat {data}/*[1c]-$tool-control.log > $log; exit 86;; esac\n\
         cat {data}/captured-2025.3.1-$tool-clean.log > $log\nwhile [ $1 != {0} ]; do shift; done\n\"$@\"\n",
        place.program.harness.display()
    );
    stand_in(&mut place, &script);
    let done = on_host(&place);
    assert!(done.failure().is_none(), "{}", message(&done));
    assert_eq!(done.verdicts.len(), 8);
}

/// The first words of a stand-in that leave its log's name in `$log`.
const FIND_LOG: &str = "while [ $1 != --log-file ]; do shift; done\nlog=$2\n";

#[test]
fn a_tool_that_hangs_is_ended_with_all_that_it_started() {
    let mut place = Place::new();
    let pids = place.dir.path().join("pids");
    let script = format!(
        "{FIND_LOG}echo '========= COMPUTE-SANITIZER' > $log\nsleep 600 &\necho $! >> {}\nwait\n",
        pids.display()
    );
    stand_in(&mut place, &script);
    let runtime = host::container::HostRuntime { name: "host", env: vec![("PATH".into(), "/usr/bin:/bin".into())] };
    let bounds = Bounds { least: Duration::from_millis(400), most: Duration::from_millis(400) };
    let done = place.sanitize_within(&runtime, bounds).unwrap();
    assert!(message(&done).contains("TIMEOUT: killed at its deadline"), "{}", message(&done));
    assert_eq!((done.verdicts.len(), done.verdicts[0].exit_code), (4, None));
    let pids = std::fs::read_to_string(pids).unwrap();
    assert_eq!(pids.lines().count(), 4);
    for pid in pids.lines() {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        assert!(stat.is_empty() || stat.contains(") Z ") || stat.contains(") X "), "{pid} lives: {stat}");
    }
}

#[test]
fn a_log_that_is_no_plain_file_is_never_read() {
    for make in ["mkfifo $log", "ln -s /etc/passwd $log", "truncate -s 65M $log"] {
        let mut place = Place::new();
        stand_in(&mut place, &format!("{FIND_LOG}{make}\nexit 0\n"));
        let done = on_host(&place);
        assert!(message(&done).contains("its log cannot be read"), "{make}: {}", message(&done));
        let log = done.dir.as_ref().unwrap().join(&done.verdicts[0].log);
        assert_eq!(std::fs::read(log).unwrap(), b"", "{make}");
    }
}

/// Real children that write a log, run the harness and end with a code: only when all of it agrees is anything clean.
#[test]
fn a_stub_that_agrees_with_itself_in_part_only_is_refused() {
    let banner = "========= COMPUTE-SANITIZER";
    let data = format!("{}/testdata/sanitizer", env!("CARGO_MANIFEST_DIR"));
    for (lines, code, said) in [
        (&["========= ERROR SUMMARY: 1 error"][..], 0, "memcheck yield_small: finding: 1 finding"),
        (&["========= ERROR SUMMARY: 0 errors"], 86, "exit code 86 instead of 0"),
        (&["========= ERROR SUMMARY: 0 errors"], 7, "exit code 7 instead of 0"),
        (&["========= ERROR SUMMARY: 0 errors", "========= ERROR SUMMARY: 2 errors"], 0, "finding: 2 findings"),
        (&["========= ERROR SUMMARY: 0 errors", "========= ERROR SUMMARY: 0 errors"], 0, "2 summaries"),
        (&["========= ERROR SUMMARY: unknown"], 0, "not the summary of a clean memcheck"),
        (&[], 0, "the log has no summary"),
        (&["========= RACECHECK SUMMARY: 0 hazards displayed (0 errors, 0 warnings)"], 0, "not the summary of a clean"),
        (
            &["========= Error: process didn't terminate successfully", "========= ERROR SUMMARY: 0 errors"],
            0,
            "inconclusive: the log says: Error: process didn't terminate",
        ),
        (
            &["========= Error: Device not supported. Please refer to the manual", "========= ERROR SUMMARY: 2 errors"],
            0,
            "inconclusive: not checked: Error: Device not supported",
        ),
    ] {
        let mut place = Place::new();
        let echoed: String = [banner].iter().chain(lines).map(|line| format!("echo \"{line}\" >> $log\n")).collect();
        // Planted faults are caught and the other tools are well, so that memcheck's programs alone decide.
        let script = format!(
            "tool=$2\n{FIND_LOG}case $log in *control_*) cat {data}/*[1c]-$tool-control.log > $log; exit 86;; esac\n\
             while [ $1 != {harness} ]; do shift; done\n\"$@\"\n\
             [ $tool = memcheck ] || {{ cat {data}/captured-2025.3.1-$tool-clean.log > $log; exit 0; }}\n{echoed}exit {code}\n",
            harness = place.program.harness.display()
        );
        stand_in(&mut place, &script);
        let done = on_host(&place);
        assert!(message(&done).contains(said), "{lines:?} {code}: {}", message(&done));
        assert_eq!(done.verdicts.iter().filter(|verdict| holds(verdict)).count(), 7, "{lines:?} {code}");
    }
}
