//! What a run of preempt must contain: its cells as its plan gives them on a device, and what each must show. The columns
//! of its tables are in `tables.rs`.

mod checks;
mod figures;
mod headline;
mod launches;
mod metrics;

use super::{Cell, Leg, PreemptPlan, Residency, Setter, Work};
use crate::programs::{Program, programs};
use crate::tables;
use checks::{cost_checks, event_checks, wait_checks};
use metrics::{cost_metrics, leg_of, tile_metrics, wait_metrics};
use schema::FORMAT;
use schema::contract::{
    CellSpec, Check, Contract, Expects, Guest, LaunchKind, MetricAt, MetricSpec, Recipe, Redraws, TableSpec, Warmup,
};
use schema::plan::Slots;
use schema::timer;
use std::collections::BTreeMap;

/// Event tables by name.
const TILES: &str = "tiles";
const WAITS: &str = "waits";
const YIELDS: &str = "yields";
const LEGS: &str = "legs";
const DRAINS: &str = "drains";

impl PreemptPlan {
    /// The contract of a run of this plan on a device with these slots.
    #[must_use]
    pub fn contract(&self, slots: &Slots, tile_us: f64) -> Contract {
        let cells = self.cells(slots);
        let of = Preempt { plan: self, slots, cells: &cells };
        Contract {
            format: FORMAT,
            experiment: self.experiment.clone(),
            slots: ["calibrate", "drain", "yield"].map(|stem| (per_sm(stem), stem.to_owned())).into(),
            launches: launches::launches(),
            tables: BTreeMap::from([
                (timer::TABLE.to_owned(), timer::table()),
                (TILES.to_owned(), tables::tiles()),
                (WAITS.to_owned(), tables::waits()),
                (YIELDS.to_owned(), tables::yields()),
                // The same columns; rows of single blocks are kept of yields alone.
                (LEGS.to_owned(), TableSpec { blocks: None, ..tables::yields() }),
                (DRAINS.to_owned(), tables::drains()),
            ]),
            cells: cells.iter().map(|cell| of.cell(cell, self.estimate_s(&cell.work, slots, tile_us))).collect(),
            programs: programs(self).into_iter().map(Program::spec).collect(),
            figures: of.figures(),
            headline: of.headline(),
        }
    }
}

fn per_sm(stem: &str) -> String {
    format!("{stem}_per_sm")
}

fn kind(mode: &str, grid: Option<u32>, symbol_end: &str, slot: Option<&str>) -> LaunchKind {
    LaunchKind::new(mode, grid, symbol_end, slot.map(per_sm).as_deref())
}

fn polling(poll: u32) -> String {
    format!("_p{poll}")
}

/// A plan on a device.
struct Preempt<'a> {
    plan: &'a PreemptPlan,
    slots: &'a Slots,
    cells: &'a [Cell],
}

