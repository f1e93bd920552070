//! What Nsight Compute wrote about a program, read strictly, and whether it agrees with the build's own records.
//!
//! Only the long form is read: one line per launch and counter, in CSV. What it does not do: run the profiler, or judge speed.

#[cfg(test)]
mod tests;

use schema::build::Kernel;
use schema::counters::{CountedLaunch, CounterReport};
use std::collections::{BTreeMap, BTreeSet};

/// What of a metric's name stands for a reason to wait.
const STALL: (&str, &str) = ("smsp__average_warps_issue_stalled_", "_per_issue_active.ratio");
const FIT: &str = "launch__occupancy_limit_";
const REGISTERS: &str = "launch__registers_per_thread";
const POSSIBLE: &str = "sm__maximum_warps_per_active_cycle_pct";
const ACHIEVED: &str = "sm__warps_active.avg.pct_of_peak_sustained_active";
const INSTRUCTIONS: &str = "smsp__inst_executed.sum";
const LOCAL_LOADS: &str = "smsp__inst_executed_op_local_ld.sum";
const LOCAL_STORES: &str = "smsp__inst_executed_op_local_st.sum";
const LOCAL_LOAD_BYTES: &str = "l1tex__t_bytes_pipe_lsu_mem_local_op_ld.sum";
const LOCAL_STORE_BYTES: &str = "l1tex__t_bytes_pipe_lsu_mem_local_op_st.sum";
/// Resources of an SM that bound how many blocks it holds.
const RESOURCES: [&str; 5] = ["barriers", "blocks", "registers", "shared_mem", "warps"];
/// Reasons of a warp not to issue; `selected` is the one that does.
const REASONS: [&str; 18] = [
    "barrier",
    "branch_resolving",
    "dispatch_stall",
    "drain",
    "imc_miss",
    "lg_throttle",
    "long_scoreboard",
    "math_pipe_throttle",
    "membar",
    "mio_throttle",
    "misc",
    "no_instruction",
    "not_selected",
    "selected",
    "short_scoreboard",
    "sleeping",
    "tex_throttle",
    "wait",
];
/// What Nsight Compute says where the driver keeps counters to administrators.
const NO_PERMISSION: &str = "ERR_NVGPUCTRPERM";
/// The columns that are read.
const COLUMNS: [&str; 7] =
    ["ID", "Kernel Name", "Block Size", "Grid Size", "Metric Name", "Metric Unit", "Metric Value"];
/// A log of a small program has some hundred lines.
const MOST_LINES: usize = 100_000;

/// The counters asked for, each with the unit it must come in.
#[must_use]
pub fn metrics() -> BTreeMap<String, &'static str> {
    let one = [
        (REGISTERS, "register/thread"),
        (POSSIBLE, "%"),
        (ACHIEVED, "%"),
        (INSTRUCTIONS, "inst"),
        (LOCAL_LOADS, "inst"),
        (LOCAL_STORES, "inst"),
        (LOCAL_LOAD_BYTES, "byte"),
        (LOCAL_STORE_BYTES, "byte"),
    ];
    let fits = RESOURCES.iter().map(|resource| (format!("{FIT}{resource}"), "block"));
    let stalls = REASONS.iter().map(|reason| (format!("{}{reason}{}", STALL.0, STALL.1), "inst"));
    one.into_iter().map(|(name, unit)| (name.to_owned(), unit)).chain(fits).chain(stalls).collect()
}

/// Whether a program's grid can run alone, and several times over, as a profiler has it: not where its flag is set from beside it.
#[must_use]
pub fn runs_alone(program: &str) -> bool {
    !program.ends_with("_host") && !program.ends_with("_kernel")
}

/// Why a log holds no counters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Uncounted {
    /// The driver lets only administrators read them.
    NoPermission,
    /// Anything else, in words.
    Otherwise(String),
}

/// The launches that a log tells of, in order.
///
/// # Errors
/// When the profiler says that something failed, when a counter is missing, unknown, in another unit or no number, and when no
/// kernel was profiled.
pub fn read(log: &str) -> Result<Vec<CountedLaunch>, Uncounted> {
    let otherwise = |why: String| Uncounted::Otherwise(why);
    if log.contains(NO_PERMISSION) {
        return Err(Uncounted::NoPermission);
    }
    if let Some(error) = log.lines().find_map(|line| line.strip_prefix("==ERROR==")) {
        return Err(otherwise(format!("the profiler says: {}", error.trim())));
    }
    let table: String = log.lines().filter(|line| !line.starts_with("==")).flat_map(|line| [line, "\n"]).collect();
    let rows = rows(&table).map_err(otherwise)?;
    let mut launches: Vec<(Row, BTreeMap<String, String>)> = Vec::new();
    let known = metrics();
    for row in rows {
        let unit = known.get(&row.metric).ok_or_else(|| otherwise(format!("{} was not asked for", row.metric)))?;
        if row.unit != *unit {
            return Err(otherwise(format!("{} comes in {:?} and not in {unit:?}", row.metric, row.unit)));
        }
        if launches.last().is_none_or(|(of, _)| of.launch() != row.launch()) {
            launches.push((row.clone(), BTreeMap::new()));
        }
        let (_, values) = launches.last_mut().expect("one was added");
        if values.insert(row.metric.clone(), row.value).is_some() {
            return Err(otherwise(format!("{} comes twice for launch {}", row.metric, row.id)));
        }
    }
    if launches.is_empty() {
        return Err(otherwise("no kernel was profiled".to_owned()));
    }
    let ids: BTreeSet<&str> = launches.iter().map(|(row, _)| row.id.as_str()).collect();
    if ids.len() != launches.len() {
        return Err(otherwise("two launches have one number".to_owned()));
    }
    launches.iter().map(|(row, values)| launch(row, values)).collect::<Result<_, _>>().map_err(otherwise)
}

