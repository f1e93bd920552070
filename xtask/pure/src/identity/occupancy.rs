//! How many blocks of a kernel are resident on one SM at once.
//!
//! Limits are those of the CUDA Programming Guide 13.0, "Compute Capabilities", table "Technical Specifications";
//! allocation granularities those of the CUDA Occupancy Calculator for compute capability 8.0 and later.

use anyhow::{Result, bail};

const WARP_THREADS: u32 = 32;
/// Registers per SM, of 32 bits.
const SM_REGISTERS: u32 = 64 * 1024;
/// Registers are handed out per warp, in units of this many.
const WARP_REGISTER_UNIT: u32 = 256;
/// An SM has this many sub-partitions, each with its share of the registers and warps.
const SUB_PARTITIONS: u32 = 4;
/// Shared memory that the system keeps per block.
const BLOCK_RESERVED_SHARED_BYTES: u32 = 1024;
/// Shared memory is handed out in units of this many bytes.
const SHARED_UNIT_BYTES: u32 = 128;

/// What one SM of an architecture holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SmLimits {
    /// Resident threads.
    pub threads: u32,
    /// Resident blocks.
    pub blocks: u32,
    /// Shared memory in bytes.
    pub shared_bytes: u32,
}

/// The limits of an architecture by its number, e.g. 90.
///
/// # Errors
/// When we do not know it.
pub fn limits(arch: u32) -> Result<SmLimits> {
    let (threads, blocks, shared_kib) = match arch {
        80 => (2048, 32, 164),
        86 => (1536, 16, 100),
        87 => (1536, 16, 164),
        89 => (1536, 24, 100),
        90 => (2048, 32, 228),
        100 | 103 => (2048, 32, 228),
        120 | 121 => (1536, 24, 100),
        other => bail!("no occupancy limits known for sm_{other}; sm_80 to sm_121 are"),
    };
    Ok(SmLimits { threads, blocks, shared_bytes: shared_kib * 1024 })
}

/// Resident blocks per SM; zero when not even one fits.
#[must_use]
pub fn blocks_per_sm(limits: SmLimits, registers: u32, shared_bytes: u32, block_threads: u32) -> u32 {
    let (warps, _, shared) = Footprint { registers, shared_bytes, block_threads }.taken();
    let by_threads = limits.threads / WARP_THREADS / warps;
    // Registers are handed out by a quarter of the SM, to whole warps.
    let by_registers = SM_REGISTERS / SUB_PARTITIONS / registers_of_warp(registers) * SUB_PARTITIONS / warps;
    let by_shared = limits.shared_bytes / SHARED_UNIT_BYTES / shared;
    limits.blocks.min(by_threads).min(by_registers).min(by_shared)
}

/// What one block takes of an SM.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Footprint {
    /// Registers per thread.
    pub registers: u32,
    /// Static shared memory in bytes.
    pub shared_bytes: u32,
    /// Threads in a block.
    pub block_threads: u32,
}

impl Footprint {
    /// Warps, registers and shared units, as they are handed out.
    fn taken(self) -> (u32, u32, u32) {
        let warps = self.block_threads.div_ceil(WARP_THREADS).max(1);
        let shared = self.shared_bytes.saturating_add(BLOCK_RESERVED_SHARED_BYTES).div_ceil(SHARED_UNIT_BYTES);
        (warps, warps.saturating_mul(registers_of_warp(self.registers)), shared)
    }
}

/// Whether one block of a guest fits where one of `per_sm` blocks of a host kernel was left out. A slot is room for a kernel of
/// the host's own size, and for no larger one.
#[must_use]
pub fn fits_in_slot(limits: SmLimits, host: Footprint, per_sm: u32, guest: Footprint) -> bool {
    let (left, host, guest) = (per_sm.saturating_sub(1), host.taken(), guest.taken());
    let all = |host: u32, guest: u32| left.saturating_mul(host).saturating_add(guest);
    all(host.0, guest.0) <= limits.threads / WARP_THREADS
        && all(host.1, guest.1) <= SM_REGISTERS
        && all(host.2, guest.2) <= limits.shared_bytes / SHARED_UNIT_BYTES
}

