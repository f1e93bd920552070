//! Commands that only read: doctor, verify, status, compare.

pub mod compare;
pub mod doctor;
pub mod inventory;
pub mod status;
pub mod verify;
