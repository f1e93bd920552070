//! What every experiment's blocks leave behind and what the timer kernels take, laid out as `kernels/common/record.cuh` lays it
//! out.
//!
//! Device addresses are plain `u64`. Nothing here touches the driver.

/// A device address.
pub type Address = u64;

/// What each block leaves behind.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct BlockRecord {
    /// Device timer at its start.
    pub start_ns: u64,
    /// Device timer at its end.
    pub end_ns: u64,
    /// The SM it ran on.
    pub sm: u32,
    /// Steps of its work that it did.
    pub executed: u32,
    /// Readings of its clock.
    pub clock_samples: u32,
    /// Waits that ended at their deadline.
    pub deadline_hits: u32,
}

/// One reading of an SM's clock beside the global timer.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct ClockSample {
    /// SM cycles.
    pub cycles: u64,
    /// Nanoseconds of the global timer.
    pub ns: u64,
}

/// The ping-pong between block 0 and every other block.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct OffsetArgs {
    pub(crate) checked_in: Address,
    pub(crate) calls: Address,
    pub(crate) replies: Address,
    pub(crate) reply_ns: Address,
    pub(crate) offset_ns: Address,
    pub(crate) rtt_ns: Address,
    pub(crate) blocks: Address,
    pub(crate) deadline_ns: u64,
    pub(crate) rounds: u32,
    pub(crate) stride: u32,
}

/// The search for the timer's step.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct QuantumArgs {
    pub(crate) quantum_ns: Address,
    pub(crate) blocks: Address,
    pub(crate) reads: u32,
    pub(crate) reserved: u32,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_those_the_kernels_assert() {
        let text = include_str!("../../../../kernels/common/record.cuh");
        let sizes = [
            ("BlockRecord", size_of::<BlockRecord>()),
            ("ClockSample", size_of::<ClockSample>()),
            ("OffsetArgs", size_of::<OffsetArgs>()),
            ("QuantumArgs", size_of::<QuantumArgs>()),
        ];
        for (name, size) in sizes {
            assert!(text.contains(&format!("static_assert(sizeof({name}) == {size},")), "{name} has {size} bytes");
        }
    }
}
