//! The instrument itself: the timer's quantum and offsets, and a delay planted in one leg of the timeline at a time.

use super::yields::{Shape, event_launches};
use crate::measure::Context;
use crate::record::{LaunchLog, Measured};
use anyhow::Context as _;
use schema::cell::{CellFacts, TIMER_EVENTS};
use schema::plan::{Cell, Leg, Phase, Setter, Work};
use schema::table::{Column, Table};

/// Events of one launch with planted delays, at most.
const DELAY_EVENTS_PER_LAUNCH: u32 = 500;

/// Cell `timer`.
///
/// # Errors
/// When a launch fails.
pub fn timer(context: &mut Context) -> anyhow::Result<Measured> {
    let raw = context.session.timer(context.profile.instrument.offset_rounds)?;
    let mut log = LaunchLog::default();
    log.add(&raw.launch, false);
    let column = |value: fn(&(u32, i64, u32, u32)) -> u32| Column::U32(raw.sms.iter().map(value).collect());
    let columns = [
        column(|row| row.0),
        Column::I64(raw.sms.iter().map(|row| row.1).collect()),
        column(|row| row.2),
        column(|row| row.3),
    ];
    let events = TIMER_EVENTS.iter().zip(columns).fold(Table::new(), |table, (name, column)| table.with(name, column));
    let facts = CellFacts { timer_quantum_ns: Some(raw.quantum_ns), ..CellFacts::default() };
    Ok(Measured { log, events, blocks: None, facts })
}

/// Blocks of a leg's launches: block 0 sets, the other polls.
const LEG_BLOCKS: u32 = 2;

/// Cells `leg=…`: a setter and one block that polls every tile, every `schema::plan::delayed_event` delayed in `leg`.
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

/// How far a cross-SM interval may be negative: the largest offset that the timer cell measured, plus one quantum.
///
/// # Errors
/// When the timer cell is missing.
pub fn tolerance_ns(context: &Context) -> anyhow::Result<i64> {
    let cell = Cell { phase: Phase::Instrument, name: "timer".to_owned(), work: Work::Timer };
    let (header, events) = context.store.read(&cell).context("the timer cell must come first")?;
    let largest = events.i64("offset_ns")?.iter().map(|offset| offset.abs()).max().unwrap_or(0);
    let quantum = header.facts.timer_quantum_ns.context("the timer cell has no quantum")?;
    Ok(largest + i64::from(quantum))
}
