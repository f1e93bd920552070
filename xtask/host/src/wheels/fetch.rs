//! Fetching wheels with pip, file by file: a file that is present with the right digest is not fetched again, one
//! with a wrong digest is deleted.

use super::{Lock, Wheel};
use crate::container::last;
use crate::failure::{Denied, fail};
use crate::process::{Child, Ended, find_program};
use anyhow::{Context, Result};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use schema::{Digest, ExitCode};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;
use words::docker_says::{Kind, Refusal, refusal};

/// Fetches wheels into one folder.
#[derive(Clone, Debug)]
pub struct Fetcher {
    /// Where wheels are kept.
    pub dir: PathBuf,
    /// All that pip sees.
    pub env: Vec<(String, String)>,
    /// Use only what is here.
    pub offline: bool,
    /// Say nothing.
    pub quiet: bool,
}

impl Fetcher {
    /// Every wheel of the lock, fetched if needed and checked now.
    ///
    /// # Errors
    /// When one cannot be had, or is not what the lock says; that file is removed then.
    pub fn fetch(&self, lock: &Lock) -> Result<Vec<PathBuf>, Denied> {
        fs_err::create_dir_all(&self.dir).map_err(anyhow::Error::from)?;
        let bar = self.bar(lock);
        let mut files = Vec::new();
        for (n, wheel) in lock.wheels.iter().enumerate() {
            let file = self.dir.join(wheel.file_name());
            if !file.exists() && !self.offline {
                self.say(
                    &bar,
                    &format!("fetching {} of {}: {} {}", n + 1, lock.wheels.len(), wheel.name, wheel.version),
                );
            }
            if !file.exists() {
                self.fetch_one(wheel, &file, &bar)?;
            }
            check(wheel, &file)?;
            bar.set_position(lock.wheels[..=n].iter().map(|wheel| wheel.bytes).sum());
            files.push(file);
        }
        bar.finish_and_clear();
        Ok(files)
    }

    fn fetch_one(&self, wheel: &Wheel, file: &Path, bar: &ProgressBar) -> Result<(), Denied> {
        if self.offline {
            let message = format!(
                "{} {} is not in {}, and --offline forbids to fetch it",
                wheel.name,
                wheel.version,
                self.dir.display()
            );
            return Err(Denied::Cannot(fail(ExitCode::Environment, message, "cargo xtask provision")));
        }
        self.need_pip()?;
        let work = tempfile::Builder::new().prefix("fetch-").suffix(".partial").tempdir_in(&self.dir);
        let work = work.context("failed to make a folder for a download")?;
        let fetched = self.pip(wheel, work.path(), bar)?;
        check(wheel, &fetched)?;
        fs_err::File::open(&fetched).and_then(|file| file.sync_all()).map_err(anyhow::Error::from)?;
        fs_err::rename(&fetched, file).map_err(anyhow::Error::from)?;
        Ok(())
    }

    fn need_pip(&self) -> Result<(), Denied> {
        let search = self.env.iter().find(|(key, _)| key == "PATH").map_or("", |(_, value)| value);
        let remedy = "apt-get install python3-pip";
        let absent = |what: &str| {
            Denied::Cannot(fail(ExitCode::Environment, format!("{what} is missing; it fetches the toolkit"), remedy))
        };
        if find_program(Path::new("python3"), search).is_none() {
            return Err(absent("python3"));
        }
        let version = self.python(&["-m", "pip", "--version"], Duration::from_secs(60)).run(&mut |_| {})?;
        if version.code == Some(0) { Ok(()) } else { Err(absent("pip")) }
    }

    /// Downloads one wheel into `work`.
    fn pip(&self, wheel: &Wheel, work: &Path, bar: &ProgressBar) -> Result<PathBuf, Denied> {
        let (out, requirements) = (work.join("out"), work.join("requirements.txt"));
        fs_err::create_dir(&out).map_err(anyhow::Error::from)?;
        fs_err::write(&requirements, wheel.requirement()).map_err(anyhow::Error::from)?;
        let (out_text, requirements) = (out.display().to_string(), requirements.display().to_string());
        let mut args = vec!["-m", "pip", "download", "--require-hashes", "--no-deps", "--only-binary=:all:"];
        args.extend([
            "--progress-bar=off",
            "--no-input",
            "--no-cache-dir",
            "--disable-pip-version-check",
            "--retries=2",
        ]);
        // Wheels are tagged with the oldest C library they run on; pip takes only the tags that are listed.
        let platforms = ["manylinux_2_28_x86_64", "manylinux_2_25_x86_64", "manylinux2014_x86_64"]
            .map(|p| format!("--platform={p}"));
        args.extend(platforms.iter().map(String::as_str));
        args.extend(["--dest", &out_text, "--requirement", &requirements]);
        let mut child = self.python(&args, Duration::from_secs(1800));
        child.env.push(("TMPDIR".into(), work.display().to_string()));
        let ended = while_watching(work, bar, || child.run(&mut |_| {}))?;
        let what = format!("{} {}", wheel.name, wheel.version);
        if ended.code == Some(0) {
            return files_below(&out).into_iter().next().ok_or_else(|| {
                let message = format!("pip succeeded but left no file of {what}");
                Denied::Cannot(fail(ExitCode::Environment, message, "python3 -m pip --version; type -a python3"))
            });
        }
        if let Some(found) = wrong_hash(&ended.stderr) {
            let message = format!("{what} is not what the lock says: expected sha256 {}, found {found}", wheel.sha256);
            return Err(Denied::Refused(fail(ExitCode::Environment, message, WRONG_REMEDY)));
        }
        let (how, remedy) = unfetched(&ended);
        Err(Denied::Cannot(fail(ExitCode::Environment, format!("failed to fetch {what}: {how}"), remedy)))
    }

