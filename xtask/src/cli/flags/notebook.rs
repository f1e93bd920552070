//! The words of `notebook`: one command a kind of entry, each with what that kind needs.

use clap::{Args, Subcommand};
use std::path::PathBuf;

/// Entries of the notebook. Each is appended under the next free id of its kind; none is ever changed.
#[derive(Clone, Debug, Subcommand)]
pub enum Notebook {
    /// A prediction, before its run.
    Predict(Predict),
    /// What came of a run, in values taken from the run itself.
    Outcome(Outcome),
    /// Something that went wrong.
    Fault(Fault),
    /// Withdraw a run, one metric of it, an entry or a cited number; it stays visible, struck out, with what rests on it.
    Retract(Retract),
    /// Correct an earlier entry, which stays as it is.
    Amend(Amend),
    /// Authorize phases that require it, or turn them down.
    Authorize(Authorize),
    /// Close work, with what reopens it.
    Close(Close),
    /// Record provenance that is missing; what needs it is blocked.
    Missing(Missing),
    /// Keep a published run's numbers although sources have changed, when its kernels have not.
    CarryOver(CarryOver),
}

/// What every entry says.
#[derive(Clone, Debug, Args)]
pub struct Said {
    /// Its heading.
    #[arg(long)]
    pub title: String,
    /// Its prose; `-` reads standard input.
    #[arg(long)]
    pub text: String,
}

/// Flags of `notebook predict`.
#[derive(Clone, Debug, Args)]
pub struct Predict {
    /// Title and prose.
    #[command(flatten)]
    pub said: Said,
    /// Claims it predicts.
    #[arg(long = "claim", value_name = "ID")]
    pub claims: Vec<String>,
    /// Projected values.
    #[arg(long = "value", value_name = "NAME=DECIMAL")]
    pub values: Vec<String>,
    /// It was filed after a look at such data.
    #[arg(long)]
    pub informed: bool,
}

/// Flags of `notebook outcome`.
#[derive(Clone, Debug, Args)]
pub struct Outcome {
    /// Title and prose.
    #[command(flatten)]
    pub said: Said,
    /// The run, published or in results/raw/; it is verified first.
    #[arg(long)]
    pub run: String,
    /// Only these of its claims.
    #[arg(long = "claim", value_name = "ID")]
    pub claims: Vec<String>,
    /// Values of its summary to tell as well.
    #[arg(long = "metric", value_name = "METRIC@PHASE/CELL")]
    pub metrics: Vec<String>,
}

/// Flags of `notebook fault`.
#[derive(Clone, Debug, Args)]
pub struct Fault {
    /// Title and prose.
    #[command(flatten)]
    pub said: Said,
    /// The run in which it showed.
    #[arg(long)]
    pub run: Option<String>,
    /// The entry it concerns.
    #[arg(long, value_name = "ID")]
    pub about: Option<String>,
    /// Claims it concerns.
    #[arg(long = "claim", value_name = "ID")]
    pub claims: Vec<String>,
}

/// Flags of `notebook retract`.
#[derive(Clone, Debug, Args)]
pub struct Retract {
    /// Title and prose.
    #[command(flatten)]
    pub said: Said,
    /// Why, in one line; it stands beside the struck number wherever that is shown.
    #[arg(long)]
    pub reason: String,
    /// What is withdrawn.
    #[command(flatten)]
    pub what: Withdrawn,
    /// The one metric of the run that is withdrawn; all of the run unless given.
    #[arg(long, value_name = "METRIC@PHASE/CELL", requires = "run")]
    pub metric: Option<String>,
    /// Where the cited number is reported.
    #[arg(long, requires = "cited")]
    pub source: Option<String>,
}

/// The one thing that a retraction withdraws.
#[derive(Clone, Debug, Args)]
#[group(required = true, multiple = false)]
pub struct Withdrawn {
    /// A run.
    #[arg(long)]
    pub run: Option<String>,
    /// An entry.
    #[arg(long, value_name = "ID")]
    pub about: Option<String>,
    /// A number that is none of ours, e.g. `16.631 ms`.
    #[arg(long, value_name = "DECIMAL UNIT", requires = "source")]
    pub cited: Option<String>,
}

/// Flags of `notebook amend`.
#[derive(Clone, Debug, Args)]
pub struct Amend {
    /// Title and prose.
    #[command(flatten)]
    pub said: Said,
    /// The entry it corrects.
    #[arg(long, value_name = "ID")]
    pub about: String,
    /// Claims it concerns.
    #[arg(long = "claim", value_name = "ID")]
    pub claims: Vec<String>,
}

/// Flags of `notebook authorize`.
#[derive(Clone, Debug, Args)]
pub struct Authorize {
    /// Title and prose.
    #[command(flatten)]
    pub said: Said,
    /// The phases it speaks of.
    #[arg(long = "phase", value_name = "EXPERIMENT/PHASE", required = true)]
    pub phases: Vec<String>,
    /// Turn them down instead.
    #[arg(long)]
    pub reject: bool,
}

/// Flags of `notebook close`: one piece of work, or a table of them.
#[derive(Clone, Debug, Args)]
pub struct Close {
    /// A TOML table of closed work; one entry a row.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["topic", "evidence", "reason", "preserve", "reopens_when", "text"])]
    pub table: Option<PathBuf>,
    /// The work: an experiment, EXPERIMENT/PHASE, or a name that a plan gives its work.
    #[arg(long, required_unless_present = "table")]
    pub topic: Option<String>,
    /// What was seen, or where the evidence is kept or told.
    #[arg(long, required_unless_present = "table")]
    pub evidence: Option<String>,
    /// Why it is closed.
    #[arg(long, required_unless_present = "table")]
    pub reason: Option<String>,
    /// What is kept of it, and what must not be claimed.
    #[arg(long, value_name = "RULE", required_unless_present = "table")]
    pub preserve: Option<String>,
    /// What would reopen it.
    #[arg(long, value_name = "RULE", required_unless_present = "table")]
    pub reopens_when: Option<String>,
    /// The entry's prose; `-` reads standard input.
    #[arg(long, required_unless_present = "table")]
    pub text: Option<String>,
}

/// Flags of `notebook missing`.
#[derive(Clone, Debug, Args)]
pub struct Missing {
    /// Title and prose.
    #[command(flatten)]
    pub said: Said,
    /// The name by which plans (`needs` of a phase) and claims (`needs`) need it.
    #[arg(long, value_name = "NAME")]
    pub item: String,
    /// The run whose provenance it is; it is not published.
    #[arg(long)]
    pub run: Option<String>,
    /// Claims it concerns.
    #[arg(long = "claim", value_name = "ID")]
    pub claims: Vec<String>,
}

/// Flags of `notebook carry-over`.
#[derive(Clone, Debug, Args)]
pub struct CarryOver {
    /// Title and prose.
    #[command(flatten)]
    pub said: Said,
    /// The published run.
    #[arg(long)]
    pub run: String,
    /// Why its numbers still stand, in one line.
    #[arg(long)]
    pub reason: String,
}
