//! The figures of a run as SVG, from the same tables and metrics as `summary/metrics.csv`, as the contract names
//! them. A series without data is left out.

mod chart;

use crate::numbers::stats::Quantile;
use crate::numbers::summary::{CellData, sound_values};
use chart::{Axis, Chart, Series};
use schema::contract::{Contract, Draw, FigureSpec, SeriesSpec};
use schema::metrics::Metric;

/// Steps of a whole distribution, and how many of them are drawn: one far event would squash all others.
const STEPS: u64 = 200;
const STEPS_DRAWN: u64 = 198;
/// Most dots of a cloud.
const DOTS: usize = 600;

/// A figure of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Figure {
    /// Its file below `summary/`.
    pub name: String,
    /// The file's text.
    pub svg: String,
}

/// Every figure of the contract that the run has cells for.
///
/// # Errors
/// When a table lacks a column or a launch.
pub fn figures(contract: &Contract, run: &str, cells: &[CellData], metrics: &[Metric]) -> anyhow::Result<Vec<Figure>> {
    let source = Source { contract, cells, metrics };
    let mut figures = Vec::new();
    for spec in &contract.figures {
        let series =
            spec.series.iter().map(|series| source.series(spec, series)).collect::<anyhow::Result<Vec<_>>>()?;
        let series: Vec<Series> = series.into_iter().flatten().collect();
        if series.is_empty() {
            continue;
        }
        let x = if matches!(spec.draw, Draw::Metric(_)) { Axis::whole(&spec.x) } else { Axis::new(&spec.x) };
        let subtitle = format!("run {run}; {}", spec.subtitle);
        let chart = Chart { title: spec.title.clone(), subtitle, x, y: Axis::new(&spec.y), series };
        figures.push(Figure { name: spec.file.clone(), svg: chart.svg() });
    }
    Ok(figures)
}

/// What figures are made of.
struct Source<'a> {
    contract: &'a Contract,
    cells: &'a [CellData],
    metrics: &'a [Metric],
}

impl Source<'_> {
    fn value(&self, cell: &str, metric: &str) -> Option<f64> {
        let of_cell = |m: &&Metric| m.metric == metric && cell == format!("{}/{}", m.phase, m.cell);
        self.metrics.iter().find(of_cell)?.value.parse().ok()
    }

    /// A series; absent without anything to draw.
    fn series(&self, spec: &FigureSpec, series: &SeriesSpec) -> anyhow::Result<Option<Series>> {
        let name = series.name.clone();
        let drawn = match &spec.draw {
            Draw::Distribution(of) => {
                let mut ns = Vec::new();
                for (cell, _) in &series.cells {
                    ns.extend(sound_values(self.contract, self.cells, cell, of)?);
                }
                let mark = series.mark.as_ref();
                let mark_x = mark.and_then(|at| self.value(&format!("{}/{}", at.phase, at.cell), &at.metric));
                Series::Line { name, points: distribution(ns), mark_x }
            }
            Draw::Metric(metric) => {
                let point = |(cell, x): &(String, f64)| Some((*x, self.value(cell, metric)?));
                Series::Dotted { name, points: series.cells.iter().filter_map(point).collect() }
            }
            Draw::Cloud(x, y) => {
                let mut points = Vec::new();
                for (cell, _) in &series.cells {
                    let x = sound_values(self.contract, self.cells, cell, x)?;
                    let y = sound_values(self.contract, self.cells, cell, y)?;
                    points.extend(x.iter().zip(&y).map(|(x, y)| (*x as f64 / 1e6, *y as f64 / 1e6)));
                }
                let every = points.len().div_ceil(DOTS).max(1);
                Series::Cloud { name, points: points.into_iter().step_by(every).collect() }
            }
        };
        Ok(Some(drawn).filter(|series| !series.points().is_empty()))
    }
}

/// The distribution function of nanoseconds, in microseconds, at equal steps of the share.
fn distribution(mut ns: Vec<i64>) -> Vec<(f64, f64)> {
    ns.sort_unstable();
    let step = |step: u64| {
        let rank = Quantile { num: step, den: STEPS }.rank(ns.len() as u64);
        (ns[rank as usize - 1] as f64 / 1e3, step as f64 / STEPS as f64)
    };
    if ns.is_empty() { Vec::new() } else { (0..=STEPS_DRAWN).map(step).collect() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::numbers::summary::summarize;
    use crate::trial::synthetic::{cells, contract, plan};
    use preempt::plan::{Phase, PreemptPlan};
    use schema::plan::ProfileName;

    fn drawn(plan: &PreemptPlan) -> Vec<Figure> {
        let cells = cells(plan);
        let contract = contract(plan);
        let metrics = summarize(&contract, "r", &cells).unwrap();
        figures(&contract, "r", &cells, &metrics).unwrap()
    }

    #[test]
    fn figures_are_the_same_bytes_every_time() {
        let plan = plan(ProfileName::Full, 400);
        let figures = drawn(&plan);
        assert_eq!(figures, drawn(&plan));
        for figure in &figures {
            insta::assert_snapshot!(figure.name.as_str(), figure.svg);
            if let Some(dir) = std::env::var_os("ASSAY_TEST_FIGURES") {
                fs_err::write(std::path::Path::new(&dir).join(&figure.name), &figure.svg).unwrap();
            }
        }
    }

    #[test]
    fn a_run_of_some_phases_has_the_figures_of_those() {
        let mut plan = plan(ProfileName::Full, 400);
        let names = |plan: &PreemptPlan| drawn(plan).into_iter().map(|figure| figure.name).collect::<Vec<_>>();
        assert_eq!(names(&plan), ["latency.svg", "tiles.svg", "wait.svg"]);
        plan.phases = vec![Phase::Instrument, Phase::Yield];
        assert_eq!(names(&plan), ["latency.svg"]);
    }

    #[test]
    fn a_distribution_runs_from_the_least_value_to_the_99th_percentile() {
        let points = distribution(vec![3_000, 1_000, 2_000]);
        assert_eq!((points[0], points[100], *points.last().unwrap()), ((1.0, 0.0), (2.0, 0.5), (3.0, 0.99)));
        assert!(distribution(Vec::new()).is_empty());
    }
}
