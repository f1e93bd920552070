//! Checks of this repository itself: `tidy`, and the commands that make up CI. No run is looked at here.

pub mod ci;
pub mod tidy;
