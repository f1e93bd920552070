//! Commands that only read.

pub mod verify;
