//! What preempt's kernels take and leave behind, laid out as `kernels/preempt/abi.cuh` lays it out.
//!
//! Device addresses are plain `u64`. Nothing here touches the driver.
#![expect(unsafe_code, reason = "declares which structs are nothing but their bytes")]

use harness_core::gpu::abi::Address;
use harness_core::gpu::memory::Plain;

/// How often each site was passed in one launch.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct SiteCounters {
    pub(super) yields: u64,
    pub(super) claims: u64,
    pub(super) copies: u64,
}

/// The background queue and where its evidence goes.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct WorkArgs {
    pub(super) a: Address,
    pub(super) b: Address,
    pub(super) c: Address,
    pub(super) executions: Address,
    pub(super) queue: Address,
    pub(super) arrivals: Address,
    pub(super) departures: Address,
    pub(super) blocks: Address,
    pub(super) clock: Address,
    pub(super) sites: Address,
    pub(super) host_started: Address,
    pub(super) host_done: Address,
    pub(super) tasks: u32,
    pub(super) k_chunks: u32,
    pub(super) clock_shift: u32,
    pub(super) clock_capacity: u32,
    pub(super) first_column: u32,
    pub(super) reserved: u32,
}

/// What the calibrate kernel records beside its work.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct CalibrateArgs {
    pub(super) boundary_ns: Address,
    pub(super) record_from: u32,
    pub(super) boundaries: u32,
}

/// The schedule of events and where their evidence goes.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct EventArgs {
    pub(super) flag: Address,
    pub(super) checked_in: Address,
    pub(super) claimed: Address,
    pub(super) gaps_ns: Address,
    pub(super) set_ns: Address,
    pub(super) ready_count: Address,
    pub(super) urgent_finished: Address,
    pub(super) claimer: Address,
    pub(super) urgent_start_ns: Address,
    pub(super) urgent_done_ns: Address,
    pub(super) urgent_executions: Address,
    pub(super) urgent_c: Address,
    pub(super) observed_ns: Address,
    pub(super) ready_ns: Address,
    pub(super) old_cycles: Address,
    pub(super) seen: Address,
    pub(super) host_issued: Address,
    pub(super) host_urgent_done: Address,
    pub(super) host_completed: Address,
    pub(super) delay_spent_ns: Address,
    pub(super) deadline_ns: u64,
    pub(super) n_events: u32,
    pub(super) urgent_tiles: u32,
    pub(super) first_generation: u32,
    pub(super) first_event_id: u32,
    pub(super) set_mode: u32,
    pub(super) storm: u32,
    pub(super) delay_leg: u32,
    pub(super) delay_ns: u32,
    pub(super) columns: u32,
    pub(super) observers: u32,
}

/// The urgent tile of the baseline.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct UrgentArgs {
    pub(super) a: Address,
    pub(super) b: Address,
    pub(super) c: Address,
    pub(super) executions: Address,
    pub(super) times_ns: Address,
    pub(super) sites: Address,
    pub(super) host_started: Address,
    pub(super) host_done: Address,
    pub(super) k_chunks: u32,
    pub(super) event_id: u32,
}

/// A comparison of output tiles with the reference.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct CheckArgs {
    pub(super) c: Address,
    pub(super) reference: Address,
    pub(super) executions: Address,
    pub(super) counts: Address,
    pub(super) tiles: u32,
    pub(super) urgent_tiles: u32,
    pub(super) first_event_id: u32,
    pub(super) reserved: u32,
}

/// What a comparison counted.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct CheckCounts {
    pub(super) wrong_tiles: u32,
    pub(super) unwritten_tiles: u32,
    pub(super) not_once: u32,
    /// The bits of a float32 that is not negative.
    pub(super) error_bits: u32,
}

// SAFETY: `repr(C)` structs of integers whose sizes leave no padding (asserted beside the kernels).
unsafe impl Plain for SiteCounters {}
// SAFETY: as above.
unsafe impl Plain for CheckCounts {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_those_the_kernels_assert() {
        let text = include_str!("../../../../kernels/preempt/abi.cuh");
        let sizes = [
            ("SiteCounters", size_of::<SiteCounters>()),
            ("WorkArgs", size_of::<WorkArgs>()),
            ("CalibrateArgs", size_of::<CalibrateArgs>()),
            ("EventArgs", size_of::<EventArgs>()),
            ("UrgentArgs", size_of::<UrgentArgs>()),
            ("CheckArgs", size_of::<CheckArgs>()),
        ];
        for (name, size) in sizes {
            assert!(text.contains(&format!("static_assert(sizeof({name}) == {size},")), "{name} has {size} bytes");
        }
        // The kernels that check an output count in an array.
        let check = include_str!("../../../../kernels/common/check.cuh");
        assert!(check.contains(&format!("kCheckCounts = {} }}", size_of::<CheckCounts>() / size_of::<u32>())));
    }
}
