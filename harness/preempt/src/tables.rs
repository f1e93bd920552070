//! The columns of preempt's tables with the type and meaning of each, and the bits of its anomalies. What the values must
//! hold is in `plan/contract/checks.rs`.

use schema::contract::Kind::{I64, OptI64, U32};
use schema::contract::Role::{Anomaly, Count, DeviceDuration, DeviceInstant, HostInstant, Index};
use schema::contract::{BlocksSpec, ColumnSpec, Derivation, Derive, Kind, Role, TableSpec};
use tables::{Column, Table};

/// Columns in the order of the file: name, type, what the values are.
pub type Columns = [(&'static str, Kind, Role)];

/// Names of the counts that every launch of the experiment has, as columns of `<cell>.launches.parquet` beside those that
/// every launch of any experiment has: tasks asked for and executed, outputs that disagree with the oracle, that nobody
/// wrote and that were not made exactly once, the same of urgent tiles, and waits that ended at their deadline.
pub const COUNTS: &[&str] = &[
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
];

/// `calibrate/*.parquet`: one row a recorded tile; `tile` is its index in the block.
pub const TILES: &Columns = &[
    ("launch", U32, Index),
    ("block", U32, Index),
    ("sm", U32, Index),
    ("tile", U32, Index),
    ("wall_ns", U32, DeviceDuration),
];

/// `baseline/*.parquet`: one row an urgent task, one drain each. Host instants are on one host clock, from the instant the
/// host saw the drain running: the planned arrival, just before the launch call, the urgent kernel's start and result as the
/// host saw them, and the drain's end. Device instants count from the start of the drain's first block.
pub const WAITS: &Columns = &[
    ("launch", U32, Index),
    ("arrival_ns", U32, HostInstant),
    ("issue_ns", U32, HostInstant),
    ("start_ns", U32, HostInstant),
    ("done_ns", U32, HostInstant),
    ("drain_done_ns", U32, HostInstant),
    ("device_start_ns", I64, DeviceInstant),
    ("device_done_ns", I64, DeviceInstant),
    ("device_drain_ns", I64, DeviceDuration),
    ("anomaly", U32, Anomaly),
];

/// `yield/k=….parquet` and `instrument/leg=….parquet`: one row an event of a launch with a schedule.
///
/// Device instants count from the set instant, which itself counts from the first block's start. `gap_ns` is the planned gap
/// before the event; `visibility_ns` is absent when no poll after the set instant still returned the old generation;
/// `observers` and `ready` count blocks; `claimer` is the block that claimed first. `host_*` are absent unless the host set
/// the event, and count from the launch's host start. `delay_leg` is 0 for none; `delay_ns` is what was spent on the planted
/// delay, by the timer that spent it.
pub const YIELDS: &Columns = &[
    ("launch", U32, Index),
    ("event", U32, Index),
    ("set_ns", I64, DeviceInstant),
    ("gap_ns", U32, DeviceDuration),
    ("first_observer_ns", I64, DeviceInstant),
    ("last_observer_ns", I64, DeviceInstant),
    ("last_ready_ns", I64, DeviceInstant),
    ("visibility_ns", OptI64, DeviceInstant),
    ("observers", U32, Count),
    ("ready", U32, Count),
    ("claimer", U32, Index),
    ("claimer_observed_ns", I64, DeviceInstant),
    ("claimer_ready_ns", I64, DeviceInstant),
    ("urgent_start_ns", I64, DeviceInstant),
    ("urgent_done_ns", I64, DeviceInstant),
    ("claims", U32, Count),
    ("host_issue_ns", OptI64, HostInstant),
    ("host_done_ns", OptI64, HostInstant),
    ("delay_leg", U32, Index),
    ("delay_ns", I64, DeviceDuration),
    ("anomaly", U32, Anomaly),
];

/// `yield/cost,….parquet`: one row a drain of an ABBA quad; `position` 0 to 3, `arm` 0 poll-free and 1 polling.
pub const DRAINS: &Columns = &[
    ("launch", U32, Index),
    ("quad", U32, Index),
    ("position", U32, Index),
    ("arm", U32, Index),
    ("wall_ns", U32, DeviceDuration),
];

/// Detached `<cell>.blocks.parquet` of yield cells: one row a block and event, all u32. `observed_ns` and `ready_ns` count from
/// the set instant, modulo 2^32; so does `last_old_ns`, the start of the last poll that returned the old generation: above
/// 2^31 means before it.
pub const BLOCK_ROWS: &[&str] = &["launch", "event", "block", "sm", "observed_ns", "ready_ns", "last_old_ns"];

/// A table of these columns.
#[must_use]
pub fn table(columns: &Columns, values: impl IntoIterator<Item = Column>) -> Table {
    columns.iter().zip(values).fold(Table::new(), |table, ((name, ..), values)| table.with(name, values))
}

fn spec(columns: &Columns, key: &[&str]) -> TableSpec {
    TableSpec::new(columns.iter().map(|(name, kind, role)| ColumnSpec::new(name, *kind, *role)).collect(), key)
}

pub(crate) fn tiles() -> TableSpec {
    spec(TILES, &["launch", "block", "tile"])
}

pub(crate) fn waits() -> TableSpec {
    spec(WAITS, &["launch"])
}

pub(crate) fn drains() -> TableSpec {
    spec(DRAINS, &["launch", "quad", "position"])
}

pub(crate) fn yields() -> TableSpec {
    let derived = [
        ("first_observer_ns", Derive::Min("observed_ns".to_owned())),
        ("last_observer_ns", Derive::Max("observed_ns".to_owned())),
        ("last_ready_ns", Derive::Max("ready_ns".to_owned())),
        ("visibility_ns", Derive::MaxAfter("last_old_ns".to_owned())),
        ("observers", Derive::Rows),
        ("ready", Derive::Rows),
    ];
    let blocks = BlocksSpec {
        columns: BLOCK_ROWS.iter().map(|name| (*name).to_owned()).collect(),
        derived: derived.map(|(event, how)| Derivation { event: event.to_owned(), how }).into(),
    };
    TableSpec { blocks: Some(blocks), ..spec(YIELDS, &["launch", "event"]) }
}

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
