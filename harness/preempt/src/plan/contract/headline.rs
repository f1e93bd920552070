//! The rows of the table in README.md.

use super::{Preempt, at};
use crate::plan::{Cell, Setter, Work};
use schema::contract::HeadlineRow;

impl Preempt<'_> {
    /// What a reader asks first, at full residency and where every tile boundary polls.
    pub(super) fn headline(&self) -> Vec<HeadlineRow> {
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
