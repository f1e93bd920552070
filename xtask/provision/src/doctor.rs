//! What this machine has and lacks for a run, and what to type. It only reads: nothing is installed, pulled, started
//! or removed.

mod container_gpu;
mod docker;
mod gpu;
mod machine;

use crate::{Machine, RuntimeChoice};
use host::gpu::cuda::Cuda;
use host::gpu::driver::Driver;
use host::gpu::nvml::{GpuError, PATIENCE, within};
use host::paths::Paths;
use serde::Serialize;

/// What doctor is asked about.
#[derive(Clone, Debug)]
pub struct DoctorOptions {
    /// Where programs shall run: what is missing for another way is only a warning.
    pub runtime: RuntimeChoice,
    /// The base image asked for.
    pub base: Option<String>,
    /// Whether nothing may be fetched.
    pub offline: bool,
}

/// One finding.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Check {
    /// What was looked at.
    pub name: &'static str,
    /// What it means for a run.
    pub state: State,
    /// What was found.
    pub found: String,
    /// What to type; empty when there is nothing to do.
    pub remedy: String,
}

/// What a finding means for a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// As it should be.
    Ok,
    /// A run is possible, with less.
    Warn,
    /// No run is possible.
    Block,
}

/// Looks at everything.
pub fn doctor(paths: &Paths, options: &DoctorOptions) -> Vec<Check> {
    let machine = Machine::look();
    let driver = within(PATIENCE, Driver::look).unwrap_or_else(|error| Err(GpuError::Other(format!("{error:#}"))));
    let cuda = Cuda::look();
    let mut checks = docker::checks(paths, options, &machine);
    checks.extend(machine::checks(paths, options, &machine));
    checks.extend(gpu::checks(paths, options, &machine, &driver, &cuda));
    checks
}

/// Whether a run is possible.
pub fn is_fit(checks: &[Check]) -> bool {
    checks.iter().all(|check| check.state != State::Block)
}

/// The `--json` object of DESIGN.md section 4.
pub fn json(checks: &[Check]) -> serde_json::Value {
    serde_json::json!({ "ok": is_fit(checks), "checks": checks })
}

/// The findings for people, one a line, each remedy below its finding.
pub fn text(checks: &[Check]) -> String {
    let line = |check: &Check| {
        let word = match check.state {
            State::Ok => "ok   ",
            State::Warn => "warn ",
            State::Block => "BLOCK",
        };
        let remedy = if check.remedy.is_empty() { String::new() } else { format!("        -> {}\n", check.remedy) };
        format!("{word} {}: {}\n{remedy}", check.name, check.found)
    };
    checks.iter().map(line).collect()
}

impl Check {
    fn ok(name: &'static str, found: impl Into<String>) -> Self {
        Self { name, state: State::Ok, found: found.into(), remedy: String::new() }
    }

    fn warn(name: &'static str, found: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { name, state: State::Warn, found: found.into(), remedy: remedy.into() }
    }

    /// Blocks if `needed`, else warns.
    fn missing(name: &'static str, needed: bool, found: impl Into<String>, remedy: impl Into<String>) -> Self {
        let state = if needed { State::Block } else { State::Warn };
        Self { name, state, found: found.into(), remedy: remedy.into() }
    }
}

impl DoctorOptions {
    /// Whether programs may only run in a container of ours.
    fn only_docker(&self) -> bool {
        self.runtime == RuntimeChoice::Docker
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_block_makes_a_machine_unfit_and_a_warning_does_not() {
        let warned = vec![Check::ok("a", "x"), Check::warn("b", "y", "type b")];
        assert!(is_fit(&warned));
        let blocked = [warned.clone(), vec![Check::missing("c", true, "z", "type c")]].concat();
        assert!(!is_fit(&blocked));
        assert_eq!(json(&blocked)["checks"][2]["state"], "block");
        assert_eq!(json(&blocked)["ok"], false);
        let expected = "ok    a: x\nwarn  b: y\n        -> type b\nBLOCK c: z\n        -> type c\n";
        assert_eq!(text(&blocked), expected);
    }
}
