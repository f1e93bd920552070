//! x
/// The local, air-gapped base image that [`make_base`] makes.
pub const LOCAL_BASE: &str = "assay-base:local";
