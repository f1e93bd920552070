//! The flags of the command line and their help texts. `main.rs` dispatches them; `path/reproduce.rs` is the path.

pub mod notebook;

pub use crate::path::ask::Reproduce;
pub use provision::cli::{Probe, Where};

use crate::steps::clocks::hold::HoldArgs;
use clap::{Args, Parser, Subcommand};
use std::path::PathBuf;

/// Runs GPU experiments so that their numbers can be trusted, and refuses to publish them when they cannot.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask", version, arg_required_else_help = true)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
    /// Print one JSON object on stdout and nothing else there.
    #[arg(long, global = true)]
    pub json: bool,
    /// Say only what went wrong.
    #[arg(long, global = true)]
    pub quiet: bool,
}

/// The commands, in the order of the path.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// The whole path: provision, build, sanitize, clocks, run, seal, gate. Never publishes.
    Reproduce(Reproduce),
    /// What this machine has and lacks, and what to type.
    Doctor(Where),
    /// Experiments, their phases, cells and claims.
    List,
    /// Fetch and check the toolkit; make the container image.
    Provision(Provision),
    /// Build every kernel and the harness; enforce the budgets.
    Build(BuildOnly),
    /// Run the kernels under compute-sanitizer, planted faults first.
    Sanitize(Reproduce),
    /// Measure: the path up to the sealed manifest, without judging it.
    Run(Reproduce),
    /// Remove builds, toolkits and images that this checkout made; run directories stay.
    Clean,
    /// Re-hash, re-parse, recompute and re-judge, offline.
    Verify(Verify),
    /// Two runs: REPRODUCED, SHIFTED or AMBIGUOUS, with effect and interval, and what differs in how they were made.
    Compare(Compare),
    /// Judge a run again and, when every gate passes, publish it. Where the tracked tree would exceed 16 MiB, the events of
    /// superseded runs leave it and stay in git history.
    Publish(Publish),
    /// Every published number: current, carried over, stale or retracted, and why.
    Status(Where),
    /// Append an entry to NOTEBOOK.md.
    #[command(subcommand)]
    Notebook(notebook::Notebook),
    /// The GPU's clocks.
    #[command(subcommand)]
    Clocks(Clocks),
    /// Ask the GPU's libraries in a process of its own (the child of doctor and of a run).
    #[command(subcommand, hide = true)]
    Probe(Probe),
    /// Make one archive that runs on a GPU box without Rust, network or this repository.
    Bundle(Build),
    /// Split a run directory into verified parts of at most 15 MiB.
    Pack(Pack),
    /// Put a packed run back together and verify it before anyone releases the box.
    Unpack(Unpack),
    /// Every test of the project.
    Test,
    /// Check the repository itself: layout, kernels, Markdown, what is tracked.
    Tidy(Tidy),
    /// What CI runs: format, lint, test, all architectures, the emulated path in the container and on the host.
    Ci,
}

/// Flags of `provision`.
#[derive(Clone, Debug, Args)]
pub struct Provision {
    /// Where programs will run.
    #[command(flatten)]
    pub place: Where,
    /// Make the local air-gapped base image from Debian packages and this machine's Rust, then stop.
    #[arg(long)]
    pub make_base: bool,
}

/// Flags of `build` alone.
#[derive(Clone, Debug, Args)]
pub struct BuildOnly {
    /// What is built, and where.
    #[command(flatten)]
    pub build: Build,
    /// Compile a second time and report for each cubin whether its bytes are the same.
    #[arg(long)]
    pub twice: bool,
}

/// Flags of `build` and `bundle`.
#[derive(Clone, Debug, Args)]
pub struct Build {
    /// Where programs run.
    #[command(flatten)]
    pub place: Where,
    /// Architectures; the GPU's own, or sm_90 without one, unless given.
    #[arg(long = "arch", value_name = "ARCH")]
    pub archs: Vec<String>,
}

/// Flags of `verify`.
#[derive(Clone, Debug, Args)]
pub struct Verify {
    /// Run ids, run directories or manifests; everything published unless given.
    pub targets: Vec<String>,
    /// Hash again what this inventory (lines of sha256sum) lists as kept elsewhere, and nothing else.
    #[arg(long, value_name = "FILE", conflicts_with = "targets")]
    pub inventory: Option<PathBuf>,
    /// Where the inventory's artifacts lie; beside it unless given.
    #[arg(long, value_name = "DIR", requires = "inventory")]
    pub root: Option<PathBuf>,
    /// Every run must be signed by a key of this list, which is yours (man ssh-keygen, ALLOWED SIGNERS).
    #[arg(long, value_name = "FILE")]
    pub allowed_signers: Option<PathBuf>,
    /// Judge runs under older rules too: each by the program of the commit that published it, which is built for that.
    #[arg(long, conflicts_with = "inventory")]
    pub as_published: bool,
}

/// Flags of `compare`.
#[derive(Clone, Debug, Args)]
pub struct Compare {
    /// The run to compare with: an id, a run directory or a manifest. Its plan's bands decide.
    pub a: String,
    /// The run that is compared.
    pub b: String,
}

/// Flags of `publish`.
#[derive(Clone, Debug, Args)]
pub struct Publish {
    /// The run.
    pub run: String,
    /// Sign the manifest with this ssh key: its file, or `key::` and a public key that ssh-agent holds the other half of. By
    /// default the one that git signs with, if it does.
    #[arg(long, value_name = "KEY")]
    pub sign: Option<String>,
    /// Publish without a signature, also where git signs with ssh.
    #[arg(long, conflicts_with = "sign")]
    pub unsigned: bool,
}

/// Flags of `clocks`.
#[derive(Clone, Debug, Subcommand)]
pub enum Clocks {
    /// What the GPU's clocks are now.
    Status,
    /// Lock them, prove it under load, and hold until interrupted.
    Lock {
        /// The SM clock in MHz; the highest that holds unless given.
        #[arg(long)]
        mhz: Option<u32>,
        /// Where the load runs.
        #[command(flatten)]
        place: Where,
    },
    /// Put back what a lease remembers.
    Restore,
    /// Lock, hold while standard input is open, and restore at its end (the privileged child of a run).
    #[command(hide = true)]
    Hold(HoldArgs),
}

/// Flags of `tidy`.
#[derive(Clone, Debug, Args)]
pub struct Tidy {
    /// First write what the regions and references of the Markdown files resolve to.
    #[arg(long)]
    pub write: bool,
}

/// Flags of `pack`.
#[derive(Clone, Debug, Args)]
pub struct Pack {
    /// The run.
    pub run: String,
    /// Where its parts go.
    pub dir: PathBuf,
}

/// Flags of `unpack`.
#[derive(Clone, Debug, Args)]
pub struct Unpack {
    /// Where the parts lie.
    pub dir: PathBuf,
}
