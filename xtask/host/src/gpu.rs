//! The GPUs of this machine and the software for them: driver, NVML, toolkit and profiler. No context is made here.

pub mod cuda;
pub mod driver;
pub mod lease;
pub mod nvml;
pub mod profiler;
pub mod toolkit;
pub mod turn;
