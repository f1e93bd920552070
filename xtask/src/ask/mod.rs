//! Commands that only read.

pub mod doctor;
pub mod status;
pub mod verify;
