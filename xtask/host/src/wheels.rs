//! The wheels of `docker/toolkit.lock`: read from the lock, fetched by pip, checked by our own SHA-256, unpacked.
//!
//! No package index is trusted: a wheel must have the digest in the lock, before it is kept and again before it is
//! used.

mod fetch;
pub mod lock;
mod unpack;

pub use fetch::Fetcher;
pub use lock::{Lock, Wheel};
pub use unpack::{Unpacker, is_installed};
