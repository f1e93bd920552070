//! What a run of preempt must contain: its cells as its plan gives them on a device, and what each must show.

use super::{Cell, Leg, PreemptPlan, Residency, Setter, Work};
use crate::programs::{Program, programs};
use schema::FORMAT;
use schema::contract::{
    Balance, BlocksSpec, CellSpec, Check, ColumnSpec, Contract, Derivation, Derive, Draw, Expects, Expr, FigureSpec,
    Guest, HeadlineRow, Kind, LaunchKind, LaunchSpec, MetricAt, MetricSpec, Only, Q, Recipe, Redraws, Role, SeriesSpec,
    TableSpec, Tally, Unit, Warmup,
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
            launches: launches(),
            tables: BTreeMap::from([
                (timer::TABLE.to_owned(), timer::table()),
                (TILES.to_owned(), tiles()),
                (WAITS.to_owned(), waits()),
                (YIELDS.to_owned(), yields()),
                // The same columns; rows of single blocks are kept of yields alone.
                (LEGS.to_owned(), TableSpec { blocks: None, ..yields() }),
                (DRAINS.to_owned(), drains()),
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

fn launches() -> LaunchSpec {
    LaunchSpec {
        // What a launch discarded as warm-up did not serve is the reason it was discarded; its tasks count like any other's.
        work: vec![
            Balance::new("tasks", "executed", "tasks", true),
            Balance::new("urgent_requested", "urgent_executed", "urgent tasks requested", false),
        ],
        wrong: vec![
            Tally::new("wrong_tiles", "tiles disagree with the oracle", true),
            Tally::new("unwritten_tiles", "tiles were never written", true),
            Tally::new("urgent_wrong", "urgent tiles disagree with the oracle", true),
        ],
        poison: Some("wrong_tiles".to_owned()),
        once: vec![
            Tally::new("not_once", "tasks were not executed exactly once", true),
            Tally::new("urgent_not_once", "urgent tasks were not executed exactly once", false),
        ],
        zero: vec![Tally::new("deadline_hits", "blocks hit their deadline", false)],
    }
}

fn indices<const N: usize>(names: [&str; N]) -> Vec<ColumnSpec> {
    names.map(|name| ColumnSpec::new(name, Kind::U32, Role::Index)).into()
}

/// One row a recorded tile.
fn tiles() -> TableSpec {
    let mut columns = indices(["launch", "block", "sm", "tile"]);
    columns.push(ColumnSpec::new("wall_ns", Kind::U32, Role::DeviceDuration));
    TableSpec::new(columns, &["launch", "block", "tile"])
}

/// One row an urgent task, one drain each.
fn waits() -> TableSpec {
    let mut columns = indices(["launch"]);
    let host = ["arrival_ns", "issue_ns", "start_ns", "done_ns", "drain_done_ns"];
    columns.extend(host.map(|name| ColumnSpec::new(name, Kind::U32, Role::HostInstant)));
    columns.extend(
        ["device_start_ns", "device_done_ns"].map(|name| ColumnSpec::new(name, Kind::I64, Role::DeviceInstant)),
    );
    columns.push(ColumnSpec::new("device_drain_ns", Kind::I64, Role::DeviceDuration));
    columns.push(ColumnSpec::new("anomaly", Kind::U32, Role::Anomaly));
    TableSpec::new(columns, &["launch"])
}

/// One row an event of a launch with a schedule; instants count from the set instant.
fn yields() -> TableSpec {
    use Kind::{I64, OptI64, U32};
    use Role::{Anomaly, Count, DeviceDuration, DeviceInstant, HostInstant, Index};
    let columns = [
        ("launch", U32, Index),
        ("event", U32, Index),
        ("set_ns", I64, DeviceInstant),
        ("gap_ns", U32, DeviceDuration),
        ("first_observer_ns", I64, DeviceInstant),
        ("last_observer_ns", I64, DeviceInstant),
        ("last_ready_ns", I64, DeviceInstant),
        ("visibility_ns", OptI64, DeviceInstant),
        ("observers", U32, Count),
        ("ready", U32, Count),
        ("claimer", U32, Index),
        ("claimer_observed_ns", I64, DeviceInstant),
        ("claimer_ready_ns", I64, DeviceInstant),
        ("urgent_start_ns", I64, DeviceInstant),
        ("urgent_done_ns", I64, DeviceInstant),
        ("claims", U32, Count),
        ("host_issue_ns", OptI64, HostInstant),
        ("host_done_ns", OptI64, HostInstant),
        ("delay_leg", U32, Index),
        ("delay_ns", I64, DeviceDuration),
        ("anomaly", U32, Anomaly),
    ];
    let derived = [
        ("first_observer_ns", Derive::Min("observed_ns".to_owned())),
        ("last_observer_ns", Derive::Max("observed_ns".to_owned())),
        ("last_ready_ns", Derive::Max("ready_ns".to_owned())),
        ("visibility_ns", Derive::MaxAfter("last_old_ns".to_owned())),
        ("observers", Derive::Rows),
        ("ready", Derive::Rows),
    ];
    let blocks = BlocksSpec {
        columns: crate::tables::BLOCK_ROWS.iter().map(|name| (*name).to_owned()).collect(),
        derived: derived.map(|(event, how)| Derivation { event: event.to_owned(), how }).into(),
    };
    let columns = columns.map(|(name, kind, role)| ColumnSpec::new(name, kind, role)).into();
    TableSpec { blocks: Some(blocks), ..TableSpec::new(columns, &["launch", "event"]) }
}

/// One row a drain of an ABBA quad.
fn drains() -> TableSpec {
    let mut columns = indices(["launch", "quad", "position", "arm"]);
    columns.push(ColumnSpec::new("wall_ns", Kind::U32, Role::DeviceDuration));
    TableSpec::new(columns, &["launch", "quad", "position"])
}

fn of(column: &str) -> Expr {
    Expr::Column(column.to_owned())
}

fn between(from: &str, to: &str) -> Expr {
    Expr::Between(from.to_owned(), to.to_owned())
}

fn ends(from: &str, to: &str) -> Option<(String, String)> {
    Some((from.to_owned(), to.to_owned()))
}

const MEDIAN: &[Q] = &[Q::P50];
const TAIL: &[Q] = &[Q::P50, Q::P99];
const FAR_TAIL: &[Q] = &[Q::P50, Q::P99, Q::P999];

/// Quantiles of a time over the events of launches.
fn time(stem: &str, unit: Unit, expr: Expr, quantiles: &[Q], ends: Option<(String, String)>) -> MetricSpec {
    MetricSpec { ends, ..MetricSpec::plain(Recipe::quantiles(stem, unit, expr, quantiles)) }
}

fn ordered(from: &str, to: &str) -> Check {
    Check::Ordered { from: Some(from.to_owned()), to: to.to_owned() }
}

fn kind(mode: &str, grid: Option<u32>, symbol_end: &str, slot: Option<&str>) -> LaunchKind {
    LaunchKind::new(mode, grid, symbol_end, slot.map(per_sm).as_deref())
}

fn polling(poll: u32) -> String {
    format!("_p{poll}")
}

/// From host issue to host-observed done, which both sides of the ratio are.
fn baseline_e2e() -> Expr {
    between("issue_ns", "done_ns")
}

fn yield_e2e() -> Expr {
    between("host_issue_ns", "host_done_ns")
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
                let expects = expects(u64::from(profile.instrument.delay_events), 1, false, None, Redraws::Dry, 1);
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
                let add_up = Check::AddUpWithinLaunch { column: "wall_ns".to_owned(), by: "block".to_owned() };
                let wall =
                    time("tile_wall", Unit::DeviceUs, of("wall_ns"), TAIL, ends("tile boundary", "next tile boundary"));
                CellSpec {
                    poison: true,
                    ..spec(
                        TILES,
                        vec![kind("calibrate", Some(blocks), "", Some("calibrate"))],
                        expects(events, plan.launches.into(), false, None, Redraws::None, 1),
                        vec![Check::EqualRows, add_up],
                        vec![wall.shown()],
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
                        expects(events, events, true, warmup, Redraws::Missed, 1),
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
                        expects(events, plan.launches.into(), true, warmup, Redraws::Dry, 1),
                        event_checks(set == Setter::Host),
                        self.event_metrics(cell),
                    )
                }
            }
            Work::Cost { blocks, poll, .. } => {
                let drains = 4 * u64::from(profile.yields.cost_quads);
                let launches =
                    vec![kind("drain", None, "", None), kind("drain", Some(blocks), &polling(poll), Some("yield"))];
                let expects = expects(drains, drains, false, None, Redraws::None, 4);
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

    fn event_metrics(&self, cell: &Cell) -> Vec<MetricSpec> {
        let us = |stem: &str, column: &str, quantiles: &[Q], end: &str| {
            time(stem, Unit::DeviceUs, of(column), quantiles, ends("set", end))
        };
        let mut metrics = vec![
            us("preempt_latency", "last_ready_ns", FAR_TAIL, "last ready").shown(),
            us("first_observer", "first_observer_ns", TAIL, "first observer").shown(),
            us("last_observer", "last_observer_ns", TAIL, "last observer"),
            us("visibility", "visibility_ns", TAIL, "last poll of the old generation"),
            us("urgent_e2e", "urgent_done_ns", TAIL, "urgent done"),
            time(
                "urgent_tile",
                Unit::DeviceUs,
                between("urgent_start_ns", "urgent_done_ns"),
                MEDIAN,
                ends("urgent start", "urgent done"),
            ),
        ];
        if matches!(cell.work, Work::Yield { set: Setter::Host, .. }) {
            let e2e = time("host_e2e", Unit::HostUs, yield_e2e(), TAIL, ends("host issue", "host-observed done"));
            metrics.push(e2e.shown());
        }
        metrics.push(MetricSpec::plain(Recipe::Anomalies));
        if let Some(over) = self.full_baseline(cell) {
            metrics.push(
                MetricSpec::plain(Recipe::Ratio {
                    over: format!("{}/{}", over.phase.name(), over.name),
                    over_of: baseline_e2e(),
                    of: yield_e2e(),
                })
                .shown(),
            );
        }
        metrics
    }

    /// The baseline cell with every slot taken, where this is the host-set yield cell with every slot taken.
    fn full_baseline(&self, cell: &Cell) -> Option<&Cell> {
        let Work::Yield { k, blocks, set: Setter::Host, .. } = cell.work else { return None };
        let full = |per_sm| Residency::Full.blocks(self.slots.sms(), per_sm);
        let work = Work::Baseline { k, blocks: full(self.slots.per_sm("drain_per_sm")) };
        self.cells.iter().find(|cell| blocks == full(self.slots.per_sm("yield_per_sm")) && cell.work == work)
    }

    fn figures(&self) -> Vec<FigureSpec> {
        let figure = |file: &str, words: [&str; 4], draw, series: Vec<SeriesSpec>| FigureSpec {
            file: file.to_owned(),
            title: words[0].to_owned(),
            subtitle: words[1].to_owned(),
            x: words[2].to_owned(),
            y: words[3].to_owned(),
            draw,
            series,
        };
        let latency = [
            "Preemption latency",
            "dashed: median tile at the same K and blocks",
            "set instant to last ready block (us)",
            "share of events, up to 0.99",
        ];
        let tiles = ["Tile wall", "medians", "resident blocks per SM", "64 x 64 tile (us)"];
        let wait = [
            "Urgent wait without yielding",
            "at most 600 events a cell",
            "remaining drain at issue (ms)",
            "wait until start (ms)",
        ];
        let cloud = Draw::Cloud(between("issue_ns", "drain_done_ns"), between("issue_ns", "start_ns"));
        vec![
            figure("latency.svg", latency, Draw::Distribution(of("last_ready_ns")), self.latency_series()),
            figure("tiles.svg", tiles, Draw::Metric("tile_wall_us_p50".to_owned()), self.tile_series()),
            figure("wait.svg", wait, cloud, self.wait_series()),
        ]
    }

    fn latency_series(&self) -> Vec<SeriesSpec> {
        let series = |cell: &Cell| {
            let Work::Yield { k, blocks, poll, set } = cell.work else { return None };
            let tile = self.cells.iter().find(|cell| cell.work == Work::Calibrate { k, blocks });
            Some(SeriesSpec {
                name: format!("{blocks} blocks, poll {poll}, {}", set.name()),
                cells: vec![(id(cell), 0.0)],
                mark: tile.map(|tile| at(tile, "tile_wall_us_p50")),
            })
        };
        self.cells.iter().filter_map(series).collect()
    }

    fn tile_series(&self) -> Vec<SeriesSpec> {
        let mut series: Vec<SeriesSpec> = Vec::new();
        for cell in self.cells {
            let Work::Calibrate { k, blocks } = cell.work else { continue };
            let name = format!("K = {k}");
            if series.last().is_none_or(|last| last.name != name) {
                series.push(SeriesSpec { name, cells: Vec::new(), mark: None });
            }
            let place = f64::from(blocks) / f64::from(self.slots.sms());
            series.last_mut().expect("one was just pushed").cells.push((id(cell), place));
        }
        series
    }

    fn wait_series(&self) -> Vec<SeriesSpec> {
        let series = |cell: &Cell| {
            let Work::Baseline { blocks, .. } = cell.work else { return None };
            Some(SeriesSpec { name: format!("{blocks} blocks"), cells: vec![(id(cell), 0.0)], mark: None })
        };
        self.cells.iter().filter_map(series).collect()
    }

    /// What a reader asks first, at full residency and where every tile boundary polls.
    fn headline(&self) -> Vec<HeadlineRow> {
        let most = |wanted: &dyn Fn(&Work) -> Option<u32>| {
            self.cells.iter().filter_map(|cell| Some((wanted(&cell.work)?, cell))).max_by_key(|(blocks, _)| *blocks)
        };
        let yields = |setter: Setter| {
            most(&move |work| match work {
                Work::Yield { blocks, poll: 1, set, .. } if *set == setter => Some(*blocks),
                _ => None,
            })
        };
        let cost = most(&|work| if let Work::Cost { blocks, poll: 1, .. } = work { Some(*blocks) } else { None });
        let baseline = most(&|work| if let Work::Baseline { blocks, .. } = work { Some(*blocks) } else { None });
        let rows = [
            ("preemption latency, median", "preempt_latency_us_p50", yields(Setter::Device)),
            ("preemption latency, p99", "preempt_latency_us_p99", yields(Setter::Device)),
            ("cost of polling every tile", "poll_cost_pct", cost),
            ("host to host without yielding, median", "host_e2e_us_p50", baseline),
            ("host to host with yielding, median", "host_e2e_us_p50", yields(Setter::Host)),
            ("ratio of the two", "ratio", yields(Setter::Host)),
        ];
        let row = |(label, metric, cell): (&str, &str, Option<(u32, &Cell)>)| {
            Some(HeadlineRow { label: label.to_owned(), at: at(cell?.1, metric) })
        };
        rows.into_iter().filter_map(row).collect()
    }
}

fn id(cell: &Cell) -> String {
    format!("{}/{}", cell.phase.name(), cell.name)
}

fn at(cell: &Cell, metric: &str) -> MetricAt {
    MetricAt { phase: cell.phase.name().to_owned(), cell: cell.name.clone(), metric: metric.to_owned() }
}

fn expects(events: u64, launches: u64, tails: bool, leading: Option<u32>, redraws: Redraws, unit: u32) -> Expects {
    Expects { events, launches, tails, warmup: Warmup { leading, redraws, unit } }
}

/// The times of a leg. Both legs between host and device are read off the host's own interval, less the part of it that the
/// device timed by itself, from the set instant to the urgent end.
fn leg_of(leg: Leg) -> Expr {
    match leg {
        Leg::HostToSet | Leg::DoneToHost => {
            Expr::Rest("host_issue_ns".to_owned(), "host_done_ns".to_owned(), "urgent_done_ns".to_owned())
        }
        Leg::SetToObserved => of("first_observer_ns"),
        Leg::ObservedToReady => between("claimer_observed_ns", "claimer_ready_ns"),
        Leg::ReadyToUrgent => between("claimer_ready_ns", "urgent_start_ns"),
        Leg::Urgent => between("urgent_start_ns", "urgent_done_ns"),
    }
}

fn wait_checks() -> Vec<Check> {
    vec![
        Check::EqualRows,
        ordered("issue_ns", "start_ns"),
        ordered("start_ns", "done_ns"),
        ordered("device_start_ns", "device_done_ns"),
        Check::TakesLaunch { column: "device_drain_ns".to_owned() },
        Check::OneState { column: "device_drain_ns".to_owned(), by: None },
    ]
}

fn wait_metrics() -> Vec<MetricSpec> {
    let seen = ends("host issue", "host sees the urgent kernel start");
    vec![
        time("urgent_wait", Unit::HostUs, between("issue_ns", "start_ns"), TAIL, seen).shown(),
        time("host_e2e", Unit::HostUs, baseline_e2e(), TAIL, ends("host issue", "host-observed done")).shown(),
        MetricSpec::plain(Recipe::Correlation {
            name: "remaining_drain_corr".to_owned(),
            a: between("issue_ns", "start_ns"),
            b: between("issue_ns", "drain_done_ns"),
        }),
        time("drain", Unit::DeviceMs, of("device_drain_ns"), MEDIAN, ends("first block's start", "last block's end")),
        MetricSpec::plain(Recipe::Anomalies),
    ]
}

fn event_checks(host: bool) -> Vec<Check> {
    let named = |column: &str| column.to_owned();
    let mut checks = vec![
        Check::RowsAsAsked { column: named("urgent_requested") },
        Check::Positive { column: named("claims"), what: named("events were never claimed") },
        Check::SameForAll {
            column: named("observers"),
            what: named("events were met by fewer blocks than others, or by none"),
        },
        Check::InsideLaunch { begin: named("set_ns"), ends: vec![named("last_ready_ns"), named("urgent_done_ns")] },
        Check::Increasing { column: named("set_ns") },
        Check::Ordered { from: None, to: named("first_observer_ns") },
        ordered("first_observer_ns", "last_observer_ns"),
        ordered("last_observer_ns", "last_ready_ns"),
        ordered("claimer_observed_ns", "claimer_ready_ns"),
        ordered("claimer_ready_ns", "urgent_start_ns"),
        ordered("urgent_start_ns", "urgent_done_ns"),
    ];
    if host {
        checks.extend(["host_issue_ns", "host_done_ns"].map(|column| Check::Present { column: named(column) }));
        checks.push(ordered("host_issue_ns", "host_done_ns"));
    }
    checks
}

fn cost_checks(poll: u32) -> Vec<Check> {
    let (wall, arm) = ("wall_ns".to_owned(), "arm".to_owned());
    vec![
        Check::EqualRows,
        Check::TakesLaunch { column: wall.clone() },
        Check::ArmOfLaunch { column: arm.clone(), symbol_end: polling(poll) },
        // In other cells a queue that ran dry is made longer, and no metric depends on its length.
        Check::LaunchesHaveFact { column: "tasks".to_owned(), fact: "tasks".to_owned() },
        Check::GridIsFact { fact: "poll_free_blocks".to_owned(), except: polling(poll) },
        Check::PeakOfDevice { fact: "fp32_peak_tflops".to_owned() },
        Check::OneState { column: wall, by: Some(arm) },
    ]
}

/// Drains of one quad stand together, so quads are what is drawn for these intervals.
fn cost_metrics() -> Vec<MetricSpec> {
    let arm = |is| Only { column: "arm".to_owned(), is };
    let drain = |stem: &str, is| {
        let recipe = Recipe::Quantiles {
            stem: stem.to_owned(),
            unit: Unit::DeviceMs,
            of: of("wall_ns"),
            quantiles: MEDIAN.to_vec(),
            by: "quad".to_owned(),
            only: Some(arm(is)),
        };
        MetricSpec { recipe, ends: ends("first block's start", "last block's end"), shown: false }
    };
    vec![
        MetricSpec::plain(Recipe::Abba {
            name: "poll_cost_pct".to_owned(),
            quad: "quad".to_owned(),
            position: "position".to_owned(),
            arm: "arm".to_owned(),
            wall: "wall_ns".to_owned(),
            against: Some(("poll_free_blocks".to_owned(), "poll-free blocks".to_owned())),
        })
        .shown(),
        drain("drain", 1),
        drain("poll_free_drain", 0),
        MetricSpec::plain(Recipe::Rate {
            name: "fp32_peak_pct".to_owned(),
            work: vec!["tasks".to_owned(), "flop_per_tile".to_owned()],
            of: of("wall_ns"),
            by: "quad".to_owned(),
            only: Some(arm(0)),
            peak: Some("fp32_peak_tflops".to_owned()),
        }),
    ]
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
