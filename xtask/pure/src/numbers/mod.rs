//! Numbers: statistics, the summary of a run and its figures, and the class of its clocks. What a number decides is in
//! `gate/` and `book/`.

pub mod clock_class;
pub(crate) mod decimal;
pub mod derive;
pub mod drift;
pub mod figures;
pub mod off_clock;
pub mod sample;
pub mod states;
pub mod stats;
pub mod summary;
