//! Which kernels count as measured, and the one digest of all their SASS.

use crate::records::sums::to_text;
use schema::Digest;
use schema::build::BuildRecord;
use std::collections::BTreeMap;

/// The SASS digests of the kernels that are measured on an architecture, by symbol; planted faults are none of them.
#[must_use]
pub fn measured_sass(build: &BuildRecord, arch: &str) -> BTreeMap<String, Digest> {
    let measured = build.kernels.iter().filter(|k| k.arch == arch && !k.file.starts_with("controls/"));
    measured.map(|k| (k.symbol.clone(), k.sass_digest)).collect()
}

/// One digest over the SASS digests of the measured kernels; of nothing where there are none.
#[must_use]
pub fn sass_digest(build: &BuildRecord, arch: &str) -> Digest {
    Digest::of(to_text(&measured_sass(build, arch)))
}
