//! The columns of preempt's tables, and the bits of its anomalies. What each must show is in the contract.

/// `<cell>.launches.parquet`: one row a launch, warm-up included.
///
/// `launch` u32, `config` u32 (index into `configs`), `warmup` u32 (0/1), `host_start_ns` i64 (host monotonic clock since
/// the harness started), `wall_ns` u32 (first block's start to last block's end, device timer), `tasks` u32, `executed` u32,
/// `wrong_tiles` u32, `unwritten_tiles` u32, `not_once` u32 (tasks not executed exactly once), `urgent_requested` u32,
/// `urgent_executed` u32, `urgent_wrong` u32, `urgent_not_once` u32, `deadline_hits` u32, `sms` u32 (SMs that sampled the
/// clock), `clock_windows` u32, `clock_khz_min` u32, `clock_khz_p50` u32, `clock_khz_max` u32 (over SMs and windows; zero
/// windows means the three are zero and the row counts as evidence of nothing).
pub const LAUNCHES: &[&str] = &[
    "launch",
    "config",
    "warmup",
    "host_start_ns",
    "wall_ns",
    "tasks",
    "executed",
    "wrong_tiles",
    "unwritten_tiles",
    "not_once",
    "urgent_requested",
    "urgent_executed",
    "urgent_wrong",
    "urgent_not_once",
    "deadline_hits",
    "sms",
    "clock_windows",
    "clock_khz_min",
    "clock_khz_p50",
    "clock_khz_max",
];

/// `calibrate/*.parquet`: one row a recorded tile: `launch` u32, `block` u32, `sm` u32, `tile` u32 (its index in the
/// block), `wall_ns` u32.
pub const CALIBRATE_EVENTS: &[&str] = &["launch", "block", "sm", "tile", "wall_ns"];

/// `baseline/*.parquet`: one row an urgent task, one drain each; all `host_*` on one host clock, from the instant the host saw the
/// drain running: `launch` u32, `arrival_ns` u32 (planned), `issue_ns` u32 (just before the launch call), `start_ns` u32 (host saw
/// the urgent kernel start), `done_ns` u32 (host saw its result), `drain_done_ns` u32 (host saw the drain end),
/// `device_start_ns` i64 and `device_done_ns` i64 (urgent kernel on the device timer, from the drain's first block's start),
/// `device_drain_ns` i64, `anomaly` u32 (bits of [`anomaly`]).
pub const BASELINE_EVENTS: &[&str] = &[
    "launch",
    "arrival_ns",
    "issue_ns",
    "start_ns",
    "done_ns",
    "drain_done_ns",
    "device_start_ns",
    "device_done_ns",
    "device_drain_ns",
    "anomaly",
];

/// `yield/k=….parquet` and `instrument/leg=….parquet`: one row an event. All `*_ns` without `host` count from the set instant on the
/// device timer: `launch` u32, `event` u32 (index in its launch), `set_ns` i64 (from the first block's start),
/// `gap_ns` u32 (planned gap before it), `first_observer_ns`, `last_observer_ns`, `last_ready_ns` i64, `visibility_ns` i64 absent when no
/// poll after the set instant still returned the old generation, `observers` u32, `ready` u32 (blocks), `claimer` u32 (block that
/// claimed first), `claimer_observed_ns`, `claimer_ready_ns`, `urgent_start_ns` (first), `urgent_done_ns` (last) i64, `claims` u32,
/// `host_issue_ns` absent unless host-set: i64 from the launch's host start, `host_set_seen_ns` absent, `host_done_ns` absent likewise,
/// `delay_leg` u32 (0 none), `delay_ns` i64 (what was spent on the planted delay, by the timer that spent it: about 0 for an event
/// without it, exactly 0 where none is planted), `anomaly` u32.
pub const YIELD_EVENTS: &[&str] = &[
    "launch",
    "event",
    "set_ns",
    "gap_ns",
    "first_observer_ns",
    "last_observer_ns",
    "last_ready_ns",
    "visibility_ns",
    "observers",
    "ready",
    "claimer",
    "claimer_observed_ns",
    "claimer_ready_ns",
    "urgent_start_ns",
    "urgent_done_ns",
    "claims",
    "host_issue_ns",
    "host_done_ns",
    "delay_leg",
    "delay_ns",
    "anomaly",
];

/// `yield/cost,….parquet`: one row a drain: `launch` u32, `quad` u32, `position` u32 (0 to 3), `arm` u32 (0 poll-free, 1
/// polling; ABBA), `wall_ns` u32.
pub const COST_EVENTS: &[&str] = &["launch", "quad", "position", "arm", "wall_ns"];

/// Detached `<cell>.blocks.parquet` of yield cells: one row a block and event: `launch`, `event`, `block`, `sm` u32, `observed_ns`
/// u32 and `ready_ns` u32 from the set instant (modulo 2^32), `last_old_ns` u32 (start of the last poll that returned the old
/// generation, modulo 2^32, from the set instant: above 2^31 means before it).
pub const BLOCK_ROWS: &[&str] = &["launch", "event", "block", "sm", "observed_ns", "ready_ns", "last_old_ns"];

/// Bits of an event's `anomaly` column. Zero means none.
pub mod anomaly {
    /// A block never observed the event.
    pub const UNOBSERVED: u32 = 1;
    /// A block observed the event but never became ready.
    pub const NOT_READY: u32 = 2;
    /// The urgent task was not done exactly as often as requested.
    pub const URGENT: u32 = 4;
    /// An interval of the timeline is negative by more than the cross-SM offset.
    pub const NEGATIVE: u32 = 8;
    /// A deadline was hit.
    pub const DEADLINE: u32 = 16;
    /// The event was due but never set, since the launch ended before.
    pub const LOST: u32 = 32;
    /// Two blocks recorded the same event in a way only one may, or one event has two records.
    pub const DUPLICATE: u32 = 64;
}
