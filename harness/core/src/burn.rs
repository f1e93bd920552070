//! Loads the GPU for a stated time while another process watches the clocks. Measures nothing.

use crate::experiment::Bench;
use crate::failure::fail;
use schema::ExitCode;
use schema::progress::Progress;
use std::time::Instant;

/// Progress comes this often.
const SLICE_S: f64 = 0.25;
/// Nobody burns for longer.
const LONGEST_S: f64 = 3600.0;

/// Refuses a time that nobody can mean, before a device is opened.
///
/// # Errors
/// Ends with [`ExitCode::Usage`].
pub fn check_seconds(seconds: f64) -> anyhow::Result<()> {
    if (0.0..=LONGEST_S).contains(&seconds) {
        return Ok(());
    }
    Err(fail(ExitCode::Usage, format!("--seconds {seconds} is not between 0 and {LONGEST_S}")))
}

/// Keeps the device busy for `seconds` and reports the in-band clock as it goes.
///
/// # Errors
/// When a launch fails, or progress cannot be delivered.
pub fn burn(
    bench: &mut dyn Bench,
    seconds: f64,
    say: &mut dyn FnMut(&Progress) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    say(&Progress::Device(bench.facts().clone()))?;
    let begin = Instant::now();
    while begin.elapsed().as_secs_f64() < seconds {
        let clock_mhz = bench.burn(SLICE_S.min(seconds))?;
        say(&Progress::Burn { seconds: begin.elapsed().as_secs_f64(), clock_mhz })?;
    }
    Ok(())
}
