//! `verdict.json`: the gate's judgement over one sealed manifest.

use crate::Digest;
use crate::claim::Outcome;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The judgement.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Verdict {
    /// Format version.
    pub format: u32,
    /// Version of the rules that judged. Verdicts of the first rules do not name it, and absent means 1.
    #[serde(default = "first_rules", skip_serializing_if = "are_first_rules")]
    pub rules: u32,
    /// Digest of the manifest's bytes.
    pub manifest: Digest,
    /// Whether every gate passed.
    pub passed: bool,
    /// The gates, in the order of the design's table.
    pub gates: Vec<GateResult>,
    /// The claims.
    pub claims: Vec<ClaimResult>,
}

const fn first_rules() -> u32 {
    1
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
const fn are_first_rules(rules: &u32) -> bool {
    *rules == first_rules()
}

/// One gate's result.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GateResult {
    /// The gate's name: `source`, `environment`, `build`, `sanitizer`, `numerics`, `structure`, `clocks`, `samples`,
    /// `instrument`, `attempts`, `registration`, `recompute`, `freshness`.
    pub name: String,
    /// Whether it passed.
    pub passed: bool,
    /// What was counted.
    pub evidence: BTreeMap<String, serde_json::Value>,
    /// Every reason for refusal, joined by `; `. Empty when passed.
    pub reason: String,
    /// What to do about it. Empty when passed.
    pub remedy: String,
}

/// One claim's result.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClaimResult {
    /// Claim id.
    pub id: String,
    /// Outcome.
    pub outcome: Outcome,
    /// The value of the deciding term.
    pub value: String,
    /// Its unit.
    pub unit: String,
    /// Its threshold with comparator.
    pub threshold: String,
    /// The deciding term's name and why.
    pub why: String,
}
