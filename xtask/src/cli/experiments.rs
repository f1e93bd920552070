//! `list` and `reproduce --dry-run`: what there is to run, and what it would take.

use super::{Context, Done};
use crate::cli::flags;
use crate::path::device::choose;
use crate::path::freeze::{experiments, freeze, plan_file};
use crate::path::permit::frozen;
use anyhow::Result;
use schema::claim::ClaimFile;
use schema::plan::ProfileName;
use serde_json::json;

/// Seconds of the steps before the first measurement, on two cores, when nothing is cached: provision, build, sanitize.
const FIRST_STEPS_S: [(&str, f64); 3] = [("provision", 60.0), ("build", 180.0), ("sanitize", 60.0)];
/// Disk of toolkit, build and container image, in GB.
const DISK_GB: f64 = 3.0;

/// `list`.
///
/// # Errors
/// Exit 10 for a malformed plan or claim file.
pub fn list(ctx: &Context<'_>) -> Result<Done> {
    let (mut objects, mut lines) = (Vec::new(), Vec::new());
    for name in experiments(ctx.paths)? {
        let file = plan_file(ctx.paths, &name)?;
        lines.push(format!("{name}: {}", file.title));
        let mut profiles = Vec::new();
        for profile in file.profile.keys() {
            let frozen = freeze(ctx.paths, &name, *profile, &[])?;
            let minutes = file.minutes.get(profile);
            let told = minutes.map_or_else(String::new, |minutes| format!(", about {minutes} minutes on a GPU"));
            lines.push(format!("  profile {}: {}{told}", word(*profile), frozen.plan.phases.join(", ")));
            profiles.push(json!({"name": word(*profile), "phases": frozen.plan.phases, "minutes": minutes}));
        }
        let text = fs_err::read_to_string(ctx.paths.experiment(&name).join("claims.toml"))?;
        let claims: ClaimFile = toml::from_str(&text)?;
        lines.extend(claims.claim.iter().map(|claim| format!("  claim {}: {}", claim.id, claim.statement)));
        let ids: Vec<&String> = claims.claim.iter().map(|claim| &claim.id).collect();
        objects.push(json!({"name": name, "title": file.title, "profiles": profiles, "claims": ids}));
    }
    Ok(Done::said(json!({"experiments": objects}), lines.join("\n")))
}

/// `reproduce --dry-run`.
///
/// # Errors
/// Exit 10 for an invalid plan, 15 when the notebook does not let it run, 17 when a GPU is asked for and there is none.
pub(super) fn dry_run(ctx: &Context<'_>, ask: &flags::Reproduce) -> Result<Done> {
    let device = choose(&ask.device)?;
    let frozen = frozen(ctx.paths, ask, &device)?;
    let minutes = plan_file(ctx.paths, &ask.experiment)?.minutes;
    let run_s = 60.0 * minutes.get(&frozen.plan.profile_name).copied().unwrap_or_default();
    let mut steps: Vec<(&str, f64)> = FIRST_STEPS_S.to_vec();
    if device.is_emulated() {
        steps.retain(|(name, _)| *name != "sanitize");
    }
    steps.extend([("run", run_s), ("seal and gate", 10.0 + run_s * 0.1)]);
    let total: f64 = steps.iter().map(|(_, seconds)| seconds).sum();
    let mut lines =
        vec![format!("{} {} on {} ({})", ask.experiment, word(frozen.plan.profile_name), device.slug, device.why)];
    lines.extend(
        steps.iter().map(|(name, seconds)| format!("  {name:<14} about {seconds:>5.0} s when nothing is cached")),
    );
    lines.push(format!("  in all about {:.0} minutes and {DISK_GB:.0} GB; nothing was done", (total / 60.0).ceil()));
    let objects: Vec<_> = steps.iter().map(|(name, seconds)| json!({"name": name, "seconds": seconds})).collect();
    let object =
        json!({"dry_run": true, "device": device.slug, "steps": objects, "seconds": total, "disk_gb": DISK_GB});
    Ok(Done::said(object, lines.join("\n")))
}

fn word(profile: ProfileName) -> String {
    format!("{profile:?}").to_lowercase()
}
