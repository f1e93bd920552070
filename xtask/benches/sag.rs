//! What is published, and how far it is from the truth, when some launches of a good run ran at a lower clock.
//!
//! `cargo bench --bench sag -- RUN_DIR [REPEATS]`: RUN_DIR is a run directory, or a published run's id. Says first what the rule
//! makes of the run itself. Then stretches every time of a random part of its launches, lowers their in-band clock alike, and
//! counts: numbers refused, and of those that stand the one furthest from what it is without the sag, as a share of its band.
//! The last lines let the clock of the whole run wander slowly instead. Ends with status 1 when a number stands that a sag of
//! some launches took further from the truth than its band.

use host::paths::Paths;
use pure::gate::Evidence;
use pure::numbers::derive::{Derived, derive};
use pure::numbers::off_clock::OffClock;
use pure::numbers::stats::shuffled;
use pure::numbers::summary::{CellData, Drawing, Drawn};
use rayon::prelude::*;
use schema::contract::{Contract, MetricAt};
use schema::metrics::Metric;
use std::path::Path;
use std::process::ExitCode;
use tables::Column;
use xtask::runs::evidence;
use xtask::runs::layout::Layout;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).filter(|arg| arg != "--bench").collect();
    let Some(target) = args.first() else {
        eprintln!("skipped: no run; cargo bench --bench sag -- RUN_DIR [REPEATS]");
        return ExitCode::SUCCESS;
    };
    let repeats: usize = args.get(1).map_or(5, |n| n.parse().expect("REPEATS is a number"));
    let run = evidence::load(&layout(target)).expect("a run loads");
    let cells: Vec<CellData> = run.cells.iter().map(|cell| cell.data.clone()).collect();
    itself(&run, &cells);
    println!("sag %  launches %  refused of all  worst that stands  the headline, worst repeat");
    let mut worst = 0.0_f64;
    for sag in [0.5, 1.0, 1.5, 2.0, 3.0, 5.0] {
        for share in [0.1, 1.0, 5.0, 20.0] {
            let planted = |name: usize| few(&cells, &format!("{sag} {share} {name}"), share / 100.0, sag / 100.0);
            worst = worst.max(line(&run, &format!("{sag:5}  {share:10}"), repeats, planted));
        }
    }
    println!("wander %");
    for sag in [1.0, 3.0, 5.0] {
        line(&run, &format!("{sag:5}  {:>10}", "all"), 1, |_| wander(&cells, sag / 100.0));
    }
    println!("the furthest number that stands is {worst:.2} of its band from the truth");
    if worst <= 1.0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn layout(target: &str) -> Layout {
    if Path::new(target).is_dir() {
        return Layout::Raw(target.into());
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the workspace");
    Layout::published(&Paths::new(root), target)
}

/// What the rule makes of the run as it was measured.
fn itself(run: &Evidence, cells: &[CellData]) {
    let off = OffClock::of(&run.contract, cells).expect("launches have clocks");
    let refused: Vec<&Metric> = run.recomputed.metrics.iter().filter(|metric| metric.refused()).collect();
    let all = run.recomputed.drawn.iter().filter(|row| row.drawing == Drawing::Sampled).count() + refused.len();
    println!(
        "{}: {} launches off the clock, {} of {all} numbers refused",
        run.manifest.predicate.run,
        off.count(),
        refused.len()
    );
    for metric in refused {
        println!("  {}/{} {}: {}", metric.phase, metric.cell, metric.metric, metric.note);
    }
}

/// A row for the repeats of one way to plant; returns the furthest number that stands, as a share of its band.
fn line(run: &Evidence, head: &str, repeats: usize, plant: impl Fn(usize) -> Vec<CellData> + Sync) -> f64 {
    let truth = &run.recomputed;
    let found: Vec<(usize, usize, f64, Vec<String>)> = (0..repeats)
        .into_par_iter()
        .map(|i| {
            let sagged = derive(&run.contract, &run.manifest.predicate.run, &plant(i));
            assert!(sagged.fault.is_empty(), "{}", sagged.fault);
            let refused = sagged.metrics.iter().filter(|metric| metric.refused()).count();
            let worst = sagged.drawn.iter().filter_map(|row| away(row, truth)).fold(0.0, f64::max);
            (
                refused,
                refused + sagged.drawn.iter().filter(|row| row.drawing == Drawing::Sampled).count(),
                worst,
                headline(&run.contract, &sagged, truth),
            )
        })
        .collect();
    let (least, most) = (found.iter().map(|f| f.0).min().unwrap_or(0), found.iter().map(|f| f.0).max().unwrap_or(0));
    let worst = found.iter().max_by(|a, b| a.2.total_cmp(&b.2)).expect("there are repeats");
    println!("{head}  {least} to {most} of {}  {:.2} of its band  {}", worst.1, worst.2, worst.3.join("  "));
    worst.2
}

/// How far a number is from what it was without the sag, as a share of its band; absent where it has none, and for the clock
/// itself, which really was lower.
fn away(row: &Drawn, truth: &Derived) -> Option<f64> {
    let place = |row: &Drawn| (row.metric.phase.clone(), row.metric.cell.clone(), row.metric.metric.clone());
    let was = truth.drawn.iter().find(|was| place(was) == place(row))?;
    let band = row.band.width(row.value, was.value);
    let judged = row.drawing == Drawing::Sampled && row.metric.unit != "MHz" && band > 0.0;
    judged.then(|| (row.value - was.value).abs() / band)
}

/// Each number of the headline less the truth, in its unit.
fn headline(contract: &Contract, sagged: &Derived, truth: &Derived) -> Vec<String> {
    let find = |rows: &Derived, at: &MetricAt| {
        let place = (&at.phase, &at.cell, &at.metric);
        let is = |row: &&Drawn| (&row.metric.phase, &row.metric.cell, &row.metric.metric) == place;
        rows.drawn.iter().find(is).map(|row| row.value)
    };
    let said = |at| match (find(sagged, at), find(truth, at)) {
        (Some(value), Some(was)) => format!("{:+.3}", value - was),
        _ => "refused".to_owned(),
    };
    contract.headline.iter().map(|row| said(&row.at)).collect()
}

/// Lowers the clock of a random part of the launches of each cell; at least of one launch in the run's first cells.
fn few(cells: &[CellData], name: &str, share: f64, sag: f64) -> Vec<CellData> {
    let pick = |cell: &CellData| {
        let rows = cell.launches.as_ref().map_or(0, tables::Table::rows);
        let place = format!("{name} {}/{}", cell.record.phase, cell.record.cell);
        // A part of a launch is a launch in that part of the cells.
        let lot = shuffled(&format!("{place} lot"), 1_000)[0] as f64 / 1_000.0;
        let picked = (share * rows as f64 + lot) as usize;
        let mut by_row = vec![0.0; rows];
        shuffled(&place, rows).into_iter().take(picked).for_each(|row| by_row[row] = sag);
        by_row
    };
    cells.iter().map(|cell| slowed(cell, &pick(cell))).collect()
}

/// Lets the clock of the run go down by `sag` and back up again, once.
fn wander(cells: &[CellData], sag: f64) -> Vec<CellData> {
    let starts = |cell: &CellData| {
        cell.launches.as_ref().map_or_else(Vec::new, |l| l.i64("host_start_ns").expect("launches start").to_vec())
    };
    let all: Vec<i64> = cells.iter().flat_map(starts).collect();
    let (first, last) = (all.iter().min().copied().unwrap_or(0), all.iter().max().copied().unwrap_or(1));
    let at = |ns: i64| (ns - first) as f64 / (last - first).max(1) as f64;
    let by_row = |cell: &CellData| {
        starts(cell).into_iter().map(|ns| sag * (1.0 - (2.0 * at(ns) - 1.0).abs())).collect::<Vec<f64>>()
    };
    cells.iter().map(|cell| slowed(cell, &by_row(cell))).collect()
}

/// The cell with each launch slowed by its share: times are longer, clocks lower.
fn slowed(cell: &CellData, by_row: &[f64]) -> CellData {
    let mut cell = cell.clone();
    let Some(launches) = &mut cell.launches else { return cell };
    let by_launch: std::collections::BTreeMap<u32, f64> =
        launches.u32("launch").expect("launches are numbered").iter().copied().zip(by_row.iter().copied()).collect();
    for (name, column) in &mut launches.columns {
        if let Column::U32(values) = column {
            for (value, sag) in values.iter_mut().zip(by_row) {
                if name == "wall_ns" {
                    *value = (f64::from(*value) / (1.0 - sag)) as u32;
                } else if name.starts_with("clock_khz_") {
                    *value = (f64::from(*value) * (1.0 - sag)) as u32;
                }
            }
        }
    }
    let Ok(of) = cell.events.u32("launch") else { return cell };
    let sags: Vec<f64> = of.iter().map(|launch| by_launch.get(launch).copied().unwrap_or(0.0)).collect();
    for (name, column) in &mut cell.events.columns {
        if !name.ends_with("_ns") {
            continue;
        }
        match column {
            Column::U32(values) => {
                values.iter_mut().zip(&sags).for_each(|(v, s)| *v = (f64::from(*v) / (1.0 - s)) as u32)
            }
            Column::I64(values) => values.iter_mut().zip(&sags).for_each(|(v, s)| *v = longer(*v, *s)),
            Column::OptI64(values) => {
                values.iter_mut().zip(&sags).for_each(|(v, s)| *v = v.map(|v| longer(v, *s)));
            }
            Column::OptU32(_) | Column::F64(_) => {}
        }
    }
    cell
}

/// A time or an instant, stretched about zero.
fn longer(ns: i64, sag: f64) -> i64 {
    ns + (ns as f64 * (sag / (1.0 - sag))) as i64
}
