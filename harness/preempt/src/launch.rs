//! What the phases need of a device: typed launches in, raw records out.
//!
//! Two devices implement it: `cuda` and `emulated`. Neither decides anything about a phase; neither writes files.

use crate::plan::{Leg, Setter};
use crate::tables::COUNTS;
use harness_core::gpu::Gpu;
use harness_core::launch::{LaunchTrace, TimerTrace};
use harness_core::record::LaunchLog;
use schema::cell::{DeviceFacts, LaunchConfig};
use schema::progress::Sites;

/// A device that runs the experiment's kernels.
///
/// Every call is synchronous, bounded by a device-side deadline, and checks its own outputs against the oracle.
pub trait Device {
    /// What this device is.
    fn facts(&self) -> &DeviceFacts;

    /// Measures the global timer: its quantum and each SM's offset to the SM of block 0.
    ///
    /// # Errors
    /// When a launch fails or hits its deadline.
    fn timer(&mut self, rounds: u32) -> anyhow::Result<TimerTrace>;

    /// Runs the calibrate kernel once.
    ///
    /// # Errors
    /// When the grid exceeds residency, or the launch fails.
    fn calibrate(&mut self, launch: &CalibrateLaunch) -> anyhow::Result<CalibrateRaw>;

    /// Drains a queue once, with the poll-free kernel or a polling one without a schedule.
    ///
    /// # Errors
    /// When the grid exceeds residency, or the launch fails.
    fn drain(&mut self, launch: &DrainLaunch) -> anyhow::Result<LaunchRaw>;

    /// Drains a queue with the poll-free kernel and launches one urgent kernel beside it, on a high-priority stream.
    ///
    /// # Errors
    /// When the grid exceeds residency, or a launch fails.
    fn baseline(&mut self, launch: &BaselineLaunch) -> anyhow::Result<BaselineRaw>;

    /// Runs a yield kernel with a schedule of events.
    ///
    /// # Errors
    /// When the grid exceeds residency, or the launch fails.
    fn preempt(&mut self, launch: &PreemptLaunch) -> anyhow::Result<PreemptRaw>;

    /// Keeps every SM busy with tiles for about `seconds`, and returns the in-band clock of the last window in MHz.
    ///
    /// # Errors
    /// When a launch fails.
    fn burn(&mut self, seconds: f64) -> anyhow::Result<f64>;

    /// Site counters summed over all launches so far.
    fn sites(&self) -> Sites;

    /// The GPU it runs on; absent in the emulation.
    fn gpu(&mut self) -> Option<&mut Gpu>;
}

/// A launch of the calibrate kernel.
#[derive(Clone, Copy, Debug)]
pub struct CalibrateLaunch {
    /// Inner dimension; a multiple of `crate::plan::K_CHUNK`.
    pub k: u32,
    /// Blocks.
    pub blocks: u32,
    /// Tiles before recording begins, a block on average.
    pub warmup_tiles: u32,
    /// Tiles whose ends each block records at most, one boundary more than that.
    pub tiles: u32,
    /// Tiles after as many, a block on average, so that every block still works.
    pub tail_tiles: u32,
    /// Whether to spoil one output element before the check, which must then find exactly one wrong tile.
    pub poison: bool,
}

impl CalibrateLaunch {
    /// Tiles in its queue; absent where a queue does not hold as many.
    #[must_use]
    pub fn tasks(&self) -> Option<u32> {
        self.warmup_tiles.checked_add(self.tiles)?.checked_add(self.tail_tiles)?.checked_mul(self.blocks)
    }
}

/// What the calibrate kernel recorded.
#[derive(Clone, Debug)]
pub struct CalibrateRaw {
    /// The launch.
    pub launch: LaunchRaw,
    /// When tiles ended, on the device timer modulo 2^32: a row a block with room for a boundary more than tiles; 0 where there is
    /// none.
    pub boundary_ns: Vec<u32>,
    /// Largest relative error against float64.
    pub max_relative_error: f64,
}

/// Which kernel drains.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Drainer {
    /// The poll-free kernel.
    PollFree,
    /// The yield kernel of this poll period.
    Polling(u32),
}

/// A launch that drains a queue.
#[derive(Clone, Copy, Debug)]
pub struct DrainLaunch {
    /// The kernel.
    pub drainer: Drainer,
    /// Inner dimension.
    pub k: u32,
    /// Blocks.
    pub blocks: u32,
    /// Tiles in the queue.
    pub tasks: u32,
    /// Whether to spoil one output element before the check.
    pub poison: bool,
}

/// A drain with one urgent kernel beside it.
#[derive(Clone, Copy, Debug)]
pub struct BaselineLaunch {
    /// Inner dimension of background and urgent tiles.
    pub k: u32,
    /// Blocks of the drain.
    pub blocks: u32,
    /// Tiles in the queue.
    pub tasks: u32,
    /// When to launch the urgent kernel, in ns after the host saw the drain start.
    pub arrival_ns: u32,
    /// Selects the urgent tile's inputs.
    pub event_id: u32,
}

/// Times of one baseline event; see `tables::WAITS`.
#[derive(Clone, Debug)]
#[expect(missing_docs, reason = "named as in WAITS, which gives meaning and unit")]
pub struct BaselineRaw {
    pub launch: LaunchRaw,
    pub urgent: LaunchConfig,
    pub issue_ns: u32,
    pub start_ns: u32,
    pub done_ns: u32,
    pub drain_done_ns: u32,
    pub device_start_ns: i64,
    pub device_done_ns: i64,
    pub device_drain_ns: i64,
    pub anomaly: u32,
}

