//! All that can fail outside of us, each behind a small door: processes, containers, NVML, git, files.

pub mod container;
pub mod driver;
pub mod process;
pub mod toolkit;
pub mod wheels;
