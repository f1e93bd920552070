//! The harness: flags to plan to launches to records to exit code. Progress goes to stdout as JSON lines, words to stderr.
//!
//! It is called by xtask, with absolute paths. It starts no other program and reaches no network.

use clap::{Args, Parser, Subcommand};
use harness::device::cuda::missing_symbols_are_errors;
use harness::failure::{code_of, fail};
use harness::hold;
use harness::open::{Opened, open};
use harness::run::{FrozenPlan, Request, run};
use harness::sanitize::{programs, sanitize};
use harness::session::Session;
use schema::ExitCode;
use schema::progress::Progress;
use std::io::Write;
use std::path::PathBuf;
use std::time::Instant;

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
    /// Run every cell of a plan that is not complete yet
    Run(RunFlags),
    /// Keep the device busy while the clocks are watched
    Burn {
        #[command(flatten)]
        device: DeviceFlags,
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
    /// Print the programs' names and do nothing
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
        Command::Device(device) => Session::begin(device.open()?.device(), &mut print).map(drop),
        Command::Run(flags) => run_plan(&flags),
        Command::Burn { device, seconds } => burn(&device, seconds),
        Command::Sanitize(flags) => run_sanitize(flags),
    }
}

impl DeviceFlags {
    fn open(&self) -> anyhow::Result<Opened> {
        open(&self.device, self.cubins.as_deref(), &self.flavor)
    }
}

/// One JSON line on stdout. A client that has gone away ends the run.
fn print(progress: &Progress) -> anyhow::Result<()> {
    let mut stdout = std::io::stdout().lock();
    serde_json::to_writer(&mut stdout, progress)?;
    stdout.write_all(b"\n")?;
    Ok(stdout.flush()?)
}

fn run_plan(flags: &RunFlags) -> anyhow::Result<()> {
    let frozen = FrozenPlan::load(&flags.plan)?;
    let mut opened = flags.device.open()?;
    let request = Request {
        frozen: &frozen,
        run_dir: &flags.out,
        nonce: &flags.nonce,
        stop_after: flags.stop_after_cell.as_deref(),
    };
    run(opened.device(), &request, &mut print)
}

fn burn(flags: &DeviceFlags, seconds: f64) -> anyhow::Result<()> {
    /// Progress comes this often.
    const SLICE_S: f64 = 0.25;
    if !(0.0..=3600.0).contains(&seconds) {
        return Err(fail(ExitCode::Usage, format!("--seconds {seconds} is not between 0 and 3600")));
    }
    let mut opened = flags.open()?;
    let mut say = print;
    let mut session = Session::begin(opened.device(), &mut say)?;
    let begin = Instant::now();
    while begin.elapsed().as_secs_f64() < seconds {
        let clock_mhz = session.burn(SLICE_S.min(seconds))?;
        session.say(&Progress::Burn { seconds: begin.elapsed().as_secs_f64(), clock_mhz })?;
    }
    Ok(())
}

fn run_sanitize(flags: SanitizeFlags) -> anyhow::Result<()> {
    let plan = FrozenPlan::load(&flags.plan)?.plan;
    let (Some(program), Some(device), Some(nonce)) = (flags.program, flags.device, flags.nonce) else {
        let mut stdout = std::io::stdout().lock();
        return Ok(programs(&plan).iter().try_for_each(|program| writeln!(stdout, "{}", program.name()))?);
    };
    let mut opened = open(&device, flags.cubins.as_deref(), &flags.flavor)?;
    sanitize(&mut opened, &plan, &program, &nonce, &mut print)
}
