//! What `compare` says of data that differ in nothing, and of a planted shift: a thousand random splits of one run in two.
//!
//! `cargo bench --bench compare -- RUN_DIR [SPLITS]`: RUN_DIR is a run directory, or a published run's id. Ends with status 1
//! when more than 5 % of the splits are SHIFTED, or fewer than 95 % of the planted shifts of twice the band.

use host::paths::Paths;
use pure::compare::{Word, compare_rows, overall};
use pure::gate::Evidence;
use pure::numbers::summary::{CellData, Drawn, Tails, summarize_drawn};
use pure::trial::halves::halves;
use rayon::prelude::*;
use std::path::Path;
use std::process::ExitCode;
use std::time::Instant;
use xtask::runs::evidence;
use xtask::runs::layout::Layout;

fn main() -> ExitCode {
    // cargo itself adds --bench.
    let args: Vec<String> = std::env::args().skip(1).filter(|arg| arg != "--bench").collect();
    let Some(target) = args.first() else {
        eprintln!("skipped: no run; cargo bench --bench compare -- RUN_DIR [SPLITS]");
        return ExitCode::SUCCESS;
    };
    let splits: usize = args.get(1).map_or(1_000, |n| n.parse().expect("SPLITS is a number"));
    let run = evidence::load(&layout(target)).expect("a run loads");
    let began = Instant::now();
    let found: Vec<Split> = (0..splits).into_par_iter().map(|i| split(&run, &i.to_string())).collect();
    report(&found, began.elapsed().as_secs_f64())
}

fn layout(target: &str) -> Layout {
    if Path::new(target).is_dir() {
        return Layout::Raw(target.into());
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the workspace");
    Layout::published(&Paths::new(root), target)
}

/// What one split gave.
struct Split {
    /// The word for the two halves.
    plain: Word,
    /// The word when every metric of one half is shifted by twice its band.
    planted: Word,
    /// Metrics that could be judged, by name with the word of each, plain and planted.
    metrics: Vec<(String, Word, Word)>,
}

fn split(run: &Evidence, name: &str) -> Split {
    let cells: Vec<CellData> = run.cells.iter().map(|cell| cell.data.clone()).collect();
    let (one, other) = halves(&cells, name).expect("cells have launches");
    let rows = |cells: &[CellData]| summarize_drawn(&run.contract, name, cells, Tails::All).expect("a half sums up");
    let (one, other) = (rows(&one), rows(&other));
    let plain = compare_rows(&one, &other, &run.plan.compare);
    let shifted: Vec<Drawn> = other
        .iter()
        .map(|row| {
            let same = |m: &&pure::compare::Compared| {
                m.id == row.metric.metric && m.cell == format!("{}/{}", row.metric.phase, row.metric.cell)
            };
            let band = plain.iter().find(same).and_then(|metric| metric.band).unwrap_or(0.0);
            // A metric whose band is none at all is counted, and one more is a shift.
            let by = if band == 0.0 { 1.0 } else { 2.0 * band };
            let mut row = row.clone();
            row.value += by;
            row.draws.iter_mut().for_each(|drawn| *drawn += by);
            row
        })
        .collect();
    let planted = compare_rows(&one, &shifted, &run.plan.compare);
    let judged = plain.iter().zip(&planted).filter(|(metric, _)| metric.why.is_empty());
    Split {
        plain: overall(&plain),
        planted: overall(&planted),
        metrics: judged
            .map(|(a, b)| {
                (format!("{} {}", a.cell, a.id), a.verdict.expect("one model"), b.verdict.expect("one model"))
            })
            .collect(),
    }
}

fn report(found: &[Split], seconds: f64) -> ExitCode {
    let share = |n: usize, of: usize| 100.0 * n as f64 / of.max(1) as f64;
    let words = |of: fn(&Split) -> Word, word| found.iter().filter(|split| of(split) == word).count();
    let n = found.len();
    println!("{n} random splits of one run into halves by launches, {seconds:.0} s");
    for (what, of) in [("no shift", (|s| s.plain) as fn(&Split) -> Word), ("2 x band", |s| s.planted)] {
        let [r, a, s] = [Word::Reproduced, Word::Ambiguous, Word::Shifted].map(|word| words(of, word));
        println!("whole comparison, {what}: {r} REPRODUCED, {a} AMBIGUOUS, {s} SHIFTED");
    }
    let mut by_metric: std::collections::BTreeMap<&str, [usize; 4]> = std::collections::BTreeMap::new();
    for (name, plain, planted) in found.iter().flat_map(|split| &split.metrics) {
        let counts = by_metric.entry(name).or_default();
        counts[0] += 1;
        counts[1] += usize::from(*plain == Word::Shifted);
        counts[2] += usize::from(*plain == Word::Ambiguous);
        counts[3] += usize::from(*planted == Word::Shifted);
    }
    let total = |i: usize| by_metric.values().map(|counts| counts[i]).sum::<usize>();
    println!(
        "{} metrics: {:.3} % SHIFTED and {:.2} % AMBIGUOUS without a shift, {:.2} % SHIFTED with one",
        by_metric.len(),
        share(total(1), total(0)),
        share(total(2), total(0)),
        share(total(3), total(0))
    );
    for (name, [n, shifted, ambiguous, caught]) in by_metric.iter().filter(|(_, c)| c[1] > 0 || c[3] * 100 < 95 * c[0])
    {
        println!(
            "  {name}: {:.1} % SHIFTED, {:.1} % AMBIGUOUS, {:.1} % caught",
            share(*shifted, *n),
            share(*ambiguous, *n),
            share(*caught, *n)
        );
    }
    let shifted = share(words(|s| s.plain, Word::Shifted), n);
    let caught = share(total(3), total(0));
    println!("SHIFTED without a shift: {shifted:.2} % (at most 5 %); with one: {caught:.2} % (at least 95 %)");
    if shifted <= 5.0 && caught >= 95.0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
