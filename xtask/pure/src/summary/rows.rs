//! How numbers become rows: names, units, digits, floors, and bounds under two timer quanta.
//!
//! | unit | digits | from |
//! |---|---|---|
//! | `us` | 3 | nanoseconds |
//! | `ms` | 4 | nanoseconds |
//! | `ns`, counts | 0 | whole numbers |
//! | `MHz` | 1 | kHz |
//! | `%`, ratios, correlations | 3 | floating point |
//!
//! Each is the correctly rounded decimal of one IEEE division, as Rust and Python both print it, and zero has no sign.

use crate::stats::{Estimate, P50, P99, P999, Quantile, Resamples};
use schema::metrics::Metric;
use schema::plan::{Cell, MIN_EVENTS_P99, MIN_EVENTS_P999, MIN_LAUNCHES, Plan, ProfileName};

/// What a whole number of a table is printed as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unit {
    /// Microseconds of the device timer, from nanoseconds.
    DeviceUs,
    /// Microseconds of the host's clock, from nanoseconds.
    HostUs,
    /// Milliseconds of the device timer, from nanoseconds.
    DeviceMs,
    /// Megahertz, from kilohertz.
    Mhz,
}

impl Unit {
    fn name(self) -> &'static str {
        match self {
            Self::DeviceUs | Self::HostUs => "us",
            Self::DeviceMs => "ms",
            Self::Mhz => "MHz",
        }
    }

    fn in_names(self) -> &'static str {
        match self {
            Self::Mhz => "mhz",
            _ => self.name(),
        }
    }

    fn print(self, value: i64) -> String {
        let digits = match self {
            Self::DeviceUs | Self::HostUs => 3,
            Self::DeviceMs => 4,
            Self::Mhz => 1,
        };
        decimal(self.of(value), digits)
    }

    /// A whole number of a table in this unit.
    fn of(self, value: i64) -> f64 {
        match self {
            Self::DeviceMs => value as f64 / 1e6,
            Self::DeviceUs | Self::HostUs | Self::Mhz => value as f64 / 1e3,
        }
    }

    fn is_device_time(self) -> bool {
        matches!(self, Self::DeviceUs | Self::DeviceMs)
    }
}

/// `value` with `digits` digits after the point; zero without a sign.
pub(crate) fn decimal(value: f64, digits: usize) -> String {
    let text = format!("{value:.digits$}");
    match text.strip_prefix('-') {
        Some(rest) if rest.bytes().all(|b| b == b'0' || b == b'.') => rest.to_owned(),
        _ => text,
    }
}

/// A row before it is printed: what a comparison of two runs works with.
#[derive(Clone, Debug)]
pub struct Drawn {
    /// The row as printed.
    pub metric: Metric,
    /// Its value, in its unit and with every digit.
    pub value: f64,
    /// The value in each resample; empty where it was read or counted, or where there was nothing to draw from.
    pub draws: Vec<f64>,
}

/// Whether a tail below its floor is left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tails {
    /// It is: what every published summary does.
    Floored,
    /// It is not. For a part of a run, of which nothing is published.
    All,
}

/// The rows of one cell as they come to be.
pub(super) struct Rows<'a> {
    plan: &'a Plan,
    run: &'a str,
    cell: &'a Cell,
    quantum_ns: Option<u32>,
    tails: Tails,
    resamples: Option<Resamples>,
    rows: Vec<Drawn>,
}

impl<'a> Rows<'a> {
    pub(super) fn new(plan: &'a Plan, run: &'a str, cell: &'a Cell, quantum_ns: Option<u32>, tails: Tails) -> Self {
        Self { plan, run, cell, quantum_ns, tails, resamples: None, rows: Vec::new() }
    }

    pub(super) fn finish(self) -> Vec<Drawn> {
        self.rows
    }

    /// What draws of this plan and cell depend on: not the run, so that a repeat on equal data gives equal intervals.
    pub(super) fn cell_seed(&self) -> String {
        self.seed(self.cell)
    }

