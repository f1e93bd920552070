//! What travels between this repository and a GPU box: a bundle there, a packed run back.

pub mod bundle;
pub mod pack;
