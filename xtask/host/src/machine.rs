//! What this machine reports of itself: its disks, its kernel's log, its clocks, its names.

pub mod disk;
pub mod kernel_log;
pub mod personal;
pub mod timekeeping;
