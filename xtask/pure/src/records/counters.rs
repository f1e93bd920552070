//! Reads strictly what Nsight Compute wrote about a program, and checks that it agrees with the build's own records.
//!
//! Only the long form is read: one line per launch and counter, in CSV. It does not run the profiler and does not
//! judge speed.

#[cfg(test)]
mod tests;

use schema::build::Kernel;
use schema::counters::{CountedLaunch, CounterReport};
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};

/// The counters that are read, each with the unit it must come in. Blocks that fit by a resource follow in [`FIT`].
const READ: [(&str, &str); 3] = [
    ("launch__registers_per_thread", "register/thread"),
    ("smsp__inst_executed_op_local_ld.sum", "inst"),
    ("smsp__inst_executed_op_local_st.sum", "inst"),
];
const FIT: &str = "launch__occupancy_limit_";
/// Resources of an SM that bound how many blocks it holds.
const RESOURCES: [&str; 5] = ["barriers", "blocks", "registers", "shared_mem", "warps"];
/// What else is asked for, and stays in the log for people to read.
const KEPT: [&str; 3] = [
    "sm__maximum_warps_per_active_cycle_pct",
    "sm__warps_active.avg.pct_of_peak_sustained_active",
    "smsp__inst_executed.sum",
];
/// Reasons of a warp not to issue, of which the log keeps the shares too; `selected` is the one that does.
const REASONS: &str = "barrier branch_resolving dispatch_stall drain imc_miss lg_throttle long_scoreboard math_pipe_throttle \
                       membar mio_throttle misc no_instruction not_selected selected short_scoreboard sleeping tex_throttle wait";
/// What Nsight Compute says where the driver keeps counters to administrators, and what to do about it.
const NO_PERMISSION: (&str, &str) = (
    "ERR_NVGPUCTRPERM",
    "the driver keeps performance counters to administrators: run as root, or load the nvidia module with \
     NVreg_RestrictProfilingToAdminUsers=0",
);
/// A log of a small program has some hundred lines.
const MOST_LINES: usize = 100_000;

/// The counters to ask the profiler for, as it takes them.
#[must_use]
pub fn metrics() -> String {
    let read = READ.map(|(name, _)| name.to_owned()).into_iter().chain(KEPT.map(str::to_owned));
    let fits = RESOURCES.iter().map(|resource| format!("{FIT}{resource}"));
    let stalls = REASONS.split(' ').map(|r| format!("smsp__average_warps_issue_stalled_{r}_per_issue_active.ratio"));
    read.chain(fits).chain(stalls).collect::<Vec<_>>().join(",")
}

/// Whether a program's grid can run alone, and several times over, as a profiler has it: not where its flag is set from beside it.
#[must_use]
pub fn runs_alone(program: &str) -> bool {
    !program.ends_with("_host") && !program.ends_with("_kernel")
}

/// The launches that a log tells of, in order; other counters than those of a [`CountedLaunch`] are passed over.
///
/// # Errors
/// When the profiler says that something failed, when a counter is missing, in another unit or no number, and when no kernel was
/// profiled.
pub fn read(log: &str) -> Result<Vec<CountedLaunch>, String> {
    if log.contains(NO_PERMISSION.0) {
        return Err(NO_PERMISSION.1.to_owned());
    }
    if let Some(error) = log.lines().find_map(|line| line.strip_prefix("==ERROR==")) {
        return Err(format!("the profiler says: {}", error.trim()));
    }
    let table: String = log.lines().filter(|line| !line.starts_with("==")).flat_map(|line| [line, "\n"]).collect();
    launches(&table)
}

/// A line: one counter of one launch.
#[derive(Deserialize)]
struct Row {
    #[serde(rename = "ID")]
    id: String,
    #[serde(rename = "Kernel Name")]
    symbol: String,
    #[serde(rename = "Block Size")]
    block: String,
    #[serde(rename = "Grid Size")]
    grid: String,
    #[serde(rename = "Metric Name")]
    metric: String,
    #[serde(rename = "Metric Unit")]
    unit: String,
    #[serde(rename = "Metric Value")]
    value: String,
}

fn launches(table: &str) -> Result<Vec<CountedLaunch>, String> {
    // The reader refuses records of another length than the header's.
    let mut reader = csv::Reader::from_reader(table.as_bytes());
    let rows: Result<Vec<Row>, csv::Error> = reader.deserialize().take(MOST_LINES + 1).collect();
    let rows = rows.map_err(|error| error.to_string())?;
    if rows.is_empty() {
        return Err("no kernel was profiled".to_owned());
    }
    if rows.len() > MOST_LINES {
        return Err(format!("more than {MOST_LINES} lines"));
    }
    let of = |row: &Row| [&row.id, &row.symbol, &row.block, &row.grid].map(String::clone);
    let launches: Vec<&[Row]> = rows.chunk_by(|a, b| of(a) == of(b)).collect();
    let ids: BTreeSet<&String> = launches.iter().map(|rows| &rows[0].id).collect();
    if ids.len() < launches.len() {
        return Err("two launches have one number".to_owned());
    }
    launches.into_iter().map(launch).collect()
}

