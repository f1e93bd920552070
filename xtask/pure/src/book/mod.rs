//! What people read and write: the notebook, claims, prose with numbers, published runs as Markdown, and
//! which published numbers still stand.

pub mod claims;
pub mod notebook;
pub mod prose;
pub mod render;
pub mod standing;

/// A number as it is read: the unit `1` is not shown, and nothing has no unit.
fn with_unit(value: &str, unit: &str) -> String {
    if value.is_empty() || unit == "1" { value.to_owned() } else { format!("{value} {unit}") }
}
