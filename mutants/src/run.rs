//! Runs the tests, each in a process of its own that tries every mutant which it reaches and nothing has killed yet.

use crate::build::Built;
use crate::config::Config;
use anyhow::{Context, Result, ensure};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;

/// What is known of a mutant, as the test's processes write it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct State(pub(crate) u8);

impl State {
    /// A test failed.
    pub(crate) fn killed(self) -> bool {
        self.0 & 1 != 0
    }
    /// A test ran for many times the processor time that it needs.
    pub(crate) fn spun(self) -> bool {
        self.0 & 2 != 0
    }
    /// A test stood still; that alone kills nothing.
    pub(crate) fn hung(self) -> bool {
        self.0 & 4 != 0
    }
    /// A test reached it.
    pub(crate) fn reached(self) -> bool {
        self.0 & 8 != 0
    }
}

/// Tests tried at once.
const WORKERS: usize = 2;

/// The test that killed a mutant, by the mutant's name.
type Killers = BTreeMap<String, String>;

/// Which mutants a round's tests try.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Round {
    /// Those that the test killed the last time.
    Again,
    /// Those of files that the test's name is about.
    About,
    /// All of its group.
    All,
}

/// One process to run: a test, and the mutants that it tries.
struct Job {
    test: String,
    only: PathBuf,
}

/// The state of every mutant by its number.
///
/// # Errors
/// When a test fails without a mutant.
pub(crate) fn run(work: &Path, config: &Config, built: &Built) -> Result<Vec<State>> {
    let state = work.join("state");
    fs_err::write(&state, vec![0; built.n_ids])?;
    let tests = listed(built)?;
    let names: BTreeMap<usize, String> =
        built.files.iter().flat_map(|file| file.named().map(|(n, id)| (id, n))).collect();
    let remembered = work.join("killers.json");
    let before: Killers =
        fs_err::read(&remembered).ok().and_then(|bytes| serde_json::from_slice(&bytes).ok()).unwrap_or_default();
    let killers = Mutex::new(before.clone());
    // First what killed the last time, then the tests that are about a file, then all of its group; what takes long at the end.
    use Round::{About, Again, All};
    for (round, slow) in [(Again, false), (Again, true), (About, false), (All, false), (About, true), (All, true)] {
        let is_slow = |test: &&String| config.slow.iter().any(|word| test.contains(word)) == slow;
        let tests: Vec<String> = tests.iter().filter(is_slow).cloned().collect();
        let jobs = Mutex::new(jobs(work, config, built, &tests, round, &before)?);
        let failed = Mutex::new(Vec::new());
        std::thread::scope(|scope| {
            for n in 0..WORKERS {
                let (jobs, failed, killers, names, state) = (&jobs, &failed, &killers, &names, &state);
                let temp = work.join(format!("temp-{n}"));
                scope.spawn(move || {
                    loop {
                        let job = jobs.lock().expect("no worker panics").pop();
                        let Some(job) = job else { return };
                        match try_all(built, state, &job, &temp) {
                            Ok(killed) => killers.lock().expect("no worker panics").extend(
                                killed.into_iter().filter_map(|id| Some((names.get(&id)?.clone(), job.test.clone()))),
                            ),
                            Err(error) => {
                                failed.lock().expect("no worker panics").push(format!("{}: {error:#}", job.test));
                            }
                        }
                    }
                });
            }
        });
        let failed = failed.into_inner().expect("no worker panics");
        ensure!(failed.is_empty(), "{}", failed.join("\n"));
        fs_err::write(&remembered, serde_json::to_vec_pretty(&*killers.lock().expect("no worker panics"))?)?;
    }
    Ok(fs_err::read(&state)?.into_iter().map(State).collect())
}

fn listed(built: &Built) -> Result<Vec<String>> {
    let output = Command::new(&built.binary).args(["--list", "--format", "terse"]).output().context("the binary")?;
    let text = String::from_utf8(output.stdout)?;
    Ok(text.lines().filter_map(|line| line.strip_suffix(": test")).map(str::to_owned).collect())
}

/// The processes of a round, the last to run first.
fn jobs(
    work: &Path,
    config: &Config,
    built: &Built,
    tests: &[String],
    round: Round,
    before: &Killers,
) -> Result<Vec<Job>> {
    let mut jobs = Vec::new();
    for (n, test) in tests.iter().enumerate() {
        let mut only = vec![0_u8; built.n_ids];
        for file in &built.files {
            let group = &config.group[config.group_of(&file.name)];
            let stem = stem(&file.name);
            let about = test.contains(stem) || group.first.iter().any(|word| test.contains(word));
            if !group.tests.iter().any(|start| test.starts_with(start))
                || (!about && round == Round::About)
                || (!group.rest && round == Round::All)
            {
                continue;
            }
            let again = |name: &String| round != Round::Again || before.get(name) == Some(test);
            file.named().filter(|(name, _)| again(name)).for_each(|(_, id)| only[id] = 1);
        }
        if only.contains(&1) {
            let path = work.join(format!("only-{n}"));
            fs_err::write(&path, only)?;
            jobs.push(Job { test: test.clone(), only: path });
        }
    }
    jobs.sort_by_key(|job| config.early.iter().any(|word| job.test.contains(word)));
    Ok(jobs)
}

/// What a file is about: its name without an ending, or its folder's.
fn stem(file: &str) -> &str {
    let name = file.trim_end_matches(".rs").trim_end_matches("/mod");
    name.rsplit('/').next().unwrap_or(name)
}

/// Runs one test's process; gives the mutants it killed.
fn try_all(built: &Built, state: &Path, job: &Job, temp: &Path) -> Result<Vec<usize>> {
    if temp.exists() {
        fs_err::remove_dir_all(temp)?;
    }
    fs_err::create_dir_all(temp)?;
    let began = std::time::Instant::now();
    let output = Command::new("nice")
        .arg(&built.binary)
        .args(["--exact", &job.test, "--test-threads", "1", "--nocapture"])
        .current_dir(built.tree.join("xtask"))
        .env("MUTANTS_STATE", state)
        .env("MUTANTS_ONLY", &job.only)
        .env("TMPDIR", temp)
        .env("RUST_BACKTRACE", "0")
        .env("INSTA_UPDATE", "no")
        .stdin(Stdio::null())
        .output()?;
    // `… MUTANT number mark`, behind whatever the test itself prints.
    let out = String::from_utf8_lossy(&output.stdout);
    let tried = out.lines().filter_map(|line| line.split_once("MUTANT ")?.1.split_once(' '));
    let tried: Vec<(usize, u8)> = tried.filter_map(|(id, mark)| Some((id.parse().ok()?, mark.parse().ok()?))).collect();
    let killed: Vec<usize> = tried.iter().filter(|(_, mark)| State(*mark).killed()).map(|(id, _)| *id).collect();
    let seconds = began.elapsed().as_secs_f64();
    eprintln!("{seconds:7.1} s {:5} tried {:5} killed  {}", tried.len(), killed.len(), job.test);
    ensure!(output.status.success(), "{}: {}", output.status, String::from_utf8_lossy(&output.stderr));
    fs_err::remove_dir_all(temp)?;
    Ok(killed)
}
