//! The one way a JSON file of ours is written: pretty, one line break at its end, the same bytes for the same value.

use anyhow::Result;
use serde::Serialize;

/// The file's bytes.
///
/// # Errors
/// When the value cannot be written as JSON.
pub fn to_bytes(value: &impl Serialize) -> Result<Vec<u8>> {
    let mut bytes = serde_json::to_vec_pretty(value)?;
    bytes.push(b'\n');
    Ok(bytes)
}
