//! `kill -9` at random moments of the emulated path, then `reproduce` again: it ends well, the result verifies, no event is
//! double, and no process, container or lease is left behind.

mod checkout;

use checkout::Checkout;
use schema::manifest::Manifest;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};
use tables::Table;

/// Moments at which a run is killed, in each runtime.
const KILLS: usize = 50;
/// Of these, so many fall into a build from nothing, and so many into a toolkit being unpacked.
const KILLS_IN_BUILD: usize = 5;
const KILLS_IN_UNPACKING: usize = 2;
/// Where the moments come from: the same in every run of this test.
const SEED: u64 = 0x5eed_0002;
/// A harness whose client was killed is gone within this.
const PATIENCE: Duration = Duration::from_secs(5);

/// Record, seal and gate take this long together; every fifth moment is drawn from them.
const AFTER_MEASURING: Duration = Duration::from_millis(300);

/// Where a kill falls.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Into {
    /// Anywhere, from the start of the program.
    Anywhere,
    /// The steps after the last cell, which are short.
    TheEnd,
    /// A build from nothing, or later.
    Build,
    /// A toolkit being unpacked, or later.
    Unpacking,
}

#[test]
fn a_run_killed_at_any_moment_on_the_host_is_taken_up_again() {
    if let Some(checkout) = Checkout::small("host") {
        kill_at_random_moments(&checkout, "host");
    }
}

#[test]
fn a_run_killed_at_any_moment_in_a_container_is_taken_up_again() {
    if !daemon_answers() {
        eprintln!("skipped: no docker daemon");
        return;
    }
    if let Some(why) = Checkout::why_not("docker") {
        eprintln!("skipped: no container to run in: {why}");
        return;
    }
    if let Some(checkout) = Checkout::small("docker") {
        kill_at_random_moments(&checkout, "docker");
    }
}

fn kill_at_random_moments(checkout: &Checkout, runtime: &str) {
    let begun = Instant::now();
    checkout.reproduce(runtime, &[]);
    let timed = |args: &[&str]| {
        let began = Instant::now();
        (checkout.reproduce(runtime, args), began.elapsed())
    };
    let (undisturbed, run_time) = timed(&["--fresh"]);
    std::fs::remove_dir_all(checkout.path("target/assay/build")).unwrap();
    let (_, built) = timed(&["--fresh"]);
    eprintln!("{runtime}: a run {run_time:.1?}, with a build before it {built:.1?}");
    let expected = holding(&undisturbed);
    let mut chance = Chance(SEED);
    let mut tally = BTreeMap::<&str, usize>::new();
    for n in 0..KILLS {
        let into = fall(n, runtime);
        let span = match into {
            Into::Anywhere => run_time,
            Into::TheEnd => AFTER_MEASURING,
            Into::Build | Into::Unpacking => built,
        };
        let delay = span.mul_f64(chance.fraction());
        let (reached, resumed) = kill_and_go_on(checkout, runtime, into, delay);
        check(checkout, &resumed, &expected, &format!("{runtime} kill {n} {into:?} after {delay:.3?}, {reached}"));
        *tally.entry(reached).or_default() += 1;
    }
    eprintln!("{runtime}: {KILLS} kills in {:.0?}; where they fell: {tally:?}", begun.elapsed());
    assert!(tally.len() > 3, "the moments are spread over the steps: {tally:?}");
}

fn fall(n: usize, runtime: &str) -> Into {
    let every = KILLS / KILLS_IN_BUILD;
    match n % every {
        0 => Into::Build,
        5 if runtime == "host" && n / every < KILLS_IN_UNPACKING => Into::Unpacking,
        _ if n % 5 == 2 => Into::TheEnd,
        _ => Into::Anywhere,
    }
}

/// Begins a new run, kills it, says how far it had come, and reproduces.
fn kill_and_go_on(checkout: &Checkout, runtime: &str, into: Into, delay: Duration) -> (&'static str, Value) {
    let kept = checkout.path("target/kept");
    let taken = match into {
        Into::Anywhere | Into::TheEnd => None,
        Into::Build => Some(checkout.path("target/assay/build")),
        Into::Unpacking => Some(checkout.path("target/toolkit")),
    };
    if let Some(taken) = &taken {
        std::fs::rename(taken, &kept).unwrap();
    }
    let before = checkout.runs();
    let mut args = checkout::SMOKE.to_vec();
    args.extend([runtime, "--fresh"]);
    let mut child = checkout.start(&args);
    while into == Into::TheEnd && !has_measured(checkout, &before) && child.try_wait().unwrap().is_none() {
        std::thread::sleep(Duration::from_millis(1));
    }
    std::thread::sleep(delay);
    let _ = child.kill();
    child.wait().unwrap();
    let reached = reached(checkout, &before);
    let resumed = checkout.reproduce(runtime, &[]);
    if taken.is_some() {
        std::fs::remove_dir_all(&kept).unwrap();
    }
    (reached, resumed)
}

fn has_measured(checkout: &Checkout, before: &[String]) -> bool {
    checkout
        .runs()
        .iter()
        .any(|run| !before.contains(run) && checkout.path("results/raw").join(run).join("build").is_dir())
}

