//! The load under which a clock is proven: `harness burn`, with its in-band clock as it is reported.

use super::prove::Load;
use crate::steps::sanitize::Program;
use anyhow::Result;
use host::container::{Runtime, Task};
use host::failure::fail;
use schema::ExitCode;
use schema::progress::Progress;
use std::path::PathBuf;
use std::time::Duration;
use words::progress::parse;

/// The harness as a load.
pub struct Burn<'a> {
    /// Where it runs.
    pub runtime: &'a dyn Runtime,
    /// What runs.
    pub program: &'a Program,
    /// A folder it may write, and does not.
    pub scratch: PathBuf,
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
