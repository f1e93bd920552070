//! Step gate on the path. Its judgement is cached while the run, the source, the history and this program stay the
//! same.

use crate::path::context::Context;
use crate::path::source;
use crate::steps::build::Built;
use crate::steps::gate::gate;
use crate::steps::seal::Sealed;
use anyhow::Result;
use host::cache;
use host::failure::fail;
use host::files::digest_plain;
use pure::gate::IN_REPOSITORY;
use schema::ExitCode;
use schema::verdict::{GateResult, Verdict};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// A judged run, as `reproduce` needs it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Judged {
    /// Run id.
    pub run: String,
    /// Its directory.
    pub run_dir: PathBuf,
    /// The verdict.
    pub verdict: Verdict,
    /// Whether every gate passed but for those left to the repository.
    pub passed: bool,
    /// In a bundle, the gates that refuse only since the repository's history is not at hand, by name: judged when the run is home.
    pub at_home: Vec<String>,
}

/// Gates that need the repository's history, which a machine with a bundle lacks.
const JUDGED_AT_HOME: [&str; 4] = ["source", "environment", "build", "registration"];

/// Judges a sealed run against what this tree builds.
///
/// # Errors
/// See [`gate`]; a refusal is no error here.
pub fn judge(ctx: &Context<'_>, sealed: Sealed, built: &Built) -> Result<Judged> {
    let key = cache::key(&[
        ("manifest", sealed.digest().to_string()),
        ("build", built.key.to_string()),
        ("source", format!("{:?}", source::look(ctx.paths)?)),
        ("notebook", digest_plain(&ctx.paths.notebook())?.0.to_string()),
        ("program", cache::own_digest()?.to_string()),
    ]);
    let in_bundle = ctx.paths.bundle_record().is_file();
    let left_to_home = |gate: &GateResult| in_bundle && JUDGED_AT_HOME.contains(&&*gate.name) && only_history(gate);
    ctx.computed("gate", "gate", key, || {
        let (run, run_dir) = (sealed.manifest().predicate.run.clone(), sealed.dir().to_owned());
        let verdict = gate(ctx.paths, sealed, Some(&built.record))?.verdict().clone();
        let at_home: Vec<String> =
            verdict.gates.iter().filter(|gate| left_to_home(gate)).map(|gate| gate.name.clone()).collect();
        let passed = verdict.gates.iter().all(|gate| gate.passed || at_home.contains(&gate.name));
        Ok(Judged { run, run_dir, verdict, passed, at_home })
    })
}

impl Judged {
    /// Ends with the gate's refusal on a real device.
    ///
    /// # Errors
    /// Exit 15, with every reason and its remedy.
    pub fn refuse_unless_passed(&self, emulated: bool) -> Result<()> {
        if emulated || self.passed {
            return Ok(());
        }
        let refused: Vec<_> =
            self.verdict.gates.iter().filter(|gate| !gate.passed && !self.at_home.contains(&gate.name)).collect();
        let reasons: Vec<String> = refused.iter().map(|gate| format!("{}: {}", gate.name, gate.reason)).collect();
        let remedies: Vec<String> = refused.iter().map(|gate| format!("{}: {}", gate.name, gate.remedy)).collect();
        let message = format!("the gate refuses run {}:\n{}", self.run, reasons.join("\n"));
        Err(fail(ExitCode::Refused, message, remedies.join("\n")))
    }
}

/// Whether a gate refuses only because the repository's history is missing: every reason has that remedy.
fn only_history(gate: &GateResult) -> bool {
    !gate.passed && gate.remedy == IN_REPOSITORY
}

#[cfg(test)]
mod tests {
    use super::{Judged, only_history};
    use crate::trial::{RUN, evidence};
    use pure::gate::{judge, verdict};
    use schema::Digest;

    #[test]
    fn a_box_leaves_to_the_repository_only_what_rests_on_its_history() {
        let (mut evidence, mut facts) = evidence();
        let left = |evidence: &_, facts: &_| -> Vec<String> {
            judge(evidence, facts).into_iter().filter(only_history).map(|gate| gate.name).collect()
        };
        assert_eq!(left(&evidence, &facts), [""; 0]);
        facts.history = None;
        assert_eq!(left(&evidence, &facts), super::JUDGED_AT_HOME);
        evidence.manifest.predicate.source.clean_before = false;
        evidence.build.as_mut().unwrap().kernels[0].spill_bytes = 8;
        assert_eq!(left(&evidence, &facts), ["environment", "registration"]);
    }

    #[test]
    fn what_is_judged_at_home_refuses_no_run_on_the_box_and_is_not_told_as_a_refusal() {
        let (mut evidence, mut facts) = evidence();
        facts.history = None;
        evidence.cells.pop();
        let verdict = verdict(&evidence, &facts, Digest::of(b"")).unwrap();
        let at_home = ["source", "environment", "build", "registration"].map(str::to_owned).to_vec();
        let judged = Judged { run: RUN.to_owned(), run_dir: RUN.into(), verdict, passed: false, at_home };
        let message = format!("{:#}", judged.refuse_unless_passed(false).unwrap_err());
        assert!(message.contains("\nsamples: ") && !message.contains("source: "), "{message}");
        assert!(judged.refuse_unless_passed(true).is_ok(), "nothing of the emulated device is published");
    }
}
