//! The gates: one rule in each file, in the order of the table in DESIGN.md.
//!
//! Every rule counts what it saw, and refuses when there is nothing to count. Each reports every reason at once, with
//! what to do about it. No rule trusts what an earlier step concluded: it reads the records themselves.

pub mod evidence;

pub(crate) mod attempts;
mod build;
mod checks;
mod clocks;
mod environment;
mod freshness;
mod instrument;
mod numerics;
mod recompute;
mod registration;
mod rule;
pub mod rules;
mod samples;
mod sanitizer;
mod source;
mod structure;
mod table;
mod verdict;

pub use build::ADVICE;
pub use checks::timer_slack_ns;
pub use evidence::{Evidence, Facts};
pub use rule::IN_REPOSITORY;
pub use rules::rules;
pub use verdict::verdict;

use schema::verdict::GateResult;

/// Judges a run by every gate.
#[must_use]
pub fn judge(evidence: &Evidence, facts: &Facts) -> Vec<GateResult> {
    vec![
        source::judge(evidence, facts),
        environment::judge(evidence, facts),
        build::judge(evidence, facts),
        sanitizer::judge(evidence),
        numerics::judge(evidence),
        structure::judge(evidence),
        clocks::judge(evidence),
        samples::judge(evidence),
        instrument::judge(evidence),
        attempts::judge(evidence),
        registration::judge(evidence, facts),
        recompute::judge(evidence, facts),
        freshness::judge(evidence, facts),
    ]
}

/// Whether every gate passed.
#[must_use]
pub fn all_passed(gates: &[GateResult]) -> bool {
    !gates.is_empty() && gates.iter().all(|gate| gate.passed)
}

/// The gates as text for people: one line each, and below a refusal every reason and what to do.
#[must_use]
pub fn lines(gates: &[GateResult]) -> Vec<String> {
    let mut lines = Vec::new();
    for gate in gates {
        if gate.passed {
            lines.push(format!("pass    {}", gate.name));
            continue;
        }
        lines.push(format!("REFUSED {}: {}", gate.name, gate.reason));
        if !gate.remedy.is_empty() {
            lines.push(format!("        {}", gate.remedy));
        }
    }
    lines
}

/// Whether the measurement itself counts. If one of these gates refuses, no claim has an outcome.
#[must_use]
pub fn measurement_counts(gates: &[GateResult]) -> bool {
    let decisive = ["numerics", "structure", "clocks", "instrument"];
    decisive.iter().all(|name| gates.iter().any(|gate| gate.name == *name && gate.passed))
}
