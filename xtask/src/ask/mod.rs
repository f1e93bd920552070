//! Commands that only read.

pub mod doctor;
