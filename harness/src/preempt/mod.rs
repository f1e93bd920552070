//! The `preempt` experiment: one file per phase, and the timeline they share. Each turns launches into a cell's tables.

pub mod baseline;
pub mod calibrate;
pub mod cost;
pub mod instrument;
pub mod timeline;
pub mod yields;

use crate::measure::Context;
use crate::record::Measured;
use schema::plan::Work;

/// Does a cell's work.
///
/// # Errors
/// When a launch fails or the timer cell is missing.
pub fn measure(context: &mut Context, work: &Work) -> anyhow::Result<Measured> {
    match *work {
        Work::Timer => instrument::timer(context),
        Work::Delay(leg) => instrument::delay(context, leg),
        Work::Calibrate { k, blocks } => calibrate::measure(context, k, blocks),
        Work::Baseline { k, blocks } => baseline::measure(context, k, blocks),
        Work::Yield { k, blocks, poll, set } => yields::measure(context, k, blocks, poll, set),
        Work::Cost { k, blocks, poll } => cost::measure(context, k, blocks, poll),
    }
}
