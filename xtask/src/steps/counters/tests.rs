//! Tests of the counters step against a stand-in profiler.

use super::*;
use host::process::Ended;
use schema::progress::{Progress, Sites};
use std::sync::Mutex;

/// How the pretended profiler behaves.
#[derive(Clone, Copy, PartialEq)]
enum Trick {
    Counts,
    NoPermission,
    /// Is killed at its deadline, with what the real one had written by then.
    Hangs,
    /// Counts, and the program's outputs are wrong.
    Wrong,
    /// Does not start.
    Broken,
    /// Exits with 0 and writes nothing.
    Silent,
}

struct Fake {
    trick: Trick,
    tasks: Mutex<Vec<Task>>,
}

impl Fake {
    fn new(trick: Trick) -> Self {
        Self { trick, tasks: Mutex::default() }
    }

    fn profiled(&self) -> usize {
        self.tasks.lock().unwrap().iter().filter(|task| task.gpu).count()
    }
}

fn captured(name: &str) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/ncu");
    fs_err::read_to_string(folder.join(format!("captured-2025.3.1-{name}.csv"))).unwrap()
}

fn ended(code: i32, stdout: &str) -> Ended {
    Ended { code: Some(code), timed_out: false, stdout: stdout.to_owned(), stderr: "it said so\n".to_owned() }
}

impl Runtime for Fake {
    fn name(&self) -> &'static str {
        "fake"
    }

    fn run(&self, task: &Task, _: &mut dyn FnMut(&str)) -> Result<Ended> {
        self.tasks.lock().unwrap().push(task.clone());
        if task.args == ["--version"] {
            return Ok(match self.trick {
                Trick::Broken => ended(127, ""),
                _ => ended(
                    0,
                    "NVIDIA (R) Nsight Compute Command Line Profiler\nVersion 2025.3.1.0 (build 36398880) (public-release)\n",
                ),
            });
        }
        let after = |flag: &str| task.args.iter().position(|arg| arg == flag).map(|at| task.args[at + 1].clone());
        let log = PathBuf::from(after("--log-file").unwrap().replace("%%", "%"));
        assert!(log.starts_with(&task.writable));
        let home = task.env.iter().find(|(key, _)| key == "HOME").unwrap();
        fs_err::write(Path::new(&home.1).join("sections"), "").unwrap();
        let name = after("--program").unwrap_or(BURN.to_owned());
        let end = Progress::End {
            nonce: after("--nonce").unwrap_or_default(),
            launches: 1,
            sites: Sites::from([("yield".to_owned(), 0), ("claim".to_owned(), 0), ("copy".to_owned(), 1)]),
            cubins: vec![],
            configs: vec![],
            wrong: u64::from(self.trick == Trick::Wrong),
        };
        let stdout = serde_json::to_string(&end).unwrap() + "\n";
        Ok(match self.trick {
            Trick::NoPermission => {
                fs_err::write(&log, "==ERROR== ERR_NVGPUCTRPERM - no permission\n").unwrap();
                ended(1, "")
            }
            Trick::Hangs => {
                fs_err::write(&log, captured("killed")).unwrap();
                Ended { code: None, timed_out: true, ..ended(0, "") }
            }
            Trick::Silent => ended(0, &stdout),
            _ => {
                fs_err::write(&log, captured(&name)).unwrap();
                ended(0, &stdout)
            }
        })
    }
}

struct Place {
    dir: tempfile::TempDir,
    paths: Paths,
    program: Program,
    ui: Ui,
}

impl Place {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let program = Program::made_up(dir.path(), "preempt_drain");
        Self { paths: Paths::new(dir.path()), dir, program, ui: Ui::new(true) }
    }

    fn count(&self, runtime: &Fake, profiler: Option<&str>) -> Counters {
        let ctx = Context { paths: &self.paths, ui: &self.ui, profiler: profiler.map(Path::new) };
        let programs = ["drain", "yield_p1_host"].map(str::to_owned);
        count(&ctx, runtime, &self.program, &programs).unwrap()
    }
}

