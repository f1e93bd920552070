//! The file `results/raw/attempts.jsonl`: every attempt on this machine, recorded before its first launch.
//!
//! Lines are only ever appended, under a lock, and are on disk before the caller goes on.

use anyhow::{Context, Result};
use fs_err::File;
use host::failure::{does_not_hold, fail};
use host::paths::Paths;
use pure::records::attempts::{ABANDONED, Chain, Intent};
use rustix::fs::{FlockOperation, flock};
use schema::manifest::Attempt;
use schema::{Digest, ExitCode};
use std::io::{Read, Write};
use std::path::PathBuf;

/// Opens an attempt, or continues the one that this run holds open, or that had measured when it was killed before
/// sealing.
///
/// Attempts of other runs that are still open are marked `abandoned`: their process ended without recording an
/// outcome.
///
/// # Errors
/// When the chain does not hold, or cannot be written.
pub fn open(paths: &Paths, intent: Intent) -> Result<Attempt> {
    let mut record = Record::open(paths)?;
    if let Some(held) = record.chain.open_of(&intent.run).or_else(|| record.chain.measured_last(&intent)) {
        let same = (held.plan, held.sass, &held.device) == (intent.plan, intent.sass, &intent.device);
        return match same {
            true => Ok(held.clone()),
            false => Err(fail(
                ExitCode::Integrity,
                format!("run {} was begun with another plan, other kernels or another GPU", intent.run),
                "cargo xtask reproduce --fresh",
            )),
        };
    }
    let left: Vec<u64> = record.chain.latest().into_values().filter(|a| a.outcome == "open").map(|a| a.n).collect();
    let mut lines = String::new();
    for n in left {
        lines += &record.chain.close(n, ABANDONED)?.1;
    }
    let (attempt, line) = record.chain.open(intent, now())?;
    record.append(&(lines + &line))?;
    Ok(attempt)
}

/// Records how an attempt ended.
///
/// # Errors
/// When it is not open, when the chain does not hold, or when it cannot be written.
pub fn close(paths: &Paths, attempt: &Attempt, outcome: &str) -> Result<Attempt> {
    let mut record = Record::open(paths)?;
    let (closed, line) = record.chain.close(attempt.n, outcome)?;
    record.append(&line)?;
    Ok(closed)
}

/// Every attempt with this plan on this machine, oldest first, each with its latest outcome.
///
/// # Errors
/// When the chain does not hold.
pub fn list(paths: &Paths, plan: &Digest) -> Result<Vec<Attempt>> {
    Ok(Record::open(paths)?.chain.of_plan(plan))
}

/// Where the record lies.
pub fn file(paths: &Paths) -> PathBuf {
    paths.raw().join("attempts.jsonl")
}

/// The file, locked as long as this lives, and what it holds.
struct Record {
    file: File,
    chain: Chain,
}

impl Record {
    fn open(paths: &Paths) -> Result<Self> {
        let path = file(paths);
        fs_err::create_dir_all(paths.raw())?;
        let mut file = fs_err::OpenOptions::new().read(true).append(true).create(true).open(&path)?;
        flock(file.file(), FlockOperation::LockExclusive)
            .with_context(|| format!("failed to lock {}", path.display()))?;
        let mut text = String::new();
        file.read_to_string(&mut text)?;
        let chain = Chain::parse(&text).map_err(|error| broken(&path, &error))?;
        Ok(Self { file, chain })
    }

    fn append(&mut self, lines: &str) -> Result<()> {
        let before = self.file.metadata()?.len();
        let written = self.file.write_all(lines.as_bytes()).and_then(|()| self.file.sync_all());
        // On a full disk only half a line may be written, and a chain with half a line is broken for good.
        if written.is_err() {
            self.file.set_len(before)?;
        }
        Ok(written?)
    }
}

fn broken(path: &std::path::Path, error: &anyhow::Error) -> anyhow::Error {
    does_not_hold(
        &format!("the record of attempts {} does not hold", path.display()),
        error,
        "restore it from a copy; where there is none, move it away and file a fault: cargo xtask notebook fault",
    )
}

fn now() -> String {
    jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use host::failure::code_of;
    use pure::records::attempts::MEASURED;

    fn place() -> (tempfile::TempDir, Paths) {
        let dir = tempfile::tempdir().unwrap();
        let paths = Paths::new(dir.path());
        (dir, paths)
    }

    fn intent(run: &str, plan: &str) -> Intent {
        let [plan, sass, contract] = [plan, "sass", "contract"].map(Digest::of);
        Intent { run: run.into(), plan, sass, device: "gpu".into(), contract }
    }

    fn outcomes(paths: &Paths, plan: &str) -> Vec<(u64, String)> {
        list(paths, &Digest::of(plan)).unwrap().into_iter().map(|a| (a.n, a.outcome)).collect()
    }

    #[test]
    fn a_resumed_run_keeps_its_attempt_and_a_new_one_abandons_it() {
        let (_dir, paths) = place();
        let first = open(&paths, intent("a", "p")).unwrap();
        assert_eq!(open(&paths, intent("a", "p")).unwrap(), first);
        let second = open(&paths, intent("b", "p")).unwrap();
        assert_eq!(second.n, 2);
        assert_eq!(outcomes(&paths, "p"), [(1, "abandoned".into()), (2, "open".into())]);
        close(&paths, &second, MEASURED).unwrap();
        assert!(close(&paths, &second, MEASURED).is_err());
        assert_eq!(open(&paths, intent("a", "p")).unwrap().n, 3);
        assert_eq!(outcomes(&paths, "p").len(), 3);
    }

    #[test]
    fn a_run_killed_between_its_last_launch_and_its_seal_keeps_its_attempt() {
        let (_dir, paths) = place();
        let measured = open(&paths, intent("a", "p")).and_then(|attempt| close(&paths, &attempt, MEASURED)).unwrap();
        assert_eq!(open(&paths, intent("a", "p")).unwrap(), measured);
        close(&paths, &open(&paths, intent("b", "p")).unwrap(), MEASURED).unwrap();
        assert_eq!(open(&paths, intent("a", "p")).unwrap().n, 3);
    }

    #[test]
    fn only_attempts_with_the_plan_are_listed() {
        let (_dir, paths) = place();
        for (run, plan) in [("a", "p"), ("b", "q"), ("c", "p")] {
            let attempt = open(&paths, intent(run, plan)).unwrap();
            close(&paths, &attempt, "failed: no").unwrap();
        }
        assert_eq!(outcomes(&paths, "p"), [(1, "failed: no".into()), (3, "failed: no".into())]);
        assert_eq!(outcomes(&paths, "other"), []);
    }

    #[test]
    fn a_run_does_not_go_on_with_another_plan() {
        let (_dir, paths) = place();
        open(&paths, intent("a", "p")).unwrap();
        assert_eq!(code_of(&open(&paths, intent("a", "q")).unwrap_err()), ExitCode::Integrity);
    }

    #[test]
    fn an_edited_record_is_refused() {
        let (_dir, paths) = place();
        let attempt = open(&paths, intent("a", "p")).unwrap();
        close(&paths, &attempt, "failed: anomalies").unwrap();
        let text = std::fs::read_to_string(file(&paths)).unwrap();
        std::fs::write(file(&paths), text.replacen("\"run\":\"a\"", "\"run\":\"b\"", 1)).unwrap();
        for error in [list(&paths, &Digest::of("p")).unwrap_err(), open(&paths, intent("c", "p")).unwrap_err()] {
            assert_eq!(code_of(&error), ExitCode::Integrity);
        }
    }
}
