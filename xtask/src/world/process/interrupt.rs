//! SIGINT and SIGTERM as a flag that every wait looks at. It ends nothing by itself.

use crate::failure::fail;
use anyhow::{Context, Result};
use schema::ExitCode;
use signal_hook::consts::{SIGINT, SIGTERM};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

/// The signal seen, or 0. One for the process, since signals are.
static SEEN: OnceLock<Arc<AtomicUsize>> = OnceLock::new();

/// Turns SIGINT and SIGTERM into the flag behind [`interrupted`]; once, at the start of `main`.
///
/// # Errors
/// When the handlers cannot be installed.
pub fn watch_interrupts() -> Result<()> {
    let seen = SEEN.get_or_init(Arc::default);
    for signal in [SIGINT, SIGTERM] {
        signal_hook::flag::register_usize(signal, Arc::clone(seen), signal as usize)
            .with_context(|| format!("failed to watch signal {signal}"))?;
    }
    Ok(())
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
    let (code, name) =
        if signal == SIGTERM { (ExitCode::Terminated, "SIGTERM") } else { (ExitCode::Interrupted, "SIGINT") };
    fail(code, format!("{what}: ended by {name}; what was complete is kept"), "run the same command again to go on")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::failure::code_of;

    #[test]
    fn each_signal_has_its_documented_code() {
        assert_eq!(code_of(&interruption(SIGINT, "x")), ExitCode::Interrupted);
        assert_eq!(code_of(&interruption(SIGTERM, "x")), ExitCode::Terminated);
    }
}
