//! Commands that only read.

pub mod doctor;
pub mod inventory;
pub mod status;
pub mod verify;
