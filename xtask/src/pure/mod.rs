//! Values in, values out: no I/O, no clock, no platform libm, so that results are the same bytes anywhere.

pub mod stats;

pub mod summary;

pub mod claims;

pub mod figures;

pub mod render;

pub mod notebook;

mod decimal;

#[cfg(test)]
pub(crate) mod synthetic;
