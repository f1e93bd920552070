//! `clocks status|lock|restore`.

use super::{Context, Done};
use crate::cli::flags::{Clocks, Where};
use crate::path::device::{Device, choose};
use crate::path::freeze::{Frozen, experiments, freeze};
use crate::path::subject::{archs, build, program, provision};
use crate::steps::clocks::burn::Burn;
use crate::steps::clocks::holder::HoldCommand;
use crate::steps::clocks::prove::Load;
use crate::steps::clocks::{ClockContext, facts, lock, restore};
use anyhow::Result;
use host::failure::fail;
use host::gpu::lease;
use host::gpu::nvml::Gpu;
use host::paths::Paths;
use host::process::interrupted;
use schema::ExitCode;
use schema::environment::ClockRecord;
use schema::plan::ProfileName;
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
            let record = lock_and_hold(ctx, place, &device, context, *mhz)?;
            Ok(Done::said(serde_json::to_value(record)?, "clocks restored"))
        }
        Clocks::Restore => Ok(Done::said(serde_json::to_value(restore(&context)?)?, "clocks restored")),
        Clocks::Hold(_) => unreachable!("main calls the privileged child itself"),
    }
}

/// A plan whose experiment gives the load; which one does not matter for a clock.
fn any_plan(paths: &Paths) -> Result<Frozen> {
    let name = experiments(paths)?.into_iter().next();
    let name =
        name.ok_or_else(|| fail(ExitCode::Config, "there is no experiment to load the GPU with", "cargo xtask list"))?;
    freeze(paths, &name, ProfileName::Smoke, &[])
}

/// Locks the clocks, proves it under the harness's load, and holds them until interrupted.
fn lock_and_hold(
    ctx: &Context<'_>,
    place: &Where,
    device: &Device,
    context: ClockContext<'_>,
    mhz: Option<u32>,
) -> Result<ClockRecord> {
    let frozen = any_plan(ctx.paths)?;
    let provisioned = provision(ctx, place, device)?;
    let built = build(ctx, &provisioned, archs(ctx.paths, device, &[]), false, Some(frozen.plan.program()))?;
    let program = program(ctx.paths, &built, &frozen, device)?;
    let scratch = tempfile::tempdir_in(ctx.paths.state())?;
    let load = Burn { runtime: &*provisioned.runtime, program: &program, scratch: scratch.path().to_owned() };
    lock(&ClockContext { load: &load, ..context }, mhz, |_| {
        ctx.ui.line("clocks are locked and proven under load; they are held until you interrupt");
        while interrupted().is_none() {
            std::thread::sleep(Duration::from_millis(200));
        }
        Ok(())
    })
}
