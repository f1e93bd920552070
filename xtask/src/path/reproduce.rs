//! The main path. A newcomer starts here.
//!
//! config → provision → build → sanitize → clocks → run → record → gate. It ends at the verdict and never publishes.
//! Each step takes what the step before made; a step whose inputs are unchanged is taken from its cache.

use crate::path::ask::Reproduce;
use crate::path::context::Context;
use crate::path::device::choose_and_say;
use crate::path::judge::{Judged, judge};
use crate::path::levels::{self, Levels, published_builds, reached};
use crate::path::measure::{count, find_run, measure, seal_or_load};
use crate::path::permit::frozen;
use crate::path::subject::{Subject, archs, build, program, provision, sanitize};
use crate::steps::seal::Sealed;
use anyhow::Result;
use schema::build::BuildRecord;

/// The result of a reproduction.
pub struct Reproduced {
    /// The run and the gate's judgement of it.
    pub judged: Judged,
    /// The levels.
    pub levels: Levels,
}

/// Runs the whole path.
///
/// # Errors
/// The first step's that fails, with that step's exit code; 15 when the gate refuses a run of a real device.
pub fn reproduce(ctx: &Context<'_>, ask: &Reproduce) -> Result<Reproduced> {
    let published = published_builds(ctx.paths)?;
    let subject = sanitized(ctx, ask, &published.records)?;
    let sealed = sealed(ctx, ask, &subject)?;
    let judged = judge(ctx, sealed, &subject.built)?;
    let (published_holds, recomputes) = levels::verify_published(ctx)?;
    let levels = Levels::from([
        ("L0".to_owned(), published_holds),
        ("L1".to_owned(), levels::rebuilt(&published, &subject.built.record)),
        ("L2".to_owned(), recomputes),
        ("L3".to_owned(), levels::remeasured(&subject.device, judged.passed)),
    ]);
    levels::say(ctx, &levels, &judged, subject.device.is_emulated());
    judged.refuse_unless_passed(subject.device.is_emulated())?;
    Ok(Reproduced { judged, levels })
}

/// The path up to the sanitizer: all that is measured, for the device's architecture and those of everything published.
///
/// # Errors
/// As [`reproduce`].
pub fn sanitized(ctx: &Context<'_>, ask: &Reproduce, published: &[(String, BuildRecord)]) -> Result<Subject> {
    let device = choose_and_say(ctx.ui, &ask.device)?;
    let frozen = frozen(ctx.paths, ask, &device)?;
    let provisioned = provision(ctx, &ask.place, &device)?;
    let built = build(ctx, &provisioned, archs(ctx.paths, &device, published), false, Some(frozen.plan.program()))?;
    let program = program(ctx.paths, &built, &frozen, &device)?;
    let sanitized = sanitize(ctx, &provisioned, &program)?;
    Ok(Subject { device, frozen, provisioned, built, program, sanitized })
}

/// The path from the sanitizer to the sealed manifest. A run that is sealed already is loaded, with every file hashed again.
///
/// # Errors
/// As [`reproduce`].
pub fn sealed(ctx: &Context<'_>, ask: &Reproduce, subject: &Subject) -> Result<Sealed> {
    let counters = count(ctx, ask, subject)?;
    let mut run = find_run(ctx, ask, subject, counters.as_ref())?;
    let attempt = measure(ctx, ask, subject, counters.as_ref(), &mut run)?;
    seal_or_load(ctx, &run, attempt)
}

impl Reproduced {
    /// The highest level that holds.
    pub fn level(&self) -> String {
        reached(&self.levels)
    }
}
