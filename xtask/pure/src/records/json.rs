//! The one way in which Assay writes a JSON file: indented, with one line break at its end, the same bytes for the
//! same value; and the words of enumerations in such files.

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

/// The word by which files name a value of an enumeration without fields.
#[must_use]
pub fn word(value: impl Serialize) -> String {
    let json = serde_json::to_value(value).unwrap_or_default();
    json.as_str().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        // The manifest's seconds and a verdict's counts are such numbers, and both are compared by their bytes.
        #[test]
        fn a_number_read_back_is_written_as_the_same_bytes(number in proptest::num::f64::NORMAL | proptest::num::f64::ZERO) {
            let bytes = to_bytes(&number).unwrap();
            let back: f64 = serde_json::from_slice(&bytes).unwrap();
            prop_assert_eq!(to_bytes(&back).unwrap(), bytes);
        }
    }
}
