//! `contract.json`: what a run of an experiment must contain, stated by the experiment before the run.
//!
//! A contract is data: tables with their columns, the cells of the plan with what each must show, metrics by recipe,
//! sanitizer programs, figures and the rows of the headline. The experiment's own pure code makes it (`harness
//! describe`) from the frozen plan and the device; it is frozen beside the plan and sealed with the run. Gates,
//! summary, figures, `compare` and `status` read it and know no experiment by name.
//!
//! A contract can ask for more than the floors in [`crate::plan`], never for less, and there is no expression
//! language beyond what [`Expr`] holds: an unusual rule is a new variant of [`Check`] or [`Recipe`]. Nothing here
//! judges anything.

mod check;
mod recipe;
mod validate;

pub use check::Check;
pub use recipe::{Expr, MetricAt, MetricSpec, Only, Q, Recipe, Unit};

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The file's name in a run.
pub const CONTRACT: &str = "contract.json";

/// The mode of launches whose output was spoiled on purpose.
pub const POISON_MODE: &str = "poison";

/// What a run must contain. The default one asks for nothing; it stands for runs from before there were contracts.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Contract {
    /// Format version.
    pub format: u32,
    /// The experiment's name.
    pub experiment: String,
    /// The device's residency slots by name, each with the kernel file whose residency it is, e.g. `drain_per_sm` and `drain`.
    pub slots: BTreeMap<String, String>,
    /// What the launch tables count beside what every launch records.
    pub launches: LaunchSpec,
    /// Event tables by name.
    pub tables: BTreeMap<String, TableSpec>,
    /// Every cell, in the order they run.
    pub cells: Vec<CellSpec>,
    /// Sanitizer programs that must have run.
    pub programs: Vec<ProgramSpec>,
    /// Figures, each a file below `summary/`.
    pub figures: Vec<FigureSpec>,
    /// What the headline shows.
    pub headline: Vec<HeadlineRow>,
}

/// Columns of the launch tables that the experiment adds; each holds unsigned 32-bit counts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LaunchSpec {
    /// Work asked for and work done, which must be equal launch by launch.
    pub work: Vec<Balance>,
    /// Outputs that disagree with the oracle: none may, except in launches spoiled on purpose.
    pub wrong: Vec<Tally>,
    /// The column of [`LaunchSpec::wrong`] that counts exactly one in a launch spoiled on purpose.
    pub poison: Option<String>,
    /// Work not done exactly once: none may be.
    pub once: Vec<Tally>,
    /// Anything else that must be zero.
    pub zero: Vec<Tally>,
}

/// Two columns that must be equal in each launch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Balance {
    /// How much was asked for.
    pub asked: String,
    /// How much was done. These are the outputs that the oracle checks.
    pub done: String,
    /// In plain words, e.g. `urgent tasks`.
    pub what: String,
    /// Whether launches discarded as warm-up are judged too.
    pub warmup: bool,
}

/// A column whose sum must be zero.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tally {
    /// The column.
    pub column: String,
    /// What it counts, in plain words.
    pub what: String,
    /// Whether launches discarded as warm-up are judged too.
    pub warmup: bool,
}

/// A small bounded program for compute-sanitizer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProgramSpec {
    /// Its name on the command line and in verdicts.
    pub name: String,
    /// Sites of the kernels that it must pass at least once, by name; empty where its kernels count none.
    pub sites: Vec<String>,
}

/// An event table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TableSpec {
    /// Its columns, in order.
    pub columns: Vec<ColumnSpec>,
    /// The columns that together name a row, at most three, the launch first where there is one.
    pub key: Vec<String>,
    /// Rows of single blocks that are kept beside the events, from which event columns follow.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blocks: Option<BlocksSpec>,
}

/// A column of an event table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ColumnSpec {
    /// Its name.
    pub name: String,
    /// How its values are stored.
    pub kind: Kind,
    /// What they are.
    pub role: Role,
}

/// How a column is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// Unsigned, 32 bits.
    U32,
    /// Signed, 64 bits.
    I64,
    /// Signed, 64 bits, may be absent.
    OptI64,
}

/// What the values of a column are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// A launch, event, block, SM or other number that names something.
    Index,
    /// An instant on a device timer, in nanoseconds.
    DeviceInstant,
    /// An instant on the host's monotonic clock, in nanoseconds.
    HostInstant,
    /// A duration on a device timer, in nanoseconds.
    DeviceDuration,
    /// How many of something.
    Count,
    /// Bits that say what is wrong with the event; zero means nothing. Such an event enters no quantile and is counted.
    Anomaly,
}

/// Detached rows of single blocks, one for each block that took part in an event: `launch`, `event`, `block`, `sm` and more.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BlocksSpec {
    /// All columns, in order, each unsigned with 32 bits. Instants count from the event's own, modulo 2^32.
    pub columns: Vec<String>,
    /// Event columns that follow from them.
    pub derived: Vec<Derivation>,
}

