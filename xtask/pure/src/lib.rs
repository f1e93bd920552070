//! Values in, values out: no I/O, no clock, no platform libm, so that results are the same bytes anywhere.

pub mod book;
pub mod compare;
pub mod gate;
pub mod identity;
pub mod numbers;
pub mod records;

#[cfg(any(test, feature = "trial"))]
pub mod trial;
