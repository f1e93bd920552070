//! What a run leaves on disk: the launches of a cell as they happen, and the cells of a run directory.

mod log;
mod store;

pub use log::LaunchLog;
pub use store::CellStore;
