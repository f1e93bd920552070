//! What people read and write: the notebook, claims, prose with numbers, published runs as Markdown, and
//! which published numbers still stand.

pub mod claims;
pub mod notebook;
pub mod prose;
pub mod render;
pub mod standing;

use schema::metrics::Metric;

/// The name of a number within its run, `METRIC@PHASE/CELL`.
#[must_use]
pub fn name_of(metric: &Metric) -> String {
    format!("{}@{}/{}", metric.metric, metric.phase, metric.cell)
}

/// Whether who withdraws `withdrawn` withdraws the number of this name: it is the name, or what the name begins with and a `*`.
#[must_use]
pub fn withdraws(withdrawn: &str, name: &str) -> bool {
    withdrawn == name || withdrawn.strip_suffix('*').is_some_and(|begin| name.starts_with(begin))
}

/// The name of a claim's value within its run, `CLAIM-ID@claim`.
#[must_use]
pub fn name_of_claim(id: &str) -> String {
    format!("{id}@claim")
}

/// A number as it is read: the unit `1` is not shown, and nothing has no unit.
fn with_unit(value: &str, unit: &str) -> String {
    if value.is_empty() || unit == "1" { value.to_owned() } else { format!("{value} {unit}") }
}
