//! Before the first step: whether the notebook lets this plan run, and what the run says when it takes up closed work again.

use crate::config::Frozen;
use crate::failure::fail;
use crate::pure::notebook::Notebook;
use crate::pure::notebook::standing::Standing;
use anyhow::Result;
use schema::reopened::{Reopened, ReopenedFile};
use schema::{ExitCode, FORMAT};

/// The experiment with the record of what it reopens, when the notebook lets it run.
///
/// # Errors
/// Exit 15 for closed work whose changed condition is not named, a phase that no decision authorizes, and provenance that is
/// missing; exit 2 when the flags do not pair.
pub fn permit(mut frozen: Frozen, notebook: &Notebook, reopen: &[String], changed: &[String]) -> Result<Frozen> {
    if reopen.len() != changed.len() || changed.iter().any(|condition| condition.trim().is_empty()) {
        let message = "each --reopen needs a --changed that names the condition which has changed";
        return Err(fail(ExitCode::Usage, message, "--reopen C-001 --changed \"what is different now\""));
    }
    let pairs = reopen.iter().zip(changed);
    let reopened: Vec<Reopened> =
        pairs.map(|(entry, changed)| Reopened { entry: entry.clone(), changed: changed.trim().to_owned() }).collect();
    let refusals =
        Standing::of(notebook, &frozen.plan, &frozen.claims).refusals(&frozen.plan, &frozen.claims, &reopened);
    if !refusals.is_empty() {
        let message =
            format!("the notebook does not let experiment {} run:\n{}", frozen.plan.experiment, refusals.join("\n"));
        return Err(fail(ExitCode::Refused, message, REMEDY));
    }
    if !reopened.is_empty() {
        frozen.reopened_toml = Some(toml::to_string(&ReopenedFile { format: FORMAT, reopened })?);
    }
    Ok(frozen)
}

const REMEDY: &str = "closed work: --reopen ID --changed CONDITION; a decision: cargo xtask notebook authorize, then commit; \
missing provenance: find it, and retract the entry that says it is missing";
