//! What is measured, and the steps that make it: provision, build and sanitize.

use crate::path::context::{Context, Said};
use crate::path::device::Device;
use crate::path::freeze::Frozen;
use crate::steps::build::{self, BuildContext, Built, default_archs};
use crate::steps::sanitize::{self, Program, Sanitized};
use anyhow::Result;
use host::files::write_whole;
use host::paths::Paths;
use provision::cli::Where;
use provision::{self, ProvisionOptions, Provisioned};
use pure::records::sanitizer::budget::Bounds;
use schema::build::BuildRecord;

/// Code that was built for a device and sanitized on it, with all that it came from.
pub struct Subject {
    /// The device.
    pub device: Device,
    /// The plan and claims.
    pub frozen: Frozen,
    /// Runtime and toolkit.
    pub provisioned: Provisioned,
    /// The build.
    pub built: Built,
    /// The built harness on the device.
    pub program: Program,
    /// The sanitizer's verdicts.
    pub sanitized: Sanitized,
}

/// Step provision.
///
/// # Errors
/// See [`provision::provision`].
pub fn provision(ctx: &Context<'_>, place: &Where, device: &Device) -> Result<Provisioned> {
    let options = ProvisionOptions {
        runtime: place.runtime,
        base: place.base.clone(),
        offline: place.offline,
        need_gpu: !device.is_emulated(),
        driver_cuda: device.driver_cuda,
        quiet: ctx.quiet,
    };
    let said = |done: &Provisioned| Said { cached: done.cached, key: done.key };
    ctx.step("provision", || provision::provision(ctx.paths, &options), said)
}

/// The architectures to build: the device's and those of everything published; in a bundle the device's alone.
pub fn archs(paths: &Paths, device: &Device, published: &[(String, BuildRecord)]) -> Vec<String> {
    let mut archs = if device.is_emulated() { default_archs(None) } else { vec![device.arch.clone()] };
    archs.extend(published.iter().flat_map(|(_, record)| record.kernels.iter().map(|kernel| kernel.arch.clone())));
    archs.sort();
    archs.dedup();
    if paths.bundle_record().is_file() {
        archs = vec![if device.is_emulated() { archs.remove(0) } else { device.arch.clone() }];
    }
    archs
}

/// Step build.
///
/// # Errors
/// See [`build::build`].
pub fn build(
    ctx: &Context<'_>,
    provisioned: &Provisioned,
    archs: Vec<String>,
    offline: bool,
    experiment: Option<&str>,
) -> Result<Built> {
    let say = |done: usize, of: usize, what: &str| ctx.ui.line(&format!("build {done} of {of}: {what}"));
    let mut build = BuildContext::new(ctx.paths, &provisioned.key, archs, offline, &say);
    build.experiment = experiment.map(str::to_owned);
    let work = || build::build(&build, &*provisioned.runtime, Some(&provisioned.toolkit));
    let built = ctx.step("build", work, |built| Said { cached: built.cached, key: built.key })?;
    build::notes(&built.record).iter().for_each(|note| ctx.ui.line(&format!("note: {note}")));
    Ok(built)
}

/// The built harness on this device, with the plan in a file of its own that outlives the run directory.
///
/// # Errors
/// When the device cannot load what was built, or the plan cannot be written.
pub fn program(paths: &Paths, built: &Built, frozen: &Frozen, device: &Device) -> Result<Program> {
    if !device.is_emulated() {
        build::check_loadable(built, &device.arch, device.driver_cuda)?;
    }
    let plan = paths.state().join("plans").join(format!("{}.toml", frozen.plan_digest().short()));
    write_whole(&plan, frozen.plan_toml.as_bytes())?;
    Ok(Program::new(built, plan, &device.arch, &device.selector))
}

/// Step sanitize.
///
/// # Errors
/// See [`sanitize::sanitize`]; exit 13 for a finding or a check that did not really happen.
pub fn sanitize(ctx: &Context<'_>, provisioned: &Provisioned, program: &Program) -> Result<Sanitized> {
    let (toolkit, bounds) = (&provisioned.toolkit, Bounds::STATED);
    let context = sanitize::Context { paths: ctx.paths, toolkit, ui: ctx.ui, bounds };
    let work = || sanitize::sanitize(&context, &*provisioned.runtime, program);
    let sanitized = ctx.step("sanitize", work, |done| Said { cached: done.cached, key: done.key })?;
    if let Some(why) = &sanitized.not_applicable {
        ctx.ui.line(&format!("skipped: sanitizer ({why} device)"));
    }
    sanitized.failure().map_or(Ok(sanitized), |failure| Err(failure.into()))
}