fn registers_of_warp(registers: u32) -> u32 {
    let whole = registers.min(SM_REGISTERS).saturating_mul(WARP_THREADS).next_multiple_of(WARP_REGISTER_UNIT);
    whole.max(WARP_REGISTER_UNIT)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(arch: u32, registers: u32, shared_bytes: u32, threads: u32, expected: u32) {
        let found = blocks_per_sm(limits(arch).unwrap(), registers, shared_bytes, threads);
        assert_eq!(found, expected, "sm_{arch}: {registers} registers, {shared_bytes} bytes, {threads} threads");
    }

    #[test]
    fn each_resource_limits() {
        check(90, 32, 0, 1024, 2);
        check(86, 32, 0, 1024, 1);
        check(90, 255, 0, 256, 1);
        check(90, 128, 0, 128, 4);
        check(90, 64, 0, 256, 4);
        // 65 registers take 72 a thread: 2304 a warp, 7 warps in each quarter.
        check(90, 65, 0, 256, 3);
        check(90, 16, 32 * 1024, 128, 6);
        check(80, 16, 32 * 1024, 128, 4);
        check(89, 16, 32 * 1024, 128, 3);
        check(90, 16, 0, 32, 32);
        check(86, 16, 0, 32, 16);
        check(120, 16, 0, 32, 24);
        check(90, 16, 228 * 1024, 32, 0);
    }

    #[test]
    fn a_slot_holds_what_is_no_larger_than_its_own_block() {
        let block = |registers, shared_bytes, block_threads| Footprint { registers, shared_bytes, block_threads };
        let check = |guest, expected| {
            // Five of these take 61,440 of 65,536 registers and 87,680 of 233,472 bytes.
            let found = fits_in_slot(limits(90).unwrap(), block(96, 16_384, 128), 5, guest);
            assert_eq!(found, expected, "{guest:?}");
        };
        check(block(96, 16_384, 128), true);
        check(block(128, 16_384, 128), true);
        check(block(129, 16_384, 128), false);
        check(block(255, 0, 64), true);
        check(block(255, 0, 128), false);
        check(block(32, 0, 512), true);
        check(block(32, 0, 1024), false);
        check(block(32, 162_816, 128), true);
        check(block(32, 162_817, 128), false);
        let full = |guest| fits_in_slot(limits(90).unwrap(), block(16, 0, 512), 4, guest);
        assert!(full(block(16, 0, 512)) && !full(block(16, 0, 544)));
    }

    #[test]
    fn limits_are_those_of_the_guide() {
        for (arch, threads, blocks, kib) in [
            (80, 2048, 32, 164),
            (86, 1536, 16, 100),
            (87, 1536, 16, 164),
            (89, 1536, 24, 100),
            (90, 2048, 32, 228),
            (100, 2048, 32, 228),
            (103, 2048, 32, 228),
            (120, 1536, 24, 100),
            (121, 1536, 24, 100),
        ] {
            assert_eq!(limits(arch).unwrap(), SmLimits { threads, blocks, shared_bytes: kib * 1024 }, "sm_{arch}");
        }
    }

    #[test]
    fn nothing_takes_less_than_a_warp_and_a_unit_of_registers() {
        check(90, 0, 0, 0, 32);
        check(90, 1, 0, 32, 32);
        let sized = |block_threads| Footprint { registers: 0, shared_bytes: 0, block_threads };
        assert_eq!((sized(0).taken(), sized(33).taken()), ((1, 256, 8), (2, 512, 8)));
    }

    #[test]
    fn an_unknown_architecture_is_an_error() {
        assert!(limits(75).is_err());
        assert!(limits(200).is_err());
    }
}