    fn python(&self, args: &[&str], deadline: Duration) -> Child {
        Child {
            program: "python3".into(),
            args: args.iter().map(|arg| (*arg).to_owned()).collect(),
            env: self.env.clone(),
            dir: self.dir.clone(),
            deadline,
            hold_stdin: false,
        }
    }

    fn bar(&self, lock: &Lock) -> ProgressBar {
        let bar = ProgressBar::new(lock.wheels.iter().map(|wheel| wheel.bytes).sum());
        let style = ProgressStyle::with_template("{msg} [{bar:30}] {bytes}/{total_bytes} {eta}");
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
        // On anything but a terminal this draws nothing; `say` prints plain lines there.
        bar.set_draw_target(if self.quiet { ProgressDrawTarget::hidden() } else { ProgressDrawTarget::stderr() });
        bar
    }

    fn say(&self, bar: &ProgressBar, line: &str) {
        bar.set_message(line.to_owned());
        if bar.is_hidden() && !self.quiet {
            crate::tell!("{line}");
        }
    }
}

const WRONG_REMEDY: &str =
    "run the same command again to fetch it anew; if it differs again, do not trust the index or the network";

/// Refuses and removes a file that is not what the lock says.
pub(super) fn check(wheel: &Wheel, file: &Path) -> Result<()> {
    let found = Digest::of_file(file)?;
    if found == wheel.sha256 {
        return Ok(());
    }
    fs_err::remove_file(file)?;
    let message = format!("{}: expected sha256 {}, found {found}; the file was removed", file.display(), wheel.sha256);
    Err(fail(ExitCode::Environment, message, WRONG_REMEDY))
}

/// Why pip fetched nothing, and what to type. It tells the cause in a warning, and then errs because it found nothing.
fn unfetched(ended: &Ended) -> (String, &'static str) {
    const NETWORK: &str = "check the network, then run the same command again; files already fetched are kept";
    if ended.timed_out {
        return ("pip gave no answer within 30 minutes".to_owned(), NETWORK);
    }
    let Refusal { kind, said } = refusal(None, &ended.stderr, "");
    let told = |line: &&str| line.starts_with("ERROR");
    let last = ended.stderr.lines().rev().find(told).map_or_else(|| last(&ended.stderr), str::to_owned);
    match kind {
        Kind::Unknown => (last, NETWORK),
        Kind::Network => (format!("{} ({said})", kind.means()), NETWORK),
        Kind::Unauthorised => (format!("the index refuses it to this user ({said})"), "pip config list; PIP_INDEX_URL"),
        _ => (format!("{} ({said})", kind.means()), kind.remedy()),
    }
}

/// The digest that pip got, where it refused one.
fn wrong_hash(stderr: &str) -> Option<&str> {
    stderr.lines().find_map(|line| line.trim().strip_prefix("Got")).map(str::trim)
}

/// Moves the bar on by what has arrived below `dir` while `work` runs.
fn while_watching<T>(dir: &Path, bar: &ProgressBar, work: impl FnOnce() -> T) -> T {
    let (done, begun) = (AtomicBool::new(false), bar.position());
    thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                thread::park_timeout(Duration::from_millis(100));
                let arrived: u64 = files_below(dir).iter().filter_map(|file| Some(file.metadata().ok()?.len())).sum();
                bar.set_position(begun + arrived);
            }
        });
        let result = work();
        done.store(true, Ordering::Relaxed);
        result
    })
}

/// Every file below a folder.
pub(super) fn files_below(dir: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
    entries
        .flat_map(|entry| match entry.file_type() {
            Ok(kind) if kind.is_dir() => files_below(&entry.path()),
            Ok(kind) if kind.is_file() => vec![entry.path()],
            _ => Vec::new(),
        })
        .collect()
}

#[cfg(test)]
mod tests;
