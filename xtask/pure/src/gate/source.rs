//! Gate `source`: the tree was clean before and after the run, at one commit that this repository knows, with one
//! source digest.

use super::evidence::{Evidence, Facts, History};
use super::rule::{IN_REPOSITORY, Rule};
use super::rules::rules;
use schema::manifest::{Predicate, Source};
use schema::verdict::GateResult;

const AGAIN: &str = "measure again from a clean commit: cargo xtask reproduce --fresh";
const COMMIT_FIRST: &str = "commit the changes and measure again";

pub(super) fn judge(evidence: &Evidence, facts: &Facts) -> GateResult {
    let source = &evidence.manifest.predicate.source;
    let mut rule = Rule::new("source");
    rule.count("kind", &source.kind);
    rule.count("commit", &source.commit);
    rule.count("digest", source.digest);
    rule.require(source.clean_before, "the tree was not clean when the run began", COMMIT_FIRST);
    rule.require(source.clean_after, "the tree was not clean when the run ended", COMMIT_FIRST);
    let unchanged = source.digest == source.digest_after;
    rule.require(unchanged, "the source changed while the run went on", "measure again without touching the tree");
    match source.kind.as_str() {
        "git" => rule.require(evidence.bundle.is_none(), "a run from git carries a bundle's record", AGAIN),
        "bundle" => judge_bundle(&mut rule, evidence, facts.history.as_ref()),
        other => rule.refuse(format!("the source is of the unknown kind {other:?}"), AGAIN),
    }
    judge_history(&mut rule, source, facts.history.as_ref());
    rule.done()
}

/// The bundle's record says what the manifest says, and what this repository's history says of its commit.
fn judge_bundle(rule: &mut Rule, evidence: &Evidence, history: Option<&History>) {
    const REMEDY: &str = "make a new bundle from a clean commit and measure with it";
    let Some(bundle) = &evidence.bundle else {
        return rule.refuse("the run was made from a bundle but holds no bundle.json", REMEDY);
    };
    let Predicate { source, experiment, .. } = &evidence.manifest.predicate;
    rule.count("bundle_files", bundle.files.len());
    rule.require(
        source.commit.as_ref() == Some(&bundle.commit),
        "the bundle's record names another commit than the manifest",
        REMEDY,
    );
    rule.require(source.digest == bundle.source, "the bundle's record and the manifest name different sources", REMEDY);
    let claims = bundle.claims.get(experiment);
    rule.require(
        claims == Some(&evidence.claims_digest),
        "the bundle's record names other claims than the run holds",
        REMEDY,
    );
    let Some(history) = history.filter(|history| history.known) else { return };
    let same = claims == history.claims.as_ref() && bundle.plans.get(experiment) == history.plan.as_ref();
    rule.require(same, "the bundle's record does not name the plan and claims of its commit", REMEDY);
}

fn judge_history(rule: &mut Rule, source: &Source, history: Option<&History>) {
    let from = if source.kind == "bundle" { "a bundle this repository does not know" } else { "an unknown commit" };
    let Some(commit) = &source.commit else {
        return rule.refuse("no commit is recorded", "measure inside the git repository");
    };
    let Some(history) = history else {
        return rule.refuse("there is no git history to check the commit against", IN_REPOSITORY);
    };
    let remedy = "publish in the repository whose commit was measured";
    let known = history.known && history.commit == *commit;
    rule.count("commit_known", known);
    rule.require(known, format!("{from}: this repository holds no commit {commit}"), remedy);
    let ours =
        format!("this tree judges by rules {}, and commit {commit} has rules {}", rules(), history.rules.unwrap_or(1));
    const THEIRS: &str = "measure again, or judge and publish in a checkout that has the rules of the measured commit";
    rule.require(!known || history.rules == Some(rules()), ours, THEIRS);
    let as_committed = !known || history.source == Some(source.digest);
    let differs =
        format!("the source that was built is not what commit {commit} holds, although git reported a clean tree");
    const HIDDEN: &str =
        "git ls-files -v | grep '^[a-zS]' names what git was told not to look at: commit it and measure again";
    rule.require(as_committed, differs, HIDDEN);
    let merged = "merge the measured commit into the branch that is checked out";
    rule.require(
        !known || history.in_history,
        format!("commit {commit} is not an ancestor of the commit that is checked out"),
        merged,
    );
}
