//! Runs kernels and writes raw events; nothing else.

pub mod device;
pub mod oracle;
