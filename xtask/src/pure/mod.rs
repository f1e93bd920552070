//! Values in, values out: no I/O, no clock, no platform libm, so that results are the same bytes anywhere.

pub mod altered;
pub mod attempts;
pub mod claims;
pub mod clock_class;
pub mod cubin;
pub(crate) mod decimal;
pub mod derive;
pub mod figures;
pub mod gate;
pub mod json;
pub mod measured;
pub mod names;
pub mod notebook;
pub mod nvinfo;
pub mod occupancy;
pub mod progress;
pub mod ptxas;
pub mod render;
pub mod sample;
pub mod sanitizer;
pub mod sass;
pub mod stats;
pub mod summary;
pub mod sums;
pub mod text;

#[cfg(test)]
pub(crate) mod synthetic;
