//! The wheels of `docker/toolkit.lock`: read from the lock, fetched by pip, checked by our own SHA-256, unpacked.
//!
//! Nothing here trusts an index: a wheel is what its digest in the lock says, before it is kept and again before it is used.

mod fetch;
pub mod lock;
mod unpack;

pub use fetch::Fetcher;
pub use lock::{Lock, Wheel};
pub use unpack::{Unpacker, is_installed};
