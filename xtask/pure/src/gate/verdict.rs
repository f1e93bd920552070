//! The whole judgement: gates, then claims, bound to one manifest.

use super::{Evidence, Facts, all_passed, judge, measurement_counts, rules};
use crate::book::claims;
use schema::claim::Outcome;
use schema::verdict::{ClaimResult, GateResult, Verdict};
use schema::{Digest, FORMAT};

/// Judges a run.
///
/// # Errors
/// When a claim cannot be judged because it is malformed.
pub fn verdict(evidence: &Evidence, facts: &Facts, manifest: Digest) -> anyhow::Result<Verdict> {
    let gates = judge(evidence, facts);
    let claims = claim_results(evidence, &gates)?;
    Ok(Verdict { format: FORMAT, rules: rules(), manifest, passed: all_passed(&gates), gates, claims })
}

/// Outcomes rest on what the cells give, never on a stored summary; a measurement that does not count decides nothing.
fn claim_results(evidence: &Evidence, gates: &[GateResult]) -> anyhow::Result<Vec<ClaimResult>> {
    let device = &evidence.environment.device;
    let mut results = claims::judge(&evidence.claims, &evidence.recomputed.metrics, device)?;
    if !measurement_counts(gates) {
        for result in &mut results {
            result.outcome = Outcome::Invalid;
            result.why = format!("a gate refused the measurement; {}", result.why);
        }
    }
    Ok(results)
}
