//! The one path, `reproduce.rs`, and what a command keeps along it: plan, run directory, journal, levels.
//!
//! The steps themselves are in `steps/`.

pub mod reproduce;

pub mod ask;
pub mod context;

pub mod subject;

pub mod measure;

pub mod judge;

pub mod device;
pub mod freeze;
pub mod levels;
pub mod permit;
pub mod rundir;
pub mod source;
