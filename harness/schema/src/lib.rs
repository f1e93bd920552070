//! The formats of Assay: every file, record, progress line and exit code that two parts share.
//!
//! Nothing here calls CUDA, Docker or git. A format carries a version; readers refuse a newer one.

pub mod build;
pub mod bundle;
pub mod cell;
pub mod claim;
pub mod compare;
pub mod contract;
pub mod counters;
pub mod digest;
pub mod driver;
pub mod environment;
pub mod events;
pub mod exit;
pub mod facts;
pub mod manifest;
pub mod metrics;
pub mod plan;
pub mod progress;
pub mod reopened;
pub mod sanitize;
pub mod timer;
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
    check_format_up_to(what, found, FORMAT)
}

/// As [`check_format`], for a file whose own format is `newest`.
///
/// # Errors
/// When `found` is larger than `newest`.
pub fn check_format_up_to(what: &str, found: u32, newest: u32) -> anyhow::Result<()> {
    anyhow::ensure!(
        found <= newest,
        "{what} has format {found}, and this program reads up to {newest}; use a newer Assay to read it"
    );
    Ok(())
}

/// Refuses the bytes of a JSON file that names a newer format, before anything else of it is read: it may hold what no reader
/// here knows.
///
/// # Errors
/// As [`check_format`]. What is no JSON or names no format is left to its reader.
pub fn check_format_of_json(what: &str, bytes: &[u8]) -> anyhow::Result<()> {
    check_format_of_json_up_to(what, bytes, FORMAT)
}

/// As [`check_format_of_json`], for a file whose own format is `newest`.
///
/// # Errors
/// As [`check_format_up_to`].
pub fn check_format_of_json_up_to(what: &str, bytes: &[u8], newest: u32) -> anyhow::Result<()> {
    // Nothing else is kept, however large the file is.
    let found: Formats = serde_json::from_slice(bytes).unwrap_or_default();
    let format = found.predicate.and_then(|inner| inner.format).or(found.format);
    check_format_up_to(what, format.map_or(0, |format| u32::try_from(format).unwrap_or(u32::MAX)), newest)
}

/// Where a JSON file names its format.
#[derive(Default, serde::Deserialize)]
struct Formats {
    format: Option<u64>,
    predicate: Option<Inner>,
}

#[derive(serde::Deserialize)]
struct Inner {
    format: Option<u64>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_newer_format_is_named_whatever_else_the_file_holds() {
        let check = |text: &str| check_format_of_json("manifest.json", text.as_bytes());
        for newer in [r#"{"format": 2, "later": []}"#, r#"{"predicate": {"format": 2}}"#] {
            assert!(check(newer).unwrap_err().to_string().contains("manifest.json has format 2"));
        }
        for other in [r#"{"format": 1}"#, r#"{"subject": []}"#, "{"] {
            check(other).unwrap();
        }
    }
}
