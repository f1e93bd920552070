//! Runs kernels and writes raw events; nothing else.

pub mod device;
pub mod failure;
pub mod oracle;
