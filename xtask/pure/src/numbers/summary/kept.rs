//! Which launches and events of a cell count: launches marked as warm-up do not, nor do events with an anomaly, nor what a
//! second computation leaves out.

use super::CellData;
use anyhow::{bail, ensure};
use schema::contract::TableSpec;
use std::collections::BTreeSet;
use tables::Table;

/// The launches of a cell that count.
pub(super) struct Kept {
    all: BTreeSet<u32>,
    discarded: BTreeSet<u32>,
}

impl Kept {
    /// The launches that count, without those in `left_out`.
    pub(super) fn new(data: &CellData, left_out: BTreeSet<u32>) -> anyhow::Result<Self> {
        let mut kept = Self { all: BTreeSet::new(), discarded: left_out };
        let Some(table) = &data.launches else { return Ok(kept) };
        for (launch, warmup) in table.u32("launch")?.iter().zip(table.u32("warmup")?) {
            ensure!(kept.all.insert(*launch), "launch {launch} has two rows");
            match warmup {
                0 => {}
                1 => drop(kept.discarded.insert(*launch)),
                other => bail!("launch {launch} has warmup = {other}, which is neither 0 nor 1"),
            }
        }
        Ok(kept)
    }

    pub(super) fn launch(&self, launch: u32) -> bool {
        !self.discarded.contains(&launch)
    }

    /// The indices of the events that count, and how many count but for an anomaly.
    pub(super) fn sound_rows(&self, events: &Table, table: &TableSpec) -> anyhow::Result<(Vec<usize>, u64)> {
        let mut rows: Vec<usize> = (0..events.rows()).collect();
        if table.by_launch() {
            let launch = events.u32("launch")?;
            if let Some(lost) = launch.iter().find(|launch| !self.all.contains(launch)) {
                bail!("an event of launch {lost}, which has no row among the launches");
            }
            rows.retain(|row| self.launch(launch[*row]));
        }
        let Some(anomaly) = table.anomaly() else { return Ok((rows, 0)) };
        let anomaly = events.u32(anomaly)?;
        let before = rows.len();
        rows.retain(|row| anomaly[*row] == 0);
        let anomalous = (before - rows.len()) as u64;
        Ok((rows, anomalous))
    }
}

/// Refuses events that occur twice.
pub(super) fn refuse_duplicates(events: &Table, table: &TableSpec) -> anyhow::Result<()> {
    let columns = table.key.iter().map(|name| events.u32(name)).collect::<anyhow::Result<Vec<_>>>()?;
    let mut keys: Vec<Vec<u32>> =
        (0..events.rows()).map(|row| columns.iter().map(|column| column[row]).collect()).collect();
    keys.sort_unstable();
    let twice = keys.windows(2).find(|pair| pair[0] == pair[1]);
    twice
        .map_or(Ok(()), |pair| Err(anyhow::anyhow!("the event of {} {:?} occurs twice", table.key.join(", "), pair[0])))
}
