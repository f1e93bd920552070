//! Commands that only read.

pub mod compare;
pub mod doctor;
pub mod verify;
