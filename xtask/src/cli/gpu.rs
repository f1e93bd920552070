//! `clocks status|lock|restore`, and the probes that ask the GPU's libraries in a process of their own.

use super::{Context, Done};
use crate::cli::flags::{Clocks, Probe};
use crate::path::device::choose;
use crate::path::session::Session;
use crate::steps::clocks::holder::HoldCommand;
use crate::steps::clocks::prove::Load;
use crate::steps::clocks::{ClockContext, facts, lease, restore};
use anyhow::Result;
use host::failure::fail;
use host::gpu::cuda;
use host::gpu::nvml::{Gpu, GpuChoice, Library, snapshot};
use host::process::interrupted;
use schema::ExitCode;
use std::sync::Arc;
use std::time::Duration;

/// Restoring proves nothing, so nothing burns.
struct NoLoad;

impl Load for NoLoad {
    fn burn(&self, _seconds: f64, _on_window: &mut dyn FnMut(f64)) -> Result<()> {
        Ok(())
    }
}

/// `clocks`.
///
/// # Errors
/// Exit 17 without a GPU, 11 when the clocks cannot be held or put back.
pub fn clocks(ctx: &Context<'_>, ask: &Clocks) -> Result<Done> {
    let device = choose("auto")?;
    let Some(gpu) = device.gpu.clone().map(|gpu| gpu as Arc<dyn Gpu>) else {
        let message = format!("no GPU: {}", device.why);
        return Err(fail(ExitCode::Measurement, message, "cargo xtask doctor"));
    };
    let path = lease::path(ctx.paths);
    let library = gpu.library().map(|(path, _)| path);
    let context = ClockContext { gpu: Arc::clone(&gpu), load: &NoLoad, hold: HoldCommand::new(library, path.clone())? };
    match ask {
        Clocks::Status => {
            let status = serde_json::to_value(facts::status(&*gpu, &path)?)?;
            let text = serde_json::to_string_pretty(&status)?;
            Ok(Done::said(status, text))
        }
        Clocks::Lock { mhz, place } => {
            let mut session = Session::new(ctx.paths, ctx.ui, ctx.quiet);
            let record = session.hold_clocks(place, &device, *mhz, || {
                ctx.ui.line("clocks locked and proven; they are held until interrupted");
                while interrupted().is_none() {
                    std::thread::sleep(Duration::from_millis(200));
                }
            })?;
            Ok(Done::said(serde_json::to_value(record)?, "clocks restored"))
        }
        Clocks::Restore => Ok(Done::said(serde_json::to_value(restore(&context)?)?, "clocks restored")),
        Clocks::Hold(_) => unreachable!("main calls the privileged child itself"),
    }
}

/// `probe`: one JSON line on stdout for the parent, whatever else is printed.
///
/// # Errors
/// When NVML cannot be opened; that CUDA does not work is an answer.
pub fn probe(what: &Probe) -> Result<Done> {
    let line = match what {
        Probe::Cuda => serde_json::to_string(&cuda::probe())?,
        Probe::Nvml { gpu, library } => {
            let opened = Library::open(library.as_deref()).and_then(|nvml| nvml.gpu(&GpuChoice::Uuid(gpu.clone())));
            let gpu = opened.map_err(|error| fail(ExitCode::Environment, error.to_string(), "cargo xtask doctor"))?;
            serde_json::to_string(&snapshot(&gpu))?
        }
    };
    println!("{line}");
    Ok(Done::silent())
}
