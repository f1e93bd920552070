//! The timer phase that every experiment has: the step of the global timer and the offset of each SM's to that of
//! block 0's.
//!
//! Also the schedule of planted delays, with which any experiment can check its timeline. Nothing here reads a timer.

use crate::contract::{
    CellSpec, ColumnSpec, Expects, Kind, LaunchKind, MetricSpec, Recipe, Redraws, Role, TableSpec, Warmup,
};
use serde::Deserialize;

/// The name of the timer's event table in every contract.
pub const TABLE: &str = "timer";
/// The cell's name.
pub const CELL: &str = "timer";
/// The fact that holds the step of the global timer, in nanoseconds.
pub const QUANTUM: &str = "timer_quantum_ns";

/// The numbers of a plan's timer phase, where it has no others.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TimerPlan {
    /// Ping-pong rounds per SM for the cross-SM offset.
    pub offset_rounds: u32,
}

/// `sm` u32, `offset_ns` i64 (its timer minus that of block 0's SM), `rtt_ns` u32 (round trip of the best exchange), `rounds` u32.
#[must_use]
pub fn table() -> TableSpec {
    let columns = vec![
        ColumnSpec::new("sm", Kind::U32, Role::Index),
        ColumnSpec::new("offset_ns", Kind::I64, Role::DeviceDuration),
        ColumnSpec::new("rtt_ns", Kind::U32, Role::DeviceDuration),
        ColumnSpec::new("rounds", Kind::U32, Role::Count),
    ];
    TableSpec::new(columns, &["sm"])
}

/// The cell, for a device of so many SMs.
#[must_use]
pub fn cell(phase: &str, sms: u32, rounds: u32) -> CellSpec {
    let metric = |recipe| MetricSpec::plain(recipe).shown();
    CellSpec {
        phase: phase.to_owned(),
        name: CELL.to_owned(),
        role: CELL.to_owned(),
        table: TABLE.to_owned(),
        outputs: false,
        poison: false,
        estimate_s: f64::from(sms) * f64::from(rounds) * 2e-6,
        launches: vec![LaunchKind::new("timer", None, "", None)],
        guest: None,
        expects: Expects {
            events: u64::from(sms),
            launches: 0,
            tails: false,
            warmup: Warmup::new(None, Redraws::None),
        },
        checks: Vec::new(),
        metrics: vec![
            metric(Recipe::Fact { name: QUANTUM.to_owned(), fact: QUANTUM.to_owned() }),
            metric(Recipe::Largest {
                name: "sm_offset_ns_max".to_owned(),
                column: "offset_ns".to_owned(),
                note: ("rtt_ns".to_owned(), "longest round trip".to_owned()),
            }),
        ],
    }
}

/// Whether a planted delay is spent in the launch's event of this index: the lowest bit of [`mix`].
///
/// Not every other event: what follows a delayed event differs from what follows another. Kernels hold the same function.
#[must_use]
pub fn delayed_event(event: u32) -> bool {
    mix(event) & 1 == 1
}

/// The 32-bit finaliser of MurmurHash3. Kernels hold the same function.
#[must_use]
pub fn mix(mut h: u32) -> u32 {
    h ^= h >> 16;
    h = h.wrapping_mul(0x85EB_CA6B);
    h ^= h >> 13;
    h = h.wrapping_mul(0xC2B2_AE35);
    h ^ (h >> 16)
}
