//! The figures of a run.

use super::metrics::{between, of};
use super::{Preempt, at, id};
use crate::plan::{Cell, Work};
use schema::contract::{Draw, FigureSpec, SeriesSpec};

impl Preempt<'_> {
    pub(super) fn figures(&self) -> Vec<FigureSpec> {
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
}
