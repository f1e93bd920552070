//! Measures the instrument itself: the timer's quantum and offsets, and a delay planted in one leg of the timeline at
//! a time.

use super::yields::{Shape, event_launches};
use crate::launch::{self, COUNTS};
use crate::pilots::Context;
use crate::plan::{Leg, Setter};
use harness_core::experiment::Measured;
use schema::cell::{Facts, TIMER_EVENTS};
use schema::table::{Column, Table};

/// Events of one launch with planted delays, at most.
const DELAY_EVENTS_PER_LAUNCH: u32 = 500;

/// Cell `timer`.
///
/// # Errors
/// When a launch fails.
pub fn timer(context: &mut Context) -> anyhow::Result<Measured> {
    let raw = context.launches.timer(context.profile.instrument.offset_rounds)?;
    let mut log = launch::log();
    log.add(&raw.launch, &[0; COUNTS.len()], false);
    let column = |value: fn(&(u32, i64, u32, u32)) -> u32| Column::U32(raw.sms.iter().map(value).collect());
    let columns = [
        column(|row| row.0),
        Column::I64(raw.sms.iter().map(|row| row.1).collect()),
        column(|row| row.2),
        column(|row| row.3),
    ];
    let events = TIMER_EVENTS.iter().zip(columns).fold(Table::new(), |table, (name, column)| table.with(name, column));
    let facts = Facts::default().with("timer_quantum_ns", raw.quantum_ns);
    Ok(Measured { log, events, blocks: None, facts, missed_fault: false })
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
