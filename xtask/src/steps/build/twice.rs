//! The same build a second time, to see whether its bytes depend on its sources alone. It only reports: no gate
//! depends on it, since a kernel's identity is its SASS and not its file.

use super::compile;
use super::inputs::Inputs;
use super::{BuildContext, Built};
use anyhow::{Context, Result};
use host::container::Runtime;
use host::failure::fail;
use host::gpu::toolkit::Toolkit;
use pure::identity::sass;
use schema::ExitCode;
use serde::Serialize;

/// One cubin, built twice.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Again {
    /// Kernel file relative to `kernels/`, without suffix.
    pub file: String,
    /// Architecture.
    pub arch: String,
    /// `measure` or `lineinfo`.
    pub flavor: String,
    /// Whether both times gave the same bytes, and these name no folder but the sources' and the toolkit's.
    pub deterministic: bool,
    /// Whether both times gave the same SASS digests.
    pub same_sass: bool,
}

/// Compiles every kernel of a build again, elsewhere, and compares.
///
/// # Errors
/// Exit 11 without a toolkit, 12 when the second time fails to compile. A difference is no error.
pub fn twice(
    ctx: &BuildContext<'_>,
    runtime: &dyn Runtime,
    toolkit: Option<&Toolkit>,
    built: &Built,
) -> Result<Vec<Again>> {
    let toolkit = toolkit.ok_or_else(|| {
        fail(ExitCode::Environment, "no CUDA toolkit to build a second time with", "cargo xtask provision")
    })?;
    let inputs = Inputs::read_kernels(ctx.paths, ctx.experiment.as_deref())?;
    let scratch = tempfile::Builder::new().prefix("twice-").tempdir_in(ctx.paths.state())?;
    let jobs = compile::jobs(ctx, &inputs, scratch.path())?;
    compile::all(ctx, runtime, &toolkit.nvcc, &jobs)?;
    let one = |job: &compile::Job| -> Result<Again> {
        let path = compile::cubin_path(&job.file, &job.arch, job.flavor);
        let cubin = built.record.cubins.iter().find(|cubin| cubin.path == path);
        let cubin = cubin.with_context(|| format!("{path} is not in the build"))?;
        let (first, second) = (fs_err::read(built.dir.join(&path))?, fs_err::read(job.cubin())?);
        let sass = |bytes: &[u8]| sass::kernels(bytes, &job.arch).ok();
        Ok(Again {
            file: job.file.clone(),
            arch: job.arch.clone(),
            flavor: job.flavor.to_owned(),
            deterministic: first == second && cubin.foreign_paths == 0,
            same_sass: sass(&first).is_some_and(|kernels| sass(&second) == Some(kernels)),
        })
    };
    let compared = jobs.iter().map(one).collect();
    scratch.close()?;
    compared
}
