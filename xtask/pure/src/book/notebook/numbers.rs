//! The numbers of an entry that may be printed as results: what a run gave, and what another source reports. A
//! projected number has no type here, so nothing can print it.

use crate::book::with_unit;
use crate::numbers::decimal::Decimal;
use anyhow::{Context, ensure};
use schema::metrics::Metric;
use schema::verdict::ClaimResult;
use serde::{Deserialize, Serialize};
use std::fmt;

/// A number a run gave. It is made from a run's own records, never from what somebody types.
///
/// ```compile_fail,E0423
/// let typed = pure::book::notebook::Measured("9".to_owned());
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Measured(String);

/// A number that another reports, with its source. Nothing here vouches for it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cited {
    /// The number, a decimal string.
    pub value: String,
    /// Its unit; `1` where it has none.
    pub unit: String,
    /// Where it is reported.
    pub source: String,
}

impl Measured {
    /// What a claim came to in a run's verdict; absent when it has no value.
    #[must_use]
    pub fn of_claim(result: &ClaimResult) -> Option<Self> {
        (!result.value.is_empty()).then(|| Self(result.value.clone()))
    }

    /// A value of a run's summary.
    #[must_use]
    pub fn of_metric(metric: &Metric) -> Self {
        Self(metric.value.clone())
    }

    /// From the `values` of an entry that is no prediction.
    pub(super) fn read(text: &str) -> Self {
        Self(text.to_owned())
    }
}

impl fmt::Display for Measured {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Cited {
    /// Refuses a citation that names no number, unit or source.
    pub(super) fn check(&self) -> anyhow::Result<()> {
        self.value.parse::<Decimal>().context("the cited value")?;
        ensure!(!self.unit.trim().is_empty(), "a cited value has a unit (1 where it has none)");
        ensure!(!self.source.trim().is_empty(), "a cited value names its source");
        Ok(())
    }

    /// The number with its unit, e.g. `16.631 ms`.
    #[must_use]
    pub fn quantity(&self) -> String {
        with_unit(&self.value, &self.unit)
    }
}
