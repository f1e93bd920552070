//! Records beside a run: the chain of attempts, sanitizer logs, counters, provenance, sums and inventories.

pub mod attempts;
pub mod counters;
pub mod inventory;
pub mod json;
pub mod provenance;
pub mod sanitizer;
pub mod sums;
