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

use crate::numbers::stats::{Estimate, P50, P99, P999, Quantile, Resamples};
use schema::compare::Band;
use schema::contract::{CellSpec, Q, Unit};
use schema::metrics::Metric;
use schema::plan::{MIN_EVENTS_P99, MIN_EVENTS_P999, MIN_LAUNCHES};

/// Digits after the point, and nanoseconds in one of the unit.
fn scale(unit: Unit) -> (usize, f64) {
    match unit {
        Unit::DeviceUs | Unit::HostUs => (3, 1e3),
        Unit::DeviceMs => (4, 1e6),
    }
}

/// The default band of a time: a long interval of one timer is steady, tails rest on fewer events, and what ends on the host is
/// decided by its scheduler. Two steps of a 32 ns timer cannot be told apart.
fn band_of_time(unit: Unit, q: Q) -> Band {
    match (unit, q) {
        (Unit::DeviceMs, _) => Band { pct: 2.0, least: 0.0 },
        (Unit::DeviceUs, Q::P50) => Band { pct: 5.0, least: 0.064 },
        (Unit::DeviceUs, _) => Band { pct: 10.0, least: 0.064 },
        (Unit::HostUs, Q::P50) => Band { pct: 10.0, least: 0.5 },
        (Unit::HostUs, _) => Band { pct: 30.0, least: 0.5 },
    }
}

fn rank(q: Q) -> Quantile {
    match q {
        Q::P50 => P50,
        Q::P99 => P99,
        Q::P999 => P999,
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
    /// The difference between two runs that does not matter, unless the plan says otherwise.
    pub band: Band,
    /// What a comparison takes it for.
    pub drawing: Drawing,
}

impl Drawn {
    /// Says something beside the number.
    pub(crate) fn remark(&mut self, said: &str) {
        if !said.is_empty() {
            let separator = if self.metric.note.is_empty() { "" } else { "; " };
            self.metric.note = format!("{}{separator}{said}", self.metric.note);
        }
    }

    /// Takes the number out of its row, and says why it does not stand.
    pub(crate) fn refuse(&mut self, why: &str) {
        if !self.metric.refused() {
            self.metric.note = format!("{}{why}", Metric::REFUSED);
            for text in [&mut self.metric.value, &mut self.metric.lo, &mut self.metric.hi] {
                text.clear();
            }
        }
    }
}

/// Whether a tail below its floor is left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tails {
    /// It is: what every published summary does.
    Floored,
    /// It is not. For a part of a run, of which nothing is published.
    All,
}

/// What a comparison of two runs takes a value for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Drawing {
    /// It was sampled; its interval is drawn.
    Sampled,
    /// It was read or counted: any difference is one.
    Reading,
    /// It counts what happens by chance, so that the count itself says how far it may lie from its mean.
    Chance,
}

/// The rows of one cell as they come to be.
pub(super) struct Rows<'a> {
    experiment: &'a str,
    run: &'a str,
    cell: &'a CellSpec,
    quantum_ns: Option<u64>,
    tails: Tails,
    resamples: Option<Resamples>,
    rows: Vec<Drawn>,
}

impl<'a> Rows<'a> {
    pub(super) fn new(
        experiment: &'a str,
        run: &'a str,
        cell: &'a CellSpec,
        quantum_ns: Option<u64>,
        tails: Tails,
    ) -> Self {
        Self { experiment, run, cell, quantum_ns, tails, resamples: None, rows: Vec::new() }
    }

    pub(super) fn finish(self) -> Vec<Drawn> {
        self.rows
    }

    /// What draws of this cell depend on: not the run, so that a repeat on equal data gives equal intervals.
    pub(super) fn seed(&self) -> String {
        self.seed_of(&self.cell.id())
    }

    fn seed_of(&self, cell: &str) -> String {
        format!("{}/{cell}", self.experiment)
    }

    /// `<stem>_<unit>_p50` and so on; a tail below its floor is left out.
    pub(super) fn quantiles(&mut self, stem: &str, unit: Unit, samples: &[(u32, i64)], wanted: &[Q]) {
        let resamples = self.resamples_for(samples);
        let launches = resamples.n_launches() as u64;
        let wanted: Vec<Q> =
            wanted.iter().copied().filter(|q| self.allows(*q, samples.len() as u64, launches)).collect();
        let ranks: Vec<Quantile> = wanted.iter().map(|q| rank(*q)).collect();
        let estimates = resamples.quantiles(samples, &ranks);
        self.resamples = Some(resamples);
        for (q, estimate) in wanted.into_iter().zip(estimates) {
            self.time(&format!("{stem}_{}_{}", unit.name(), q.name()), unit, estimate, band_of_time(unit, q));
        }
    }

    /// `clock_mhz_p50`, from kilohertz.
    pub(super) fn clock(&mut self, khz: &[(u32, i64)]) {
        let resamples = self.resamples_for(khz);
        let estimate = resamples.quantiles(khz, &[P50]).pop();
        self.resamples = Some(resamples);
        let mhz = |khz: i64| khz as f64 / 1e3;
        let band = Band { pct: 1.0, least: 0.0 };
        if let Some(estimate) = estimate {
            self.push("clock_mhz_p50", "MHz", estimate, band, |khz| decimal(mhz(khz), 1), mhz);
        }
    }

    fn allows(&self, q: Q, events: u64, launches: u64) -> bool {
        let floor = match q {
            Q::P50 => return true,
            Q::P99 => MIN_EVENTS_P99,
            Q::P999 => MIN_EVENTS_P999,
        };
        self.tails == Tails::All || (events >= floor && launches >= MIN_LAUNCHES)
    }

