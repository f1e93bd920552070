//! The numbers of an entry. What somebody expects, what a run gave and what another reports are three types, and only the
//! second prints as a result.

use crate::decimal::Decimal;
use anyhow::{Context, ensure};
use schema::metrics::Metric;
use schema::verdict::ClaimResult;
use serde::{Deserialize, Serialize};
use std::fmt;

/// A number somebody expects. It has no `Display`: it is printed only through [`Projected::as_projection`], which says so.
///
/// ```compile_fail,E0277
/// let expected = pure::notebook::Projected::new("9").unwrap();
/// println!("{expected}");
/// ```
///
/// Nor is it taken where a measurement is wanted:
///
/// ```compile_fail,E0308
/// let expected = pure::notebook::Projected::new("9").unwrap();
/// let measured: pure::notebook::Measured = expected;
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Projected(String);

/// A number a run gave. It is made from a run's own records, never from what somebody types.
///
/// ```compile_fail,E0423
/// let typed = pure::notebook::Measured("9".to_owned());
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

impl Projected {
    /// An expected number, as a person gives it.
    ///
    /// # Errors
    /// When it is no decimal.
    pub fn new(text: &str) -> anyhow::Result<Self> {
        text.parse::<Decimal>()?;
        Ok(Self(text.to_owned()))
    }

    /// The number with what it is, e.g. `9 (projected)`.
    #[must_use]
    pub fn as_projection(&self) -> String {
        format!("{} (projected)", self.0)
    }

    /// For an entry's `values`; the kind says what they are.
    pub(super) fn text(&self) -> &str {
        &self.0
    }

    /// From the `values` of a prediction.
    pub(super) fn read(text: &str) -> Self {
        Self(text.to_owned())
    }
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
        if self.unit == "1" { self.value.clone() } else { format!("{} {}", self.value, self.unit) }
    }
}
