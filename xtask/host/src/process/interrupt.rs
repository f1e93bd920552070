//! SIGINT, SIGTERM and a hang-up as a flag that every wait checks. The signal by itself ends nothing.

use crate::failure::fail;
use anyhow::{Context, Result};
use schema::ExitCode;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGXFSZ};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

/// The signal seen, or 0. One for the process, since signals are.
static SEEN: OnceLock<Arc<AtomicUsize>> = OnceLock::new();

/// Turns SIGINT, SIGTERM and a hang-up, unless that is ignored, into the flag behind [`interrupted`]; once, at the start of
/// `main`. A file that grows over a limit is from then on an error of its writer and no sudden death.
///
/// # Errors
/// When the handlers cannot be installed.
pub fn watch_interrupts() -> Result<()> {
    let seen = SEEN.get_or_init(Arc::default);
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    // Whoever started us with nohup wants us to go on without the terminal.
    let hang_up = (!is_ignored(&status, SIGHUP)).then_some(SIGHUP);
    for signal in [SIGINT, SIGTERM].into_iter().chain(hang_up) {
        signal_hook::flag::register_usize(signal, Arc::clone(seen), signal as usize)
            .with_context(|| format!("failed to watch signal {signal}"))?;
    }
    let over_limit = Arc::new(AtomicBool::new(false));
    signal_hook::flag::register(SIGXFSZ, over_limit).context("failed to watch SIGXFSZ")?;
    Ok(())
}

/// Whether a process with this `/proc/self/status` ignores a signal.
fn is_ignored(status: &str, signal: i32) -> bool {
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).is_some_and(|mask| mask >> (signal - 1) & 1 == 1)
}

/// The signal that asked us to stop, if one did.
pub fn interrupted() -> Option<i32> {
    match SEEN.get()?.load(Ordering::Relaxed) {
        0 => None,
        signal => i32::try_from(signal).ok(),
    }
}

/// The error that an interrupted step ends with.
pub fn interruption(signal: i32, what: &str) -> anyhow::Error {
    let (code, name) = match signal {
        SIGTERM => (ExitCode::Terminated, "SIGTERM"),
        SIGHUP => (ExitCode::Terminated, "SIGHUP, a terminal or connection that is gone"),
        _ => (ExitCode::Interrupted, "SIGINT"),
    };
    fail(code, format!("{what}: ended by {name}; everything complete is kept"), "run the same command again to resume")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::failure::code_of;

    #[test]
    fn each_signal_has_its_documented_code() {
        assert_eq!(code_of(&interruption(SIGINT, "x")), ExitCode::Interrupted);
        assert_eq!(code_of(&interruption(SIGTERM, "x")), ExitCode::Terminated);
        assert_eq!(code_of(&interruption(SIGHUP, "x")), ExitCode::Terminated);
    }

    #[test]
    fn an_ignored_signal_is_known() {
        let status = "Name:\tx\nSigBlk:\t0000000000000001\nSigIgn:\t0000000000001001\nSigCgt:\t0000000000000002\n";
        assert_eq!([SIGHUP, 13, SIGINT, SIGTERM].map(|s| is_ignored(status, s)), [true, true, false, false]);
        assert!(!is_ignored("", SIGHUP));
    }
}
