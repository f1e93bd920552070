//! Finds what is impossible in a plan before anything is launched. Knows no device.

use super::{K_CHUNK, LEAST_K, MOST_K, POLL_PERIODS, Phase, PreemptPlan, Residency};
use anyhow::ensure;

impl PreemptPlan {
    /// Refuses what no device can do: an empty sweep, zero events, a K that the kernel cannot stage, a poll period not built.
    ///
    /// # Errors
    /// Names the first impossible value and the rule it breaks.
    pub fn check(&self) -> anyhow::Result<()> {
        self.check_phases()?;
        self.check_instrument()?;
        self.check_calibrate()?;
        self.check_baseline()?;
        self.check_yields()
    }

    fn check_phases(&self) -> anyhow::Result<()> {
        ensure!(self.phases.first() == Some(&Phase::Instrument), "phases must begin with \"instrument\"");
        ensure!(self.phases.is_sorted_by(|a, b| a < b), "phases must be in order and each only once");
        Ok(())
    }

    fn check_instrument(&self) -> anyhow::Result<()> {
        let plan = &self.profile.instrument;
        positive("instrument.offset_rounds", plan.offset_rounds)?;
        ensure!(
            plan.delay_events >= 2,
            "instrument.delay_events is {}: every second event is delayed, so it takes 2 or more",
            plan.delay_events
        );
        positive("instrument.delay_ns", plan.delay_ns)
    }

    fn check_calibrate(&self) -> anyhow::Result<()> {
        let plan = &self.profile.calibrate;
        ensure!(!plan.k.is_empty(), "calibrate.k is empty: give at least one inner dimension");
        plan.k.iter().try_for_each(|k| check_k("calibrate.k", *k))?;
        unique("calibrate.k", &plan.k)?;
        positive("calibrate.max_blocks_per_sm", plan.max_blocks_per_sm)?;
        positive("calibrate.launches", plan.launches)?;
        positive("calibrate.tiles", plan.tiles)
    }

    fn check_baseline(&self) -> anyhow::Result<()> {
        let plan = &self.profile.baseline;
        check_k("baseline.k", plan.k)?;
        ensure!(!plan.blocks.is_empty(), "baseline.blocks is empty: give at least one residency");
        unique("baseline.blocks", &plan.blocks)?;
        plan.blocks.iter().try_for_each(|blocks| check_blocks("baseline.blocks", *blocks, 1))?;
        positive("baseline.events", plan.events)?;
        positive("baseline.drain_us", plan.drain_us)
    }

    fn check_yields(&self) -> anyhow::Result<()> {
        let plan = &self.profile.yields;
        check_k("yield.k", plan.k)?;
        ensure!(!plan.cells.is_empty(), "yield.cells is empty: give at least one cell");
        for cell in &plan.cells {
            ensure!(
                POLL_PERIODS.contains(&cell.poll),
                "yield.cells: poll = {} is not a period the kernel is built for ({POLL_PERIODS:?})",
                cell.poll
            );
            check_blocks("yield.cells", cell.blocks, 2)?;
        }
        let points: Vec<_> = plan.cells.iter().map(|cell| (cell.blocks, cell.poll, cell.set)).collect();
        unique("yield.cells", &points)?;
        positive("yield.events", plan.events)?;
        positive("yield.launches", plan.launches)?;
        ensure!(
            plan.launches <= plan.events,
            "yield.launches is {} for {} events: a launch needs at least one event",
            plan.launches,
            plan.events
        );
        positive("yield.cost_quads", plan.cost_quads)?;
        positive("yield.drain_us", plan.drain_us)
    }
}

fn positive(name: &str, value: u32) -> anyhow::Result<()> {
    ensure!(value > 0, "{name} is 0: it must be at least 1");
    Ok(())
}

fn check_k(name: &str, k: u32) -> anyhow::Result<()> {
    let below = (k / K_CHUNK * K_CHUNK).max(LEAST_K);
    ensure!(
        k.is_multiple_of(K_CHUNK),
        "{name} = {k} is not a multiple of {K_CHUNK}, the chunk that the tile kernel stages at once; use {below} or {}",
        below + K_CHUNK
    );
    ensure!(k >= LEAST_K, "{name} = {k} is below {LEAST_K}; the tile kernel needs two chunks of {K_CHUNK}");
    ensure!(k <= MOST_K, "{name} = {k} is above {MOST_K}, where float32 sums of the inputs stop being exact");
    Ok(())
}

fn check_blocks(name: &str, blocks: Residency, fewest: u32) -> anyhow::Result<()> {
    match blocks {
        Residency::Blocks(n) if n < fewest => {
            anyhow::bail!(
                "{name}: blocks = {n} is too few; {fewest} is the least (one block only sets in event launches)"
            )
        }
        _ => Ok(()),
    }
}