impl Preempt<'_> {
    fn cell(&self, cell: &Cell, estimate_s: f64) -> CellSpec {
        let profile = &self.plan.profile;
        let spec = |table: &str, launches, expects, checks, metrics| CellSpec {
            phase: cell.phase.name().to_owned(),
            name: cell.name.clone(),
            role: self.role(cell),
            table: table.to_owned(),
            outputs: true,
            poison: false,
            estimate_s,
            launches,
            guest: None,
            expects,
            checks,
            metrics,
        };
        match cell.work {
            Work::Timer => CellSpec {
                estimate_s,
                ..timer::cell(cell.phase.name(), self.slots.sms(), profile.instrument.offset_rounds)
            },
            Work::Delay(leg) => {
                let host = matches!(leg, Leg::HostToSet | Leg::DoneToHost);
                let mode = if host { "event_host" } else { "event_device" };
                let expects = expects(u64::from(profile.instrument.delay_events), 1, false, None, Redraws::Dry);
                let delay = Recipe::PlantedDelay {
                    leg: leg.name().to_owned(),
                    column: "delay_leg".to_owned(),
                    number: leg as u32,
                    spent: "delay_ns".to_owned(),
                    planted_ns: profile.instrument.delay_ns,
                    of: leg_of(leg),
                    host,
                };
                let metrics = vec![MetricSpec::plain(delay), MetricSpec::plain(Recipe::Anomalies)];
                spec(LEGS, vec![kind(mode, None, &polling(1), None)], expects, event_checks(host), metrics)
            }
            Work::Calibrate { blocks, .. } => {
                let plan = &profile.calibrate;
                let events = self.plan.events(&cell.work, self.slots);
                let [column, by, done] = ["wall_ns", "block", "executed"].map(str::to_owned);
                let add_up = Check::AddUpWithinLaunch { column: column.clone(), by: by.clone() };
                CellSpec {
                    poison: true,
                    ..spec(
                        TILES,
                        vec![kind("calibrate", Some(blocks), "", Some("calibrate"))],
                        expects(events, plan.launches.into(), false, None, Redraws::None),
                        vec![add_up, Check::MakeThroughput { column, by, done }],
                        tile_metrics(),
                    )
                }
            }
            Work::Baseline { blocks, .. } => {
                let events = u64::from(profile.baseline.events);
                let warmup = Some(profile.baseline.warmup_launches);
                let launches = vec![kind("baseline", Some(blocks), "", Some("drain")), kind("urgent", None, "", None)];
                CellSpec {
                    guest: Some(Guest { host: "baseline".to_owned(), guest: "urgent".to_owned() }),
                    ..spec(
                        WAITS,
                        launches,
                        expects(events, events, true, warmup, Redraws::Missed),
                        wait_checks(),
                        wait_metrics(),
                    )
                }
            }
            Work::Yield { blocks, poll, set, .. } => {
                let plan = &profile.yields;
                let end = polling(poll);
                let (launches, guest) = match set {
                    Setter::Device => (vec![kind("event_device", Some(blocks), &end, Some("yield"))], None),
                    Setter::Host => (vec![kind("event_host", Some(blocks), &end, Some("yield"))], None),
                    // The setter takes one of the slots.
                    Setter::Kernel => (
                        vec![
                            kind("event_kernel", Some(blocks - 1), &end, Some("yield")),
                            kind("setter", Some(1), "", Some("yield")),
                        ],
                        Some(Guest { host: "event_kernel".to_owned(), guest: "setter".to_owned() }),
                    ),
                };
                let (events, warmup) = (plan.events.into(), Some(plan.warmup_launches));
                CellSpec {
                    guest,
                    ..spec(
                        YIELDS,
                        launches,
                        expects(events, plan.launches.into(), true, warmup, Redraws::Dry),
                        event_checks(set == Setter::Host),
                        self.event_metrics(cell),
                    )
                }
            }
            Work::Cost { blocks, poll, .. } => {
                let drains = 4 * u64::from(profile.yields.cost_quads);
                let launches =
                    vec![kind("drain", None, "", None), kind("drain", Some(blocks), &polling(poll), Some("yield"))];
                let expects = expects(drains, drains, false, None, Redraws::None);
                spec(DRAINS, launches, expects, cost_checks(poll), cost_metrics())
            }
        }
    }

    /// The cell's name with numbers of blocks replaced by what they are on this device.
    fn role(&self, cell: &Cell) -> String {
        let (sms, slots) = (self.slots.sms(), self.slots);
        let per_sm = match cell.work {
            Work::Timer | Work::Delay(_) => return cell.name.clone(),
            Work::Calibrate { blocks, .. } => {
                return cell.name.replace(&format!("blocks={blocks}"), &format!("blocks={}x sms", blocks / sms));
            }
            Work::Baseline { .. } => slots.per_sm("drain_per_sm"),
            Work::Yield { .. } | Work::Cost { .. } => slots.per_sm("yield_per_sm"),
        };
        let full = Residency::Full.blocks(sms, per_sm);
        let role = |pair: &str| match pair.strip_prefix("blocks=").and_then(|blocks| blocks.parse::<u32>().ok()) {
            Some(blocks) if blocks == full => "blocks=full".to_owned(),
            Some(blocks) if blocks + 1 == full => "blocks=one_open".to_owned(),
            Some(blocks) if blocks == sms => "blocks=sms".to_owned(),
            _ => pair.to_owned(),
        };
        cell.name.split(',').map(role).collect::<Vec<_>>().join(",")
    }
}

fn expects(events: u64, launches: u64, tails: bool, leading: Option<u32>, redraws: Redraws) -> Expects {
    Expects { events, launches, tails, warmup: Warmup::new(leading, redraws) }
}

fn id(cell: &Cell) -> String {
    format!("{}/{}", cell.phase.name(), cell.name)
}

fn at(cell: &Cell, metric: &str) -> MetricAt {
    MetricAt { phase: cell.phase.name().to_owned(), cell: cell.name.clone(), metric: metric.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use schema::plan::{PlanFile, ProfileName};

    #[test]
    fn the_contract_of_every_profile_holds_together_and_comes_back_as_written() {
        let slots = ["calibrate_per_sm", "drain_per_sm", "yield_per_sm"];
        let slots = slots.into_iter().fold(Slots::of_sms(132), |slots, name| slots.with(name, 5));
        let file = PlanFile::parse(include_str!("../../../experiments/preempt/plan.toml")).unwrap();
        for profile in [ProfileName::Smoke, ProfileName::Quick, ProfileName::Full] {
            let plan = PreemptPlan::of(&file.freeze(profile, &[]).unwrap()).unwrap();
            let contract = plan.contract(&slots, 6.0);
            let json = serde_json::to_vec_pretty(&contract).unwrap();
            assert_eq!(Contract::parse(&json).unwrap(), contract);
        }
    }
}
