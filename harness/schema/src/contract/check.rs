//! The rules that a contract can set for a cell's tables. Each variant is one reviewed rule, which the gates
//! `structure` and `samples` apply.

use serde::{Deserialize, Serialize};

/// A rule about the tables of a cell. Columns are those of the event table unless a rule says otherwise.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "check", rename_all = "snake_case", deny_unknown_fields)]
pub enum Check {
    /// An instant is not before another one, by more than the timers of one device may disagree. Without `from`, not before the
    /// event's own instant.
    Ordered {
        /// The earlier one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        from: Option<String>,
        /// The later one.
        to: String,
    },
    /// An event lies inside its launch: it begins at `begin`, counted from the launch's start, and ends at the latest of `ends`,
    /// counted from `begin`.
    InsideLaunch {
        /// Where it begins.
        begin: String,
        /// Where it may end.
        ends: Vec<String>,
    },
    /// Events of a launch follow each other by this column.
    Increasing {
        /// The instant.
        column: String,
    },
    /// No event lacks this instant.
    Present {
        /// The column, whose values may be absent.
        column: String,
    },
    /// A row's duration is that of its launch.
    TakesLaunch {
        /// The duration.
        column: String,
    },
    /// Durations of one part of a launch add up to no more than the launch took.
    AddUpWithinLaunch {
        /// The duration.
        column: String,
        /// What names the part, e.g. a block.
        by: String,
    },
    /// What the parts of a launch do by their rows' mean durations adds up to what the cell's launches did, within 2 %. No part may
    /// have been alone for long when its rows were recorded.
    MakeThroughput {
        /// The duration of a row.
        column: String,
        /// What names the part, e.g. a block.
        by: String,
        /// The launch column that counts rows done, recorded or not.
        done: String,
    },
    /// A row's arm is 1 exactly where its launch is of a kernel whose symbol ends so.
    ArmOfLaunch {
        /// The arm, 0 or 1.
        column: String,
        /// How the symbol of arm 1 ends.
        symbol_end: String,
    },
    /// A launch column equals a fact of the cell in every launch that counts.
    LaunchesHaveFact {
        /// The launch column.
        column: String,
        /// The fact.
        fact: String,
    },
    /// Launches of kernels whose symbol does not end so have as many blocks as a fact of the cell says.
    GridIsFact {
        /// The fact.
        fact: String,
        /// How the symbols of the other arm end.
        except: String,
    },
    /// A fact is the device's fp32 peak, in TFLOP/s, at the clock of the cell's launches.
    PeakOfDevice {
        /// The fact.
        fact: String,
    },
    /// A count is at least one in every event.
    Positive {
        /// The count.
        column: String,
        /// What an event with zero is, in plain words.
        what: String,
    },
    /// A count is the same in all events, and at least one.
    SameForAll {
        /// The count.
        column: String,
        /// What an event with fewer is, in plain words.
        what: String,
    },
    /// Every launch that counts has as many rows as any other.
    EqualRows,
    /// Every launch that counts has as many rows as a launch column says.
    RowsAsAsked {
        /// The launch column.
        column: String,
    },
    /// A duration does not fall into two states, which no one median stands for.
    OneState {
        /// The duration.
        column: String,
        /// What separates the samples into kinds, e.g. an arm.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        by: Option<String>,
    },
}

impl Check {
    /// Every kind of rule, as it is written in a contract. What a contract leaves out, its run's verdict shows.
    pub const KINDS: [&'static str; 16] = [
        "ordered",
        "inside_launch",
        "increasing",
        "present",
        "takes_launch",
        "add_up_within_launch",
        "arm_of_launch",
        "launches_have_fact",
        "grid_is_fact",
        "peak_of_device",
        "positive",
        "same_for_all",
        "equal_rows",
        "rows_as_asked",
        "one_state",
        "make_throughput",
    ];

    /// Which kind this rule is.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        let index = match self {
            Self::Ordered { .. } => 0,
            Self::InsideLaunch { .. } => 1,
            Self::Increasing { .. } => 2,
            Self::Present { .. } => 3,
            Self::TakesLaunch { .. } => 4,
            Self::AddUpWithinLaunch { .. } => 5,
            Self::ArmOfLaunch { .. } => 6,
            Self::LaunchesHaveFact { .. } => 7,
            Self::GridIsFact { .. } => 8,
            Self::PeakOfDevice { .. } => 9,
            Self::Positive { .. } => 10,
            Self::SameForAll { .. } => 11,
            Self::EqualRows => 12,
            Self::RowsAsAsked { .. } => 13,
            Self::OneState { .. } => 14,
            Self::MakeThroughput { .. } => 15,
        };
        Self::KINDS[index]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kind_is_named_as_it_is_written() {
        for check in [Check::EqualRows, Check::OneState { column: "wall_ns".into(), by: None }] {
            assert_eq!(serde_json::to_value(&check).unwrap()["check"], check.kind());
        }
    }
}
