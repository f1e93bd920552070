//! What each command calls, and the one JSON object it prints. The work is in `path/reproduce.rs`, `steps/` and
//! `ask/`.

pub mod flags;

mod experiments;
mod gpu;
mod home;
mod notebook;
mod standing;
mod write;

use crate::path::device::choose_and_say;
use crate::path::judge::Judged;
use crate::path::reproduce;
use crate::path::subject;
use crate::repo::tidy;
use crate::steps;
use crate::steps::build::{BuildContext, Built, default_archs, twice};
use anyhow::Result;
use provision::Provisioned;
use schema::ExitCode;
use serde_json::{Value, json};

pub use crate::path::context::Context;
pub use experiments::list;
pub use gpu::clocks;
pub use home::{bundle, pack, unpack};
pub use host::program::Done;
pub use notebook::notebook;
pub use standing::status;
pub use write::publish;

/// `reproduce`.
///
/// # Errors
/// See [`reproduce::reproduce`].
pub fn reproduce(ctx: &Context<'_>, ask: &flags::Reproduce) -> Result<Done> {
    if ask.dry_run {
        return experiments::dry_run(ctx, ask);
    }
    let done = reproduce::reproduce(ctx, ask)?;
    let Judged { run, run_dir, verdict, .. } = &done.judged;
    let environment = fs_err::read(run_dir.join("environment.json"))?;
    let environment: schema::environment::Environment = serde_json::from_slice(&environment)?;
    let object = json!({
        "run": run,
        "experiment": ask.experiment,
        "level": done.level(),
        "levels": done.levels,
        "device": environment.device.name,
        "runtime": environment.runtime,
        "clocks": environment.clocks.mode,
        "steps": ctx.steps_json(),
        "claims": verdict.claims,
        "gates": verdict.gates,
        "run_dir": run_dir,
    });
    Ok(Done::said(object, ""))
}

/// `provision`.
///
/// # Errors
/// Exit 11, as [`provision::provision`] says.
pub fn provision(ctx: &Context<'_>, ask: &flags::Provision) -> Result<Done> {
    if ask.make_base {
        let image = provision::make_base(ctx.paths, false, ctx.quiet)?;
        let text = format!("base {} is image {image}", provision::LOCAL_BASE);
        return Ok(Done::said(json!({"base": provision::LOCAL_BASE, "image": image}), text));
    }
    let provisioned = subject::provision(ctx, &ask.place, &choose_and_say(ctx.ui, "auto")?)?;
    Ok(Done::said(provisioned.json(), ""))
}

/// `build`.
///
/// # Errors
/// Exit 12, as [`steps::build::build`] says.
pub fn build(ctx: &Context<'_>, ask: &flags::BuildOnly) -> Result<Done> {
    let (provisioned, built) = built(ctx, &ask.build)?;
    let mut text = format!("{} kernels built in {}", built.record.kernels.len(), built.dir.display());
    let mut object = steps::build::to_json(&built.record);
    if ask.twice {
        let say = |done: usize, of: usize, what: &str| ctx.ui.line(&format!("build again {done} of {of}: {what}"));
        let archs = built.record.cubins.iter().map(|cubin| cubin.arch.clone()).collect();
        let build = BuildContext::new(ctx.paths, &provisioned.key, archs, ask.build.place.offline, &say);
        let again = twice(&build, &*provisioned.runtime, Some(&provisioned.toolkit), &built)?;
        let differ = again.iter().filter(|again| !again.deterministic);
        let differ: Vec<String> =
            differ.map(|again| format!("{} {} {}", again.file, again.arch, again.flavor)).collect();
        let told =
            if differ.is_empty() { "all the same".to_owned() } else { format!("not the same: {}", differ.join(", ")) };
        text += &format!("; {} cubins built twice, {told}", again.len());
        object["deterministic"] = serde_json::to_value(&again)?;
    }
    Ok(Done::said(object, text))
}

