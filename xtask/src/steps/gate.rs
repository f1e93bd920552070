//! Step gate: loads a sealed run as evidence, collects the few facts from outside it, applies the rules, and writes
//! the verdict.
//!
//! [`Passed`] can only be made here, from a judgement in which every gate passed; `publish` takes nothing else.

use super::seal::Sealed;
use crate::runs::evidence;
use crate::runs::layout::{MANIFEST, SUMS, SUMS_DETACHED, VERDICT, is_detached};
use anyhow::Result;
use host::failure::fail;
use host::files;
use host::paths::Paths;
use pure::gate::{self, Evidence, Facts};
use pure::identity::measured::measured_sass;
use pure::records::json::to_bytes;
use pure::records::sums;
use schema::build::BuildRecord;
use schema::verdict::{GateResult, Verdict};
use schema::{Digest, ExitCode};
use std::collections::BTreeMap;

/// A sealed run and its verdict.
#[derive(Clone, Debug)]
pub struct Judged {
    sealed: Sealed,
    verdict: Verdict,
    evidence: Evidence,
}

/// A run that every gate lets pass.
#[derive(Clone, Debug)]
pub struct Passed(Judged);

impl Judged {
    /// The verdict.
    #[must_use]
    pub fn verdict(&self) -> &Verdict {
        &self.verdict
    }

    /// The run.
    #[must_use]
    pub fn sealed(&self) -> &Sealed {
        &self.sealed
    }

    /// The evidence it was judged from.
    #[must_use]
    pub fn evidence(&self) -> &Evidence {
        &self.evidence
    }

    /// The run as one that may be published.
    ///
    /// # Errors
    /// When any gate refuses; the message gives every reason, the remedy everything there is to do about them.
    pub fn pass(self) -> Result<Passed> {
        if gate::all_passed(&self.verdict.gates) { Ok(Passed(self)) } else { Err(refusal(&self.verdict.gates)) }
    }
}

#[cfg(test)]
impl Judged {
    /// The same run with another verdict, as older rules would have given it.
    pub(crate) fn with(self, verdict: Verdict) -> Self {
        Self { verdict, ..self }
    }
}

impl Passed {
    /// The judgement it rests on.
    #[must_use]
    pub fn judged(&self) -> &Judged {
        &self.0
    }
}

/// Judges a sealed run and writes `verdict.json` and the sums beside its manifest. `built` is what this tree builds.
///
/// # Errors
/// When a file of the run does not parse, or the verdict cannot be written. A refusal is no error here.
pub fn gate(paths: &Paths, sealed: Sealed, built: Option<&BuildRecord>) -> Result<Judged> {
    let layout = sealed.layout();
    let evidence = evidence::load(&layout)?;
    let facts = Facts {
        history: evidence::history(paths, &evidence)?,
        built: built.map(|record| measured_sass(record, &evidence.environment.device.arch)),
        detached: evidence::detached(&layout, &evidence)?,
    };
    let verdict = gate::verdict(&evidence, &facts, sealed.digest())?;
    let verdict_bytes = to_bytes(&verdict)?;
    files::write_whole(&layout.path(VERDICT), &verdict_bytes)?;
    let (committed, detached) = sums_of(&sealed, &verdict_bytes);
    files::write_whole(&layout.path(SUMS_DETACHED), sums::to_text(&detached).as_bytes())?;
    files::write_whole(&layout.path(SUMS), sums::to_text(&committed).as_bytes())?;
    Ok(Judged { sealed, verdict, evidence })
}

/// The sums of what would be committed and of what would not, by path below the run directory.
fn sums_of(sealed: &Sealed, verdict: &[u8]) -> (BTreeMap<String, Digest>, BTreeMap<String, Digest>) {
    let subjects = sealed.manifest().subject.iter().map(|subject| (subject.name.clone(), subject.digest.sha256));
    let (detached, mut committed): (BTreeMap<_, _>, BTreeMap<_, _>) = subjects.partition(|(name, _)| is_detached(name));
    committed.insert(MANIFEST.to_owned(), sealed.digest());
    committed.insert(VERDICT.to_owned(), Digest::of(verdict));
    (committed, detached)
}

fn refusal(gates: &[GateResult]) -> anyhow::Error {
    let refused: Vec<&GateResult> = gates.iter().filter(|gate| !gate.passed).collect();
    let lines: Vec<String> = refused.iter().map(|gate| format!("  {}: {}", gate.name, gate.reason)).collect();
    let remedies: Vec<String> = refused.iter().map(|gate| format!("{}: {}", gate.name, gate.remedy)).collect();
    let message = format!("{} of {} gates refuse:\n{}", refused.len(), gates.len(), lines.join("\n"));
    fail(ExitCode::Refused, message, remedies.join("\n"))
}

#[cfg(test)]
mod tests;
