//! What every step of one command needs: the paths, the user interface, and the journal of the steps so far.
//!
//! The journal says which step began when, how long it took, whether it was cached, and what it depended on.

use anyhow::Result;
use host::cache;
use host::paths::Paths;
use host::ui::Ui;
use jiff::Timestamp;
use schema::Digest;
use schema::manifest::Step;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::cell::RefCell;
use std::time::Instant;

/// What a command works with.
pub struct Context<'a> {
    /// The root's paths.
    pub paths: &'a Paths,
    /// Progress.
    pub ui: &'a Ui,
    /// Say only what went wrong.
    pub quiet: bool,
    journal: RefCell<Vec<Step>>,
}

/// What a step reports of itself: whether its result was cached, and the digest of everything it depended on.
#[derive(Clone, Copy, Debug)]
pub struct Said {
    /// Whether nothing had to be done.
    pub cached: bool,
    /// Digest of everything it depended on.
    pub key: Digest,
}

impl<'a> Context<'a> {
    /// A command's beginning.
    pub fn new(paths: &'a Paths, ui: &'a Ui, quiet: bool) -> Self {
        Self { paths, ui, quiet, journal: RefCell::default() }
    }

    /// Runs a step and records it; a step that fails is not recorded.
    ///
    /// # Errors
    /// The step's own.
    pub fn step<T>(&self, name: &str, work: impl FnOnce() -> Result<T>, said: impl Fn(&T) -> Said) -> Result<T> {
        self.ui.step(name);
        let (began, clock) = (now(), Instant::now());
        let value = work()?;
        let Said { cached, key } = said(&value);
        let seconds = clock.elapsed().as_secs_f64();
        self.journal.borrow_mut().push(Step { name: name.to_owned(), began, seconds, cached, key });
        Ok(value)
    }

    /// A step that only computes: its answer is cached in the file `answer` under its key.
    ///
    /// # Errors
    /// The step's own, or when the answer cannot be kept.
    pub fn computed<T: Serialize + DeserializeOwned>(
        &self,
        name: &str,
        answer: &str,
        key: Digest,
        work: impl FnOnce() -> Result<T>,
    ) -> Result<T> {
        let work = || cache::answer(self.paths, answer, key, work);
        self.step(name, work, |(_, cached)| Said { cached: *cached, key }).map(|(value, _)| value)
    }

    /// The steps so far, in order.
    pub fn steps(&self) -> Vec<Step> {
        self.journal.borrow().clone()
    }

    /// The steps for `--json`.
    pub fn steps_json(&self) -> serde_json::Value {
        let one = |step: Step| serde_json::json!({"name": step.name, "seconds": step.seconds, "cached": step.cached});
        self.steps().into_iter().map(one).collect()
    }
}

/// The time now, in UTC and whole seconds, as records hold it.
pub fn now() -> String {
    Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_that_fails_leaves_no_note() {
        let (paths, ui) = (Paths::new("/nowhere"), Ui::new(true));
        let ctx = Context::new(&paths, &ui, true);
        let said = |_: &()| Said { cached: true, key: Digest::of("k") };
        ctx.step("build", || Ok(()), said).unwrap();
        assert!(ctx.step("run", || Err::<(), _>(anyhow::anyhow!("no")), said).is_err());
        let names: Vec<_> = ctx.steps().into_iter().map(|step| step.name).collect();
        assert_eq!(names, ["build"]);
    }
}
