//! Runs kernels and writes raw events; nothing else.

pub mod device;
pub mod failure;
pub mod hold;
pub mod measure;
pub mod open;
pub mod oracle;
pub mod plan;
pub mod preempt;
pub mod record;
pub mod run;
pub mod sanitize;
pub mod session;
pub mod steady;
