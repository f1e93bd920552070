//! The bands within which two runs agree: for each metric the difference that does not matter, from a plan or by
//! default.
//!
//! A band is two-sided and holds for a metric's name in every cell. It is a share of the metric's value, but never
//! less than a difference in the metric's own unit below which its instrument cannot tell values apart. The recipe
//! that makes a row of the summary gives its default.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Fewest events behind a time on both sides; below that, a comparison of it says nothing.
pub const MIN_EVENTS_COMPARED: u64 = 100;

/// Bands by metric, as a plan's `[compare]` table gives them. A metric without one has its default.
pub type Bands = BTreeMap<String, Band>;

/// A difference that does not matter.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Band {
    /// In per cent of the metric's value: the mean of both runs' sizes, so that it does not matter which comes first.
    #[serde(default)]
    pub pct: f64,
    /// At least this much, in the metric's own unit.
    #[serde(default)]
    pub least: f64,
}

impl Band {
    /// The half-width for two values, in their unit.
    #[must_use]
    pub fn width(self, a: f64, b: f64) -> f64 {
        (self.pct / 100.0 * (a.abs() + b.abs()) / 2.0).max(self.least)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_width_does_not_depend_on_the_order() {
        let band = Band { pct: 1.0, least: 0.2 };
        assert_eq!((band.width(30.0, 10.0), band.width(10.0, 30.0)), (0.2, 0.2));
        assert_eq!(band.width(-30.0, 30.0), 0.3);
    }
}
