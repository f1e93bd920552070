//! Small cached answers of steps that only compute: a value under a key, in `target/assay/answers/`.
//!
//! The key covers everything the answer depends on, this program included. An entry that cannot be read is computed
//! again.

use crate::files::write_whole;
use crate::paths::Paths;
use anyhow::{Context, Result};
use schema::Digest;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::path::Path;

#[derive(Serialize, Deserialize)]
struct Kept<T> {
    key: Digest,
    value: T,
}

/// The answer for `key` by this name, and whether it was there already.
///
/// # Errors
/// See [`answer_in`].
pub fn answer<T: Serialize + DeserializeOwned>(
    paths: &Paths,
    name: &str,
    key: Digest,
    work: impl FnOnce() -> Result<T>,
) -> Result<(T, bool)> {
    answer_in(&paths.state().join("answers").join(format!("{name}.json")), key, work)
}

/// The answer for `key` in this file, and whether it was there already.
///
/// # Errors
/// Those of `work`, or when the answer cannot be kept.
pub fn answer_in<T: Serialize + DeserializeOwned>(
    path: &Path,
    key: Digest,
    work: impl FnOnce() -> Result<T>,
) -> Result<(T, bool)> {
    let kept = fs_err::read(path).ok().and_then(|bytes| serde_json::from_slice::<Kept<T>>(&bytes).ok());
    if let Some(kept) = kept.filter(|kept| kept.key == key) {
        return Ok((kept.value, true));
    }
    let kept = Kept { key, value: work()? };
    write_whole(path, &serde_json::to_vec(&kept)?)?;
    Ok((kept.value, false))
}

/// Digest of this program's own file: a new xtask computes everything anew.
///
/// # Errors
/// When the file cannot be read.
pub fn own_digest() -> Result<Digest> {
    // Not by its path: during a long run the file may be replaced by a newer build.
    Digest::of_file("/proc/self/exe").context("failed to read this program's own file")
}

/// One digest over named parts, in order.
pub fn key(parts: &[(&str, String)]) -> Digest {
    Digest::of(serde_json::to_vec(parts).expect("text serialises"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_kept_for_its_key_only() {
        let dir = tempfile::tempdir().unwrap();
        let paths = Paths::new(dir.path());
        let ask = |key: &str, value: u32| answer(&paths, "gate", Digest::of(key), || Ok(value)).unwrap();
        assert_eq!(ask("a", 1), (1, false));
        assert_eq!(ask("a", 2), (1, true));
        assert_eq!(ask("b", 3), (3, false));
        fs_err::write(paths.state().join("answers/gate.json"), "{").unwrap();
        assert_eq!(ask("b", 4), (4, false));
    }
}
