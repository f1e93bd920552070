//! The contract's checks, one function each: whether the tables of a cell agree with each other.
//!
//! Rows that were copied under another name, or that come from another cell, are found because their instants overlap
//! with those of other rows.

use super::build::fits;
use super::evidence::{CellEvidence, Evidence};
use super::table::{u32s, warmup};
use crate::numbers::summary::numbers;
use schema::cell::{DeviceFacts, LaunchConfig};
use schema::contract::{CellSpec, Check, Kind, TableSpec};
use schema::timer::QUANTUM;
use std::collections::{BTreeMap, BTreeSet};
use tables::{Column, Table};

/// The part of a launch that must lie before the next one begins. The host times when launches begin, the device how long they
/// take, and two clocks differ by far less than a hundredth.
const BEFORE_NEXT: (i64, i64) = (99, 100);

/// The peak was taken at the clock of the run so far, which lies within the band of clocks round this cell's.
const PEAK_PCT: f64 = 2.0;

/// How far the throughput that recorded rows make may lie from that of their launches: a launch's begin and end, when not every
/// block works, are a few tenths of a per cent of it.
const THROUGHPUT_PCT: f64 = 2.0;

/// How far two timers of one device may disagree: the largest cross-SM offset and two quanta.
#[must_use]
pub fn timer_slack_ns(evidence: &Evidence) -> i64 {
    let spec = evidence.contract.timer();
    let timer = evidence.cells.iter().find(|cell| spec.is_some_and(|spec| cell.name() == spec.id()));
    let quantum = timer.and_then(|cell| cell.data.record.facts.whole(QUANTUM));
    let quantum = quantum.and_then(|quantum| i64::try_from(quantum).ok()).unwrap_or(0);
    let offsets = timer.and_then(|cell| cell.data.events.i64("offset_ns").ok()).unwrap_or_default();
    let largest = offsets.iter().map(|offset| offset.saturating_abs()).max().unwrap_or(0);
    largest.saturating_add(quantum.saturating_mul(2))
}

/// A cell with what the contract says of it.
pub(super) struct Story<'a> {
    pub(super) spec: &'a CellSpec,
    table: &'a TableSpec,
    device: &'a DeviceFacts,
    cell: &'a CellEvidence,
    launches: &'a Table,
    /// How long each launch took, by its name.
    walls: BTreeMap<u32, i64>,
    /// Launches discarded as warm-up.
    warm: BTreeSet<u32>,
    slack: i64,
}

type Counted = Result<usize, String>;

impl<'a> Story<'a> {
    /// Absent for a cell that the contract does not name or that has no launches, which other rules refuse.
    pub(super) fn new(evidence: &'a Evidence, cell: &'a CellEvidence, slack: i64) -> Result<Option<Self>, String> {
        let contract = &evidence.contract;
        let Some((spec, launches)) = cell.spec(contract).zip(cell.data.launches.as_ref()) else { return Ok(None) };
        let table = contract.table(spec).ok_or_else(|| format!("the contract has no table {:?}", spec.table))?;
        let walls = u32s(launches, "launch")?.iter().copied().zip(u32s(launches, "wall_ns")?.iter().copied());
        let walls = walls.map(|(launch, wall)| (launch, i64::from(wall))).collect();
        let device = &evidence.environment.device;
        Ok(Some(Self { spec, table, device, cell, launches, walls, warm: warmup(launches)?, slack }))
    }

    /// What must hold whatever the contract asks for: the table's columns, launches of the promised kinds, one after the other.
    pub(super) fn told_by_all(&self) -> Result<Vec<String>, String> {
        let mut found = said(self.overlapping()?, "launches begin before the one before them ended");
        found
            .extend(said(self.unpromised()?, "launches are of a kernel or mode that the cell's name does not promise"));
        if !self.has_its_columns() {
            found.push("its event table has other columns than the contract says".to_owned());
        }
        Ok(found)
    }

