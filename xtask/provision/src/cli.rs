//! What `doctor` and the probes are given on the command line, and what they answer. Two programs ask: `start`, which
//! needs nothing more, and `xtask`.

use crate::RuntimeChoice;
use crate::doctor::{DoctorOptions, is_fit, json, text};
use anyhow::Result;
use clap::{Args, Subcommand};
use host::failure::fail;
use host::gpu::cuda;
use host::gpu::nvml::{GpuChoice, Library, snapshot};
use host::paths::Paths;
use host::program::Done;
use schema::ExitCode;
use std::path::PathBuf;

/// Flags of every command that runs programs.
#[derive(Clone, Debug, Args)]
pub struct Where {
    /// Where programs run.
    #[arg(long, value_enum, default_value = "auto")]
    pub runtime: RuntimeChoice,
    /// Use this local image as the container's base (recorded by its id).
    #[arg(long, value_name = "IMAGE")]
    pub base: Option<String>,
    /// Fetch nothing.
    #[arg(long)]
    pub offline: bool,
}

/// What a probe asks.
#[derive(Clone, Debug, Subcommand)]
pub enum Probe {
    /// Whether CUDA initialises, and which GPUs it lists.
    Cuda,
    /// Health and use of a GPU, through NVML opened anew.
    Nvml {
        /// The GPU's UUID
        #[arg(long)]
        gpu: String,
        /// The management library's file, as the parent loaded it
        #[arg(long)]
        library: Option<PathBuf>,
    },
}

/// `doctor`: a finding is no error, but a block ends with exit 11.
pub fn doctor(paths: &Paths, place: &Where) -> Done {
    let options = DoctorOptions { runtime: place.runtime, base: place.base.clone(), offline: place.offline };
    let checks = crate::doctor::doctor(paths, &options);
    let code = if is_fit(&checks) { ExitCode::Done } else { ExitCode::Environment };
    Done { code, json: json(&checks), text: text(&checks) }
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
