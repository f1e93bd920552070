//! What the tables of each kind of cell must hold.

use super::polling;
use schema::contract::Check;

fn ordered(from: &str, to: &str) -> Check {
    Check::Ordered { from: Some(from.to_owned()), to: to.to_owned() }
}

pub(super) fn wait_checks() -> Vec<Check> {
    vec![
        Check::EqualRows,
        ordered("issue_ns", "start_ns"),
        ordered("start_ns", "done_ns"),
        ordered("device_start_ns", "device_done_ns"),
        Check::TakesLaunch { column: "device_drain_ns".to_owned() },
        Check::OneState { column: "device_drain_ns".to_owned(), by: None },
    ]
}

pub(super) fn event_checks(host: bool) -> Vec<Check> {
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

pub(super) fn cost_checks(poll: u32) -> Vec<Check> {
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
