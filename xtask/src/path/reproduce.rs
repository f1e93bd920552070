//! The main path. A newcomer starts here.
//!
//! config → provision → build → sanitize → clocks → run → record → gate. It ends at the verdict and never publishes.
//! Each step takes what the step before made; a step whose inputs are unchanged is taken from its cache.

use crate::cli::flags;
use crate::path::levels::{Level, Levels, published_builds, reached, rebuilt};
use crate::path::session::Session;
use anyhow::Result;
use schema::verdict::Verdict;
use std::path::PathBuf;

/// What a reproduction came to.
pub struct Reproduced {
    /// Run id.
    pub run: String,
    /// Its directory.
    pub run_dir: PathBuf,
    /// The gate's judgement.
    pub verdict: Verdict,
    /// The levels.
    pub levels: Levels,
}

/// Runs the whole path.
///
/// # Errors
/// The first step's that fails, with that step's exit code; 15 when the gate refuses a run of a real device.
pub fn reproduce(session: &mut Session<'_>, ask: &flags::Reproduce) -> Result<Reproduced> {
    let device = session.device(&ask.device)?;
    let frozen = session.freeze(ask, &device)?;
    let provisioned = session.provision(&ask.place, &device)?;
    let published = published_builds(session.paths())?;
    let built = session.build(&provisioned, &device, &published.records)?;
    let sanitized = session.sanitize(&provisioned, &built, &frozen, &device)?;
    let counted = session.counters(ask, &provisioned, &built, &frozen, &sanitized, &device)?;
    let counted = counted.as_ref();
    let run = session.find_run(ask, &frozen, &provisioned, &built, &sanitized, counted, &device)?;
    let measured = session.measure(ask, run, &frozen, &provisioned, &built, &sanitized, counted, &device)?;
    let sealed = session.seal(measured)?;
    let judged = session.gate(sealed, &built)?;
    let (published_holds, recomputes) = session.verify_published()?;
    let levels = Levels::from([
        ("L0".to_owned(), published_holds),
        ("L1".to_owned(), rebuilt(&published, &built.record)),
        ("L2".to_owned(), recomputes),
        ("L3".to_owned(), remeasured(&device, &judged)),
    ]);
    session.say_levels(&levels, &device, &judged);
    session.refuse_unless_passed(&device, &judged)?;
    Ok(Reproduced { run: judged.run, run_dir: judged.run_dir, verdict: judged.verdict, levels })
}

fn remeasured(device: &crate::path::device::Device, judged: &crate::path::session::Judged) -> Level {
    if device.is_emulated() {
        return Level::new(
            "not run",
            "NOT RE-MEASURED: the emulated device exercises the path and shows nothing of a GPU",
        );
    }
    match judged.passed {
        true => Level::new("holds", format!("re-measured on {}", device.slug)),
        false => Level::new("fails", "measured, and the gate refused it"),
    }
}

impl Reproduced {
    /// The highest level that holds.
    pub fn level(&self) -> String {
        reached(&self.levels)
    }
}
