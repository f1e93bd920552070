//! Bits of NVML's reasons for a lower clock (nvml.h, CUDA 13.0: `nvmlClocksEventReason…`), and their names.

/// Nothing runs, so clocks fall.
pub const GPU_IDLE: u64 = 1;
/// Clocks are where application or locked clocks put them.
pub const APPLICATION_CLOCKS: u64 = 2;
/// The reasons that do not disturb a measurement.
pub const HARMLESS: u64 = GPU_IDLE | APPLICATION_CLOCKS;

/// The names of the reasons in `bits`, for people.
#[must_use]
pub fn names(bits: u64) -> String {
    const NAMES: [&str; 9] = [
        "idle",
        "application clocks",
        "power cap",
        "hardware slowdown",
        "sync boost",
        "software thermal slowdown",
        "hardware thermal slowdown",
        "power brake",
        "display clock",
    ];
    let name = |bit: usize| NAMES.get(bit).map_or_else(|| format!("bit {bit}"), |name| (*name).to_owned());
    let named: Vec<String> = (0..64).filter(|bit| bits & (1 << bit) != 0).map(name).collect();
    if named.is_empty() { "none".to_owned() } else { named.join(", ") }
}
