//! Hardware counters as a table beside a run's numbers: how many blocks there were, what fitted, and what went to local memory.

use super::{PublishedRun, caption, escape};
use crate::counters::blocks_per_sm;
use schema::counters::{CountedLaunch, CounterReport};
use std::collections::BTreeMap;
use std::fmt::Write as _;

pub(super) fn table(run: &PublishedRun, text: &mut String) {
    let Some(report) = &run.counters else { return };
    text.push_str(&caption(run));
    let said = match (&report.unreadable, &report.profiler) {
        (Some(why), _) => format!("Hardware counters could not be read: {}.", escape(why)),
        (None, profiler) => format!(
            "Hardware counters of small programs and a load on the whole GPU, one launch at a time, under Nsight Compute ({}).",
            escape(profiler.as_deref().unwrap_or_default())
        ),
    };
    let _ = writeln!(text, "{said}\n");
    let kernels = by_kernel(report);
    if kernels.is_empty() {
        return;
    }
    text.push_str(
        "| kernel | most blocks launched | registers | blocks that fit an SM | local loads, stores |\n\
         |---|---:|---:|---:|---|\n",
    );
    for (symbol, launches) in kernels {
        let Some(largest) = launches.iter().max_by_key(|launch| launch.grid) else { continue };
        let local = |of: fn(&CountedLaunch) -> u64| launches.iter().map(|launch| of(launch)).sum::<u64>();
        let _ = writeln!(
            text,
            "| `{}` | {} | {} | {} | {}, {} |",
            escape(symbol),
            largest.grid,
            largest.registers,
            blocks_per_sm(largest),
            local(|launch| launch.local_loads),
            local(|launch| launch.local_stores)
        );
    }
    text.push('\n');
}

fn by_kernel(report: &CounterReport) -> BTreeMap<&str, Vec<&CountedLaunch>> {
    let mut kernels: BTreeMap<&str, Vec<&CountedLaunch>> = BTreeMap::new();
    for launch in report.programs.iter().flat_map(|program| &program.launches) {
        kernels.entry(&launch.symbol).or_default().push(launch);
    }
    kernels
}