    fn seed(&self, cell: &Cell) -> String {
        format!("{}/{}/{}", self.plan.experiment, cell.phase.name(), cell.name)
    }

    /// `<stem>_<unit>_p50`.
    pub(super) fn median(&mut self, stem: &str, unit: Unit, samples: &[(u32, i64)]) {
        self.quantiles(stem, unit, samples, &[("p50", P50)]);
    }

    /// `<stem>_<unit>_p50` and, where there are enough samples, `_p99`.
    pub(super) fn median_and_tail(&mut self, stem: &str, unit: Unit, samples: &[(u32, i64)]) {
        self.quantiles(stem, unit, samples, &[("p50", P50), ("p99", P99)]);
    }

    /// As [`Rows::median_and_tail`], and `_p999` as well.
    pub(super) fn median_and_far_tail(&mut self, stem: &str, unit: Unit, samples: &[(u32, i64)]) {
        self.quantiles(stem, unit, samples, &[("p50", P50), ("p99", P99), ("p999", P999)]);
    }

    fn quantiles(&mut self, stem: &str, unit: Unit, samples: &[(u32, i64)], wanted: &[(&str, Quantile)]) {
        let resamples = self.resamples_for(samples);
        let launches = resamples.n_launches() as u64;
        let allowed = |q: &&(&str, Quantile)| self.allows(q.1, samples.len() as u64, launches);
        let wanted: Vec<(&str, Quantile)> = wanted.iter().filter(allowed).copied().collect();
        let quantiles: Vec<Quantile> = wanted.iter().map(|(_, q)| *q).collect();
        let estimates = resamples.quantiles(samples, &quantiles);
        self.resamples = Some(resamples);
        for ((suffix, _), estimate) in wanted.iter().zip(estimates) {
            self.whole(&format!("{stem}_{}_{suffix}", unit.in_names()), unit, estimate);
        }
    }

    fn allows(&self, q: Quantile, events: u64, launches: u64) -> bool {
        let floor = match q {
            P99 => MIN_EVENTS_P99,
            P999 => MIN_EVENTS_P999,
            _ => return true,
        };
        let enough = self.plan.profile_name != ProfileName::Smoke && events >= floor && launches >= MIN_LAUNCHES;
        enough || self.tails == Tails::All
    }

    /// The draws over the launches of these samples; metrics over the same launches share them.
    fn resamples_for(&mut self, samples: &[(u32, i64)]) -> Resamples {
        let launches = samples.iter().map(|(launch, _)| *launch);
        match self.resamples.take() {
            Some(resamples) if resamples.covers(launches.clone()) => resamples,
            _ => Resamples::new(&self.seed(self.cell), launches),
        }
    }

    /// The median of samples of any cell, with its interval; what a ratio is made of.
    pub(super) fn estimate_of(&self, cell: &Cell, samples: &[(u32, i64)]) -> Option<Estimate<i64>> {
        let launches = samples.iter().map(|(launch, _)| *launch);
        Resamples::new(&self.seed(cell), launches).quantiles(samples, &[P50]).pop()
    }

    /// A row for a whole number, as a bound where it is a device time under two quanta.
    fn whole(&mut self, metric: &str, unit: Unit, estimate: Estimate<i64>) {
        let bound = self.quantum_ns.filter(|_| unit.is_device_time()).map(|quantum| 2 * i64::from(quantum));
        let (estimate, note) = match bound {
            Some(bound) if estimate.value < bound => (bounded(estimate, bound), "bound: under two quanta"),
            _ => (estimate, ""),
        };
        self.push(metric, unit.name(), estimate, note, |value| unit.print(value), |value| unit.of(value));
    }

    /// A count of something that should not be, among `n`.
    pub(super) fn count(&mut self, metric: &str, count: u64, n: u64) {
        self.push(metric, "1", Estimate::exact(count, n), "", |count| count.to_string(), |count| count as f64);
    }