    /// How a check fails; nothing where it holds.
    pub(super) fn failed(&self, check: &Check) -> Result<Vec<String>, String> {
        let (n, what) = match check {
            Check::Ordered { from, to } => (
                self.disordered(from.as_deref(), to)?,
                format!("events have {to} before {}", from.as_deref().unwrap_or("their own instant")),
            ),
            Check::InsideLaunch { begin, ends } => {
                (self.outside(begin, ends)?, "events do not lie inside their launch".to_owned())
            }
            Check::Increasing { column } => {
                (self.not_increasing(column)?, "events were not set after the one before them".to_owned())
            }
            Check::Present { column } => {
                (self.counting(column, |value| value.is_none())?, format!("events lack {column}"))
            }
            Check::TakesLaunch { column } => {
                (self.other_durations(column)?, "rows took another time than their launch".to_owned())
            }
            Check::AddUpWithinLaunch { column, by } => {
                (self.overlong(column, by)?, format!("{by}s took longer for their rows than their launch"))
            }
            Check::ArmOfLaunch { column, symbol_end } => {
                (self.other_arms(column, symbol_end)?, "rows are of the other arm than their launch".to_owned())
            }
            Check::LaunchesHaveFact { column, fact } => (
                self.other_than_fact(column, fact)?,
                format!("launches had another number of {column} than the cell's header says"),
            ),
            Check::GridIsFact { fact, except } => (
                usize::from(!self.grid_is(fact, except)?),
                "header compares with another number of blocks than was launched".to_owned(),
            ),
            Check::PeakOfDevice { fact } => (
                usize::from(!self.peak_follows(fact)?),
                "fp32 peak does not follow from the device and its clock".to_owned(),
            ),
            Check::Positive { column, what } => (self.counting(column, |n| n.is_none_or(|n| n < 1))?, what.clone()),
            Check::SameForAll { column, what } => {
                let most = self.numbers(column)?.into_iter().flatten().max();
                (self.counting(column, |n| n.is_none_or(|n| n < 1) || n != most)?, what.clone())
            }
            Check::EqualRows => {
                (self.unequal_rows()?, "launches have fewer rows than others: some were dropped".to_owned())
            }
            Check::RowsAsAsked { column } => {
                (self.other_rows(column)?, "launches recorded another number of events than were requested".to_owned())
            }
            Check::OneState { .. } => (0, String::new()),
            // Threads of the emulated device share a few cores, so its blocks never work all at once.
            Check::MakeThroughput { .. } if self.device.is_emulated() => (0, String::new()),
            Check::MakeThroughput { column, by, done } => {
                let off = self.throughput_off_pct(column, by, done)?;
                let what =
                    format!("cell whose {by}s make {off:+.1} % of throughput more than its launches by their {column}");
                (usize::from(off.is_nan() || off.abs() > THROUGHPUT_PCT), what)
            }
        };
        Ok(said(n, &what))
    }

    fn wall(&self, launch: u32) -> i64 {
        self.walls.get(&launch).copied().unwrap_or_default()
    }

    fn numbers(&self, column: &str) -> Result<Vec<Option<i64>>, String> {
        numbers(&self.cell.data.events, column).map_err(|error| format!("{error:#}"))
    }