/// An event column that follows from the rows of its blocks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Derivation {
    /// The event column.
    pub event: String,
    /// How.
    pub how: Derive,
}

/// How an event column follows from a column of its blocks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Derive {
    /// The earliest.
    Min(String),
    /// The latest.
    Max(String),
    /// The latest of those after the event's own instant; absent without any.
    MaxAfter(String),
    /// How many rows there are.
    Rows,
}

/// One point of the sweep, and what it must show.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CellSpec {
    /// Its phase.
    pub phase: String,
    /// Its name: `key=value` pairs joined by commas, in plan order.
    pub name: String,
    /// Its name with the device's own numbers replaced by what they stand for (`blocks=full`), equal on every GPU.
    pub role: String,
    /// The event table it fills.
    pub table: String,
    /// Whether its launches make outputs that the oracle checks. The timer's make none.
    pub outputs: bool,
    /// Whether the oracle must be shown to catch a wrong element planted in this cell's own output.
    pub poison: bool,
    /// Seconds it takes, roughly. For progress, never for a result.
    pub estimate_s: f64,
    /// The launches it consists of.
    pub launches: Vec<LaunchKind>,
    /// A kernel that must fit beside another, in the slot that a block of it leaves.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub guest: Option<Guest>,
    /// How many samples it must have.
    pub expects: Expects,
    /// What must hold of its tables.
    pub checks: Vec<Check>,
    /// What is computed from them.
    pub metrics: Vec<MetricSpec>,
}

/// A launch that a cell's name promises.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LaunchKind {
    /// Its mode.
    pub mode: String,
    /// Blocks in its grid, where they follow from the cell.
    pub grid: Option<u32>,
    /// How the kernel's symbol ends; empty for any.
    pub symbol_end: String,
    /// The residency slot that bounds its grid; absent where nothing does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slot: Option<String>,
}

/// Two launch modes of one cell: a block of `guest` must fit where a block of `host` leaves.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Guest {
    /// The mode that leaves a slot.
    pub host: String,
    /// The mode that takes it.
    pub guest: String,
}

/// How many samples a cell must have. The floors behind tail quantiles hold whatever this says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Expects {
    /// Unique events, at least.
    pub events: u64,
    /// Launches that count, at least.
    pub launches: u64,
    /// Whether the cell stands behind a tail quantile, so that the floors of a p99 hold for it.
    pub tails: bool,
    /// Which launches may be discarded.
    pub warmup: Warmup,
}

/// Which launches may be discarded as warm-up.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Warmup {
    /// How many must be discarded before the first one that counts; absent where the cell decides.
    pub leading: Option<u32>,
    /// What may be discarded later.
    pub redraws: Redraws,
    /// Contracts under rules 2 hold this number; nothing reads it any more.
    #[serde(default, skip_serializing)]
    unit: Option<u32>,
}

/// Launches discarded since they met no event. The limits are the schema's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Redraws {
    /// None may be.
    None,
    /// An arrival that missed its launch: at most one launch in ten, or 20 of few.
    Missed,
    /// A queue that ran dry before its events were served: at most 5, since it is made twice as long each time.
    Dry,
}

impl Redraws {
    /// How many of `launches` may be discarded so.
    #[must_use]
    pub fn most(self, launches: u64) -> u64 {
        match self {
            Self::None => 0,
            Self::Missed => (launches / 10).max(20),
            Self::Dry => 5,
        }
    }
}

/// A figure.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FigureSpec {
    /// Its file below `summary/`.
    pub file: String,
    /// Title.
    pub title: String,
    /// What stands below the title, after the run's id.
    pub subtitle: String,
    /// Label of the horizontal axis.
    pub x: String,
    /// Label of the vertical axis.
    pub y: String,
    /// What is drawn.
    pub draw: Draw,
    /// Its series, one color each.
    pub series: Vec<SeriesSpec>,
}

/// What a figure draws of each cell.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Draw {
    /// The distribution function of a time, in microseconds, up to the 0.99 quantile.
    Distribution(Expr),
    /// One metric of each cell, at the series' own places, which are whole numbers.
    Metric(String),
    /// A dot an event, both in milliseconds: the first along x, the second along y.
    Cloud(Expr, Expr),
}

/// A series of a figure.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SeriesSpec {
    /// Its name in the legend.
    pub name: String,
    /// Its cells as `phase/cell`, each with its place along x where [`Draw::Metric`] draws it.
    pub cells: Vec<(String, f64)>,
    /// A metric at which a dashed vertical line is drawn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mark: Option<MetricAt>,
}

/// A row of the headline.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HeadlineRow {
    /// What the value is, in plain words.
    pub label: String,
    /// Which value.
    pub at: MetricAt,
}

