//! Files that appear whole: written beside their place, synced, renamed.

use anyhow::{Context, Result};
use std::ffi::OsString;
use std::io::Write;
use std::path::Path;

/// Writes a file that nobody ever sees half.
///
/// # Errors
/// When it cannot be written.
pub fn write(path: &Path, bytes: &[u8]) -> Result<()> {
    let mut partial = OsString::from(path);
    partial.push(".partial");
    let mut file = fs_err::File::create(Path::new(&partial))?;
    file.write_all(bytes)?;
    file.sync_all()?;
    fs_err::rename(&partial, path)?;
    Ok(())
}

/// Writes a value as indented JSON with a line break at its end.
///
/// # Errors
/// When it cannot be written.
pub fn write_json(path: &Path, value: &impl serde::Serialize) -> Result<()> {
    let mut text = serde_json::to_string_pretty(value)?;
    text.push('\n');
    write(path, text.as_bytes())
}

/// Reads a JSON file.
///
/// # Errors
/// When it cannot be read or is not what is expected.
pub fn read_json<T: serde::de::DeserializeOwned>(path: &Path) -> Result<T> {
    serde_json::from_slice(&fs_err::read(path)?).with_context(|| format!("failed to read {}", path.display()))
}
