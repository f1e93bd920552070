//! What every experiment's harness shares: the device, the run loop, records, sanitizer and burn entry points.
//!
//! Nothing here knows an experiment: what is measured, and what its numbers are called, comes through [`experiment`].

pub mod burn;
pub mod draws;
pub mod emulated;
pub mod experiment;
pub mod failure;
pub mod gpu;
pub mod hold;
pub mod launch;
pub mod oracle;
pub mod record;
pub mod repeat;
pub mod run;
pub mod sanitize;
pub mod session;
pub mod target;
pub mod timer;