    fn event_u32s(&self, column: &str) -> Result<&'a [u32], String> {
        u32s(&self.cell.data.events, column)
    }

    fn counting(&self, column: &str, fails: impl Fn(Option<i64>) -> bool) -> Counted {
        Ok(self.numbers(column)?.into_iter().filter(|value| fails(*value)).count())
    }

    fn config(&self, index: u32) -> Option<&'a LaunchConfig> {
        self.cell.data.record.configs.get(index as usize)
    }

    /// A launch column's values of the launches that count.
    fn kept(&self, column: &str) -> Result<Vec<u32>, String> {
        let counted = u32s(self.launches, column)?.iter().zip(u32s(self.launches, "warmup")?);
        Ok(counted.filter(|(_, warm)| **warm == 0).map(|(value, _)| *value).collect())
    }

    fn has_its_columns(&self) -> bool {
        let kind = |column: &Column| match column {
            Column::U32(_) => Some(Kind::U32),
            Column::I64(_) => Some(Kind::I64),
            Column::OptI64(_) => Some(Kind::OptI64),
            Column::OptU32(_) | Column::F64(_) => None,
        };
        let found = self.cell.data.events.columns.iter().map(|(name, column)| (name.as_str(), kind(column)));
        found.eq(self.table.columns.iter().map(|column| (column.name.as_str(), Some(column.kind))))
    }

    fn overlapping(&self) -> Counted {
        let name = u32s(self.launches, "launch")?;
        let start = self.launches.i64("host_start_ns").map_err(|error| format!("{error:#}"))?;
        let follows = |row: usize| {
            let least = self.wall(name[row]) * BEFORE_NEXT.0 / BEFORE_NEXT.1;
            name[row] < name[row + 1] && start[row] < start[row + 1] && start[row + 1] - start[row] >= least
        };
        Ok((1..name.len()).filter(|row| !follows(row - 1)).count())
    }

    /// Launches that count and refer to another configuration than the cell is about. A header may list more than it launched.
    fn unpromised(&self) -> Counted {
        let promised = |index: &u32| {
            self.config(*index).is_some_and(|config| self.spec.launches.iter().any(|kind| fits(config, kind)))
        };
        Ok(self.kept("config")?.iter().filter(|config| !promised(config)).count())
    }

    fn disordered(&self, from: Option<&str>, to: &str) -> Counted {
        let to = self.numbers(to)?;
        let from = from.map_or_else(|| Ok(vec![Some(0); to.len()]), |from| self.numbers(from))?;
        let early = |(from, to): &(Option<i64>, Option<i64>)| {
            from.zip(*to).is_some_and(|(from, to)| to < from.saturating_sub(self.slack))
        };
        Ok(from.into_iter().zip(to).filter(early).count())
    }

    /// The rows of launches that count.
    fn counted_rows(&self) -> Result<Vec<usize>, String> {
        let launch = self.event_u32s("launch")?;
        Ok((0..launch.len()).filter(|row| !self.warm.contains(&launch[*row])).collect())
    }

    fn outside(&self, begin: &str, ends: &[String]) -> Counted {
        let (launch, begin) = (self.event_u32s("launch")?, self.numbers(begin)?);
        let ends = ends.iter().map(|end| self.numbers(end)).collect::<Result<Vec<_>, _>>()?;
        let is_outside = |row: &usize| {
            let Some(begin) = begin[*row] else { return true };
            let end = begin + ends.iter().filter_map(|end| end[*row]).max().unwrap_or_default();
            begin < -self.slack || end > self.wall(launch[*row]) + self.slack
        };
        Ok(self.counted_rows()?.iter().filter(|row| is_outside(row)).count())
    }

    fn not_increasing(&self, column: &str) -> Counted {
        let (launch, at, mut latest) = (self.event_u32s("launch")?, self.numbers(column)?, BTreeMap::new());
        let follows = |row: &usize| {
            let before = latest.insert(launch[*row], at[*row]);
            before.is_some_and(|before| at[*row] <= before)
        };
        Ok(self.counted_rows()?.into_iter().filter(follows).count())
    }

    fn other_durations(&self, column: &str) -> Counted {
        let took = self.event_u32s("launch")?.iter().zip(self.numbers(column)?);
        Ok(took.filter(|(launch, took)| *took != Some(self.wall(**launch))).count())
    }

    /// Parts of a launch, such as blocks, whose rows together took longer than the launch.
    fn overlong(&self, column: &str, by: &str) -> Counted {
        let parts = self.event_u32s("launch")?.iter().zip(self.event_u32s(by)?).zip(self.numbers(column)?);
        let mut took: BTreeMap<(u32, u32), i64> = BTreeMap::new();
        for ((launch, part), wall) in parts {
            *took.entry((*launch, *part)).or_default() += wall.unwrap_or_default();
        }
        Ok(took.iter().filter(|((launch, _), took)| **took > self.wall(*launch) + self.slack).count())
    }

    /// By how much what the parts of launches do, by the mean duration of their rows, exceeds what the launches did, in per cent.
    fn throughput_off_pct(&self, column: &str, by: &str, done: &str) -> Result<f64, String> {
        let parts = self.event_u32s("launch")?.iter().zip(self.event_u32s(by)?).zip(self.numbers(column)?);
        let mut took: BTreeMap<(u32, u32), (f64, f64)> = BTreeMap::new();
        for ((launch, part), ns) in parts.filter(|((launch, _), _)| !self.warm.contains(launch)) {
            let (rows, all_ns) = took.entry((*launch, *part)).or_default();
            *rows += 1.0;
            *all_ns += ns.unwrap_or_default() as f64;
        }
        let by_rows: f64 = took.values().map(|(rows, ns)| rows / ns).sum();
        let launches = self.kept(done)?.into_iter().zip(self.kept("wall_ns")?);
        let by_launches: f64 = launches.map(|(done, ns)| f64::from(done) / f64::from(ns)).sum();
        Ok((by_rows / by_launches - 1.0) * 100.0)
    }

    /// Rows that stand in one arm and were launched as the other: exchanged arms turn the sign of a cost.
    fn other_arms(&self, column: &str, symbol_end: &str) -> Counted {
        let is_arm_1 =
            |index: &u32| u32::from(self.config(*index).is_some_and(|config| config.symbol.ends_with(symbol_end)));
        let configs = u32s(self.launches, "launch")?.iter().zip(u32s(self.launches, "config")?);
        let launched: BTreeMap<u32, u32> = configs.map(|(launch, config)| (*launch, is_arm_1(config))).collect();
        let arms = self.event_u32s("launch")?.iter().zip(self.event_u32s(column)?);
        Ok(arms.filter(|(launch, arm)| launched.get(*launch) != Some(*arm)).count())
    }

    fn other_than_fact(&self, column: &str, fact: &str) -> Counted {
        let said = self.whole_fact(fact)?;
        Ok(self.kept(column)?.into_iter().filter(|value| u64::from(*value) != said).count())
    }

    /// Whether the kernels of the other arm were launched with as many blocks as the header says.
    fn grid_is(&self, fact: &str, except: &str) -> Result<bool, String> {
        let said = self.whole_fact(fact)?;
        let launched = u32s(self.launches, "config")?.iter().filter_map(|index| self.config(*index));
        Ok(launched.filter(|config| !config.symbol.ends_with(except)).all(|config| u64::from(config.grid) == said))
    }

    /// A fact that a check needs. Where the header lacks it the check fails: nothing was compared.
    fn whole_fact(&self, fact: &str) -> Result<u64, String> {
        let found = self.cell.data.record.facts.whole(fact);
        found.ok_or_else(|| format!("the cell's header does not say {fact}, and a check needs it"))
    }

    /// Whether the peak that a share is taken of is that of the device at the clock of the cell's launches. A device of which
    /// it is not known how many lanes it has, has no peak.
    fn peak_follows(&self, fact: &str) -> Result<bool, String> {
        let Some(said) = self.cell.data.record.facts.number(fact) else {
            return Ok(self.device.fp32_lanes_per_sm == 0);
        };
        let mut khz = self.kept("clock_khz_p50")?;
        khz.sort_unstable();
        let khz = khz.get(khz.len() / 2).copied().unwrap_or_default();
        // Each lane multiplies and adds in a cycle.
        let lanes = f64::from(self.device.slots.sms()) * f64::from(self.device.fp32_lanes_per_sm);
        let tflops = 2.0 * lanes * f64::from(khz) / 1e9;
        Ok((said - tflops).abs() <= tflops * PEAK_PCT / 100.0)
    }

    fn rows_by_launch(&self) -> Result<BTreeMap<u32, u32>, String> {
        let mut rows = BTreeMap::new();
        for launch in self.event_u32s("launch")? {
            *rows.entry(*launch).or_default() += 1;
        }
        Ok(rows)
    }

    fn unequal_rows(&self) -> Counted {
        let rows = self.rows_by_launch()?;
        let most = rows.values().max();
        Ok(self.kept("launch")?.iter().filter(|launch| most.is_none() || rows.get(launch) != most).count())
    }

    fn other_rows(&self, asked: &str) -> Counted {
        let rows = self.rows_by_launch()?;
        let asked = self.kept("launch")?.into_iter().zip(self.kept(asked)?);
        Ok(asked.filter(|(launch, asked)| rows.get(launch).copied().unwrap_or(0) != *asked).count())
    }
}

fn said(n: usize, what: &str) -> Vec<String> {
    if n > 0 { vec![format!("{n} {what}")] } else { Vec::new() }
}
