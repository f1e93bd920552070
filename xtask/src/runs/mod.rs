//! The archive of runs: where the files of a run lie, which runs are published, and what their files say. Nothing
//! here changes a run.

pub mod attempts;
pub mod evidence;
pub mod history;
pub mod layout;
pub mod past;
pub mod provenance;
pub mod published;
pub mod signature;
