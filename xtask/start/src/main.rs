//! What `cargo xtask` starts. It answers `doctor` itself, so that a machine is told what it lacks before the pipeline is
//! compiled; any other command goes to the pipeline's program, which cargo builds first and which takes this one's place.

use clap::{Parser, Subcommand};
use host::failure::fail;
use host::paths::Paths;
use host::program::{finish, guarded, root};
use provision::cli::{Probe, Where, doctor, probe};
use std::os::unix::process::CommandExt;
use std::process::Command;

/// The commands that are answered here.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask", version)]
struct Cli {
    #[command(subcommand)]
    ask: Ask,
    /// Print one JSON object on stdout and nothing else there.
    #[arg(long, global = true)]
    json: bool,
    /// Say only what went wrong.
    #[arg(long, global = true)]
    quiet: bool,
}

#[derive(Subcommand)]
enum Ask {
    /// What this machine has and lacks, and what to type.
    Doctor(Where),
    /// Ask the GPU's libraries in a process of its own (the child of doctor).
    #[command(subcommand, hide = true)]
    Probe(Probe),
}

fn main() {
    let command = std::env::args().skip(1).find(|word| !word.starts_with('-'));
    if !matches!(command.as_deref(), Some("doctor" | "probe")) {
        let asked = |flag: &str| std::env::args().any(|word| word == flag);
        finish(asked("--json"), asked("--quiet"), Err(pipeline()));
    }
    let cli = Cli::parse();
    let result = match &cli.ask {
        Ask::Doctor(place) => guarded(|| Ok(doctor(&Paths::new(root()?), place))),
        // A probe runs anywhere, and its parent reads the one line that it prints.
        Ask::Probe(what) => probe(what),
    };
    finish(cli.json, cli.quiet, result);
}

/// Becomes the pipeline's program; returns only why it cannot.
fn pipeline() -> anyhow::Error {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let workspace = concat!(env!("CARGO_MANIFEST_DIR"), "/../../Cargo.toml");
    let words = ["run", "--manifest-path", workspace, "--package", "xtask", "--"];
    let error = Command::new(&cargo).args(words).args(std::env::args_os().skip(1)).exec();
    fail(
        schema::ExitCode::Environment,
        format!("{} cannot be started: {error}", cargo.display()),
        "install Rust from rustup.rs",
    )
}
