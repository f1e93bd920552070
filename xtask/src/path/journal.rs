//! The journal of one command: which step began when, how long it took, whether it was cached, and what it depended on.

use anyhow::Result;
use jiff::Timestamp;
use schema::Digest;
use schema::manifest::Step;
use std::time::Instant;

/// The steps so far, in order.
#[derive(Clone, Debug, Default)]
pub struct Journal {
    steps: Vec<Step>,
}

/// What a step says of itself: whether its result was there already, and the digest of all it depended on.
#[derive(Clone, Copy, Debug)]
pub struct Said {
    /// Whether nothing had to be done.
    pub cached: bool,
    /// Digest of everything it depended on.
    pub key: Digest,
}

impl Journal {
    /// Does a step and notes it; a step that fails is not noted.
    ///
    /// # Errors
    /// The step's own.
    pub fn step<T>(&mut self, name: &str, work: impl FnOnce() -> Result<T>, said: impl Fn(&T) -> Said) -> Result<T> {
        let (began, clock) = (now(), Instant::now());
        let value = work()?;
        let said = said(&value);
        self.note(name, began, clock.elapsed().as_secs_f64(), said);
        Ok(value)
    }

    /// Notes a step that was done outside of [`Journal::step`], with its own times.
    pub fn note(&mut self, name: &str, began: String, seconds: f64, said: Said) {
        let Said { cached, key } = said;
        self.steps.push(Step { name: name.to_owned(), began, seconds, cached, key });
    }

    /// The steps.
    pub fn steps(&self) -> &[Step] {
        &self.steps
    }

    /// For `--json`.
    pub fn json(&self) -> serde_json::Value {
        let one = |step: &Step| serde_json::json!({"name": step.name, "seconds": step.seconds, "cached": step.cached});
        self.steps.iter().map(one).collect()
    }
}

/// The time now, in UTC and whole seconds, as records have it.
pub fn now() -> String {
    Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_that_fails_leaves_no_note() {
        let mut journal = Journal::default();
        let said = |_: &()| Said { cached: true, key: Digest::of("k") };
        journal.step("build", || Ok(()), said).unwrap();
        assert!(journal.step("run", || Err::<(), _>(anyhow::anyhow!("no")), said).is_err());
        let names: Vec<_> = journal.steps().iter().map(|step| step.name.as_str()).collect();
        assert_eq!(names, ["build"]);
    }
}
