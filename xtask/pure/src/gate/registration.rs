//! Gate `registration`: claims and predictions were committed in an ancestor of the measured commit, no threshold was
//! changed since, and the notebook of that commit allows the plan to run.

use super::evidence::{Evidence, Facts, History, Registered};
use super::rule::{IN_REPOSITORY, Rule};
use crate::book::notebook::standing::Refusal;
use schema::claim::Claim;
use schema::verdict::GateResult;

const REGISTER: &str =
    "commit the claim and its prediction first (cargo xtask notebook predict), then measure from a later commit";

pub(super) fn judge(evidence: &Evidence, facts: &Facts) -> GateResult {
    let mut rule = Rule::new("registration");
    rule.must_count("claims", evidence.claims.claim.len() as u64, REGISTER);
    let named = &evidence.manifest.predicate;
    let claims = named.claims == evidence.claims_digest;
    rule.require(claims, "the manifest names a different claim file from the one in the run", "measure again");
    let plan = (named.plan, &named.experiment, named.profile);
    let planned = plan == (evidence.plan_digest, &evidence.plan.experiment, evidence.plan.profile_name);
    rule.require(planned, "the manifest names a different plan from the one in the run", "measure again");
    let Some(history) = &facts.history else {
        rule.refuse("there is no git history in which to look up the claims", IN_REPOSITORY);
        return rule.done();
    };
    rule.count("history", history);
    let at_commit = history.claims == Some(evidence.claims_digest);
    rule.require(at_commit, "the claims differ from those of the measured commit", REGISTER);
    rule.require(
        history.planned,
        "the plan is not what the measured commit's plan file gives",
        "commit the plan, then measure from a later commit",
    );
    let (mut registered, mut informed) = (0_u64, Vec::new());
    for claim in &evidence.claims.claim {
        let reasons = faults(claim, history);
        registered += u64::from(reasons.is_empty());
        rule.refuse_all(reasons, REGISTER);
        if history.registered.get(&claim.id).is_some_and(|found| found.informed) {
            informed.push(&claim.id);
        }
    }
    let refusals = history.standing.refusals(&evidence.plan, &evidence.claims, &evidence.reopened);
    for Refusal { reason, remedy } in refusals {
        rule.refuse(reason, remedy);
    }
    if !evidence.reopened.is_empty() {
        let ids: Vec<&String> = evidence.reopened.iter().map(|reopened| &reopened.entry).collect();
        rule.count("reopened", ids);
    }
    rule.count("registered", registered);
    rule.count("informed", informed);
    rule.done()
}

fn faults(claim: &Claim, history: &History) -> Vec<String> {
    let id = &claim.id;
    let unknown = Registered::default();
    let found = history.registered.get(id).unwrap_or(&unknown);
    let mut reasons = Vec::new();
    let commit = &history.commit;
    match &found.claim_since {
        None => reasons.push(format!("claim {id} is not in the history of the measured commit")),
        Some(since) if since == commit => {
            reasons.push(format!("claim {id} was committed with the measured commit itself, not before it"))
        }
        Some(_) => {}
    }
    match &found.prediction_since {
        None => reasons.push(format!(
            "prediction {} of claim {id} is not in that history: it was written after the data",
            claim.prediction
        )),
        Some(since) if since == commit => {
            reasons.push(format!(
                "prediction {} of claim {id} was committed with the measured commit itself, not before it",
                claim.prediction
            ));
        }
        Some(_) => {}
    }
    if !found.unchanged_since {
        reasons
            .push(format!("claim {id} was changed after it was registered: this tree holds another threshold or term"));
    }
    if claim.term.is_empty() {
        reasons.push(format!("claim {id} names no cell"));
    }
    reasons
}