fn unique<T: PartialEq + std::fmt::Debug>(name: &str, values: &[T]) -> anyhow::Result<()> {
    for (i, value) in values.iter().enumerate() {
        ensure!(!values[..i].contains(value), "{name} names {value:?} twice");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{BaselinePlan, CalibratePlan, InstrumentPlan, Profile, Setter, YieldCell, YieldPlan};
    use schema::plan::{PlanFile, ProfileName};

    fn possible() -> PreemptPlan {
        PreemptPlan {
            experiment: "preempt".to_owned(),
            profile_name: ProfileName::Smoke,
            phases: Phase::ALL.to_vec(),
            profile: Profile {
                instrument: InstrumentPlan { offset_rounds: 1, delay_events: 2, delay_ns: 1 },
                calibrate: CalibratePlan {
                    k: vec![32],
                    max_blocks_per_sm: 1,
                    launches: 1,
                    tiles: 1,
                    warmup_tiles: 0,
                    tail_tiles: 0,
                },
                baseline: BaselinePlan {
                    k: 64,
                    blocks: vec![Residency::Full],
                    events: 1,
                    warmup_launches: 0,
                    drain_us: 1,
                },
                yields: YieldPlan {
                    k: 64,
                    cells: vec![YieldCell { blocks: Residency::Full, poll: 1, set: Setter::Device, cost: true }],
                    events: 1,
                    launches: 1,
                    warmup_launches: 0,
                    cost_quads: 1,
                    drain_us: 1,
                },
            },
        }
    }

    fn shipped() -> PlanFile {
        PlanFile::parse(include_str!("../../../experiments/preempt/plan.toml")).unwrap()
    }

    /// Breaks one number and expects the refusal to say so.
    fn check_refused(break_it: impl FnOnce(&mut PreemptPlan), expected: &str) {
        let mut plan = possible();
        break_it(&mut plan);
        let message = plan.check().unwrap_err().to_string();
        assert!(message.contains(expected), "{message:?} lacks {expected:?}");
    }

    #[test]
    fn impossible_numbers_are_named() {
        possible().check().unwrap();
        check_refused(|p| p.profile.calibrate.k = vec![32, 40], "calibrate.k = 40 is not a multiple of 16");
        check_refused(|p| p.profile.baseline.k = 0, "baseline.k = 0 is below 32");
        check_refused(|p| p.profile.yields.k = 16, "yield.k = 16 is below 32");
        check_refused(|p| p.profile.yields.k = 8, "use 32 or 48");
        check_refused(|p| p.profile.yields.k = 100, "use 96 or 112");
        check_refused(|p| p.profile.yields.k = 1 << 21, "stop being exact");
        check_refused(|p| p.profile.calibrate.k = vec![], "calibrate.k is empty");
        check_refused(|p| p.profile.calibrate.k = vec![32, 32], "names 32 twice");
        check_refused(|p| p.profile.calibrate.launches = 0, "calibrate.launches is 0");
        check_refused(|p| p.profile.baseline.events = 0, "baseline.events is 0");
        check_refused(|p| p.profile.baseline.blocks = vec![Residency::Blocks(0)], "blocks = 0 is too few");
        check_refused(|p| p.profile.yields.events = 0, "yield.events is 0");
        check_refused(|p| p.profile.yields.launches = 2, "at least one event");
        check_refused(|p| p.profile.yields.cells[0].poll = 3, "poll = 3 is not a period");
        check_refused(|p| p.profile.yields.cells[0].blocks = Residency::Blocks(1), "blocks = 1 is too few");
        check_refused(|p| p.profile.instrument.delay_events = 1, "instrument.delay_events is 1");
        check_refused(|p| p.phases = vec![Phase::Yield], "begin with \"instrument\"");
        check_refused(|p| p.phases = vec![Phase::Instrument, Phase::Yield, Phase::Baseline], "in order");
    }

    #[test]
    fn the_shipped_plan_is_possible_in_every_profile() {
        for profile in [ProfileName::Smoke, ProfileName::Quick, ProfileName::Full] {
            PreemptPlan::of(&shipped().freeze(profile, &[]).unwrap()).unwrap();
        }
        let some = PreemptPlan::of(&shipped().freeze(ProfileName::Full, &["yield".to_owned()]).unwrap()).unwrap();
        assert_eq!(some.phases, [Phase::Instrument, Phase::Yield]);
        let full = &some.profile.yields;
        assert!(
            u64::from(full.events) >= schema::plan::MIN_EVENTS_P99
                && u64::from(full.launches) >= schema::plan::MIN_LAUNCHES
        );
    }

    #[test]
    fn a_phase_or_a_number_that_preempt_lacks_is_named() {
        let plan = shipped().freeze(ProfileName::Smoke, &[]).unwrap();
        let check = |break_it: &dyn Fn(&mut schema::plan::Plan), expected: &str| {
            let mut plan = plan.clone();
            break_it(&mut plan);
            let message = format!("{:#}", PreemptPlan::of(&plan).unwrap_err());
            assert!(message.contains(expected), "{message:?} lacks {expected:?}");
        };
        check(&|plan| plan.phases.push("gelu".to_owned()), "preempt has no phase \"gelu\"");
        check(&|plan| drop(plan.profile.remove("yield")), "missing field `yield`");
        check(&|plan| drop(plan.profile.insert("gelu".to_owned(), 1.into())), "unknown field `gelu`");
    }
}