/// A launch with a schedule of events.
#[derive(Clone, Debug)]
pub struct PreemptLaunch {
    /// Inner dimension.
    pub k: u32,
    /// Blocks in the grid, block 0 included; with `Setter::Kernel` the setter takes one of them.
    pub blocks: u32,
    /// Poll period in tiles.
    pub poll: u32,
    /// Who sets the flag.
    pub set: Setter,
    /// Tiles in the queue; the launch drains all of them.
    pub tasks: u32,
    /// Planned gap before each event, in ns after the completion of the one before.
    pub gaps_ns: Vec<u32>,
    /// Urgent tiles per event.
    pub urgent_tiles: u32,
    /// The generation the flag starts at; events count up from it and may wrap.
    pub first_generation: u32,
    /// Identifies this launch's events, so that their inputs differ from any other launch's.
    pub first_event_id: u32,
    /// A delay planted in one leg of every `schema::timer::delayed_event`: the leg and nanoseconds.
    pub delay: Option<(Leg, u32)>,
    /// Set every event at once, without waiting for completion (coalescing is then likely).
    pub storm: bool,
    /// Nanoseconds after which the device gives up waiting.
    pub deadline_ns: u64,
}

/// What a launch with events recorded. Times are raw device-timer nanoseconds unless they say `host`.
#[derive(Clone, Debug)]
pub struct PreemptRaw {
    /// The launch.
    pub launch: LaunchRaw,
    /// The setter kernel's configuration, with `Setter::Kernel`.
    pub setter: Option<LaunchConfig>,
    /// The device timer when the first block started.
    pub start_ns: u64,
    /// Per event: just before the store that sets the flag; 0 when it was never set.
    pub set_ns: Vec<u64>,
    /// Per event and urgent tile, row by row: block that claimed it (`u32::MAX` when nobody did).
    pub claimer: Vec<u32>,
    /// Per event and urgent tile: start and end of the urgent tile.
    pub urgent_start_ns: Vec<u64>,
    /// See `urgent_start_ns`.
    pub urgent_done_ns: Vec<u64>,
    /// Per event: what was spent on the planted delay; 0 where none is planted.
    pub delay_ns: Vec<u32>,
    /// Per event and urgent tile: how often it was executed.
    pub urgent_executed: Vec<u32>,
    /// Per event, `blocks` entries: low 32 bits of the device timer when the block observed it; see `seen`.
    pub observed_ns: Vec<u32>,
    /// Per event, `blocks` entries: low 32 bits when every warp had the decision and conflicting copies had drained.
    pub ready_ns: Vec<u32>,
    /// Per event, `blocks` entries: low 32 bits when the last poll that returned an older generation began.
    pub last_old_ns: Vec<u32>,
    /// Per event, `blocks` entries: bit 0 observed, bit 1 ready; a block that only sets has 0 for all.
    pub seen: Vec<u8>,
    /// Host-set events: host nanoseconds since the launch call: just before the mapped store.
    pub host_issue_ns: Vec<u64>,
    /// Host-set events: when the host saw the urgent task done.
    pub host_done_ns: Vec<u64>,
}

/// What every launch of the experiment records.
#[derive(Clone, Debug)]
pub struct LaunchRaw {
    /// How and when it was launched, and the clock in it.
    pub trace: LaunchTrace,
    /// Background tiles asked for.
    pub tasks: u32,
    /// Background tiles executed, by the kernel's own counters.
    pub executed: u32,
    /// Background tiles whose output disagrees with the oracle (unwritten ones included).
    pub wrong_tiles: u32,
    /// Background tiles with an element nobody wrote.
    pub unwritten_tiles: u32,
    /// Tasks not executed exactly once.
    pub not_once: u32,
    /// Urgent tiles asked for.
    pub urgent_requested: u32,
    /// Urgent tiles executed.
    pub urgent_executed: u32,
    /// Urgent tiles whose output disagrees with the oracle.
    pub urgent_wrong: u32,
    /// Urgent tiles not executed exactly once.
    pub urgent_not_once: u32,
    /// Waits that ended at their deadline.
    pub deadline_hits: u32,
}

impl LaunchRaw {
    /// Adds it to a log that was made with [`COUNTS`], and returns its number.
    pub fn record(&self, log: &mut LaunchLog, warmup: bool) -> u32 {
        let counts = [
            self.tasks,
            self.executed,
            self.wrong_tiles,
            self.unwritten_tiles,
            self.not_once,
            self.urgent_requested,
            self.urgent_executed,
            self.urgent_wrong,
            self.urgent_not_once,
            self.deadline_hits,
        ];
        log.add(&self.trace, &counts, warmup)
    }

    /// Outputs that are wrong or were not made exactly once.
    #[must_use]
    pub fn wrong(&self) -> u64 {
        let outputs = [self.wrong_tiles, self.not_once, self.urgent_wrong, self.urgent_not_once];
        outputs.iter().map(|count| u64::from(*count)).sum()
    }
}

/// A log of the experiment's launches.
#[must_use]
pub fn log() -> LaunchLog {
    LaunchLog::new(COUNTS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::emulated::Emulated;

    #[test]
    fn the_launch_table_has_the_columns_of_its_format() {
        let launch = DrainLaunch { drainer: Drainer::PollFree, k: 32, blocks: 2, tasks: 9, poison: true };
        let raw = Emulated::open().drain(&launch).unwrap();
        let mut log = log();
        raw.record(&mut log, false);
        let table = log.table();
        assert!(COUNTS.iter().all(|count| table.u32(count).is_ok()), "{:?}", table.columns);
        let values = ["tasks", "executed", "wrong_tiles", "not_once"].map(|name| table.u32(name).unwrap()[0]);
        assert_eq!((values, raw.wrong()), ([9, 9, 1, 0], 1));
    }
}
