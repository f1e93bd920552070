//! The load under which a clock is proven: `harness burn`, with its in-band clock as it comes.

use super::Session;
use crate::config::freeze;
use crate::device::Device;
use crate::failure::fail;
use crate::flags;
use crate::steps::clocks::holder::HoldCommand;
use crate::steps::clocks::prove::Load;
use crate::steps::clocks::{ClockContext, lease, lock};
use crate::steps::sanitize::Program;
use crate::world::container::{Runtime, Task};
use crate::world::nvml::Gpu;
use anyhow::{Context, Result};
use pure::progress::parse;
use schema::ExitCode;
use schema::environment::ClockRecord;
use schema::plan::ProfileName;
use schema::progress::Progress;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

impl Session<'_> {
    /// Locks the clocks, proves it under the harness's load, and holds them until `until` returns.
    ///
    /// # Errors
    /// Exit 11 when the clocks cannot be held or put back, 17 when no clock holds under load.
    pub fn hold_clocks(
        &mut self,
        place: &flags::Where,
        device: &Device,
        mhz: Option<u32>,
        until: impl FnOnce(),
    ) -> Result<ClockRecord> {
        let gpu: Arc<dyn Gpu> = device.gpu.clone().context("the emulated device has no clocks")?;
        let frozen = freeze(self.paths, "preempt", ProfileName::Smoke, &[])?;
        let provisioned = self.provision(place, device)?;
        let built = self.build(&provisioned, device, &[])?;
        let program = self.program(&built, &frozen, device)?;
        let scratch = tempfile::tempdir_in(self.paths.state())?;
        let load = Burn { runtime: &*provisioned.runtime, program: &program, scratch: scratch.path().to_owned() };
        let hold = HoldCommand::new(gpu.library().map(|(path, _)| path), lease::path(self.paths))?;
        let context = ClockContext { gpu, load: &load, hold };
        lock(&context, mhz, |_| {
            until();
            Ok(())
        })
    }
}

/// The harness as a load.
pub(super) struct Burn<'a> {
    /// Where it runs.
    pub(super) runtime: &'a dyn Runtime,
    /// What runs.
    pub(super) program: &'a Program,
    /// A folder it may write, and does not.
    pub(super) scratch: PathBuf,
}

impl Load for Burn<'_> {
    fn burn(&self, seconds: f64, on_window: &mut dyn FnMut(f64)) -> Result<()> {
        let plan = self.program.plan.display().to_string();
        let words = ["burn", "--hold", "--plan", &plan, "--device", &self.program.device, "--cubins"];
        let mut args: Vec<String> = words.map(str::to_owned).into();
        args.extend([self.program.cubins.display().to_string(), "--seconds".to_owned(), format!("{seconds}")]);
        let task = Task {
            label: "burn".to_owned(),
            program: self.program.harness.display().to_string(),
            args,
            env: Vec::new(),
            readable: vec![
                self.program.cubins.clone(),
                self.program.harness.parent().map(PathBuf::from).unwrap_or_default(),
                self.program.plan.parent().map(PathBuf::from).unwrap_or_default(),
            ],
            writable: self.scratch.clone(),
            gpu: true,
            deadline: Duration::from_secs_f64(seconds + 60.0),
            hold_stdin: true,
        };
        let ended = self.runtime.run(&task, &mut |line| {
            if let Some(Progress::Burn { clock_mhz, .. }) = parse(line) {
                on_window(clock_mhz);
            }
        })?;
        if ended.code == Some(0) {
            return Ok(());
        }
        let message = format!("the burn that proves the clocks failed: {}", ended.stderr.trim());
        Err(fail(ExitCode::Measurement, message, "cargo xtask doctor"))
    }
}
