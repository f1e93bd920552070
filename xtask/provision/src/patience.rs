//! Fetching and building with docker: with progress shown, and retried a bounded number of times where waiting may
//! help.

use anyhow::Result;
use host::container::{Engine, refused};
use host::process::{Child, Ended, interrupted, interruption};
use std::time::{Duration, Instant};

/// Runs a client of docker; its end is the caller's to judge.
pub(super) fn patiently(engine: &Engine, quiet: bool, child: &Child) -> Result<Ended> {
    let mut waits = engine.waits.iter();
    loop {
        let ended = child.run(&mut |line| {
            if !quiet {
                host::tell!("  {}", words::text::plain(line));
            }
        })?;
        let said = refused(&ended);
        match waits.next() {
            Some(wait) if ended.code != Some(0) && !ended.timed_out && said.kind.may_pass() => {
                if !quiet {
                    host::tell!("{}; trying again in {} s", said.message("docker"), wait.as_secs());
                }
                sleep(*wait)?;
            }
            _ => return Ok(ended),
        }
    }
}

fn sleep(wait: Duration) -> Result<()> {
    let until = Instant::now() + wait;
    while Instant::now() < until {
        if let Some(signal) = interrupted() {
            return Err(interruption(signal, "waiting for a registry"));
        }
        std::thread::sleep(Duration::from_millis(50).min(wait));
    }
    Ok(())
}
