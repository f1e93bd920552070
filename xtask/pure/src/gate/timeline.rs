//! Whether the tables of a cell tell one story: each launch is one that the cell's name promises, launches follow each other,
//! events lie inside their launch and after one another, and what stands in two tables is the same in both.
//!
//! Rows that were copied under another name, or that come from another cell, stand at instants that are taken.

use super::build::{fits, promised};
use super::evidence::{CellEvidence, Evidence};
use super::table::{u32s, warmup};
use schema::cell::DeviceFacts;
use schema::plan::{Leg, Setter, Work};
use schema::table::Table;
use std::collections::BTreeMap;

/// The part of a launch that must lie before the next one begins. The host times when launches begin, the device how long they
/// take, and two clocks differ by far less than a hundredth.
const BEFORE_NEXT: (i64, i64) = (99, 100);

/// The peak was taken at the clock of the run so far, which lies within the band of clocks round this cell's.
const PEAK_PCT: f64 = 2.0;

/// How far two timers of one device may disagree: the largest cross-SM offset and two quanta.
#[must_use]
pub fn timer_slack_ns(evidence: &Evidence) -> i64 {
    let timer = evidence.cells.iter().find(|cell| cell.data.record.cell == "timer");
    let quantum = timer.and_then(|cell| cell.data.record.facts.whole("timer_quantum_ns"));
    let quantum = quantum.and_then(|ns| i64::try_from(ns).ok()).unwrap_or(0);
    let offsets = timer.and_then(|cell| cell.data.events.i64("offset_ns").ok()).unwrap_or_default();
    offsets.iter().map(|offset| offset.saturating_abs()).max().unwrap_or(0).saturating_add(2 * quantum)
}

/// Everything in which a cell's tables contradict each other or its name.
pub(super) fn contradictions(
    cell: &CellEvidence,
    work: &Work,
    device: &DeviceFacts,
    slack: i64,
) -> Result<Vec<String>, String> {
    let Some(launches) = &cell.data.launches else { return Ok(Vec::new()) };
    let story = Story { cell, launches, walls: walls(launches)?, slack };
    let mut found = vec![
        (story.overlapping()?, "launches begin before the one before them ended"),
        (story.unpromised(work)?, "launches are of a kernel or mode that the cell's name does not promise"),
    ];
    match work {
        Work::Yield { .. } | Work::Delay(_) => {
            let (outside, disordered) = story.misplaced()?;
            found.push((outside, "events do not lie inside their launch"));
            found.push((disordered, "events were not set after the one before them"));
            if of_host(work) {
                found.push((story.one_sided()?, "events lack an end on the host"));
            }
        }
        Work::Cost { .. } => {
            found.push((story.other_durations("wall_ns")?, "drains took another time than their launch"));
            found.push((story.other_arms(work)?, "drains are of the other arm than their launch"));
            // Elsewhere a queue that ran dry is made longer, and no number rests on it.
            found.push((story.other_tasks()?, "launches had another number of tasks than the cell's header says"));
            let fair = usize::from(!story.is_fair(work)?);
            found.push((fair, "header compares with another number of blocks than was launched"));
            let peak = usize::from(!story.peak_follows(device)?);
            found.push((peak, "fp32 peak does not follow from the device and its clock"));
        }
        Work::Baseline { .. } => {
            found.push((story.other_durations("device_drain_ns")?, "drains took another time than their launch"));
        }
        Work::Calibrate { .. } => {
            found.push((story.overlong()?, "blocks took longer for their tiles than their launch"))
        }
        Work::Timer => {}
    }
    Ok(found.into_iter().filter(|(n, _)| *n > 0).map(|(n, what)| format!("{n} {what}")).collect())
}

/// Whether the host times both ends of what a cell measures.
fn of_host(work: &Work) -> bool {
    matches!(work, Work::Yield { set: Setter::Host, .. } | Work::Delay(Leg::HostToSet | Leg::DoneToHost))
}

fn walls(launches: &Table) -> Result<BTreeMap<u32, i64>, String> {
    let walls = u32s(launches, "wall_ns")?.iter().map(|wall| i64::from(*wall));
    Ok(u32s(launches, "launch")?.iter().copied().zip(walls).collect())
}

fn i64s<'a>(table: &'a Table, column: &str) -> Result<&'a [i64], String> {
    table.i64(column).map_err(|error| format!("{error:#}"))
}

struct Story<'a> {
    cell: &'a CellEvidence,
    launches: &'a Table,
    /// How long each launch took, by its name.
    walls: BTreeMap<u32, i64>,
    slack: i64,
}

