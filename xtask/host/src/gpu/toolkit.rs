//! A CUDA toolkit that programs can be run from. Where it comes from is `provision`'s business.

use schema::Digest;
use std::path::PathBuf;

/// A toolkit at hand.
#[derive(Clone, Debug)]
pub struct Toolkit {
    /// Where it came from: `wheels`, `image` or `box`.
    pub origin: String,
    /// Its root: holds `bin/nvcc` and `bin/ptxas`.
    pub root: PathBuf,
    /// The compiler.
    pub nvcc: PathBuf,
    /// compute-sanitizer, where there is one.
    pub sanitizer: Option<PathBuf>,
    /// Digest of `docker/toolkit.lock`.
    pub lock: Digest,
}