    /// A row in whole nanoseconds, never a bound: differences of times, and the timer's own properties.
    pub(super) fn nanoseconds(&mut self, metric: &str, estimate: Estimate<i64>, note: &str) {
        self.push(metric, "ns", estimate, note, |value| value.to_string(), |value| value as f64);
    }

    /// A row in floating point with three digits.
    pub(super) fn real(&mut self, metric: &str, unit: &str, estimate: Estimate<f64>, note: &str) {
        self.push(metric, unit, estimate, note, |value| decimal(value, 3), |value| value);
    }

    /// A ratio of two medians over the same end points, with the widest interval their intervals allow.
    pub(super) fn ratio(&mut self, over: Estimate<i64>, under: Estimate<i64>, note: &str) {
        let divide = |a: i64, b: i64| (b > 0).then(|| a as f64 / b as f64);
        let interval = over.interval.zip(under.interval);
        let interval = interval.and_then(|(over, under)| divide(over.0, under.1).zip(divide(over.1, under.0)));
        let pairs = over.draws.iter().zip(&under.draws);
        let draws = pairs.filter_map(|(over, under)| divide(*over, *under)).collect();
        if let Some(value) = divide(over.value, under.value) {
            self.real("ratio", "1", Estimate { value, interval, n: over.n.min(under.n), draws }, note);
        }
    }

    /// Says something beside the last row of `metric`.
    pub(super) fn annotate(&mut self, metric: &str, note: &str) {
        for row in self.rows.iter_mut().map(|row| &mut row.metric).filter(|row| row.metric == metric) {
            let separator = if row.note.is_empty() { "" } else { "; " };
            row.note = format!("{}{separator}{note}", row.note);
        }
    }

    fn push<T: Copy>(
        &mut self,
        metric: &str,
        unit: &str,
        estimate: Estimate<T>,
        note: &str,
        print: impl Fn(T) -> String,
        of: impl Fn(T) -> f64,
    ) {
        let (lo, hi) = estimate.interval.map_or_else(Default::default, |(lo, hi)| (print(lo), print(hi)));
        let metric = Metric {
            run: self.run.to_owned(),
            experiment: self.plan.experiment.clone(),
            phase: self.cell.phase.name().to_owned(),
            cell: self.cell.name.clone(),
            metric: metric.to_owned(),
            unit: unit.to_owned(),
            value: print(estimate.value),
            lo,
            hi,
            n: estimate.n,
            note: note.to_owned(),
        };
        let draws = estimate.draws.into_iter().map(&of).collect();
        self.rows.push(Drawn { metric, value: of(estimate.value), draws });
    }
}

/// The bound that stands for a value the timer cannot resolve: from zero to two quanta, or to the interval's upper end.
fn bounded(estimate: Estimate<i64>, bound: i64) -> Estimate<i64> {
    let upper = estimate.interval.map_or(bound, |(_, hi)| hi.max(bound));
    let draws = estimate.draws.into_iter().map(|drawn| drawn.max(bound)).collect();
    Estimate { value: bound, interval: Some((0, upper)), n: estimate.n, draws }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_print_their_digits() {
        let check = |unit: Unit, value, expected| assert_eq!(unit.print(value), expected);
        check(Unit::DeviceUs, 7_168, "7.168");
        check(Unit::HostUs, -32, "-0.032");
        check(Unit::DeviceMs, 1_298_432, "1.2984");
        check(Unit::Mhz, 1_980_000, "1980.0");
        assert_eq!(decimal(-0.0004, 3), "0.000");
        assert_eq!(decimal(-0.0006, 3), "-0.001");
    }

    #[test]
    fn a_bound_reaches_from_zero() {
        let estimate = |value, interval| Estimate { value, interval, n: 5, draws: Vec::new() };
        assert_eq!(bounded(estimate(32, None), 64), estimate(64, Some((0, 64))));
        assert_eq!(bounded(estimate(32, Some((-5, 96))), 64), estimate(64, Some((0, 96))));
    }
}
