//! Quantum and cross-SM offset of the emulated timer, by the same ping-pong that the kernel plays.

use super::{Clock, config, narrow, trace};
use crate::launch::TimerTrace;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::AcqRel, Ordering::Acquire, Ordering::Release};

/// Reads of the timer among which the smallest step is looked for.
const READS: u32 = 2000;

/// Measures the emulated timer: its step, and the offset of each of `sms` SMs to that of block 0.
#[must_use]
pub fn timer(clock: Clock, sms: u32, rounds: u32) -> TimerTrace {
    let start_ns = clock.now();
    let exchanges = (0..sms).map(|sm| exchange(clock, sm, rounds)).collect();
    let quantum_ns = quantum(clock);
    let config = config("preempt_timer_offset", "timer", sms, true);
    let launch = trace(config, sms, start_ns, &vec![(start_ns, clock.now()); sms as usize]);
    TimerTrace { quantum_ns, sms: exchanges, launch }
}

fn quantum(clock: Clock) -> u32 {
    let reads: Vec<u64> = (0..READS).map(|_| clock.now()).collect();
    let steps = reads.windows(2).map(|pair| pair[1] - pair[0]).filter(|step| *step > 0);
    narrow(steps.min().unwrap_or(1))
}

/// One SM's row: its offset to the SM of block 0 and the round trip of the best exchange.
fn exchange(clock: Clock, sm: u32, rounds: u32) -> (u32, i64, u32, u32) {
    let (turn, remote_ns) = (AtomicU32::new(0), AtomicU64::new(0));
    let spin = |value: u32| {
        while turn.load(Acquire) != value {
            std::thread::yield_now();
        }
    };
    let best = std::thread::scope(|scope| {
        scope.spawn(|| {
            for round in 0..rounds {
                spin(2 * round + 1);
                remote_ns.store(clock.now(), Release);
                turn.fetch_add(1, AcqRel);
            }
        });
        let mut best = (u32::MAX, 0);
        for round in 0..rounds {
            let sent = clock.now();
            turn.fetch_add(1, AcqRel);
            spin(2 * round + 2);
            let back = clock.now();
            let offset = remote_ns.load(Acquire).cast_signed() - (sent + (back - sent) / 2).cast_signed();
            best = best.min((narrow(back - sent), offset));
        }
        best
    });
    (sm, best.1, best.0, rounds)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_clock_has_a_small_quantum_and_offsets_within_the_round_trip() {
        let raw = timer(Clock::start(), 2, 20);
        assert!(raw.quantum_ns > 0 && raw.quantum_ns < 1_000_000);
        assert_eq!(raw.sms.len(), 2);
        for (_, offset, rtt, rounds) in raw.sms {
            assert!(offset.unsigned_abs() <= u64::from(rtt) && rounds == 20);
        }
    }
}
