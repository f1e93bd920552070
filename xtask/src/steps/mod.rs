//! The steps of the one path, in order. Each consumes the type that the step before it made.

pub mod build;
pub mod clocks;
pub mod counters;
pub mod describe;
pub mod gate;
pub mod record;
pub mod run;
pub mod sanitize;
pub mod seal;
