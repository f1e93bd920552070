//! Ends this process on a signal, or when its client's pipe closes. Cells are resumable, so it stops at once and
//! saves nothing.

use schema::ExitCode;
use signal_hook::consts::{SIGINT, SIGTERM};
use std::io::{IsTerminal, Read};

/// Exits with 130 or 143 on SIGINT or SIGTERM, also as a container's first process, whose default is to ignore them.
///
/// # Errors
/// When the handlers cannot be installed.
pub fn exit_on_signals() -> anyhow::Result<()> {
    let mut signals = signal_hook::iterator::Signals::new([SIGINT, SIGTERM])?;
    std::thread::spawn(move || {
        if let Some(signal) = signals.forever().next() {
            let code = if signal == SIGINT { ExitCode::Interrupted } else { ExitCode::Terminated };
            std::process::exit(code.status());
        }
    });
    Ok(())
}

/// Exits with 143 when stdin ends, so that a killed client leaves no orphan. A terminal is left alone.
pub fn exit_with_client() {
    if std::io::stdin().is_terminal() {
        return;
    }
    std::thread::spawn(|| {
        let mut buffer = [0; 64];
        while matches!(std::io::stdin().read(&mut buffer), Ok(1..)) {}
        std::process::exit(ExitCode::Terminated.status());
    });
}