/// One line: a counter of a launch.
#[derive(Clone)]
struct Row {
    id: String,
    symbol: String,
    block: String,
    grid: String,
    metric: String,
    unit: String,
    value: String,
}

impl Row {
    fn launch(&self) -> [&str; 4] {
        [&self.id, &self.symbol, &self.block, &self.grid]
    }
}

fn rows(table: &str) -> Result<Vec<Row>, String> {
    let mut reader = csv::Reader::from_reader(table.as_bytes());
    let header = reader.headers().map_err(|error| error.to_string())?.clone();
    if header.is_empty() {
        return Err("no kernel was profiled".to_owned());
    }
    let mut places = [0; COLUMNS.len()];
    for (place, name) in places.iter_mut().zip(COLUMNS) {
        *place =
            header.iter().position(|column| column == name).ok_or_else(|| format!("there is no column {name:?}"))?;
    }
    let mut rows = Vec::new();
    for record in reader.records().take(MOST_LINES + 1) {
        let record = record.map_err(|error| error.to_string())?;
        // The reader refuses records of another length than the header's.
        let [id, symbol, block, grid, metric, unit, value] = places.map(|place| record[place].to_owned());
        rows.push(Row { id, symbol, block, grid, metric, unit, value });
    }
    if rows.len() > MOST_LINES { Err(format!("more than {MOST_LINES} lines")) } else { Ok(rows) }
}

fn launch(row: &Row, values: &BTreeMap<String, String>) -> Result<CountedLaunch, String> {
    let text = |name: &str| values.get(name).ok_or_else(|| format!("{name} is missing for {}", row.symbol));
    let whole = |name: &str| {
        let text = text(name)?;
        number(text).and_then(|digits| digits.parse().ok()).ok_or_else(|| unread(name, text))
    };
    let share = |name: &str| {
        let text = text(name)?;
        number(text).and_then(|digits| digits.parse::<f64>().ok()).ok_or_else(|| unread(name, text))
    };
    let fits = RESOURCES.iter().map(|resource| Ok(((*resource).to_owned(), whole(&format!("{FIT}{resource}"))?)));
    let stalls = REASONS.iter().map(|reason| {
        let name = format!("{}{reason}{}", STALL.0, STALL.1);
        Ok(((*reason).to_owned(), share(&name)?))
    });
    Ok(CountedLaunch {
        symbol: row.symbol.clone(),
        grid: product(&row.grid).ok_or_else(|| unread("the grid", &row.grid))?,
        block: product(&row.block).ok_or_else(|| unread("the block", &row.block))?,
        registers: whole(REGISTERS)?,
        fits: fits.collect::<Result<_, String>>()?,
        occupancy_possible_pct: share(POSSIBLE)?,
        occupancy_achieved_pct: share(ACHIEVED)?,
        instructions: whole(INSTRUCTIONS)?,
        local_loads: whole(LOCAL_LOADS)?,
        local_stores: whole(LOCAL_STORES)?,
        local_load_bytes: whole(LOCAL_LOAD_BYTES)?,
        local_store_bytes: whole(LOCAL_STORE_BYTES)?,
        stalls: stalls.collect::<Result<_, String>>()?,
    })
}

fn unread(name: &str, text: &str) -> String {
    format!("{name} is no number: {:?}", crate::text::quoted(text, 40))
}

/// A number without the commas between its thousands; nothing where they stand elsewhere, as they do where a comma is decimal.
fn number(text: &str) -> Option<String> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, "0"));
    let digits = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    let mut groups = whole.split(',');
    let first = groups.next().filter(|first| digits(first) && (!whole.contains(',') || first.len() <= 3))?;
    let rest: Vec<&str> = groups.collect();
    let grouped = rest.iter().all(|group| digits(group) && group.len() == 3) && digits(fraction);
    grouped.then(|| {
        let fraction = if text.contains('.') { format!(".{fraction}") } else { String::new() };
        format!("{first}{}{fraction}", rest.concat())
    })
}

/// `(128, 1, 1)` as 128.
fn product(text: &str) -> Option<u64> {
    let inner = text.strip_prefix('(')?.strip_suffix(')')?;
    let mut parts = inner.split(", ").map(|part| part.parse::<u64>().ok());
    let (x, y, z) = (parts.next()??, parts.next()??, parts.next()??);
    parts.next().is_none().then(|| x.checked_mul(y)?.checked_mul(z))?
}

/// Blocks that fit on an SM by its scarcest resource.
#[must_use]
pub fn blocks_per_sm(launch: &CountedLaunch) -> u64 {
    launch.fits.values().copied().min().unwrap_or(0)
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
