//! The figures of a run as SVG, from the same tables and metrics as `summary/metrics.csv`. Draws nothing that is not there.

mod chart;

use crate::stats::Quantile;
use crate::summary::{CellData, sound_column, wait_pairs};
use chart::{Axis, Chart, Series};
use schema::metrics::Metric;
use schema::plan::{Cell, Plan, Slots, Work};

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

/// Every figure that the run has cells for: `latency.svg`, `tiles.svg`, `wait.svg`.
///
/// # Errors
/// When a table lacks a column or a launch.
pub fn figures(
    plan: &Plan,
    slots: &Slots,
    run: &str,
    cells: &[CellData],
    metrics: &[Metric],
) -> anyhow::Result<Vec<Figure>> {
    let planned = plan.cells(slots);
    let source = Source { run, planned: &planned, cells, metrics };
    let charts =
        [("latency.svg", latency(&source)?), ("tiles.svg", tiles(&source, slots)), ("wait.svg", wait(&source)?)];
    let figure = |(name, chart): (&str, Chart)| Figure { name: name.to_owned(), svg: chart.svg() };
    Ok(charts.into_iter().filter(|(_, chart)| !chart.series.is_empty()).map(figure).collect())
}

/// What figures are made of.
struct Source<'a> {
    run: &'a str,
    planned: &'a [Cell],
    cells: &'a [CellData],
    metrics: &'a [Metric],
}

impl Source<'_> {
    fn data(&self, cell: &Cell) -> Option<&CellData> {
        self.cells.iter().find(|data| data.record.phase == cell.phase && data.record.cell == cell.name)
    }

    fn metric(&self, cell: &Cell, metric: &str) -> Option<&Metric> {
        let phase = cell.phase.name();
        self.metrics.iter().find(|m| m.phase == phase && m.cell == cell.name && m.metric == metric)
    }

    fn value(&self, cell: &Cell, metric: &str) -> Option<f64> {
        self.metric(cell, metric)?.value.parse().ok()
    }

    /// The median tile at the same inner dimension and number of blocks.
    fn tile_us(&self, k: u32, blocks: u32) -> Option<f64> {
        let cell = self.planned.iter().find(|cell| cell.work == Work::Calibrate { k, blocks })?;
        self.value(cell, "tile_wall_us_p50")
    }
}

/// How the preemption latency is distributed in each yield cell, and where the median tile of the same residency lies.
fn latency(source: &Source) -> anyhow::Result<Chart> {
    let mut chart = Chart {
        title: "Preemption latency".to_owned(),
        subtitle: format!("run {}; dashed: median tile at the same K and blocks", source.run),
        x: Axis::new("set instant to last ready block (us)"),
        y: Axis::new("share of events, up to 0.99"),
        series: Vec::new(),
    };
    for cell in source.planned {
        let Work::Yield { k, blocks, poll, set } = cell.work else { continue };
        let Some(data) = source.data(cell) else { continue };
        let points = distribution(sound_column(data, "last_ready_ns")?);
        if !points.is_empty() {
            let name = format!("{blocks} blocks, poll {poll}, {}", set.name());
            chart.series.push(Series::Line { name, points, mark_x: source.tile_us(k, blocks) });
        }
    }
    Ok(chart)
}

/// How long a tile takes, by inner dimension and residency.
fn tiles(source: &Source, slots: &Slots) -> Chart {
    let mut series: Vec<(u32, Vec<(f64, f64)>)> = Vec::new();
    for cell in source.planned {
        let Work::Calibrate { k, blocks } = cell.work else { continue };
        let Some(us) = source.value(cell, "tile_wall_us_p50") else { continue };
        if series.last().is_none_or(|(last, _)| *last != k) {
            series.push((k, Vec::new()));
        }
        let per_sm = f64::from(blocks) / f64::from(slots.sms());
        series.last_mut().expect("one was just pushed").1.push((per_sm, us));
    }
    let dotted = |(k, points)| Series::Dotted { name: format!("K = {k}"), points };
    Chart {
        title: "Tile wall".to_owned(),
        subtitle: format!("run {}; medians", source.run),
        x: Axis::whole("resident blocks per SM"),
        y: Axis::new("64 x 64 tile (us)"),
        series: series.into_iter().map(dotted).collect(),
    }
}

/// How long an urgent task waits when nothing yields, against what remains of the drain when it is issued.
fn wait(source: &Source) -> anyhow::Result<Chart> {
    let mut chart = Chart {
        title: "Urgent wait without yielding".to_owned(),
        subtitle: format!("run {}; at most {DOTS} events a cell", source.run),
        x: Axis::new("remaining drain at issue (ms)"),
        y: Axis::new("wait until start (ms)"),
        series: Vec::new(),
    };
    for cell in source.planned {
        let Work::Baseline { blocks, .. } = cell.work else { continue };
        let Some(data) = source.data(cell) else { continue };
        let pairs = wait_pairs(data)?;
        let every = pairs.len().div_ceil(DOTS).max(1);
        let dot = |(wait, remaining): &(i64, i64)| (*remaining as f64 / 1e6, *wait as f64 / 1e6);
        let points: Vec<(f64, f64)> = pairs.iter().step_by(every).map(dot).collect();
        if !points.is_empty() {
            chart.series.push(Series::Cloud { name: format!("{blocks} blocks"), points });
        }
    }
    Ok(chart)
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
    use crate::summary::summarize;
    use crate::trial::synthetic::{SLOTS, cells, plan};
    use schema::plan::{Phase, ProfileName};

    fn drawn(plan: &Plan) -> Vec<Figure> {
        let cells = cells(plan);
        let metrics = summarize(plan, &SLOTS, "r", &cells).unwrap();
        figures(plan, &SLOTS, "r", &cells, &metrics).unwrap()
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
        let names = |plan: &Plan| drawn(plan).into_iter().map(|figure| figure.name).collect::<Vec<_>>();
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
