//! The formats of Assay: every file, record, progress line and exit code that two parts share.
//!
//! Nothing here knows of CUDA, Docker or git. A format carries a version; readers refuse a newer one.

pub mod build;
pub mod bundle;
pub mod cell;
pub mod claim;
pub mod digest;
pub mod environment;
pub mod exit;
pub mod manifest;
pub mod metrics;
pub mod plan;
pub mod progress;
pub mod sanitize;
pub mod table;
pub mod verdict;

pub use digest::Digest;
pub use exit::ExitCode;

/// The version every file format of this release carries. Readers refuse a larger one.
pub const FORMAT: u32 = 1;

/// Refuses a file of a newer format than this program writes.
///
/// # Errors
/// When `found` is larger than [`FORMAT`].
pub fn check_format(what: &str, found: u32) -> anyhow::Result<()> {
    anyhow::ensure!(
        found <= FORMAT,
        "{what} has format {found}, and this program reads up to {FORMAT}; use a newer Assay to read it"
    );
    Ok(())
}
