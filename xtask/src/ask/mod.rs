//! Commands that only read.

pub mod compare;
pub mod doctor;
pub mod inventory;
pub mod status;
pub mod verify;
