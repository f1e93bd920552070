//! Made-up records of a run that every gate lets pass, for tests here and in xtask. Nothing was measured, nothing is on disk.

#![expect(missing_docs, reason = "made-up records are named for what they stand for")]

pub mod cells;
pub mod corruption;
pub mod halves;
pub mod records;
pub mod synthetic;

pub use cells::find;
pub use records::{LOCK, claims};
pub use words::gpu_state::idle;

/// Another test GPU's id than the emulated device's.
pub const DEVICE: &str = "0123456789abcdef";

/// The exit code of an error that a test expects to have one.
#[cfg(test)]
pub(crate) fn code_of(error: &anyhow::Error) -> schema::ExitCode {
    words::failure::Failure::in_chain(error).expect("the error names its exit code").code
}
