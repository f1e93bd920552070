//! How metrics are computed from tables: one recipe for each. The arithmetic is in the pipeline's summary
//! (`xtask/pure/src/numbers/summary`); this file holds only its parameters.

use serde::{Deserialize, Serialize};

/// A metric, or the few that one recipe gives.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MetricSpec {
    /// How it is computed.
    pub recipe: Recipe,
    /// From where to where a time runs, e.g. `host issue` and `host-observed done`. Ratios need equal ones.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ends: Option<(String, String)>,
    /// Whether the page of results shows it.
    pub shown: bool,
}

/// How a metric is computed from the events of a cell that count. Its 95 % interval is drawn from whole launches, or quads.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "recipe", rename_all = "snake_case", deny_unknown_fields)]
pub enum Recipe {
    /// Quantiles of a time: `<stem>_<unit>_p50` and so on.
    Quantiles {
        /// The begin of the names.
        stem: String,
        /// The unit.
        unit: Unit,
        /// The time of an event. Events without one are left out, which is said beside the value.
        of: Expr,
        /// Which quantiles.
        quantiles: Vec<Q>,
        /// The column whose values are drawn as a whole: `launch`, or a quad.
        by: String,
        /// Which events.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        only: Option<Only>,
    },
    /// The cost of arm 1 against arm 0, in per cent: the median over quads of the mean of arm 1 over that of arm 0, less one.
    Abba {
        /// The metric's name.
        name: String,
        /// The column of quads.
        quad: String,
        /// The column of places within a quad, 0 to 3.
        position: String,
        /// The column of arms.
        arm: String,
        /// The column of durations, in nanoseconds.
        wall: String,
        /// A fact that is said beside the value, and the words after it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        against: Option<(String, String)>,
    },
    /// A rate in 10^12 a second: the product of facts over the median of a duration; or the share of a peak, in per cent.
    Rate {
        /// The metric's name.
        name: String,
        /// Facts whose product is the work, e.g. tasks and operations of each.
        work: Vec<String>,
        /// The duration.
        of: Expr,
        /// As in [`Recipe::Quantiles`].
        by: String,
        /// Which events.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        only: Option<Only>,
        /// The fact that holds the peak in 10^12 a second, for a share of it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        peak: Option<String>,
    },
    /// `ratio`: the median of a time of another cell over that of this one, with equal end points.
    Ratio {
        /// The other cell, as `phase/cell`.
        over: String,
        /// Its time.
        over_of: Expr,
        /// This cell's time.
        of: Expr,
    },
    /// A delay planted in one leg of the timeline, in every event of which [`crate::timer::delayed_event`] holds: `leg_shift_ns`,
    /// `leg_shift_error_ns` and `leg_spread_ns`.
    PlantedDelay {
        /// The leg's name.
        leg: String,
        /// The column that says in which leg an event's delay was spent, 0 for none.
        column: String,
        /// This leg's number in it.
        number: u32,
        /// The column of what was spent, in nanoseconds.
        spent: String,
        /// What was planted, in nanoseconds.
        planted_ns: u32,
        /// The leg.
        of: Expr,
        /// Whether the leg ends or begins on the host, which knows an instant only to the spread of its polls.
        host: bool,
    },
    /// The correlation of two times.
    Correlation {
        /// The metric's name.
        name: String,
        /// One.
        a: Expr,
        /// The other.
        b: Expr,
    },
    /// `anomalous_events`: events with an anomaly.
    Anomalies,
    /// A fact of the cell, in nanoseconds.
    Fact {
        /// The metric's name.
        name: String,
        /// The fact.
        fact: String,
    },
    /// The largest value of a column whatever its sign, in nanoseconds.
    Largest {
        /// The metric's name.
        name: String,
        /// The column.
        column: String,
        /// A column whose largest value is said beside it, and the words before that.
        note: (String, String),
    },
}

/// A number of an event.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Expr {
    /// A column.
    Column(String),
    /// From the first column to the second.
    Between(String, String),
    /// From the first column to the second, less the third: what is left of an interval on one clock, when another clock timed
    /// a part of it. Instants of two clocks are never subtracted.
    Rest(String, String, String),
}

/// Events whose column has this value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Only {
    /// The column, unsigned with 32 bits.
    pub column: String,
    /// The value.
    pub is: u32,
}

/// What a time is printed in, and whose clock it is on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Unit {
    /// Microseconds of the device timer, from nanoseconds.
    DeviceUs,
    /// Microseconds of the host's clock, from nanoseconds.
    HostUs,
    /// Milliseconds of the device timer, from nanoseconds.
    DeviceMs,
}

