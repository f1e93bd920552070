//! Values in, values out: no I/O, no clock, no platform libm, so that results are the same bytes anywhere.

pub mod attempts;
pub mod gate;
pub mod measured;
pub mod sums;
pub mod progress;
pub mod sanitizer;
pub mod text;
