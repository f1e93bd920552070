//! The archive of runs: what lies where in one, what is published, and what its files say. Nothing here changes a run.

pub mod attempts;
pub mod evidence;
pub mod history;
pub mod layout;
pub mod past;
pub mod provenance;
pub mod published;
pub mod signature;