/// A quantile.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Q {
    /// The median.
    P50,
    /// 0.99.
    P99,
    /// 0.999.
    P999,
}

/// A metric of a cell.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MetricAt {
    /// The phase.
    pub phase: String,
    /// The cell.
    pub cell: String,
    /// The metric.
    pub metric: String,
}

impl MetricSpec {
    /// A metric that is no time, or whose ends do not matter; the page of results does not show it.
    #[must_use]
    pub fn plain(recipe: Recipe) -> Self {
        Self { recipe, ends: None, shown: false }
    }

    /// The same with its end points.
    #[must_use]
    pub fn between(self, from: &str, to: &str) -> Self {
        Self { ends: Some((from.to_owned(), to.to_owned())), ..self }
    }

    /// The same, shown on the page of results.
    #[must_use]
    pub fn shown(self) -> Self {
        Self { shown: true, ..self }
    }
}

impl Q {
    /// What ends a metric's name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::P50 => "p50",
            Self::P99 => "p99",
            Self::P999 => "p999",
        }
    }
}

impl Unit {
    /// As it is printed.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::DeviceUs | Self::HostUs => "us",
            Self::DeviceMs => "ms",
        }
    }

    /// Whether it is a time on a device timer.
    #[must_use]
    pub fn is_device(self) -> bool {
        matches!(self, Self::DeviceUs | Self::DeviceMs)
    }
}

impl Expr {
    /// A column.
    #[must_use]
    pub fn column(name: &str) -> Self {
        Self::Column(name.to_owned())
    }

    /// The columns it is made of.
    #[must_use]
    pub fn columns(&self) -> Vec<&str> {
        match self {
            Self::Column(a) => vec![a],
            Self::Between(a, b) => vec![a, b],
            Self::Rest(a, b, c) => vec![a, b, c],
        }
    }
}

impl Recipe {
    /// Quantiles of a time over all events, with an interval drawn from whole launches.
    #[must_use]
    pub fn quantiles(stem: &str, unit: Unit, of: Expr, quantiles: &[Q]) -> Self {
        let (stem, quantiles, by) = (stem.to_owned(), quantiles.to_vec(), "launch".to_owned());
        Self::Quantiles { stem, unit, of, quantiles, by, only: None }
    }

    /// The product of facts over the median of a time, in 10^12 a second, with an interval drawn from whole launches.
    #[must_use]
    pub fn rate(name: &str, work: &[&str], of: Expr) -> Self {
        let work = work.iter().map(|fact| (*fact).to_owned()).collect();
        Self::Rate { name: name.to_owned(), work, of, by: "launch".to_owned(), only: None, peak: None }
    }

    /// The names of every metric that it may give.
    #[must_use]
    pub fn names(&self) -> Vec<String> {
        match self {
            Self::Quantiles { stem, unit, quantiles, .. } => {
                quantiles.iter().map(|q| format!("{stem}_{}_{}", unit.name(), q.name())).collect()
            }
            Self::Abba { name, .. }
            | Self::Rate { name, .. }
            | Self::Correlation { name, .. }
            | Self::Fact { name, .. }
            | Self::Largest { name, .. } => vec![name.clone()],
            Self::Ratio { .. } => vec!["ratio".to_owned()],
            Self::PlantedDelay { .. } => {
                ["leg_shift_ns", "leg_shift_error_ns", "leg_spread_ns"].map(str::to_owned).to_vec()
            }
            Self::Anomalies => vec!["anomalous_events".to_owned()],
        }
    }

    /// Whether its value is read or counted rather than sampled, so that it has no interval.
    #[must_use]
    pub fn is_reading(&self) -> bool {
        matches!(self, Self::Anomalies | Self::Fact { .. } | Self::Largest { .. })
    }

    /// What it computes with, beside named columns: expressions over the events of its own cell.
    #[must_use]
    pub fn expressions(&self) -> Vec<&Expr> {
        match self {
            Self::Quantiles { of, .. }
            | Self::Rate { of, .. }
            | Self::PlantedDelay { of, .. }
            | Self::Ratio { of, .. } => {
                vec![of]
            }
            Self::Correlation { a, b, .. } => vec![a, b],
            Self::Abba { .. } | Self::Anomalies | Self::Fact { .. } | Self::Largest { .. } => Vec::new(),
        }
    }
}