/// Provisions and builds what `ask` names.
fn built(ctx: &Context<'_>, ask: &flags::Build) -> Result<(Provisioned, Built)> {
    let device = choose_and_say(ctx.ui, "auto")?;
    let provisioned = subject::provision(ctx, &ask.place, &device)?;
    let archs = match (ask.archs.is_empty(), device.is_emulated()) {
        (false, _) => ask.archs.clone(),
        (true, false) => vec![device.arch.clone()],
        (true, true) => default_archs(None),
    };
    let built = subject::build(ctx, &provisioned, archs, ask.place.offline, None)?;
    Ok((provisioned, built))
}

/// `sanitize`.
///
/// # Errors
/// Exit 13 for a finding, or a check that did not really happen.
pub fn sanitize(ctx: &Context<'_>, ask: &flags::Reproduce) -> Result<Done> {
    let sanitized = reproduce::sanitized(ctx, ask, &[])?.sanitized;
    let text = format!(
        "{} verdicts; every tool caught its planted fault, and no program had a finding",
        sanitized.verdicts.len()
    );
    Ok(Done::said(sanitized.json(), if sanitized.not_applicable.is_some() { String::new() } else { text }))
}

/// `run`: the path up to the sealed manifest.
///
/// # Errors
/// Those of the steps.
pub fn run(ctx: &Context<'_>, ask: &flags::Reproduce) -> Result<Done> {
    let subject = reproduce::sanitized(ctx, ask, &[])?;
    let sealed = reproduce::sealed(ctx, ask, &subject)?;
    let object = json!({
        "run": sealed.manifest().predicate.run,
        "manifest": sealed.digest(),
        "run_dir": sealed.dir(),
        "steps": ctx.steps_json(),
    });
    Ok(Done::said(object, format!("sealed {}", sealed.dir().display())))
}

/// `clean`.
///
/// # Errors
/// When something cannot be removed.
pub fn clean(ctx: &Context<'_>) -> Result<Done> {
    let removed = provision::clean(ctx.paths)?;
    let text = format!("removed {}", if removed.is_empty() { "nothing".to_owned() } else { removed.join(", ") });
    Ok(Done::said(json!({"removed": removed}), text))
}

/// `verify`.
///
/// # Errors
/// Exit 2 for a target that names nothing, 11 when an older tree that is to judge cannot be built; what does not hold is in the
/// report, with exit 16.
pub fn verify(ctx: &Context<'_>, ask: &flags::Verify) -> Result<Done> {
    use crate::ask::verify::{Asked, verify_as};
    if let Some(inventory) = &ask.inventory {
        let report = crate::ask::inventory::verify(inventory, ask.root.as_deref())?;
        return Ok(Done { code: report.exit_code(), json: serde_json::to_value(&report)?, text: report.to_string() });
    }
    let asked = Asked { allowed_signers: ask.allowed_signers.as_deref(), as_published: ask.as_published };
    let report = verify_as(ctx.paths, &ask.targets, asked)?;
    Ok(Done { code: report.exit_code(), json: serde_json::to_value(&report)?, text: report.to_string() })
}

/// `compare`: exit 0 whatever the word, since a comparison was made.
///
/// # Errors
/// See [`crate::ask::compare::compare`].
pub fn compare(ctx: &Context<'_>, ask: &flags::Compare) -> Result<Done> {
    let report = crate::ask::compare::compare(ctx.paths, &ask.a, &ask.b)?;
    Ok(Done::said(serde_json::to_value(&report)?, report.to_string()))
}

/// `tidy`.
///
/// # Errors
/// When git or a file cannot be read; findings end with exit 10.
pub fn tidy(ctx: &Context<'_>, ask: &flags::Tidy) -> Result<Done> {
    let written = if ask.write { crate::publish::render(ctx.paths)? } else { Vec::new() };
    let findings = tidy::tidy(ctx.paths)?;
    let lines = findings.iter().map(|found| format!("{}: {}", found.path, found.what));
    let lines: Vec<String> = written.iter().map(|name| format!("{name}: written")).chain(lines).collect();
    let object: Vec<Value> = findings.iter().map(|found| json!({"path": found.path, "what": found.what})).collect();
    let code = if findings.is_empty() { ExitCode::Done } else { ExitCode::Config };
    let lines = if findings.is_empty() { [lines, vec!["tidy".to_owned()]].concat() } else { lines };
    Ok(Done { code, json: json!({"findings": object, "written": written}), text: lines.join("\n") })
}