impl Story<'_> {
    fn wall(&self, launch: u32) -> i64 {
        self.walls.get(&launch).copied().unwrap_or_default()
    }

    fn other_tasks(&self) -> Result<usize, String> {
        let Some(said) = self.cell.data.record.facts.get("tasks").map(|tasks| tasks.as_u64().unwrap_or(u64::MAX))
        else {
            return Ok(0);
        };
        let counted = u32s(self.launches, "tasks")?.iter().zip(u32s(self.launches, "warmup")?);
        Ok(counted.filter(|(tasks, warm)| **warm == 0 && u64::from(**tasks) != said).count())
    }

    /// Whether the poll-free arm was launched with as many blocks as the header says.
    fn is_fair(&self, work: &Work) -> Result<bool, String> {
        let Work::Cost { poll, .. } = work else { return Ok(true) };
        let facts = &self.cell.data.record.facts;
        let Some(said) = facts.whole("poll_free_blocks") else { return Ok(facts.get("poll_free_blocks").is_none()) };
        let (configs, ending) = (&self.cell.data.record.configs, format!("_p{poll}"));
        let launched = u32s(self.launches, "config")?.iter().filter_map(|index| configs.get(*index as usize));
        Ok(launched.filter(|config| !config.symbol.ends_with(&ending)).all(|config| u64::from(config.grid) == said))
    }

    /// Whether the peak that a share is taken of is that of the device at the clock of the cell's launches.
    fn peak_follows(&self, device: &DeviceFacts) -> Result<bool, String> {
        let facts = &self.cell.data.record.facts;
        let Some(said) = facts.number("fp32_peak_tflops") else { return Ok(facts.get("fp32_peak_tflops").is_none()) };
        let counted = u32s(self.launches, "clock_khz_p50")?.iter().zip(u32s(self.launches, "warmup")?);
        let mut khz: Vec<u32> = counted.filter(|(_, warm)| **warm == 0).map(|(khz, _)| *khz).collect();
        khz.sort_unstable();
        let khz = khz.get(khz.len() / 2).copied().unwrap_or_default();
        // Each lane multiplies and adds in a cycle.
        let lanes = f64::from(device.slots.sms()) * f64::from(device.fp32_lanes_per_sm);
        let tflops = 2.0 * lanes * f64::from(khz) / 1e9;
        Ok((said - tflops).abs() <= tflops * PEAK_PCT / 100.0)
    }

    fn overlapping(&self) -> Result<usize, String> {
        let (name, start) = (u32s(self.launches, "launch")?, i64s(self.launches, "host_start_ns")?);
        let follows = |row: usize| {
            let least = self.wall(name[row]) * BEFORE_NEXT.0 / BEFORE_NEXT.1;
            name[row] < name[row + 1] && start[row] < start[row + 1] && start[row + 1] - start[row] >= least
        };
        Ok((1..name.len()).filter(|row| !follows(row - 1)).count())
    }

    /// Launches that count and refer to another configuration than the cell is about. A header may list more than it launched.
    fn unpromised(&self, work: &Work) -> Result<usize, String> {
        let (configs, promised) = (&self.cell.data.record.configs, promised(work));
        let kept = |index: u32| {
            configs.get(index as usize).is_some_and(|config| promised.iter().any(|launch| fits(config, launch)))
        };
        let counted = u32s(self.launches, "config")?.iter().zip(u32s(self.launches, "warmup")?);
        Ok(counted.filter(|(config, warm)| **warm == 0 && !kept(**config)).count())
    }

    /// Events outside of their launch, and events that were set no later than the one before them.
    fn misplaced(&self) -> Result<(usize, usize), String> {
        let events = &self.cell.data.events;
        let (launch, set) = (u32s(events, "launch")?, i64s(events, "set_ns")?);
        let (ready, done) = (i64s(events, "last_ready_ns")?, i64s(events, "urgent_done_ns")?);
        let (warm, mut latest) = (warmup(self.launches)?, BTreeMap::new());
        let (mut outside, mut disordered) = (0, 0);
        for row in (0..events.rows()).filter(|row| !warm.contains(&launch[*row])) {
            let end = set[row] + ready[row].max(done[row]);
            outside += usize::from(set[row] < -self.slack || end > self.wall(launch[row]) + self.slack);
            let before = latest.insert(launch[row], set[row]);
            disordered += usize::from(before.is_some_and(|before| set[row] <= before));
        }
        Ok((outside, disordered))
    }

    /// Events without an instant on the host. They enter no quantile, and what is left is no sample of all.
    fn one_sided(&self) -> Result<usize, String> {
        let ends = |name: &str| self.cell.data.events.opt_i64(name).map_err(|error| format!("{error:#}"));
        let (issued, seen) = (ends("host_issue_ns")?, ends("host_done_ns")?);
        Ok(issued.iter().zip(seen).filter(|(issued, seen)| issued.is_none() || seen.is_none()).count())
    }

    fn other_durations(&self, column: &str) -> Result<usize, String> {
        let events = &self.cell.data.events;
        let launch = u32s(events, "launch")?;
        let took: Vec<i64> = match events.i64(column) {
            Ok(took) => took.to_vec(),
            Err(_) => u32s(events, column)?.iter().map(|took| i64::from(*took)).collect(),
        };
        Ok(launch.iter().zip(took).filter(|(launch, took)| self.wall(**launch) != *took).count())
    }

    /// Drains that stand in one arm and were launched as the other: exchanged arms turn the sign of what polling costs.
    fn other_arms(&self, work: &Work) -> Result<usize, String> {
        let Work::Cost { poll, .. } = work else { return Ok(0) };
        let ending = format!("_p{poll}");
        let polls = |index: &u32| {
            let config = self.cell.data.record.configs.get(*index as usize);
            u32::from(config.is_some_and(|config| config.symbol.ends_with(&ending)))
        };
        let configs = u32s(self.launches, "launch")?.iter().zip(u32s(self.launches, "config")?);
        let launched: BTreeMap<u32, u32> = configs.map(|(launch, config)| (*launch, polls(config))).collect();
        let events = &self.cell.data.events;
        let arms = u32s(events, "launch")?.iter().zip(u32s(events, "arm")?);
        Ok(arms.filter(|(launch, arm)| launched.get(*launch) != Some(*arm)).count())
    }

    /// Blocks whose tiles together took longer than the launch they are of.
    fn overlong(&self) -> Result<usize, String> {
        let events = &self.cell.data.events;
        let (launch, block, wall) = (u32s(events, "launch")?, u32s(events, "block")?, u32s(events, "wall_ns")?);
        let mut took: BTreeMap<(u32, u32), i64> = BTreeMap::new();
        for row in 0..events.rows() {
            *took.entry((launch[row], block[row])).or_default() += i64::from(wall[row]);
        }
        Ok(took.iter().filter(|((launch, _), took)| **took > self.wall(*launch) + self.slack).count())
    }
}
