//! The plainest cell: one launch whose output is spoiled, and then the same launch again and again.
//!
//! What is launched, and how its outputs are checked, is the experiment's.

use crate::experiment::Measured;
use crate::launch::LaunchTrace;
use crate::record::LaunchLog;
use crate::session::Session;
use schema::cell::Facts;
use schema::facts::POISON_CAUGHT;
use tables::{Column, Table};

/// A launch whose outputs were compared with the oracle.
#[derive(Clone, Debug)]
pub struct Checked {
    /// How it went.
    pub trace: LaunchTrace,
    /// The experiment's counts, in the order of its log.
    pub counts: Vec<u32>,
    /// Outputs that are wrong.
    pub wrong: u32,
}

/// What the launches of a cell left behind.
#[derive(Clone, Debug)]
pub struct Repeated {
    /// Every launch.
    pub log: LaunchLog,
    /// Whether the oracle found one wrong output in the spoiled launch.
    pub caught: bool,
    /// Numbers of the launches that count.
    pub launches: Vec<u32>,
    /// Their walls in nanoseconds.
    pub walls_ns: Vec<u32>,
}

impl Repeated {
    /// The cell: an event a launch, with columns `launch`, these constants of the cell, and `wall_ns`.
    #[must_use]
    pub fn cell(self, constants: &[(&str, u32)], facts: Facts) -> Measured {
        let rows = self.launches.len();
        let constant = |table: Table, (name, value): &(&str, u32)| table.with(name, Column::U32(vec![*value; rows]));
        let events = constants.iter().fold(Table::new().with("launch", Column::U32(self.launches)), constant);
        Measured {
            log: self.log,
            events: events.with("wall_ns", Column::U32(self.walls_ns)),
            blocks: None,
            facts: facts.with(POISON_CAUGHT, self.caught),
            missed_fault: !self.caught,
        }
    }
}

/// Makes a launch with one element spoiled (`launch(true)`), which is kept as warm-up, and then launches until `wanted` of them
/// count. All are counted in the session.
///
/// # Errors
/// When a launch fails.
pub fn repeat(
    wanted: u32,
    mut log: LaunchLog,
    session: &mut Session,
    mut launch: impl FnMut(bool) -> anyhow::Result<Checked>,
) -> anyhow::Result<Repeated> {
    let mut spoiled = launch(true)?;
    session.count_spoiled(&mut spoiled.trace);
    log.add(&spoiled.trace, &spoiled.counts, true);
    let (mut launches, mut walls_ns) = (Vec::new(), Vec::new());
    for made in 1..=wanted {
        let Checked { trace, counts, wrong } = launch(false)?;
        session.count(&trace, wrong.into());
        launches.push(log.add(&trace, &counts, false));
        walls_ns.push(trace.wall_ns);
        session.events(made.into())?;
    }
    Ok(Repeated { log, caught: spoiled.wrong == 1, launches, walls_ns })
}
