//! The harness: reads its flags and a plan, has the experiment measure, writes records, and ends with the documented
//! exit code. Progress goes to stdout as JSON lines, text for people to stderr.
//!
//! It is called by xtask, with absolute paths. It starts no other program and reaches no network.

mod registry;

use clap::{Args, Parser, Subcommand};
use harness_core::burn::{burn, check_seconds};
use harness_core::experiment::{Bench, Experiment, open};
use harness_core::failure::code_of;
use harness_core::gpu::missing_symbols_are_errors;
use harness_core::hold;
use harness_core::run::{FrozenPlan, Request, describe, run};
use harness_core::sanitize::sanitize;
use harness_core::target::Target;
use schema::progress::Progress;
use std::io::Write;
use std::path::PathBuf;

/// Runs kernels and writes raw events; nothing else.
#[derive(Parser)]
#[command(name = "harness", version)]
struct Flags {
    /// Exit when stdin ends, so that a killed client leaves no orphan
    #[arg(long, global = true)]
    hold: bool,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Say what the device is
    Device(DeviceFlags),
    /// Print what a run of a plan on this device must contain, and measure nothing
    Describe {
        #[command(flatten)]
        device: DeviceFlags,
        /// The frozen plan
        #[arg(long)]
        plan: PathBuf,
    },
    /// Run every cell of a plan that is not complete yet
    Run(RunFlags),
    /// Keep the device busy with the kernels of a plan's experiment while the clocks are watched
    Burn {
        #[command(flatten)]
        device: DeviceFlags,
        /// The frozen plan
        #[arg(long)]
        plan: PathBuf,
        /// For how long
        #[arg(long)]
        seconds: f64,
    },
    /// Run one small program for compute-sanitizer
    Sanitize(SanitizeFlags),
}

#[derive(Args)]
struct DeviceFlags {
    /// emulated, cuda:N or cuda:GPU-<uuid>
    #[arg(long)]
    device: String,
    /// Folder of cubins; a GPU needs it
    #[arg(long)]
    cubins: Option<PathBuf>,
    /// measure or lineinfo
    #[arg(long, default_value = "measure", value_parser = ["measure", "lineinfo"])]
    flavor: String,
}

#[derive(Args)]
struct RunFlags {
    #[command(flatten)]
    device: DeviceFlags,
    /// The frozen plan
    #[arg(long)]
    plan: PathBuf,
    /// The run directory
    #[arg(long)]
    out: PathBuf,
    /// Comes back in the end marker
    #[arg(long)]
    nonce: String,
    /// Stop once this cell is complete
    #[arg(long)]
    stop_after_cell: Option<String>,
}

#[derive(Args)]
struct SanitizeFlags {
    /// The frozen plan that the programs must cover
    #[arg(long)]
    plan: PathBuf,
    /// Print each program's name and the sites that it must pass, and do nothing
    #[arg(long, conflicts_with_all = ["program", "device", "nonce"])]
    list: bool,
    /// A program's name, or a control's symbol
    #[arg(long, required_unless_present = "list")]
    program: Option<String>,
    /// emulated, cuda:N or cuda:GPU-<uuid>
    #[arg(long, required_unless_present = "list")]
    device: Option<String>,
    /// Folder of cubins; a GPU needs it
    #[arg(long)]
    cubins: Option<PathBuf>,
    /// measure or lineinfo
    #[arg(long, default_value = "lineinfo", value_parser = ["measure", "lineinfo"])]
    flavor: String,
    /// Comes back in the end marker
    #[arg(long, required_unless_present = "list")]
    nonce: Option<String>,
}

fn main() {
    let flags = Flags::parse();
    missing_symbols_are_errors();
    if let Err(error) = dispatch(flags) {
        eprintln!("error: {error:#}");
        std::process::exit(code_of(&error).status());
    }
}

fn dispatch(flags: Flags) -> anyhow::Result<()> {
    hold::exit_on_signals()?;
    if flags.hold {
        hold::exit_with_client();
    }
    match flags.command {
        Command::Device(device) => print(&Progress::Device(device.target()?.facts())),
        Command::Describe { device, plan } => {
            let plan = FrozenPlan::load(&plan)?.plan;
            let experiment = registry::find(&plan)?;
            print(&describe(experiment, &plan, &*device.bench(experiment)?)?)
        }
        Command::Run(flags) => run_plan(&flags),
        Command::Burn { device, plan, seconds } => {
            check_seconds(seconds)?;
            let experiment = registry::find(&FrozenPlan::load(&plan)?.plan)?;
            burn(&mut *device.bench(experiment)?, seconds, &mut print::<Progress>)
        }
        Command::Sanitize(flags) => run_sanitize(flags),
    }
}

impl DeviceFlags {
    /// The device alone, with the cubins that every experiment shares.
    fn target(&self) -> anyhow::Result<Target> {
        Target::open(&self.device, self.cubins.as_deref(), &self.flavor, &[])
    }

    fn bench(&self, experiment: &dyn Experiment) -> anyhow::Result<Box<dyn Bench>> {
        open(experiment, &self.device, self.cubins.as_deref(), &self.flavor)
    }
}

/// One JSON line on stdout. A client that has gone away ends the run.
fn print<T: serde::Serialize>(progress: &T) -> anyhow::Result<()> {
    let mut stdout = std::io::stdout().lock();
    serde_json::to_writer(&mut stdout, progress)?;
    stdout.write_all(b"\n")?;
    Ok(stdout.flush()?)
}

fn run_plan(flags: &RunFlags) -> anyhow::Result<()> {
    let frozen = FrozenPlan::load(&flags.plan)?;
    let experiment = registry::find(&frozen.plan)?;
    let mut bench = flags.device.bench(experiment)?;
    let request = Request {
        frozen: &frozen,
        run_dir: &flags.out,
        nonce: &flags.nonce,
        stop_after: flags.stop_after_cell.as_deref(),
    };
    run(experiment, &mut *bench, &request, &mut print::<Progress>)
}

fn run_sanitize(flags: SanitizeFlags) -> anyhow::Result<()> {
    let plan = FrozenPlan::load(&flags.plan)?.plan;
    let experiment = registry::find(&plan)?;
    let (Some(program), Some(device), Some(nonce)) = (flags.program, flags.device, flags.nonce) else {
        let mut stdout = std::io::stdout().lock();
        return Ok(experiment.programs(&plan)?.iter().try_for_each(|program| {
            let words = [std::slice::from_ref(&program.name), program.sites.as_slice()].concat();
            writeln!(stdout, "{}", words.join(" "))
        })?);
    };
    let mut bench = open(experiment, &device, flags.cubins.as_deref(), &flags.flavor)?;
    sanitize(experiment, &mut *bench, &plan, &program, &nonce, &mut print::<Progress>)
}
