//! SHA-256 digests of bytes, files and canonical JSON.

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use sha2::{Digest as _, Sha256};
use std::fmt;
use std::io::{self, Read};
use std::path::Path;
use std::str::FromStr;

/// A SHA-256 digest, written as 64 lower-case hex digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Digest([u8; 32]);

impl Digest {
    /// The digest of `bytes`.
    #[must_use]
    pub fn of(bytes: impl AsRef<[u8]>) -> Self {
        Self(Sha256::digest(bytes.as_ref()).into())
    }

    /// The digest of all that `reader` yields, and its length in bytes.
    ///
    /// # Errors
    /// When reading fails.
    pub fn of_reader(reader: impl Read) -> io::Result<(Self, u64)> {
        Self::of_reader_through(reader, &mut vec![0; 256 << 10])
    }

    /// As [`Digest::of_reader`], through a buffer that the caller keeps for many files.
    ///
    /// # Errors
    /// When reading fails.
    pub fn of_reader_through(mut reader: impl Read, buffer: &mut [u8]) -> io::Result<(Self, u64)> {
        let mut hasher = Sha256::new();
        let mut total = 0;
        loop {
            match reader.read(buffer)? {
                0 => return Ok((Self(hasher.finalize().into()), total)),
                n => {
                    hasher.update(&buffer[..n]);
                    total += n as u64;
                }
            }
        }
    }

    /// The digest of a file's bytes.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn of_file(path: impl AsRef<Path>) -> io::Result<Self> {
        Ok(Self::of_reader(fs_err::File::open(path.as_ref())?)?.0)
    }

    /// The first 8 hex digits, for names people read.
    #[must_use]
    pub fn short(&self) -> String {
        self.to_string()[..8].to_owned()
    }
}

/// Digests of ever longer beginnings of one text, each at the cost of what was added.
#[derive(Clone, Debug, Default)]
pub struct Growing(Sha256);

impl Growing {
    /// The digest of all that was added so far, these bytes included.
    pub fn add(&mut self, bytes: &[u8]) -> Digest {
        self.0.update(bytes);
        Digest(self.0.clone().finalize().into())
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Digest({self})")
    }
}

impl FromStr for Digest {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> anyhow::Result<Self> {
        let strict = text.len() == 64 && text.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b));
        anyhow::ensure!(strict, "{text:?} is not a SHA-256 digest (64 lower-case hex digits)");
        let mut bytes = [0; 32];
        for (i, byte) in bytes.iter_mut().enumerate() {
            *byte = u8::from_str_radix(&text[2 * i..2 * i + 2], 16)?;
        }
        Ok(Self(bytes))
    }
}

impl Serialize for Digest {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Digest {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
impl schemars::JsonSchema for Digest {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Digest".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({
            "description": "A SHA-256 digest.",
            "type": "string",
            "pattern": "^[0-9a-f]{64}$",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn empty_input_has_the_known_digest() {
        let known = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        assert_eq!(Digest::of(b"").to_string(), known);
        assert_eq!(known.parse::<Digest>().unwrap(), Digest::of(b""));
    }

    #[test]
    fn a_growing_digest_is_that_of_all_so_far() {
        let mut growing = Growing::default();
        assert_eq!(
            (growing.add(b"a"), growing.add(b""), growing.add(b"bc")),
            (Digest::of("a"), Digest::of("a"), Digest::of("abc"))
        );
    }

    #[test]
    fn only_strict_hex_is_a_digest() {
        for bad in ["", "00", &"G".repeat(64), &"A".repeat(64), &"0".repeat(65)] {
            assert!(bad.parse::<Digest>().is_err(), "{bad}");
        }
    }
}
