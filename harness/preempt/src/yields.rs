//! Phase 3: launches in which events interrupt a drain at tile boundaries.
//!
//! A launch gets more tasks than its events are expected to use up. If the queue still runs dry before the last
//! event, all events of the launch are discarded, for no other reason, its row is kept as warm-up, and the next
//! launch gets twice the tasks.

use super::timeline::{EventRow, Planned, add_block_rows, block_table, rows, table};
use crate::launch::{self, Drainer, PreemptLaunch, PreemptRaw};
use crate::pilots::Context;
use crate::plan::{Leg, Setter};
use crate::sizes::{gaps, spread};
use anyhow::{bail, ensure};
use harness_core::draws::Draws;
use harness_core::experiment::Measured;
use harness_core::record::LaunchLog;
use schema::cell::Facts;

/// The device gives up waiting after this and [`DEADLINE_LAUNCHES`] times as long as the launch is expected to last: it bounds
/// what a fault costs, and a sound launch comes nowhere near it.
const DEADLINE_NS: u64 = 2_000_000_000;
/// See [`DEADLINE_NS`].
const DEADLINE_LAUNCHES: u64 = 50;
/// Urgent tiles of an event.
const URGENT_TILES: u32 = 1;
/// Events of a pilot launch.
const PILOT_EVENTS: u32 = 20;
/// A queue that ran dry leaves no tile to begin after the last event, so this many tile walls prove that it did not.
const DRY_TAIL_TILES: u64 = 3;
/// How often the tasks are doubled before the cell is given up.
const MOST_DOUBLINGS: u32 = 5;

/// The launches of one cell with events.
#[derive(Clone, Debug)]
pub struct Shape {
    /// Inner dimension.
    pub k: u32,
    /// Blocks in the grid, the one that only sets included.
    pub blocks: u32,
    /// Poll period in tiles.
    pub poll: u32,
    /// Who sets the flag.
    pub set: Setter,
    /// A delay planted in one leg of every `schema::timer::delayed_event`.
    pub delay: Option<(Leg, u32)>,
    /// Events to record, at least.
    pub events: u32,
    /// Launches to spread them over, at least.
    pub launches: u32,
    /// Launches discarded before the first one kept.
    pub warmup_launches: u32,
    /// Whether to keep the rows of single blocks.
    pub keep_blocks: bool,
}

/// Cells `k=…,blocks=…,poll=…,set=…`.
///
/// # Errors
/// When a launch fails or the timer cell is missing.
pub fn measure(context: &mut Context, k: u32, blocks: u32, poll: u32, set: Setter) -> anyhow::Result<Measured> {
    let plan = &context.profile.yields;
    let shape = Shape {
        k,
        blocks,
        poll,
        set,
        delay: None,
        events: plan.events,
        launches: plan.launches,
        warmup_launches: plan.warmup_launches,
        keep_blocks: true,
    };
    event_launches(context, &shape)
}

/// Sizes and runs all launches of a shape.
///
/// # Errors
/// When a launch fails, the timer cell is missing, or the queue runs dry however many tasks it holds.
pub fn event_launches(context: &mut Context, shape: &Shape) -> anyhow::Result<Measured> {
    let tolerance_ns = context.tolerance_ns()?;
    let tile_wall_ns = context.tile_wall_ns(Drainer::Polling(shape.poll), shape.k, shape.blocks)?;
    let draws = context.seed.draws();
    let mut launcher = Launcher { context, shape, tile_wall_ns, draws, event_id: 0 };
    let mut size = launcher.size()?;
    let mut kept = Kept::new(tolerance_ns);
    let (mut warm, mut doublings) = (0, 0);
    while kept.launches < shape.launches || kept.rows.len() < shape.events as usize {
        let (launch, raw) = launcher.run(size)?;
        let dry = launcher.ran_dry(&raw);
        let warmup = dry || warm < shape.warmup_launches;
        let number = raw.launch.record(&mut kept.log, warmup);
        if let Some(setter) = &raw.setter {
            kept.log.config(setter);
        }
        if dry {
            doublings += 1;
            ensure!(
                doublings <= MOST_DOUBLINGS,
                "the queue ran dry before the last event {doublings} times in this cell"
            );
            size = size.with_more_tasks(launcher.context.most_tasks());
        } else if warmup {
            warm += 1;
        } else {
            kept.add(shape, number, &launch, &raw);
            launcher.context.launches.events(kept.rows.len() as u64)?;
        }
    }
    Ok(kept.measured(shape, size))
}

/// Events and tasks of one launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Size {
    events: u32,
    tasks: u32,
}

impl Size {
    /// Twice the tasks, or half the events where that many tasks do not fit.
    fn with_more_tasks(self, most: u32) -> Self {
        match self.tasks.checked_mul(2).filter(|tasks| *tasks <= most) {
            Some(tasks) => Self { tasks, ..self },
            None => Self { events: (self.events / 2).max(1), ..self },
        }
    }
}

/// Makes the launches of one cell.
struct Launcher<'a, 'c, 'd> {
    context: &'a mut Context<'c, 'd>,
    shape: &'a Shape,
    tile_wall_ns: u32,
    draws: Draws,
    /// The next launch's first event, over the whole cell, so that no two events share their inputs' number.
    event_id: u32,
}

