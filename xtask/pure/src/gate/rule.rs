//! How a rule comes to its result: counts, and every reason with its remedy.

use schema::verdict::GateResult;
use serde::Serialize;
use std::collections::BTreeMap;

/// The remedy for reasons that come only from the missing history of the repository.
pub const IN_REPOSITORY: &str = "run this inside the git repository";

/// How many reasons of one kind are listed; the rest are only counted.
const SPELLED_OUT: usize = 8;

/// Collects a gate's result.
pub(super) struct Rule {
    name: &'static str,
    evidence: BTreeMap<String, serde_json::Value>,
    reasons: Vec<String>,
    remedies: Vec<String>,
}

impl Rule {
    pub(super) fn new(name: &'static str) -> Self {
        Self { name, evidence: BTreeMap::new(), reasons: Vec::new(), remedies: Vec::new() }
    }

    /// Stores something that was counted or found as evidence.
    pub(super) fn count(&mut self, key: &str, value: impl Serialize) {
        let value = serde_json::to_value(value).expect("evidence is plain data");
        self.evidence.insert(key.to_owned(), value);
    }

    /// Refuses unless `holds`.
    pub(super) fn require(&mut self, holds: bool, reason: impl Into<String>, remedy: &str) {
        if !holds {
            self.refuse(reason, remedy);
        }
    }

    /// Refuses.
    pub(super) fn refuse(&mut self, reason: impl Into<String>, remedy: &str) {
        self.reasons.push(reason.into());
        if !remedy.is_empty() && !self.remedies.iter().any(|known| known == remedy) {
            self.remedies.push(remedy.to_owned());
        }
    }

    /// Refuses for each reason. Of many, the first are listed and the rest counted.
    pub(super) fn refuse_all(&mut self, reasons: Vec<String>, remedy: &str) {
        let more = reasons.len().saturating_sub(SPELLED_OUT);
        for reason in reasons.into_iter().take(SPELLED_OUT) {
            self.refuse(reason, remedy);
        }
        if more > 0 {
            self.refuse(format!("and {more} more of the same kind"), remedy);
        }
    }

    /// Stores a count, and refuses when it is zero.
    pub(super) fn must_count(&mut self, key: &str, value: u64, remedy: &str) {
        self.count(key, value);
        self.require(value > 0, format!("no evidence: {key} is 0"), remedy);
    }

    pub(super) fn done(self) -> GateResult {
        GateResult {
            name: self.name.to_owned(),
            passed: self.reasons.is_empty(),
            evidence: self.evidence,
            reason: self.reasons.join("; "),
            remedy: self.remedies.join("; "),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reason_is_given_and_a_remedy_only_once() {
        let mut rule = Rule::new("x");
        rule.require(true, "holds", "nothing");
        rule.refuse("a", "do this");
        rule.must_count("launches", 0, "do this");
        let result = rule.done();
        assert!(!result.passed);
        assert_eq!(result.reason, "a; no evidence: launches is 0");
        assert_eq!(result.remedy, "do this");
    }

    #[test]
    fn many_reasons_are_counted() {
        let mut rule = Rule::new("x");
        rule.refuse_all((0..20).map(|i| i.to_string()).collect(), "");
        assert!(rule.done().reason.ends_with("7; and 12 more of the same kind"));
        for (n, ending) in [(8, "6; 7"), (9, "7; and 1 more of the same kind")] {
            let mut rule = Rule::new("x");
            rule.refuse_all((0..n).map(|i| i.to_string()).collect(), "");
            assert!(rule.done().reason.ends_with(ending));
        }
    }

    #[test]
    fn one_is_evidence() {
        let mut rule = Rule::new("x");
        rule.must_count("launches", 1, "do this");
        let result = rule.done();
        assert!(result.passed && result.remedy.is_empty());
        assert_eq!(result.evidence["launches"], 1);
    }
}
