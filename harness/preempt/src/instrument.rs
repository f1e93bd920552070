//! Measures the instrument itself: the timer's quantum and offsets, and a delay planted in one leg of the timeline at
//! a time.

use super::yields::{Shape, event_launches};
use crate::launch;
use crate::pilots::Context;
use crate::plan::{Leg, Setter};
use harness_core::experiment::Measured;
use harness_core::timer;

/// Events of one launch with planted delays, at most.
const DELAY_EVENTS_PER_LAUNCH: u32 = 500;

/// Cell `timer`.
///
/// # Errors
/// When a launch fails.
pub fn timer(context: &mut Context) -> anyhow::Result<Measured> {
    let launches = &mut context.launches;
    let raw = launches.device.timer(context.profile.instrument.offset_rounds)?;
    Ok(timer::cell(&raw, launch::log(), launches.session))
}

/// Blocks of a leg's launches: block 0 sets, the other polls.
const LEG_BLOCKS: u32 = 2;

/// Cells `leg=…`: a setter and one block that polls every tile, every `schema::timer::delayed_event` delayed in `leg`.
///
/// One polling block has nobody to compete with for a claim, so a leg lasts the same whether or not another was delayed; at
/// full residency the claimer is whoever was quickest, and the choice moves with the delay.
///
/// # Errors
/// When a launch fails or the timer cell is missing.
pub fn delay(context: &mut Context, leg: Leg) -> anyhow::Result<Measured> {
    let plan = &context.profile.instrument;
    let set = match leg {
        Leg::HostToSet | Leg::DoneToHost => Setter::Host,
        _ => Setter::Device,
    };
    let shape = Shape {
        k: context.profile.yields.k,
        blocks: LEG_BLOCKS,
        poll: 1,
        set,
        delay: Some((leg, plan.delay_ns)),
        events: plan.delay_events,
        launches: plan.delay_events.div_ceil(DELAY_EVENTS_PER_LAUNCH),
        warmup_launches: 0,
        keep_blocks: false,
    };
    event_launches(context, &shape)
}
