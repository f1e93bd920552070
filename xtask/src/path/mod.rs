//! The one path, `reproduce.rs`, and what a command keeps on its way along it: plan, run directory, journal, levels.
//!
//! What a step does is in `steps/`.

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
