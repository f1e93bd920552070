//! The timer cell, which every experiment has: the contract's side of it is [`schema::timer`].

use crate::experiment::{Context, Measured};
use crate::launch::TimerTrace;
use crate::record::LaunchLog;
use crate::session::Session;
use crate::target::Target;
use schema::cell::{Facts, TIMER_EVENTS};
use schema::timer::TimerPlan;
use tables::{Column, Table};

/// Measures the cell on a device, as the plan's numbers of its phase say.
///
/// # Errors
/// When the plan has no such numbers, or a launch fails.
pub fn measure(target: &mut Target, phase: &str, log: LaunchLog, context: &mut Context) -> anyhow::Result<Measured> {
    let TimerPlan { offset_rounds } = context.plan.numbers(phase)?;
    Ok(cell(&target.timer(offset_rounds)?, log, context.session))
}

/// The cell, from a measurement of the timer and an empty log of the experiment's launches. The launch is counted in the session.
#[must_use]
pub fn cell(trace: &TimerTrace, mut log: LaunchLog, session: &mut Session) -> Measured {
    session.count(&trace.launch, 0);
    log.add_without_work(&trace.launch);
    let column = |value: fn(&(u32, i64, u32, u32)) -> u32| Column::U32(trace.sms.iter().map(value).collect());
    let columns = [
        column(|row| row.0),
        Column::I64(trace.sms.iter().map(|row| row.1).collect()),
        column(|row| row.2),
        column(|row| row.3),
    ];
    let events = TIMER_EVENTS.iter().zip(columns).fold(Table::new(), |table, (name, column)| table.with(name, column));
    let facts = Facts::default().with(schema::timer::QUANTUM, trace.quantum_ns);
    Measured { log, events, blocks: None, facts, missed_fault: false }
}
