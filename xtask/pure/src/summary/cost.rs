//! Phase 3: what polling costs.

use super::rows::{Rows, Unit};
use super::{CellData, Kept, refuse_duplicates};
use crate::stats::{Drain, Estimate, P50, Resamples, abba_cost};

/// `poll_cost_pct`: median over ABBA quads against the poll-free kernel. `drain_ms`: a drain of the polling arm.
/// `poll_free_drain_ms`: one of the poll-free arm. `fp32_peak_pct`: the poll-free arm's share of the device's fp32 peak.
pub(super) fn polling(data: &CellData, kept: &Kept, rows: &mut Rows) -> anyhow::Result<()> {
    let events = &data.events;
    let (launch, quad, position) = (events.u32("launch")?, events.u32("quad")?, events.u32("position")?);
    let (arm, wall) = (events.u32("arm")?, events.u32("wall_ns")?);
    refuse_duplicates("the drain of launch", launch.iter())?;
    let drain = |i| Drain { quad: quad[i], position: position[i], arm: arm[i], wall_ns: wall[i] };
    let drains: Vec<Drain> = kept.rows(launch)?.into_iter().map(drain).collect();
    if let Some(cost) = abba_cost(&rows.cell_seed(), &drains)? {
        let blocks = data.record.facts.whole("poll_free_blocks");
        let note = blocks.map_or_else(String::new, |blocks| format!("against {blocks} poll-free blocks"));
        rows.real("poll_cost_pct", "%", cost, &note);
    }
    // Drains of one quad stand together, so quads are what is drawn for these intervals too.
    let of_arm = |arm: u32| -> Vec<(u32, i64)> {
        drains.iter().filter(|d| d.arm == arm).map(|d| (d.quad, i64::from(d.wall_ns))).collect()
    };
    rows.median("drain", Unit::DeviceMs, &of_arm(1));
    let poll_free = of_arm(0);
    rows.median("poll_free_drain", Unit::DeviceMs, &poll_free);
    let resamples = Resamples::new(&rows.cell_seed(), poll_free.iter().map(|(quad, _)| *quad));
    let wall = resamples.quantiles(&poll_free, &[P50]).pop();
    if let Some(share) = wall.and_then(|wall| peak_share(data, &wall)) {
        rows.real("fp32_peak_pct", "%", share, "");
    }
    Ok(())
}

/// The share of the fp32 peak that a drain of this length reaches, in per cent; absent where a fact is.
fn peak_share(data: &CellData, wall: &Estimate<i64>) -> Option<Estimate<f64>> {
    let facts = &data.record.facts;
    let flop = facts.number("tasks")? * facts.number("flop_per_tile")?;
    let peak_tflops = facts.number("fp32_peak_tflops").filter(|peak| *peak > 0.0)?;
    let share = |ns: i64| flop / ns as f64 / 1e3 / peak_tflops * 100.0;
    let positive = wall.value > 0 && wall.draws.iter().all(|ns| *ns > 0);
    let interval = wall.interval.map(|(lo, hi)| (share(hi), share(lo)));
    let draws = wall.draws.iter().map(|ns| share(*ns)).collect();
    positive.then(|| Estimate { value: share(wall.value), interval, n: wall.n, draws })
}
