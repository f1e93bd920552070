//! Checks, before the first step, whether the notebook allows this plan to run, and records closed work that the run
//! takes up again.

use crate::path::ask::{ProfileChoice, Reproduce};
use crate::path::device::Device;
use crate::path::freeze::{Frozen, freeze};
use anyhow::Result;
use host::failure::fail;
use host::paths::Paths;
use pure::book::claims::check_claims;
use pure::book::notebook::standing::{Refusal, Standing};
use pure::book::notebook::{Notebook, parse};
use schema::plan::ProfileName;
use schema::reopened::{Reopened, ReopenedFile};
use schema::{ExitCode, FORMAT};

/// The plan and claims of an experiment, if the notebook allows it to run. The profile is smoke on the emulated
/// device and full on a GPU, unless asked otherwise.
///
/// # Errors
/// See [`freeze`], [`check_claims`] and [`permit`].
pub fn frozen(paths: &Paths, ask: &Reproduce, device: &Device) -> Result<Frozen> {
    let default = if device.is_emulated() { ProfileName::Smoke } else { ProfileName::Full };
    let profile = ask.profile.map_or(default, ProfileChoice::name);
    let frozen = freeze(paths, &ask.experiment, profile, &ask.phases)?;
    check_claims(&frozen.claims)?;
    permit(frozen, &parse(&fs_err::read_to_string(paths.notebook())?)?, &ask.reopen, &ask.changed)
}

/// The experiment with the record of the closed work that it reopens, if the notebook allows it to run.
///
/// # Errors
/// Exit 15 for closed work whose changed condition is not named, a phase that no decision authorizes, and provenance that is
/// missing; exit 2 when the flags do not pair.
fn permit(mut frozen: Frozen, notebook: &Notebook, reopen: &[String], changed: &[String]) -> Result<Frozen> {
    if reopen.len() != changed.len() || changed.iter().any(|condition| condition.trim().is_empty()) {
        let message = "each --reopen needs a --changed that names the condition which has changed";
        return Err(fail(ExitCode::Usage, message, "--reopen C-001 --changed \"what is different now\""));
    }
    let pairs = reopen.iter().zip(changed);
    let reopened: Vec<Reopened> =
        pairs.map(|(entry, changed)| Reopened { entry: entry.clone(), changed: changed.trim().to_owned() }).collect();
    let refusals =
        Standing::of(notebook, &frozen.plan, &frozen.claims).refusals(&frozen.plan, &frozen.claims, &reopened);
    if let Some(message) = told(&frozen.plan.experiment, &refusals) {
        let mut remedies: Vec<&str> = refusals.iter().map(|refusal| refusal.remedy).collect();
        remedies.dedup();
        return Err(fail(ExitCode::Refused, message, remedies.join("\n")));
    }
    if !reopened.is_empty() {
        frozen.reopened_toml = Some(toml::to_string(&ReopenedFile { format: FORMAT, reopened })?);
    }
    Ok(frozen)
}

fn told(experiment: &str, refusals: &[Refusal]) -> Option<String> {
    let reasons: Vec<&str> = refusals.iter().map(|refusal| refusal.reason.as_str()).collect();
    let head = format!("the notebook does not let experiment {experiment} run:");
    (!reasons.is_empty()).then(|| format!("{head}\n{}", reasons.join("\n")))
}
