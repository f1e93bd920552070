//! What every emulation shares: the clock, the timer, and the record of a launch whose blocks are threads of this machine.
//!
//! A cycle is a nanosecond, and blocks are spread over the SMs round robin. Nothing that is emulated can be published.

mod clock;
mod timer;

pub use clock::Clock;
pub use timer::timer;

use crate::launch::LaunchTrace;
use schema::cell::LaunchConfig;

/// How an emulated kernel is launched: its blocks have one thread, and there is no cubin.
#[must_use]
pub fn config(symbol: &str, mode: &str, grid: u32, cooperative: bool) -> LaunchConfig {
    LaunchConfig {
        symbol: symbol.to_owned(),
        mode: mode.to_owned(),
        grid,
        block: 1,
        shared_bytes: 0,
        cooperative,
        cubin: None,
    }
}

/// What every launch records, from the instants at which each block began and ended.
#[must_use]
pub fn trace(config: LaunchConfig, sms: u32, host_start_ns: u64, blocks: &[(u64, u64)]) -> LaunchTrace {
    let start = blocks.iter().map(|(start, _)| *start).min().unwrap_or(0);
    let end = blocks.iter().map(|(_, end)| *end).max().unwrap_or(0);
    let block_sm: Vec<u32> = (0..config.grid).map(|block| block % sms).collect();
    LaunchTrace {
        config,
        host_start_ns: host_start_ns.cast_signed(),
        wall_ns: narrow(end - start),
        clock: clock_windows(&block_sm, sms, blocks),
        block_sm,
    }
}

/// One window per SM over its first block.
fn clock_windows(block_sm: &[u32], sms: u32, blocks: &[(u64, u64)]) -> Vec<(u32, u32, u32)> {
    let window = |sm: u32| {
        let (_, (start, end)) = block_sm.iter().zip(blocks).find(|(of, _)| **of == sm)?;
        let ns = narrow(end - start).max(1);
        Some((sm, ns, ns))
    };
    (0..sms).filter_map(window).collect()
}

/// Nanoseconds that fit the record's 32 bits; a launch is bounded well below them.
#[must_use]
pub fn narrow(ns: u64) -> u32 {
    u32::try_from(ns).unwrap_or(u32::MAX)
}
