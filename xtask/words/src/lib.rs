//! Words of others and words for people: what the machine, its tools and the harness say is read here, and made safe to
//! print. Text and records in, values out. It asks nothing itself, and it judges no run, which `xtask/pure/` does.

pub mod altered;
pub mod cdi;
pub mod container_end;
pub mod docker_says;
pub mod driver_version;
pub mod failure;
pub mod gpu_state;
pub mod names;
pub mod nvcc;
pub mod pci;
pub mod personal;
pub mod progress;
pub mod surroundings;
pub mod text;
pub mod throttle;
pub mod timekeeping;
pub mod wsl;
