//! The options that a person can give the path, as the command line parses them.

use crate::steps::clocks::Mode;
use clap::{Args, ValueEnum};
use provision::cli::Where;
use schema::plan::ProfileName;

/// The size of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ProfileChoice {
    /// Seconds; never claims a p99.
    Smoke,
    /// Enough to see that everything works.
    Quick,
    /// What is published.
    Full,
}

impl ProfileChoice {
    /// Its name in a plan.
    #[must_use]
    pub fn name(self) -> ProfileName {
        match self {
            Self::Smoke => ProfileName::Smoke,
            Self::Quick => ProfileName::Quick,
            Self::Full => ProfileName::Full,
        }
    }
}

/// What happens to the clocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ClockChoice {
    /// Lock them for the run and restore them.
    Lock,
    /// Change nothing and only watch them.
    Observe,
}

/// Flags of the path.
#[derive(Clone, Debug, Args)]
pub struct Reproduce {
    /// The experiment.
    #[arg(default_value = "preempt")]
    pub experiment: String,
    /// The size; full on a GPU, smoke on the emulated device unless given.
    #[arg(long, value_enum)]
    pub profile: Option<ProfileChoice>,
    /// Only these phases (`instrument` always runs; one of them must plant a wrong element for the oracle).
    #[arg(long = "phase", value_name = "P")]
    pub phases: Vec<String>,
    /// Where programs run.
    #[command(flatten)]
    pub place: Where,
    /// `auto`, `cuda:N` or `emulated`.
    #[arg(long, default_value = "auto")]
    pub device: String,
    /// What happens to the clocks.
    #[arg(long, value_enum, default_value = "lock")]
    pub clocks: ClockChoice,
    /// The SM clock to lock, in MHz; the highest that holds unless given.
    #[arg(long, value_name = "MHZ")]
    pub clock_mhz: Option<u32>,
    /// Keep what hardware counters say of each kernel (Nsight Compute, if this machine has it) beside the static budgets.
    #[arg(long)]
    pub counters: bool,
    /// Resume this run.
    #[arg(long, value_name = "RUN", conflicts_with = "fresh")]
    pub resume: Option<String>,
    /// Start a new run even if an equal one is there.
    #[arg(long)]
    pub fresh: bool,
    /// Take up closed work again, by the entry that closed it; each needs a --changed.
    #[arg(long = "reopen", value_name = "ID", requires = "changed")]
    pub reopen: Vec<String>,
    /// The condition that has changed since the work of the --reopen at the same place was closed; the run records it.
    #[arg(long, value_name = "CONDITION", requires = "reopen")]
    pub changed: Vec<String>,
    /// Show steps, minutes and disk, and do nothing.
    #[arg(long)]
    pub dry_run: bool,
}

impl Reproduce {
    /// What happens to the clocks.
    pub fn mode(&self) -> Mode {
        match self.clocks {
            ClockChoice::Lock => Mode::Lock { mhz: self.clock_mhz },
            ClockChoice::Observe => Mode::Observe,
        }
    }
}
