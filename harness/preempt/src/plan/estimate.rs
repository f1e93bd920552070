//! Estimates how much a plan asks for: the events of a cell, and roughly how many seconds. For progress bars and dry
//! runs, never for a result.

use super::{PreemptPlan, Work};
use schema::plan::Slots;

/// Wall of a lone K = 64 tile on a recent GPU, in microseconds, for estimates only.
pub const GPU_TILE_US: f64 = 6.0;
/// The same on the emulated device.
pub const EMULATED_TILE_US: f64 = 100.0;
/// Filling, checking and reading back around a launch, in microseconds.
const LAUNCH_US: f64 = 400.0;

impl PreemptPlan {
    /// Events that a cell records at least: yields are spread evenly over launches, rounded up. The timer cell's are SMs. While
    /// every block records, the slowest one ends a tile at least.
    #[must_use]
    pub fn events(&self, work: &Work, slots: &Slots) -> u64 {
        let profile = &self.profile;
        match work {
            Work::Timer => u64::from(slots.sms()),
            Work::Delay(_) => u64::from(profile.instrument.delay_events),
            Work::Calibrate { blocks, .. } => {
                let plan = &profile.calibrate;
                u64::from(plan.launches) * u64::from(*blocks)
            }
            Work::Baseline { .. } => u64::from(profile.baseline.events),
            Work::Yield { .. } => u64::from(profile.yields.events),
            Work::Cost { .. } => 4 * u64::from(profile.yields.cost_quads),
        }
    }

    /// Seconds that a cell takes, roughly, where a lone K = 64 tile takes `tile_us`.
    #[must_use]
    pub fn estimate_s(&self, work: &Work, slots: &Slots, tile_us: f64) -> f64 {
        let profile = &self.profile;
        let wall_us = |k: u32, blocks: u32| tile_us * f64::from(k) / 64.0 * f64::from(blocks.div_ceil(slots.sms()));
        // A gap of two poll periods, the yield, the urgent tile, and the margin of tasks behind them.
        let event_us = |k, blocks, poll: u32| (2.0 * f64::from(poll) + 3.0) * wall_us(k, blocks) * 1.5;
        let us = match work {
            Work::Timer => f64::from(slots.sms()) * f64::from(profile.instrument.offset_rounds) * 2.0,
            Work::Delay(_) => {
                let plan = &profile.instrument;
                let blocks = slots.sms() * slots.per_sm("yield_per_sm");
                let each = event_us(profile.yields.k, blocks, 1) + f64::from(plan.delay_ns) / 2000.0;
                f64::from(plan.delay_events) * each
            }
            Work::Calibrate { k, blocks } => {
                let plan = &profile.calibrate;
                let tiles = plan.warmup_tiles + plan.tail_tiles + plan.tiles;
                f64::from(plan.launches + 1) * (f64::from(tiles) * wall_us(*k, *blocks) + LAUNCH_US)
            }
            Work::Baseline { .. } => {
                let plan = &profile.baseline;
                f64::from(plan.events + plan.warmup_launches) * (f64::from(plan.drain_us) + LAUNCH_US)
            }
            Work::Yield { k, blocks, poll, .. } => f64::from(profile.yields.events) * event_us(*k, *blocks, *poll),
            Work::Cost { .. } => {
                f64::from(4 * profile.yields.cost_quads + 30) * (f64::from(profile.yields.drain_us) + LAUNCH_US)
            }
        };
        us / 1e6
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use schema::plan::{PlanFile, ProfileName};

    fn h200() -> Slots {
        ["calibrate_per_sm", "drain_per_sm", "yield_per_sm"]
            .iter()
            .fold(Slots::of_sms(132), |all, name| all.with(name, 5))
    }

    fn full() -> PreemptPlan {
        let text = include_str!("../../../experiments/preempt/plan.toml");
        PreemptPlan::of(&PlanFile::parse(text).unwrap().freeze(ProfileName::Full, &[]).unwrap()).unwrap()
    }

    #[test]
    fn every_cell_of_the_full_plan_has_events() {
        let plan = full();
        assert!(plan.cells(&h200()).iter().all(|cell| plan.events(&cell.work, &h200()) > 0));
        assert_eq!(plan.events(&Work::Calibrate { k: 64, blocks: 660 }, &h200()), 20 * 660);
    }

    #[test]
    fn the_full_plan_is_estimated_at_minutes() {
        let plan = full();
        let seconds: f64 =
            plan.cells(&h200()).iter().map(|cell| plan.estimate_s(&cell.work, &h200(), GPU_TILE_US)).sum();
        assert!((60.0..330.0).contains(&seconds), "{seconds}");
    }
}
