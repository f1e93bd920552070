//! Phase 2: how long an urgent task waits when nothing yields. Each event has a drain of its own, and arrives at a
//! time in it of its own: one in each of as many equal parts of it as there are events, in random order.
//!
//! Drains differ a little in length, so an arrival near the end may miss its drain. Such an event had nothing to wait
//! for. It is measured again, for no other reason, and its launch is kept as warm-up.

use crate::launch::{self, BaselineLaunch, BaselineRaw, DrainLaunch, Drainer};
use crate::pilots::Context;
use crate::tables::{WAITS, anomaly, table};
use harness_core::experiment::Measured;
use schema::cell::Facts;
use tables::{Column, Table};

/// At most one event in this many is drawn again, or [`REDRAWS`] of few events; what is beyond that stays, as an anomaly.
const REDRAW_SHARE: u32 = 10;
/// See [`REDRAW_SHARE`].
const REDRAWS: u32 = 20;
/// Pilot drains behind the length that arrivals are drawn from.
const PILOT_DRAINS: usize = 5;

/// Cells `k=…,blocks=…`.
///
/// # Errors
/// When a launch fails.
pub fn measure(context: &mut Context, k: u32, blocks: u32) -> anyhow::Result<Measured> {
    let plan = &context.profile.baseline;
    let tasks = context.size_drain(Drainer::PollFree, k, blocks, plan.drain_us)?;
    let pilot = DrainLaunch { drainer: Drainer::PollFree, k, blocks, tasks, poison: false };
    let drain_ns = context.drain_wall_ns(&pilot, PILOT_DRAINS)?;
    let (mut draws, mut log, mut rows) = (context.seed.draws(), launch::log(), Rows::default());
    let mut arrivals = draws.stratified(plan.events, drain_ns);
    let most_redraws = (plan.events / REDRAW_SHARE).max(REDRAWS);
    let (mut warm, mut redraws, mut event_id) = (0, 0, 0);
    while rows.launch.len() < plan.events as usize {
        let arrival_ns = arrivals[rows.launch.len()];
        let raw = context.launches.baseline(&BaselineLaunch { k, blocks, tasks, arrival_ns, event_id })?;
        event_id += 1;
        let again = raw.anomaly & anomaly::LOST != 0 && redraws < most_redraws;
        let warmup = again || warm < plan.warmup_launches;
        let launch = raw.launch.record(&mut log, warmup);
        log.config(&raw.urgent);
        if again {
            redraws += 1;
            // The drain may be over by then every time.
            arrivals[rows.launch.len()] = draws.below(drain_ns);
        } else if warmup {
            warm += 1;
        } else {
            rows.add(launch, arrival_ns, &raw);
            context.launches.events(rows.launch.len() as u64)?;
        }
    }
    let facts = Facts::default().with("tasks", tasks);
    Ok(Measured { log, events: rows.table(), blocks: None, facts, missed_fault: false })
}

/// What the device flagged, plus what the numbers themselves give away.
fn anomalies(raw: &BaselineRaw) -> u32 {
    let mut bits = raw.anomaly;
    if raw.launch.urgent_executed != 1 || raw.launch.urgent_not_once != 0 {
        bits |= anomaly::URGENT;
    }
    let in_order = [raw.issue_ns, raw.start_ns, raw.done_ns].is_sorted();
    if !in_order || raw.device_done_ns < raw.device_start_ns || raw.device_drain_ns < 0 {
        bits |= anomaly::NEGATIVE;
    }
    if raw.launch.deadline_hits > 0 {
        bits |= anomaly::DEADLINE;
    }
    bits
}

#[derive(Default)]
struct Rows {
    launch: Vec<u32>,
    arrival_ns: Vec<u32>,
    host: [Vec<u32>; 4],
    device: [Vec<i64>; 3],
    anomaly: Vec<u32>,
}

impl Rows {
    fn add(&mut self, launch: u32, arrival_ns: u32, raw: &BaselineRaw) {
        self.launch.push(launch);
        self.arrival_ns.push(arrival_ns);
        let host = [raw.issue_ns, raw.start_ns, raw.done_ns, raw.drain_done_ns];
        self.host.iter_mut().zip(host).for_each(|(column, value)| column.push(value));
        let device = [raw.device_start_ns, raw.device_done_ns, raw.device_drain_ns];
        self.device.iter_mut().zip(device).for_each(|(column, value)| column.push(value));
        self.anomaly.push(anomalies(raw));
    }

    fn table(self) -> Table {
        let mut columns = vec![Column::U32(self.launch), Column::U32(self.arrival_ns)];
        columns.extend(self.host.map(Column::U32));
        columns.extend(self.device.map(Column::I64));
        columns.push(Column::U32(self.anomaly));
        table(WAITS, columns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::emulated::Emulated;
    use crate::launch::Device;

    fn sound() -> BaselineRaw {
        let launch = BaselineLaunch { k: 16, blocks: 2, tasks: 8, arrival_ns: 0, event_id: 1 };
        BaselineRaw { anomaly: 0, ..Emulated::open().baseline(&launch).unwrap() }
    }

    fn check(break_it: impl FnOnce(&mut BaselineRaw), expected: u32) {
        let mut raw = sound();
        break_it(&mut raw);
        assert_eq!(anomalies(&raw), expected);
    }

    #[test]
    fn planted_anomalies_are_flagged() {
        check(|_| (), 0);
        check(|raw| raw.launch.urgent_executed = 0, anomaly::URGENT);
        check(|raw| raw.launch.urgent_not_once = 1, anomaly::URGENT);
        check(|raw| raw.start_ns = raw.done_ns + 1, anomaly::NEGATIVE);
        check(|raw| raw.device_start_ns = raw.device_done_ns + 1, anomaly::NEGATIVE);
        check(|raw| raw.launch.deadline_hits = 1, anomaly::DEADLINE);
        check(|raw| raw.anomaly = anomaly::LOST, anomaly::LOST);
    }

    #[test]
    fn columns_carry_their_names() {
        let mut rows = Rows::default();
        rows.add(3, 5, &sound());
        let table = rows.table();
        let names: Vec<&str> = table.columns.iter().map(|(name, _)| name.as_str()).collect();
        assert!(names.iter().eq(WAITS.iter().map(|(name, ..)| name)), "{names:?}");
        assert!(table.rows() == 1 && table.to_bytes().is_ok());
    }
}
