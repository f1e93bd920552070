//! Provision: chooses a runtime and a toolkit. Each is pinned, or recorded as what it is.
//!
//! Docker is used if an engine answers and a base image is available, otherwise this machine, with a message. Only
//! the image is built here.

mod base;
mod choose;
mod clean;
pub mod cli;
pub mod doctor;
mod hostenv;
mod image;
mod patience;
mod toolkit;
mod turn;

pub use base::{LOCAL_BASE, make_base};
pub use choose::{Machine, RuntimeChoice, explain, inside_why};
pub use clean::clean;
pub use image::{BaseFacts, BaseLock};
pub use toolkit::{BoxToolkit, DRIVER_NEEDED, box_toolkit};

use anyhow::{Context, Result};
use host::container::Runtime;
use host::failure::Denied;
use host::gpu::toolkit::Toolkit;
use host::machine::disk::{Disks, Place};
use host::paths::Paths;
use schema::Digest;
use schema::environment::Container;
use std::path::Path;

/// What is wanted.
#[derive(Clone, Debug)]
pub struct ProvisionOptions {
    /// Where programs shall run.
    pub runtime: RuntimeChoice,
    /// A base image: a name in `docker/image.lock` or a local reference; absent takes the default.
    pub base: Option<String>,
    /// Fetch and pull nothing.
    pub offline: bool,
    /// Refuse a container that the GPU cannot get into.
    pub need_gpu: bool,
    /// The newest CUDA that the driver runs, as 1000 × major + 10 × minor; absent without a driver.
    pub driver_cuda: Option<u32>,
    /// Say nothing on stderr.
    pub quiet: bool,
}

/// What there is.
pub struct Provisioned {
    /// Where programs run.
    pub runtime: Box<dyn Runtime>,
    /// How it came to that, in words.
    pub runtime_why: String,
    /// The toolkit, its paths as the runtime sees them.
    pub toolkit: Toolkit,
    /// Why this toolkit, in words.
    pub toolkit_why: String,
    /// Container facts; only with docker.
    pub container: Option<Container>,
    /// Identity of the environment: digests of base, lock and Dockerfile, or of the toolkit alone.
    pub key: Digest,
    /// Whether everything was there already.
    pub cached: bool,
}

impl Provisioned {
    /// The `--json` object of `provision`.
    pub fn json(&self) -> serde_json::Value {
        let toolkit = &self.toolkit;
        serde_json::json!({
            "runtime": self.runtime.name(),
            "runtime_why": self.runtime_why,
            "toolkit": {
                "origin": toolkit.origin,
                "why": self.toolkit_why,
                "root": toolkit.root,
                "nvcc": toolkit.nvcc,
                "sanitizer": toolkit.sanitizer,
                "lock": toolkit.lock,
            },
            "container": self.container,
            "key": self.key,
            "cached": self.cached,
        })
    }
}

/// Finds or makes the runtime and the toolkit.
///
/// # Errors
/// [`schema::ExitCode::Environment`], with what to type, when what was asked for cannot be had; and whenever a fetched byte is
/// not the pinned one, whatever else might do.
pub fn provision(paths: &Paths, options: &ProvisionOptions) -> Result<Provisioned> {
    provision_on(paths, options, &Machine::look())
}

fn provision_on(paths: &Paths, options: &ProvisionOptions, machine: &Machine) -> Result<Provisioned> {
    let _turn = turn::take(&paths.state(), options.quiet)?;
    Place::checkout(paths.root()).require(&Disks)?;
    Place::temporary(Path::new(machine.var("TMPDIR").unwrap_or("/tmp"))).require(&Disks)?;
    let done = match options.runtime {
        RuntimeChoice::Docker => image::provision(paths, options, machine, "asked for").map_err(Denied::into_error),
        RuntimeChoice::Host => toolkit::provision_here(paths, options, machine, "host", "asked for"),
        RuntimeChoice::Inside => toolkit::provision_here(paths, options, machine, "inside", "asked for"),
        RuntimeChoice::Auto => automatic(paths, options, machine),
    }?;
    if !options.quiet {
        host::tell!("runtime {}: {}", done.runtime.name(), done.runtime_why);
        host::tell!("toolkit {}: {}", done.toolkit.origin, done.toolkit_why);
    }
    Ok(done)
}

/// Docker if it is available, otherwise this machine. What was refused because its bytes are wrong is never replaced
/// by something else.
fn automatic(paths: &Paths, options: &ProvisionOptions, machine: &Machine) -> Result<Provisioned> {
    let why_not = match image::provision(paths, options, machine, "an engine answers and a base is at hand") {
        Ok(done) => return Ok(done),
        Err(Denied::Refused(error)) => return Err(error),
        Err(Denied::Cannot(error)) => format!("{error:#}"),
    };
    let here = match &machine.inside {
        Some(inside) => toolkit::provision_here(paths, options, machine, "inside", &format!("{inside}; {why_not}")),
        None => toolkit::provision_here(paths, options, machine, "host", &format!("no docker: {why_not}")),
    };
    here.with_context(|| format!("no docker ({why_not}), and not without it either"))
}

#[cfg(test)]
mod tests;