/// How far the run that is not among `before` had come, by what of it is on disk.
fn reached(checkout: &Checkout, before: &[String]) -> &'static str {
    let Some(run) = checkout.runs().into_iter().find(|run| !before.contains(run)) else { return "before the run" };
    let marks = [
        ("SHA256SUMS", "judged"),
        ("manifest.json", "sealed"),
        ("summary", "summarised"),
        ("environment.json", "recorded"),
        ("build", "recording"),
        ("cells", "measuring"),
    ];
    let found = marks.iter().find(|(name, _)| checkout.path("results/raw").join(&run).join(name).exists());
    found.map_or("begun", |(_, word)| word)
}

/// Everything that must be so after a kill and another `reproduce`.
fn check(checkout: &Checkout, resumed: &Value, expected: &BTreeSet<String>, what: &str) {
    let run = resumed["run"].as_str().unwrap();
    let verified = checkout.run(&["verify", run]);
    assert_eq!(verified.code, Some(0), "{what}: {}", verified.stderr);
    assert_eq!(&holding(resumed), expected, "{what}: {}", resumed["gates"]);
    let dir = checkout.path("results/raw").join(run);
    check_events(&dir, what);
    check_attempts(checkout, &dir, what);
    check_nothing_left(checkout, what);
}

/// The gates that hold and whose answer does not depend on how fast this machine is just now.
fn holding(object: &Value) -> BTreeSet<String> {
    let gates = object["gates"].as_array().unwrap().iter().filter(|gate| gate["passed"] == true);
    let names = gates.map(|gate| gate["name"].as_str().unwrap().to_owned());
    let names: BTreeSet<String> = names.filter(|name| name != "instrument" && name != "clocks").collect();
    for name in ["source", "numerics", "structure", "attempts", "recompute"] {
        assert!(names.contains(name), "{name} in {names:?}");
    }
    names
}

/// No two rows of one event, in no cell; and no more cells than planned.
fn check_events(dir: &Path, what: &str) {
    let mut counted = 0;
    for name in files_below(&dir.join("cells/yield")).iter().filter(|name| is_events(name)) {
        let table = Table::read(Path::new(name)).unwrap();
        let Ok(events) = table.u32("event") else { continue };
        let keys: BTreeSet<_> = table.u32("launch").unwrap().iter().zip(events).collect();
        assert_eq!(keys.len(), table.rows(), "{what}: {name}");
        counted += keys.len();
    }
    assert!(counted > 0, "{what}: no events");
}

/// One attempt for each run that was begun, however often it was killed.
fn check_attempts(checkout: &Checkout, dir: &Path, what: &str) {
    let manifest: Manifest = serde_json::from_slice(&std::fs::read(dir.join("manifest.json")).unwrap()).unwrap();
    let attempts = manifest.predicate.attempts;
    let runs: BTreeSet<_> = attempts.iter().map(|attempt| &attempt.run).collect();
    assert_eq!(runs.len(), attempts.len(), "{what}: {attempts:?}");
    // Every run directory is that of an attempt: none is left half-begun.
    assert_eq!(checkout.runs().len(), runs.len(), "{what}: {:?}, {attempts:?}", checkout.runs());
}

fn check_nothing_left(checkout: &Checkout, what: &str) {
    assert!(!checkout.path("target/assay/clocks.lease").exists(), "{what}");
    let partial = checkout.files("results/raw").into_iter().find(|name| name.ends_with(".partial"));
    assert_eq!(partial, None, "{what}");
    let until = Instant::now() + PATIENCE;
    let left = || !processes_in(checkout).is_empty() || !containers_of(checkout).is_empty();
    while left() && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(processes_in(checkout), [""; 0], "{what}");
    // A slow engine may finish making a container after its client was killed and after the run that followed. It never runs, and
    // goes with the next start.
    if containers_of(checkout).iter().all(|line| line.contains(" Created ")) && !containers_of(checkout).is_empty() {
        checkout.run(&["provision", "--runtime", "docker", "--offline"]);
    }
    assert_eq!(containers_of(checkout), [""; 0], "{what}");
}

/// Command lines that name the checkout, those in containers included.
fn processes_in(checkout: &Checkout) -> Vec<String> {
    let here = checkout.path("").display().to_string();
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    let lines = processes.filter_map(|process| std::fs::read_to_string(process.path().join("cmdline")).ok());
    lines.map(|line| line.replace('\0', " ")).filter(|line| line.contains(here.trim_end_matches('/'))).collect()
}

/// Our containers that mount the checkout, running or not.
fn containers_of(checkout: &Checkout) -> Vec<String> {
    if !daemon_answers() {
        return Vec::new();
    }
    let format = "{{.Names}} {{.Status}} {{.Mounts}}";
    let listed = Command::new("docker")
        .args(["ps", "--all", "--no-trunc", "--filter", "label=assay.owner", "--format", format])
        .output()
        .unwrap();
    let here = checkout.path("").display().to_string();
    let lines = String::from_utf8_lossy(&listed.stdout).into_owned();
    lines.lines().filter(|line| line.contains(here.trim_end_matches('/'))).map(str::to_owned).collect()
}

fn daemon_answers() -> bool {
    Command::new("docker").arg("version").output().is_ok_and(|output| output.status.success())
}

fn is_events(name: &str) -> bool {
    let stem = name.strip_suffix(".parquet").unwrap_or_default();
    !stem.is_empty() && ![".launches", ".clock", ".blocks"].iter().any(|suffix| stem.ends_with(suffix))
}

fn files_below(dir: &Path) -> Vec<String> {
    std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path().display().to_string()).collect()
}

/// Splitmix64.
struct Chance(u64);

impl Chance {
    /// The next number, from 0 up to 1.
    fn fraction(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) >> 11) as f64 / (1_u64 << 53) as f64
    }
}
