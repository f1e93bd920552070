//! What travels between this repository and a GPU box: the bundle that goes there, and the packed run that comes
//! back.

pub mod bundle;
pub mod pack;
