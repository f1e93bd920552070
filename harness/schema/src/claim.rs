//! Claims that are registered before a run, with thresholds as decimal strings, and what their outcomes are.

use serde::{Deserialize, Serialize};

/// `claims.toml`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClaimFile {
    /// Format version.
    pub format: u32,
    /// The claims.
    pub claim: Vec<Claim>,
}

/// One claim.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Claim {
    /// Its id, e.g. `N1-H`.
    pub id: String,
    /// What it says.
    pub statement: String,
    /// What would falsify it, in words.
    pub falsifier: String,
    /// The compute capability it speaks of, e.g. `8.6`. On any other device it is INCONCLUSIVE.
    pub compute_capability: String,
    /// The notebook entry that predicts it.
    pub prediction: String,
    /// Provenance it needs, by name. Where the notebook records one as missing, no run with this claim is published.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub needs: Vec<String>,
    /// Its terms. All must hold for CONFIRMED; one whose whole interval violates it falsifies.
    pub term: Vec<Term>,
}

/// One comparison of a metric, or of a ratio of two, with a threshold.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Term {
    /// Its name within the claim.
    pub name: String,
    /// The numerator, or the value itself.
    pub value: MetricRef,
    /// The denominator of a ratio; both ends must measure the same interval.
    pub over: Option<MetricRef>,
    /// How it compares.
    pub comparator: Comparator,
    /// The threshold, a decimal string.
    pub threshold: String,
    /// The unit of the threshold, e.g. `us`, `%`, `1`.
    pub unit: String,
}

/// A metric of a cell. The cell may hold `{sms}`, `{drain_full}` and `{yield_full}`, which the device's slots resolve.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MetricRef {
    /// The phase.
    pub phase: String,
    /// The cell.
    pub cell: String,
    /// The metric.
    pub metric: String,
}

/// How a value compares with its threshold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Comparator {
    /// At most.
    #[serde(rename = "<=")]
    AtMost,
    /// Less than.
    #[serde(rename = "<")]
    Less,
    /// At least.
    #[serde(rename = ">=")]
    AtLeast,
    /// Greater than.
    #[serde(rename = ">")]
    Greater,
}

/// What a claim came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Outcome {
    /// Every term's whole interval holds.
    Confirmed,
    /// Some term's whole interval violates its threshold.
    Falsified,
    /// Neither, or a cell is missing, or the device is another.
    Inconclusive,
    /// The measurement does not count.
    Invalid,
}
