//! Commands that only read: verify, status, compare.

pub mod compare;
pub mod inventory;
pub mod status;
pub mod verify;
