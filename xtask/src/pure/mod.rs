//! Values in, values out: no I/O, no clock, no platform libm, so that results are the same bytes anywhere.
pub mod cubin;
pub mod nvinfo;
pub mod occupancy;
pub mod ptxas;
pub mod sass;
