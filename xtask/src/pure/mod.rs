//! Values in, values out: no I/O, no clock, no platform libm, so that results are the same bytes anywhere.

pub mod altered;
pub mod attempts;
pub mod cdi;
pub mod claims;
pub mod clock_class;
pub mod compare;
pub mod container_end;
#[cfg(test)]
mod corruption;
pub mod counters;
pub mod cubin;
pub(crate) mod decimal;
pub mod derive;
pub mod docker_says;
pub mod drift;
pub mod driver_version;
pub mod figures;
pub mod gate;
pub mod gpu_state;
pub mod inventory;
pub mod json;
pub mod measured;
pub mod names;
pub mod notebook;
pub mod nvcc;
pub mod nvinfo;
pub mod occupancy;
pub mod pci;
pub mod personal;
pub mod progress;
pub mod prose;
pub mod protocol;
pub mod provenance;
pub mod ptxas;
pub mod render;
pub mod sample;
pub mod sanitizer;
pub mod sass;
pub mod standing;
pub mod states;
pub mod stats;
pub mod summary;
pub mod sums;
pub mod surroundings;
pub mod text;
pub mod timekeeping;

#[cfg(test)]
pub(crate) mod synthetic;
