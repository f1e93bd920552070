//! The metrics of each kind of cell, with their quantiles.

use super::Preempt;
use crate::plan::{Cell, Leg, Residency, Setter, Work};
use schema::contract::{Expr, MetricSpec, Only, Q, Recipe, Unit};

const MEDIAN: &[Q] = &[Q::P50];
const TAIL: &[Q] = &[Q::P50, Q::P99];
const FAR_TAIL: &[Q] = &[Q::P50, Q::P99, Q::P999];

pub(super) fn of(column: &str) -> Expr {
    Expr::Column(column.to_owned())
}

pub(super) fn between(from: &str, to: &str) -> Expr {
    Expr::Between(from.to_owned(), to.to_owned())
}

fn ends(from: &str, to: &str) -> Option<(String, String)> {
    Some((from.to_owned(), to.to_owned()))
}

/// Quantiles of a time over the events of launches.
fn time(stem: &str, unit: Unit, expr: Expr, quantiles: &[Q], ends: Option<(String, String)>) -> MetricSpec {
    MetricSpec { ends, ..MetricSpec::plain(Recipe::quantiles(stem, unit, expr, quantiles)) }
}

/// From host issue to host-observed done, which both sides of the ratio are.
fn baseline_e2e() -> Expr {
    between("issue_ns", "done_ns")
}

fn yield_e2e() -> Expr {
    between("host_issue_ns", "host_done_ns")
}

/// Walls of tiles.
pub(super) fn tile_metrics() -> Vec<MetricSpec> {
    let ends = ends("tile boundary", "next tile boundary");
    vec![time("tile_wall", Unit::DeviceUs, of("wall_ns"), TAIL, ends).shown()]
}

pub(super) fn wait_metrics() -> Vec<MetricSpec> {
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

/// Drains of one quad stand together, so quads are what is drawn for these intervals.
pub(super) fn cost_metrics() -> Vec<MetricSpec> {
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

impl Preempt<'_> {
    pub(super) fn event_metrics(&self, cell: &Cell) -> Vec<MetricSpec> {
        let us = |stem: &str, column: &str, quantiles: &[Q], end: &str| {
            time(stem, Unit::DeviceUs, of(column), quantiles, ends("set", end))
        };
        // Not `visibility_ns`: its clock is read before the poll that it is about returns, and few events have one.
        let mut metrics = vec![
            us("preempt_latency", "last_ready_ns", FAR_TAIL, "last ready").shown(),
            us("first_observer", "first_observer_ns", TAIL, "first observer").shown(),
            us("last_observer", "last_observer_ns", TAIL, "last observer"),
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
}

/// The times of a leg. Both legs between host and device are read off the host's own interval, less the part of it that the
/// device timed by itself, from the set instant to the urgent end.
pub(super) fn leg_of(leg: Leg) -> Expr {
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