fn launch(rows: &[Row]) -> Result<CountedLaunch, String> {
    let Row { id, symbol, block, grid, .. } = &rows[0];
    let mut values = BTreeMap::new();
    for Row { metric, unit, value, .. } in rows {
        if values.insert(metric.as_str(), (unit, value)).is_some() {
            return Err(format!("{metric} comes twice for launch {id}"));
        }
    }
    let counter = |name: &str, wanted: &str| {
        let (unit, value) = values.get(name).ok_or_else(|| format!("{name} is missing for {symbol}"))?;
        if *unit != wanted {
            return Err(format!("{name} comes in {unit:?} and not in {wanted:?}"));
        }
        number(value).ok_or_else(|| unread(name, value))
    };
    let [registers, local_loads, local_stores] = READ.map(|(name, unit)| counter(name, unit));
    let fits = RESOURCES.iter().map(|name| Ok(((*name).to_owned(), counter(&format!("{FIT}{name}"), "block")?)));
    Ok(CountedLaunch {
        symbol: symbol.clone(),
        grid: product(grid).ok_or_else(|| unread("the grid", grid))?,
        block: product(block).ok_or_else(|| unread("the block", block))?,
        registers: registers?,
        fits: fits.collect::<Result<_, String>>()?,
        local_loads: local_loads?,
        local_stores: local_stores?,
    })
}

fn unread(name: &str, text: &str) -> String {
    format!("{name} is no number: {:?}", words::text::quoted(text, 40))
}

/// A whole number, with or without commas between its thousands; nothing where they stand elsewhere, as where a comma is decimal.
fn number(text: &str) -> Option<u64> {
    let mut groups = text.rsplit(',');
    let first = groups.next_back().filter(|first| !text.contains(',') || first.len() <= 3);
    let grouped = first.is_some_and(|first| !first.is_empty()) && groups.all(|group| group.len() == 3);
    let digits = text.replace(',', "");
    (grouped && digits.bytes().all(|byte| byte.is_ascii_digit())).then(|| digits.parse().ok())?
}

/// `(128, 1, 1)` as 128.
fn product(text: &str) -> Option<u64> {
    let inner = text.strip_prefix('(')?.strip_suffix(')')?;
    let mut parts = inner.split(", ").map(|part| part.parse::<u64>().ok());
    let (x, y, z) = (parts.next()??, parts.next()??, parts.next()??);
    parts.next().is_none().then(|| x.checked_mul(y)?.checked_mul(z))?
}

/// Where counters and the build's records say different things of a kernel, and where a kernel touches local memory.
///
/// Shared memory that a launch adds lowers how many blocks fit, and no record knows it; every other resource is compared.
#[must_use]
pub fn contradictions(report: &CounterReport, kernels: &[&Kernel]) -> Vec<String> {
    let mut reasons = BTreeSet::new();
    for launch in report.programs.iter().flat_map(|program| &program.launches) {
        let symbol = &launch.symbol;
        let Some(kernel) = kernels.iter().find(|kernel| kernel.symbol == *symbol) else {
            reasons.insert(format!("{symbol} was counted and is not in the build record"));
            continue;
        };
        let (registers, fewest) = (u64::from(kernel.registers), u64::from(kernel.blocks_per_sm));
        if launch.registers != registers {
            reasons.insert(format!("{symbol} ran with {} registers; its cubin says {registers}", launch.registers));
        }
        for (resource, fits) in launch.fits.iter().filter(|(resource, _)| *resource != "shared_mem") {
            if *fits < fewest {
                reasons.insert(format!("{symbol}: {fits} blocks fit on an SM by {resource}; its record says {fewest}"));
            }
        }
        if launch.local_loads + launch.local_stores > 0 {
            let (loads, stores) = (launch.local_loads, launch.local_stores);
            reasons.insert(format!("{symbol} used local memory: {loads} loads and {stores} stores of warps"));
        }
    }
    reasons.into_iter().collect()
}

/// What of a report does not follow from the logs beside it. `log` gives a log by its name; absent where it is not what it was.
pub fn faults(report: &CounterReport, mut log: impl FnMut(&str) -> Option<String>) -> Vec<String> {
    let mut faults = Vec::new();
    let counted = report.programs.iter().any(|program| program.not_counted.is_none());
    if counted == report.unreadable.is_some() {
        faults.push("counters are both read and unreadable, or neither".to_owned());
    }
    for program in &report.programs {
        let name = &program.program;
        if program.not_counted.is_some() {
            if !program.launches.is_empty() {
                faults.push(format!("{name}: not counted, and yet there are counts"));
            }
            continue;
        }
        let text = program.log.as_ref().and_then(|beside| log(&beside.file));
        match text.map(|text| read(&text)) {
            None => faults.push(format!("{name}: its log is absent or changed")),
            Some(Ok(launches)) if launches == program.launches => {}
            Some(_) => faults.push(format!("{name}: the counts are not those of its log")),
        }
    }
    faults
}
