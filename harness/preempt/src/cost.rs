//! What polling costs: drains in ABBA order, the polling kernel against a poll-free grid of the same size.

use super::calibrate::flop_per_tile;
use super::slot;
use crate::launch::{self, DrainLaunch, Drainer};
use crate::pilots::Context;
use crate::tables::{DRAINS, table};
use harness_core::experiment::Measured;
use harness_core::record::LaunchLog;
use schema::cell::{DeviceFacts, Facts};
use tables::{Column, Table};

/// Pilot drains of each poll-free candidate.
const PILOT_DRAINS: usize = 5;
/// Quads discarded before the first one kept.
const WARMUP_QUADS: u32 = 1;
/// Arms in the order they run in a quad: 0 poll-free, 1 polling.
const ABBA: [u32; 4] = [0, 1, 1, 0];

/// Cells `cost,k=…,blocks=…,poll=…`.
///
/// # Errors
/// When a launch fails.
pub fn measure(context: &mut Context, k: u32, blocks: u32, poll: u32) -> anyhow::Result<Measured> {
    let plan = &context.profile.yields;
    let slots = &context.launches.facts().slots;
    let (sms, most_per_sm) = (slots.sms(), slots.per_sm(slot::DRAIN));
    let full = sms * most_per_sm;
    let tasks = context.size_drain(Drainer::PollFree, k, full, plan.drain_us)?;
    let drain = |drainer, blocks| DrainLaunch { drainer, k, blocks, tasks, poison: false };
    let mut pilot = Vec::new();
    for per_sm in 1..=most_per_sm {
        let candidate = per_sm * sms;
        let wall_ns = context.drain_wall_ns(&drain(Drainer::PollFree, candidate), PILOT_DRAINS)?;
        pilot.push((candidate, u64::from(wall_ns)));
    }
    let best = fastest(&pilot);
    let arms = [drain(Drainer::PollFree, blocks), drain(Drainer::Polling(poll), blocks)];
    let (log, events) = quads(context, &arms)?;
    let peak = log.clock_khz_p50().and_then(|khz| peak_tflops(context.launches.facts(), khz));
    let facts = Facts::default()
        .with("fp32_peak_tflops", peak)
        .with("tasks", tasks)
        .with("poll_free_blocks", blocks)
        .with("fastest_poll_free_blocks", best)
        .with("pilot", pilot.iter().map(|(blocks, wall_ns)| vec![u64::from(*blocks), *wall_ns]).collect::<Vec<_>>())
        .with("flop_per_tile", flop_per_tile(k));
    Ok(Measured { log, events, blocks: None, facts, missed_fault: false })
}

fn quads(context: &mut Context, arms: &[DrainLaunch; 2]) -> anyhow::Result<(LaunchLog, Table)> {
    let (mut log, mut rows): (_, [Vec<u32>; 5]) = (launch::log(), Default::default());
    let planned = context.profile.yields.cost_quads;
    for quad in 0..WARMUP_QUADS + planned {
        let raws = ABBA.map(|arm| context.launches.drain(&arms[arm as usize]));
        let raws = raws.into_iter().collect::<anyhow::Result<Vec<_>>>()?;
        let kept = quad.checked_sub(WARMUP_QUADS);
        for ((position, arm), raw) in (0..).zip(ABBA).zip(&raws) {
            let launch = raw.record(&mut log, kept.is_none());
            if let Some(quad) = kept {
                let row = [launch, quad, position, arm, raw.trace.wall_ns];
                rows.iter_mut().zip(row).for_each(|(column, value)| column.push(value));
            }
        }
        context.launches.events(rows[0].len() as u64)?;
    }
    Ok((log, table(DRAINS, rows.into_iter().map(Column::U32))))
}

/// The grid with the shortest median drain; the smaller one when two tie.
fn fastest(pilot: &[(u32, u64)]) -> u32 {
    let best = pilot.iter().min_by_key(|(blocks, wall_ns)| (*wall_ns, *blocks));
    best.expect("a device holds at least one block per SM").0
}

/// fp32 peak at the observed clock: every lane one multiply-add, two operations, a cycle. Absent for unknown lanes.
fn peak_tflops(facts: &DeviceFacts, clock_khz: u32) -> Option<f64> {
    let lanes = facts.slots.sms() * facts.fp32_lanes_per_sm;
    (lanes > 0).then(|| f64::from(lanes) * 2.0 * f64::from(clock_khz) * 1e3 / 1e12)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::emulated::Emulated;
    use crate::launch::Device;
    use schema::plan::Slots;

    #[test]
    fn the_fastest_grid_wins_and_the_smaller_one_ties() {
        assert_eq!(fastest(&[(132, 900), (264, 700), (396, 701)]), 264);
        assert_eq!(fastest(&[(132, 700), (264, 700)]), 132);
    }

    #[test]
    fn the_peak_of_an_h200_and_of_unknown_lanes() {
        let mut facts = Emulated::open().facts().clone();
        assert_eq!(peak_tflops(&facts, 1_980_000), None);
        facts.slots = Slots::of_sms(132);
        facts.fp32_lanes_per_sm = 128;
        assert!((peak_tflops(&facts, 1_980_000).unwrap() - 66.9).abs() < 0.1);
    }

    #[test]
    fn arms_are_balanced_within_a_quad() {
        let mean_position = |arm: u32| (0..4).filter(|position| ABBA[*position] == arm).sum::<usize>();
        assert_eq!(mean_position(0), mean_position(1));
    }
}
