//! Gate `attempts`: a chained record of this plan, SASS and GPU precedes the first launch, and no earlier attempt is left out.

use super::evidence::Evidence;
use super::rule::Rule;
use crate::identity::measured::sass_digest;
use crate::records::attempts::{Chain, MEASURED};
use schema::Digest;
use schema::manifest::Attempt;
use schema::verdict::GateResult;

const AGAIN: &str = "cargo xtask reproduce --fresh";

pub(super) fn judge(evidence: &Evidence) -> GateResult {
    let mut rule = Rule::new("attempts");
    let listed = &evidence.manifest.predicate.attempts;
    rule.must_count("attempts", listed.len() as u64, AGAIN);
    judge_chain(&mut rule, evidence, listed);
    if let Some(own) = listed.last() {
        rule.count("attempt", listed.len());
        judge_own(&mut rule, evidence, own);
    }
    rule.done()
}

fn judge_chain(rule: &mut Rule, evidence: &Evidence, listed: &[Attempt]) {
    let Some(text) = &evidence.attempts_log else {
        return rule.refuse("the run holds no attempts.jsonl", AGAIN);
    };
    match Chain::parse(text) {
        Err(error) => rule.refuse(format!("the chain of attempts does not hold: {error:#}"), AGAIN),
        Ok(chain) => {
            rule.count("chain_links", chain.links.len());
            let same = chain.of_plan(&evidence.plan_digest) == *listed;
            rule.require(same, "the manifest does not list every attempt with this plan, as the chain has them", AGAIN);
        }
    }
}

fn judge_own(rule: &mut Rule, evidence: &Evidence, own: &Attempt) {
    let predicate = &evidence.manifest.predicate;
    let device = &evidence.environment.device;
    rule.require(own.run == predicate.run, format!("the last attempt is of run {}", own.run), AGAIN);
    rule.require(own.plan == evidence.plan_digest, "the attempt was opened with another plan", AGAIN);
    let same = own.contract.is_some() && own.contract == evidence.contract_digest;
    rule.require(same, "the attempt was opened with another contract", AGAIN);
    rule.require(own.device == device.id, "the attempt was opened with another device", AGAIN);
    rule.require(own.outcome == MEASURED, format!("the attempt ended as {:?}", own.outcome), AGAIN);
    let measured = evidence.build.as_ref().map_or(Digest::of(b""), |build| sass_digest(build, &device.arch));
    rule.require(measured == own.sass, "the attempt was opened with other SASS than was measured", AGAIN);
    let began = predicate.steps.iter().find(|step| step.name == "run").map(|step| step.began.as_str());
    let order = began.map(|began| precedes(&own.opened, began));
    rule.count("opened_before_run", order);
    rule.require(order == Some(true), "the attempt was not opened before the first launch", AGAIN);
}

/// Whether one UTC time is not later than another. Both were written by xtask on one machine. The order of attempts
/// follows from the chain; this only catches a record that was opened after the fact.
fn precedes(opened: &str, began: &str) -> bool {
    match (opened.parse::<jiff::Timestamp>(), began.parse::<jiff::Timestamp>()) {
        (Ok(opened), Ok(began)) => opened <= began,
        _ => false,
    }
}