impl Launcher<'_, '_, '_> {
    fn run(&mut self, size: Size) -> anyhow::Result<(PreemptLaunch, PreemptRaw)> {
        let shape = self.shape;
        let launch = PreemptLaunch {
            k: shape.k,
            blocks: shape.blocks,
            poll: shape.poll,
            set: shape.set,
            tasks: size.tasks,
            gaps_ns: gaps(&mut self.draws, size.events, self.tile_wall_ns, shape.poll),
            urgent_tiles: URGENT_TILES,
            first_generation: self.draws.below(u32::MAX),
            first_event_id: self.event_id,
            delay: shape.delay,
            storm: false,
            deadline_ns: self.deadline_ns(size),
        };
        self.event_id = self.event_id.wrapping_add(size.events);
        let raw = self.context.launches.preempt(&launch)?;
        Ok((launch, raw))
    }

    fn deadline_ns(&self, size: Size) -> u64 {
        let tiles = u64::from(size.tasks.div_ceil(self.shape.blocks - 1));
        let delays = self.shape.delay.map_or(0, |(_, ns)| u64::from(size.events) * u64::from(ns));
        DEADLINE_NS + DEADLINE_LAUNCHES * (tiles * u64::from(self.tile_wall_ns) + delays)
    }

    /// Sizes launches from a pilot: how many tasks an event uses up, gap included.
    fn size(&mut self) -> anyhow::Result<Size> {
        let most = self.context.most_tasks();
        let (shape, workers) = (self.shape, self.shape.blocks - 1);
        let delay_tiles = shape.delay.map_or(0, |(_, ns)| ns / self.tile_wall_ns);
        let tasks = PILOT_EVENTS.saturating_mul(workers).saturating_mul(2 * (4 + 3 * shape.poll + delay_tiles));
        let mut pilot = Size { events: PILOT_EVENTS, tasks: tasks.min(most) };
        for _ in 0..=MOST_DOUBLINGS {
            let (_, raw) = self.run(pilot)?;
            if !self.ran_dry(&raw) {
                let per_event = tasks_per_event(&raw, pilot);
                let spread = spread(shape.events, shape.launches, per_event, shape.blocks, most);
                return Ok(Size { events: spread.events, tasks: spread.tasks });
            }
            pilot = pilot.with_more_tasks(most);
        }
        bail!("the queue ran dry before the last event in every pilot, the last one with {} tasks", pilot.tasks)
    }

    /// Whether the queue may have run dry before the last event: too little work came after it.
    fn ran_dry(&self, raw: &PreemptRaw) -> bool {
        let end_ns = raw.start_ns + u64::from(raw.launch.trace.wall_ns);
        let tail_ns = end_ns.saturating_sub(last_done_ns(raw));
        tail_ns < DRY_TAIL_TILES * u64::from(self.tile_wall_ns)
    }
}

/// When the last urgent tile was done; a launch that never set its last event counts as never done.
fn last_done_ns(raw: &PreemptRaw) -> u64 {
    if raw.set_ns.contains(&0) && raw.launch.deadline_hits == 0 {
        return u64::MAX;
    }
    raw.urgent_done_ns.iter().copied().max().unwrap_or(0)
}

/// Tasks that one event of a launch used up: all tasks, times the share of the launch that its events took.
fn tasks_per_event(raw: &PreemptRaw, size: Size) -> u32 {
    let busy_ns = u128::from(last_done_ns(raw).saturating_sub(raw.start_ns));
    let used = u128::from(size.tasks) * busy_ns / u128::from(raw.launch.trace.wall_ns.max(1));
    u32::try_from(used / u128::from(size.events)).unwrap_or(u32::MAX).saturating_add(1)
}

/// What is kept of a cell's launches.
struct Kept {
    log: LaunchLog,
    rows: Vec<EventRow>,
    blocks: [Vec<u32>; 7],
    launches: u32,
    tolerance_ns: i64,
}

impl Kept {
    fn new(tolerance_ns: i64) -> Self {
        Self { log: launch::log(), rows: Vec::new(), blocks: Default::default(), launches: 0, tolerance_ns }
    }

    fn add(&mut self, shape: &Shape, number: u32, launch: &PreemptLaunch, raw: &PreemptRaw) {
        let planned = Planned {
            launch: number,
            blocks: shape.blocks,
            set: shape.set,
            urgent_tiles: launch.urgent_tiles,
            gaps_ns: &launch.gaps_ns,
            delay: shape.delay.map(|(leg, _)| leg),
            tolerance_ns: self.tolerance_ns,
        };
        self.launches += 1;
        self.rows.extend(rows(raw, &planned));
        if shape.keep_blocks {
            add_block_rows(&mut self.blocks, raw, &planned);
        }
    }

    fn measured(self, shape: &Shape, size: Size) -> Measured {
        let facts = Facts::default().with("tasks", size.tasks);
        let blocks = shape.keep_blocks.then(|| block_table(self.blocks));
        Measured { log: self.log, events: table(&self.rows), blocks, facts, missed_fault: false }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dry_queue_gets_more_tasks_or_fewer_events() {
        assert_eq!(Size { events: 20, tasks: 100 }.with_more_tasks(200), Size { events: 20, tasks: 200 });
        assert_eq!(Size { events: 20, tasks: 101 }.with_more_tasks(200), Size { events: 10, tasks: 101 });
        assert_eq!(Size { events: 1, tasks: u32::MAX }.with_more_tasks(200).events, 1);
    }
}
