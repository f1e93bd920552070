//! Allows one `provision` at a time in a checkout: two would unpack into the same folder.

use anyhow::Result;
use host::process::{interrupted, interruption};
use rustix::fs::{FlockOperation, flock};
use std::path::Path;
use std::time::Duration;

/// Held while this process provisions; the system gives it back however the process ends.
pub(super) struct Turn {
    _file: fs_err::File,
}

/// Waits for the turn, and says so if it has to.
pub(super) fn take(state: &Path, quiet: bool) -> Result<Turn> {
    fs_err::create_dir_all(state)?;
    let path = state.join("provision.turn");
    let file = fs_err::File::options().create(true).truncate(false).write(true).open(&path)?;
    let mut said = quiet;
    loop {
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Ok(Turn { _file: file }),
            Err(rustix::io::Errno::WOULDBLOCK) => {}
            Err(error) => return Err(anyhow::Error::from(error).context(format!("failed to lock {}", path.display()))),
        }
        if let Some(signal) = interrupted() {
            return Err(interruption(signal, "provision"));
        }
        if !said {
            host::tell!("another provision of this checkout is at work; waiting for it");
            said = true;
        }
        std::thread::sleep(Duration::from_millis(100));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_second_waits_for_the_first() {
        let dir = tempfile::tempdir().unwrap();
        let first = take(dir.path(), true).unwrap();
        std::thread::scope(|scope| {
            let second = scope.spawn(|| take(dir.path(), true).map(|_| ()));
            std::thread::sleep(Duration::from_millis(150));
            assert!(!second.is_finished());
            drop(first);
            second.join().unwrap().unwrap();
        });
    }
}
