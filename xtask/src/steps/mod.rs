//! The steps of the one path, in order. Each consumes the type that the step before it made.
pub mod build;
pub mod bundle;
pub mod pack;

pub mod provision;
