//! Computes everything that follows from the cells alone: the bytes of the summary and of the figures. Step `seal`
//! writes them; the gate and `verify` compare with them.

use super::figures::figures;
use super::off_clock::{self, OffClock};
use super::summary::{CellData, Drawn, Tails, summarize_drawn};
use schema::contract::Contract;
use schema::metrics::{Metric, to_csv};
use std::collections::BTreeMap;

/// What follows from the cells.
#[derive(Clone, Debug, Default)]
pub struct Derived {
    /// The rows of the summary.
    pub metrics: Vec<Metric>,
    /// Those that stand, with what their intervals were drawn from.
    pub drawn: Vec<Drawn>,
    /// Launches whose own clock was not the run's.
    pub off_clock: OffClock,
    /// The summary's bytes.
    pub metrics_csv: String,
    /// Figures by file name.
    pub figures: BTreeMap<String, String>,
    /// Why it could not be computed; empty when it could.
    pub fault: String,
}

/// Computes summary and figures. Cells from which nothing can be computed leave a fault and nothing else.
#[must_use]
pub fn derive(contract: &Contract, run: &str, cells: &[CellData]) -> Derived {
    let all = || -> anyhow::Result<Derived> {
        let mut drawn = summarize_drawn(contract, run, cells, Tails::Floored)?;
        let off_clock = off_clock::judge(contract, run, cells, &mut drawn)?;
        let metrics: Vec<Metric> = drawn.iter().map(|row| row.metric.clone()).collect();
        drawn.retain(|row| !row.metric.refused());
        let figures = figures(contract, run, cells, &metrics)?;
        let figures = figures.into_iter().map(|figure| (figure.name, figure.svg)).collect();
        Ok(Derived { metrics_csv: to_csv(&metrics), figures, metrics, drawn, off_clock, fault: String::new() })
    };
    all().unwrap_or_else(|error| Derived { fault: format!("{error:#}"), ..Derived::default() })
}
