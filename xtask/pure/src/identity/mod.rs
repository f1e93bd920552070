//! What was measured: SASS and resources of kernels, and the protocol of a harness.

pub mod cubin;
pub mod measured;
pub mod nvinfo;
pub mod occupancy;
pub mod protocol;
pub mod ptxas;
pub mod sass;