const PROFILER: Option<&str> = Some("/opt/nvidia/nsight-compute/2025.3.1");

#[test]
fn programs_and_a_full_grid_are_counted_once_and_then_remembered() {
    let (place, fake) = (Place::new(), Fake::new(Trick::Counts));
    let first = place.count(&fake, PROFILER);
    let told: Vec<_> = first.report.programs.iter().map(|p| (p.program.as_str(), p.launches.len())).collect();
    assert_eq!(told, [("drain", 6), ("yield_p1_host", 0), ("burn", 2)]);
    assert_eq!(first.report.programs[2].launches[0].grid, 660);
    assert_eq!(first.report.profiler.as_deref(), Some("Version 2025.3.1.0 (build 36398880) (public-release)"));
    assert_eq!(first.said(), "hardware counters of 8 launches");
    assert!(first.report.programs[1].not_counted.as_ref().unwrap().contains("beside the grid"));
    assert_eq!((fake.profiled(), first.cached), (2, false));

    let again = place.count(&fake, PROFILER);
    assert_eq!((fake.profiled(), again.cached, &again.report), (2, true, &first.report));
    // What the profiler left of its own is gone.
    let mut files: Vec<_> = fs_err::read_dir(&first.dir).unwrap().map(|e| e.unwrap().file_name()).collect();
    files.sort();
    assert_eq!(files, ["burn.csv", "counters.json", "drain.csv"]);

    let run = place.dir.path().join("run");
    first.copy_to(&run).unwrap();
    assert_eq!(fs_err::read_dir(&run).unwrap().count(), 3);
    fs_err::write(first.dir.join("drain.csv"), captured("timer")).unwrap();
    assert!(first.copy_to(&run).is_err());
    let anew = place.count(&fake, PROFILER);
    assert_eq!((fake.profiled(), anew.cached, anew.report), (4, false, first.report));
}

#[test]
fn the_profiler_changes_no_clock_and_can_read_what_it_needs() {
    let (place, fake) = (Place::new(), Fake::new(Trick::Counts));
    place.count(&fake, PROFILER);
    for task in fake.tasks.lock().unwrap().iter().filter(|task| task.gpu) {
        assert!(task.args.windows(2).any(|pair| pair == ["--clock-control", "none"]));
        assert!(task.args.contains(&"--hold".to_owned()) && task.hold_stdin && task.deadline == DEADLINE);
        assert!(task.readable.contains(&PathBuf::from(PROFILER.unwrap())));
    }
}

#[test]
fn counters_that_cannot_be_read_are_said_with_the_reason_and_asked_for_again() {
    let no_profiler = |place: &Place| place.count(&Fake::new(Trick::Counts), None);
    for (trick, words) in [
        (Some(Trick::NoPermission), "NVreg_RestrictProfilingToAdminUsers=0"),
        (Some(Trick::Hangs), "no program could be counted: killed at its deadline"),
        (Some(Trick::Wrong), "its outputs were wrong under the profiler"),
        (Some(Trick::Broken), "does not start where programs run"),
        (Some(Trick::Silent), "no program could be counted: no kernel was profiled"),
        (None, "this machine has no Nsight Compute"),
    ] {
        let place = Place::new();
        let counted = trick.map_or_else(|| no_profiler(&place), |trick| place.count(&Fake::new(trick), PROFILER));
        let why = counted.report.unreadable.clone().unwrap_or_default();
        // The burn has no outputs to compare.
        let counts_burn = trick == Some(Trick::Wrong);
        assert_eq!(why.contains(words), !counts_burn, "{why}");
        assert!(!counts_burn || counted.report.programs[0].not_counted.as_deref() == Some(words));
        let run = place.dir.path().join("run");
        counted.copy_to(&run).unwrap();
        let log = |name: &str| fs_err::read_to_string(run.join(name)).ok();
        assert_eq!(faults(&counted.report, log), [""; 0]);
        if !counts_burn {
            let fake = Fake::new(Trick::Counts);
            assert!(!place.count(&fake, PROFILER).cached && fake.profiled() > 0);
        }
    }
}
