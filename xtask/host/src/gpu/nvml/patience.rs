//! Calls the driver with a deadline. The call is made on a thread of its own, which is abandoned if the driver hangs.

use super::{Answer, GpuError};
use crate::process::{interrupted, interruption};
use anyhow::Result;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

/// How long the library may take to open and to name its GPUs: with eight of them and no persistence it takes several seconds.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// The answer, or that there was none in time.
///
/// # Errors
/// When we were asked to stop meanwhile.
pub fn within<T: Send + 'static>(
    patience: Duration,
    ask: impl FnOnce() -> Answer<T> + Send + 'static,
) -> Result<Answer<T>> {
    const LOOK: Duration = Duration::from_millis(50);
    let (sender, answer) = channel();
    std::thread::spawn(move || sender.send(ask()));
    let until = Instant::now() + patience;
    loop {
        match answer.recv_timeout(LOOK.min(until.saturating_duration_since(Instant::now()))) {
            Ok(answer) => return Ok(answer),
            Err(RecvTimeoutError::Disconnected) => {
                return Ok(Err(GpuError::Other("NVML's library ended the thread that called it".to_owned())));
            }
            Err(RecvTimeoutError::Timeout) if Instant::now() >= until => {
                let said = format!("no answer within {} s: the driver hangs", patience.as_secs());
                return Ok(Err(GpuError::Other(said)));
            }
            Err(RecvTimeoutError::Timeout) => {}
        }
        if let Some(signal) = interrupted() {
            return Err(interruption(signal, "asking NVML"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_driver_that_never_answers_is_left() {
        let began = Instant::now();
        let hangs = within(Duration::from_millis(120), || {
            std::thread::sleep(Duration::from_secs(600));
            Ok(())
        });
        assert!(matches!(hangs.unwrap(), Err(GpuError::Other(said)) if said.contains("the driver hangs")));
        assert!(began.elapsed() < Duration::from_secs(30));
        assert_eq!(within(PATIENCE, || Ok(3)).unwrap(), Ok(3));
        assert_eq!(within(PATIENCE, || Err::<(), _>(GpuError::Lost)).unwrap(), Err(GpuError::Lost));
    }
}
