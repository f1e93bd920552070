//! The one comparison of SASS: what was measured with what a tree builds, kernel by kernel. Gate `freshness`, level L1 and
//! `status` all rest on it.

use schema::Digest;
use std::collections::BTreeMap;
use std::fmt;

/// A kernel that is not what was measured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Changed {
    /// Its symbol.
    pub symbol: String,
    /// The digest that was measured.
    pub measured: Digest,
    /// The digest this tree builds; absent when it builds no such kernel.
    pub built: Option<Digest>,
}

impl fmt::Display for Changed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.built {
            Some(built) => {
                write!(f, "{}: measured {}, this tree builds {}", self.symbol, self.measured.short(), built.short())
            }
            None => write!(f, "{}: this tree builds no such kernel", self.symbol),
        }
    }
}

/// The measured kernels that this tree does not build to the same SASS, by symbol.
#[must_use]
pub fn compare(measured: &BTreeMap<String, Digest>, built: &BTreeMap<String, Digest>) -> Vec<Changed> {
    let differs = measured.iter().filter(|(symbol, digest)| built.get(*symbol) != Some(digest));
    let changed = |(symbol, digest): (&String, &Digest)| Changed {
        symbol: symbol.clone(),
        measured: *digest,
        built: built.get(symbol).copied(),
    };
    differs.map(changed).collect()
}