    /// The draws over the launches of these samples; metrics over the same launches share them.
    fn resamples_for(&mut self, samples: &[(u32, i64)]) -> Resamples {
        let launches = samples.iter().map(|(launch, _)| *launch);
        match self.resamples.take() {
            Some(resamples) if resamples.covers(launches.clone()) => resamples,
            _ => Resamples::new(&self.seed(), launches),
        }
    }

    /// The median of samples of any cell, with its interval; what a ratio is made of.
    pub(super) fn estimate_of(&self, cell: &str, samples: &[(u32, i64)]) -> Option<Estimate<i64>> {
        let launches = samples.iter().map(|(launch, _)| *launch);
        Resamples::new(&self.seed_of(cell), launches).quantiles(samples, &[P50]).pop()
    }

    /// A row for a time, as a bound where it is a device time under two quanta.
    fn time(&mut self, metric: &str, unit: Unit, estimate: Estimate<i64>, band: Band) {
        let quantum = self.quantum_ns.filter(|_| unit.is_device()).and_then(|quantum| i64::try_from(quantum).ok());
        let (digits, in_unit) = scale(unit);
        let of = |ns: i64| ns as f64 / in_unit;
        let bound = quantum.map(|quantum| 2 * quantum).filter(|bound| estimate.value < *bound);
        let estimate = match bound {
            Some(bound) => bounded(estimate, bound),
            None => estimate,
        };
        self.push(metric, unit.name(), estimate, band, |ns| decimal(of(ns), digits), of);
        if bound.is_some() {
            self.annotate(metric, "bound: under two quanta");
        }
    }

    /// A count of something that should not be, among `n`.
    pub(super) fn count(&mut self, metric: &str, count: u64, n: u64, drawing: Drawing) {
        let exact = Band { pct: 0.0, least: 0.0 };
        self.push(metric, "1", Estimate::exact(count, n), exact, |count| count.to_string(), |count| count as f64);
        self.last().drawing = drawing;
    }

    /// A row in whole nanoseconds, never a bound: differences of times, and the timer's own properties.
    pub(super) fn nanoseconds(&mut self, metric: &str, estimate: Estimate<i64>, band: Band, note: &str) {
        self.push(metric, "ns", estimate, band, |value| value.to_string(), |value| value as f64);
        note.clone_into(&mut self.last().metric.note);
    }

    /// A value that was read, in nanoseconds.
    pub(super) fn reading(&mut self, metric: &str, value: i64, n: u64, band: Band, note: &str) {
        self.nanoseconds(metric, Estimate::exact(value, n), band, note);
        self.last().drawing = Drawing::Reading;
    }

    /// A row in floating point with three digits.
    pub(super) fn real(&mut self, metric: &str, unit: &str, estimate: Estimate<f64>, band: Band, note: &str) {
        self.push(metric, unit, estimate, band, |value| decimal(value, 3), |value| value);
        note.clone_into(&mut self.last().metric.note);
    }

    /// A ratio of two medians over the same end points, with the widest interval their intervals allow.
    pub(super) fn ratio(&mut self, over: Estimate<i64>, under: Estimate<i64>, note: &str) {
        let divide = |a: i64, b: i64| (b > 0).then(|| a as f64 / b as f64);
        let interval = over.interval.zip(under.interval);
        let interval = interval.and_then(|(over, under)| divide(over.0, under.1).zip(divide(over.1, under.0)));
        let pairs = over.draws.iter().zip(&under.draws);
        let draws = pairs.filter_map(|(over, under)| divide(*over, *under)).collect();
        if let Some(value) = divide(over.value, under.value) {
            let estimate = Estimate { value, interval, n: over.n.min(under.n), draws };
            self.real("ratio", "1", estimate, Band { pct: 10.0, least: 0.0 }, note);
        }
    }

    /// Says something beside the rows of a metric, or of each metric with this stem.
    pub(super) fn annotate(&mut self, stem: &str, note: &str) {
        self.rows.iter_mut().filter(|row| row.metric.metric.starts_with(stem)).for_each(|row| row.remark(note));
    }

    fn last(&mut self) -> &mut Drawn {
        self.rows.last_mut().expect("a row was just pushed")
    }

    fn push<T: Copy>(
        &mut self,
        metric: &str,
        unit: &str,
        estimate: Estimate<T>,
        band: Band,
        print: impl Fn(T) -> String,
        of: impl Fn(T) -> f64,
    ) {
        let (lo, hi) = estimate.interval.map_or_else(Default::default, |(lo, hi)| (print(lo), print(hi)));
        let metric = Metric {
            run: self.run.to_owned(),
            experiment: self.experiment.to_owned(),
            phase: self.cell.phase.clone(),
            cell: self.cell.name.clone(),
            metric: metric.to_owned(),
            unit: unit.to_owned(),
            value: print(estimate.value),
            lo,
            hi,
            n: estimate.n,
            note: String::new(),
        };
        let draws = estimate.draws.into_iter().map(&of).collect();
        self.rows.push(Drawn { metric, value: of(estimate.value), draws, band, drawing: Drawing::Sampled });
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
    fn numbers_print_their_digits() {
        let check = |unit: Unit, ns: i64, expected: &str| {
            let (digits, in_unit) = scale(unit);
            assert_eq!(decimal(ns as f64 / in_unit, digits), expected);
        };
        check(Unit::DeviceUs, 7_168, "7.168");
        check(Unit::HostUs, -32, "-0.032");
        check(Unit::DeviceMs, 1_298_432, "1.2984");
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
