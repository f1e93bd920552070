//! A planted delay lengthens its own leg of the timeline and no other.

use super::check::{schedule, served};
use preempt::cuda::PreemptGpu;
use preempt::launch::{Device, PreemptLaunch, PreemptRaw};
use preempt::plan::{Leg, Setter};
use schema::timer::delayed_event;

const DELAY_NS: u32 = 20_000;
const TOLERANCE_NS: i64 = 4_000;

pub(crate) fn all(device: &mut PreemptGpu) {
    for leg in Leg::ALL {
        let set = if matches!(leg, Leg::HostToSet | Leg::DoneToHost) { Setter::Host } else { Setter::Device };
        let launch = PreemptLaunch { delay: Some((leg, DELAY_NS)), ..schedule(device, set, 1) };
        let raw = served(device, &format!("delay in {leg:?}"), &launch);
        let shifts = Leg::ALL.map(|leg| shift(&raw, leg, launch.blocks as usize));
        println!("delay {DELAY_NS} ns in {leg:?}: delayed minus other events, by leg {shifts:?} ns");
        let moved = shifts[leg as usize - 1] - i64::from(DELAY_NS);
        assert!(moved.abs() < TOLERANCE_NS, "{leg:?} moved by {moved} ns more than planted");
    }
    assert!(device.facts().slots.sms() > 0);
}

/// Median of a leg over delayed events minus its median over the others.
fn shift(raw: &PreemptRaw, leg: Leg, columns: usize) -> i64 {
    let of = |delayed| {
        let events = (0..raw.set_ns.len()).filter(|event| delayed_event(*event as u32) == delayed);
        median(events.map(|event| length(raw, leg, event, columns)))
    };
    of(true) - of(false)
}

/// One leg of one event in ns. Both host legs are read off the host's own interval.
fn length(raw: &PreemptRaw, leg: Leg, event: usize, columns: usize) -> i64 {
    let row = event * columns;
    let low = |ns: u64| ns as u32;
    let since = |later: u32, earlier: u32| i64::from(later.wrapping_sub(earlier).cast_signed());
    let claimer = row + raw.claimer[event] as usize;
    match leg {
        Leg::HostToSet | Leg::DoneToHost if raw.host_done_ns.is_empty() => 0,
        Leg::HostToSet | Leg::DoneToHost => {
            let device = since(low(raw.urgent_done_ns[event]), low(raw.set_ns[event]));
            raw.host_done_ns[event].cast_signed() - raw.host_issue_ns[event].cast_signed() - device
        }
        Leg::SetToObserved => {
            let set = low(raw.set_ns[event]);
            (1..columns).map(|block| since(raw.observed_ns[row + block], set)).min().unwrap()
        }
        Leg::ObservedToReady => {
            median((1..columns).map(|block| since(raw.ready_ns[row + block], raw.observed_ns[row + block])))
        }
        Leg::ReadyToUrgent => since(low(raw.urgent_start_ns[event]), raw.ready_ns[claimer]),
        Leg::Urgent => since(low(raw.urgent_done_ns[event]), low(raw.urgent_start_ns[event])),
    }
}

pub(crate) fn median(values: impl Iterator<Item = i64>) -> i64 {
    let mut values: Vec<i64> = values.collect();
    values.sort_unstable();
    values[values.len() / 2]
}
