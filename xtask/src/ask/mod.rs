//! Commands that only read.

pub mod doctor;
pub mod verify;