impl Balance {
    /// See the fields.
    #[must_use]
    pub fn new(asked: &str, done: &str, what: &str, warmup: bool) -> Self {
        Self { asked: asked.to_owned(), done: done.to_owned(), what: what.to_owned(), warmup }
    }
}

impl Tally {
    /// See the fields.
    #[must_use]
    pub fn new(column: &str, what: &str, warmup: bool) -> Self {
        Self { column: column.to_owned(), what: what.to_owned(), warmup }
    }
}

impl ColumnSpec {
    /// See the fields.
    #[must_use]
    pub fn new(name: &str, kind: Kind, role: Role) -> Self {
        Self { name: name.to_owned(), kind, role }
    }
}

impl LaunchKind {
    /// See the fields.
    #[must_use]
    pub fn new(mode: &str, grid: Option<u32>, symbol_end: &str, slot: Option<&str>) -> Self {
        let (mode, symbol_end) = (mode.to_owned(), symbol_end.to_owned());
        Self { mode, grid, symbol_end, slot: slot.map(str::to_owned) }
    }
}

impl Warmup {
    /// See the fields.
    #[must_use]
    pub fn new(leading: Option<u32>, redraws: Redraws) -> Self {
        Self { leading, redraws, unit: None }
    }
}

impl Expects {
    /// An event a launch and nothing behind a tail quantile; the cell decides which launches are warm-up.
    #[must_use]
    pub fn launches(launches: u32) -> Self {
        let (events, launches) = (launches.into(), launches.into());
        Self { events, launches, tails: false, warmup: Warmup::new(None, Redraws::None) }
    }
}

impl CellSpec {
    /// A cell of checked launches of one kind, of one role on every GPU, into whose output a wrong element is planted too. Its
    /// rules, metrics and estimate are for the caller to add.
    #[must_use]
    pub fn checked(phase: &str, name: &str, table: &str, launch: LaunchKind, expects: Expects) -> Self {
        Self {
            phase: phase.to_owned(),
            name: name.to_owned(),
            role: name.to_owned(),
            table: table.to_owned(),
            outputs: true,
            poison: true,
            estimate_s: 0.0,
            launches: vec![launch],
            guest: None,
            expects,
            checks: Vec::new(),
            metrics: Vec::new(),
        }
    }

    /// `phase/cell`.
    #[must_use]
    pub fn id(&self) -> String {
        format!("{}/{}", self.phase, self.name)
    }
}

impl Contract {
    /// The cell of this phase and name.
    #[must_use]
    pub fn cell(&self, phase: &str, name: &str) -> Option<&CellSpec> {
        self.cells.iter().find(|cell| cell.phase == phase && cell.name == name)
    }

    /// The table that a cell fills.
    #[must_use]
    pub fn table(&self, cell: &CellSpec) -> Option<&TableSpec> {
        self.tables.get(&cell.table)
    }

    /// What is known of a metric of a cell, whichever quantile its name ends with.
    #[must_use]
    pub fn metric(&self, phase: &str, cell: &str, metric: &str) -> Option<&MetricSpec> {
        self.cell(phase, cell)?.metrics.iter().find(|spec| spec.recipe.names().iter().any(|name| name == metric))
    }

    /// The cell that measures the timer, which every experiment has.
    #[must_use]
    pub fn timer(&self) -> Option<&CellSpec> {
        self.cells.iter().find(|cell| cell.table == crate::timer::TABLE)
    }

    /// Columns of an experiment's launch tables after those that every launch has, in order.
    #[must_use]
    pub fn launch_columns(&self) -> Vec<&str> {
        let spec = &self.launches;
        let work = spec.work.iter().flat_map(|balance| [&balance.asked, &balance.done]);
        let tallies = spec.wrong.iter().chain(&spec.once).chain(&spec.zero).map(|tally| &tally.column);
        work.chain(tallies).map(String::as_str).collect()
    }
}

impl TableSpec {
    /// A table without rows of blocks.
    #[must_use]
    pub fn new(columns: Vec<ColumnSpec>, key: &[&str]) -> Self {
        Self { columns, key: key.iter().map(|name| (*name).to_owned()).collect(), blocks: None }
    }

    /// The column of anomalies; absent where events have none.
    #[must_use]
    pub fn anomaly(&self) -> Option<&str> {
        self.columns.iter().find(|column| column.role == Role::Anomaly).map(|column| column.name.as_str())
    }

    /// Whether rows belong to launches.
    #[must_use]
    pub fn by_launch(&self) -> bool {
        self.key.first().is_some_and(|key| key == "launch")
    }

    /// The column of this name.
    #[must_use]
    pub fn column(&self, name: &str) -> Option<&ColumnSpec> {
        self.columns.iter().find(|column| column.name == name)
    }
}
