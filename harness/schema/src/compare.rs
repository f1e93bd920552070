//! When two runs agree: the difference of a metric that does not matter, as a plan gives it or by default.
//!
//! A band is two-sided and belongs to a metric's name, whatever the cell. It is a share of the metric's value, but never less
//! than a difference in the metric's own unit, below which its instrument cannot tell values apart. The defaults:
//!
//! | metric | share | least | why |
//! |---|---|---|---|
//! | `corrupt_events`, `once_violations`, `timer_quantum_ns` | 0 | 0 | counted, not sampled: any difference is one |
//! | `anomalous_events` | 0 | 0 | an event is lost by chance: its difference has a Poisson interval |
//! | `clock_mhz_*` | 1 % | 0 | the clocks gate's own band |
//! | `*_drain_ms_*` | 2 % | 0 | a long interval of one timer |
//! | device times `*_us_p50` | 5 % | 0.064 us | two steps of a 32 ns timer |
//! | device times, p99 and beyond | 10 % | 0.064 us | tails rest on fewer events |
//! | `urgent_wait_us_p50`, `host_e2e_us_p50` | 10 % | 0.5 us | two launches and a host thread lie on the way |
//! | their p99 and beyond | 30 % | 0.5 us | the host's scheduler decides them |
//! | `ratio` | 10 % | 0 | made of two host medians |
//! | `poll_cost_pct` | 0 | 0.5 points | a cost is near zero, so a share of it means nothing |
//! | `fp32_peak_pct` | 0 | 1 point | likewise a share already |
//! | `remaining_drain_corr` | 0 | 0.1 | a correlation |
//! | `leg_shift_ns` | 2 % | 400 ns | a planted delay, of which plans plant 20 us |
//! | `leg_shift_error_ns` | 0 | 400 ns | the same, less what was spent |
//! | `leg_spread_ns` | 25 % | 64 ns | an interquartile range |
//! | `sm_offset_ns_max` | 0 | 128 ns | the largest of single readings, four steps of the timer |
//! | anything else | 5 % | 0 | |

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
    /// The band of a metric: the plan's, or the default.
    #[must_use]
    pub fn of(metric: &str, plan: &Bands) -> Self {
        plan.get(metric).copied().unwrap_or_else(|| Self::default_of(metric))
    }

    /// The half-width for two values, in their unit.
    #[must_use]
    pub fn width(self, a: f64, b: f64) -> f64 {
        (self.pct / 100.0 * (a.abs() + b.abs()) / 2.0).max(self.least)
    }

    fn default_of(metric: &str) -> Self {
        let band = |pct, least| Self { pct, least };
        let (stem, quantile) = metric.rsplit_once('_').unwrap_or((metric, ""));
        match (stem, quantile) {
            _ if is_exact(metric) => band(0.0, 0.0),
            ("clock_mhz", _) => band(1.0, 0.0),
            ("drain_ms" | "poll_free_drain_ms", _) => band(2.0, 0.0),
            ("urgent_wait_us" | "host_e2e_us", "p50") => band(10.0, 0.5),
            ("urgent_wait_us" | "host_e2e_us", _) => band(30.0, 0.5),
            (_, "p50") if stem.ends_with("_us") => band(5.0, 0.064),
            _ if stem.ends_with("_us") => band(10.0, 0.064),
            _ => match metric {
                "ratio" => band(10.0, 0.0),
                "poll_cost_pct" => band(0.0, 0.5),
                "fp32_peak_pct" => band(0.0, 1.0),
                "remaining_drain_corr" => band(0.0, 0.1),
                "leg_shift_ns" => band(2.0, 400.0),
                "leg_shift_error_ns" => band(0.0, 400.0),
                "leg_spread_ns" => band(25.0, 64.0),
                "sm_offset_ns_max" => band(0.0, 128.0),
                _ => band(5.0, 0.0),
            },
        }
    }
}

/// Whether a metric is counted or read rather than sampled, so that its value is all there is to compare.
#[must_use]
pub fn is_reading(metric: &str) -> bool {
    is_exact(metric) || metric == "sm_offset_ns_max"
}

/// Whether a metric counts what happens by chance, so that the count itself says how far it may lie from its mean.
#[must_use]
pub fn is_chance(metric: &str) -> bool {
    metric == "anomalous_events"
}

fn is_exact(metric: &str) -> bool {
    matches!(metric, "anomalous_events" | "corrupt_events" | "once_violations" | "mutants_killed" | "timer_quantum_ns")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_metric_has_its_documented_default() {
        let check = |metric: &str, pct: f64, least: f64| {
            assert_eq!(Band::of(metric, &Bands::new()), Band { pct, least }, "{metric}");
        };
        check("once_violations", 0.0, 0.0);
        check("clock_mhz_p50", 1.0, 0.0);
        check("poll_free_drain_ms_p50", 2.0, 0.0);
        check("preempt_latency_us_p50", 5.0, 0.064);
        check("preempt_latency_us_p999", 10.0, 0.064);
        check("host_e2e_us_p50", 10.0, 0.5);
        check("urgent_wait_us_p99", 30.0, 0.5);
        check("poll_cost_pct", 0.0, 0.5);
        check("sm_offset_ns_max", 0.0, 128.0);
        check("something_new", 5.0, 0.0);
    }

    #[test]
    fn a_plan_gives_its_own_and_the_width_does_not_depend_on_the_order() {
        let own = Bands::from([("ratio".to_owned(), Band { pct: 1.0, least: 0.2 })]);
        let band = Band::of("ratio", &own);
        assert_eq!((band.width(30.0, 10.0), band.width(10.0, 30.0)), (0.2, 0.2));
        assert_eq!(band.width(-30.0, 30.0), 0.3);
    }
}
