//! All that can fail outside of us, each behind a small door: processes, containers, NVML, git, files.

pub mod attempts;
pub mod beneath;
pub mod container;
pub mod cuda;
pub mod disk;
pub mod driver;
pub mod evidence;
pub mod files;
pub mod git;
pub mod history;
pub mod kernel_log;
pub mod layout;
pub mod nvml;
pub mod past;
pub mod personal;
pub mod process;
pub mod profiler;
pub mod provenance;
pub mod published;
pub mod signature;
pub mod timekeeping;
pub mod toolkit;
pub mod turn;
pub mod ui;
pub mod wheels;
