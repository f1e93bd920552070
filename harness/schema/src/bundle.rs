//! What travels between machines: `bundle.json` in an archive for a GPU box, and the index of a packed run.

use crate::Digest;
use crate::build::Kernel;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// `bundle.json`: what an archive was made from, and every file in it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BundleRecord {
    /// Format version.
    pub format: u32,
    /// The clean commit it was made from, 40 hex digits.
    pub commit: String,
    /// Digest over the tracked source files of that commit.
    pub source: Digest,
    /// Digests of `harness/experiments/<name>/plan.toml`, by experiment.
    pub plans: BTreeMap<String, Digest>,
    /// Digests of `harness/experiments/<name>/claims.toml`, by experiment.
    pub claims: BTreeMap<String, Digest>,
    /// The head of the notebook's chain at that commit.
    pub notebook_head: Digest,
    /// SASS digests of the carried cubins.
    pub sass: Vec<CarriedSass>,
    /// Every file but this record, by its path below the root.
    pub files: BTreeMap<String, FileFacts>,
}

/// One carried kernel.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CarriedSass {
    /// Kernel file relative to `kernels/`, without suffix.
    pub file: String,
    /// The symbol.
    pub symbol: String,
    /// Architecture.
    pub arch: String,
    /// Its SASS digest.
    pub sass_digest: Digest,
}

impl CarriedSass {
    /// What a bundle says of a built kernel.
    #[must_use]
    pub fn of(kernel: &Kernel) -> Self {
        Self {
            file: kernel.file.clone(),
            symbol: kernel.symbol.clone(),
            arch: kernel.arch.clone(),
            sass_digest: kernel.sass_digest,
        }
    }
}

/// One file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FileFacts {
    /// Its length.
    pub bytes: u64,
    /// SHA-256 of its bytes.
    pub sha256: Digest,
}

/// `<run>.pack.json`: the parts of a packed run directory and what is in them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PackIndex {
    /// Format version.
    pub format: u32,
    /// Run id.
    pub run: String,
    /// Parts by name; joined in this order they are one tar stream.
    pub parts: BTreeMap<String, FileFacts>,
    /// Every file of the run, by its path below the run directory.
    pub files: BTreeMap<String, FileFacts>,
}
