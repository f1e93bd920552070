//! What this repository's history says of a run: whether it knows the commit, and when claims and predictions entered it.

use anyhow::{Context, Result};
use host::files;
use host::git::Git;
use host::paths::Paths;
use pure::book::notebook::standing::Standing;
use pure::book::notebook::{Entry, Kind, Notebook, parse};
use pure::gate::evidence::{History, KernelBudget, Registered};
use pure::gate::rules;
use schema::Digest;
use schema::build::BudgetFile;
use schema::claim::{Claim, ClaimFile};
use schema::plan::{Plan, PlanFile};
use std::collections::{BTreeMap, BTreeSet};

/// A repository that tells of a commit.
pub struct Teller {
    /// The repository.
    pub git: Git,
    /// Whether it holds the commit.
    pub known: bool,
    /// Whether the commit is the one checked out or one of its ancestors.
    pub in_history: bool,
}

/// The repository, if it can tell of a commit. Absent when there is none, or when its history is cut off where it would tell:
/// before or right at the commit, or between the commit and the one checked out.
///
/// # Errors
/// When git fails, or `commit` is no commit's id.
pub fn teller(paths: &Paths, commit: &str) -> Result<Option<Teller>> {
    let Some(git) = Git::at(paths.root())? else { return Ok(None) };
    let known = git.knows(commit)?;
    let in_history = known && git.is_ancestor(commit, &git.head()?)?;
    if git.is_shallow()? && (!in_history || git.is_cut_at(commit)?) {
        return Ok(None);
    }
    Ok(Some(Teller { git, known, in_history }))
}

/// Asks this repository about a run: its measured commit, its plan, its claims, and the folders of its kernels. Absent as
/// [`teller`] is.
///
/// # Errors
/// When git fails, or a file of that commit does not parse.
pub fn of_run(
    paths: &Paths,
    commit: &str,
    plan: &Plan,
    claims: &ClaimFile,
    folders: &BTreeSet<String>,
) -> Result<Option<History>> {
    let Some(Teller { git, known, in_history }) = teller(paths, commit)? else { return Ok(None) };
    let mut history = History {
        commit: commit.to_owned(),
        known,
        in_history,
        rules: None,
        source: None,
        claims: None,
        plan: None,
        planned: false,
        toolkit_lock: None,
        budgets: Vec::new(),
        registered: BTreeMap::new(),
        standing: Standing::default(),
    };
    if known {
        history.rules = Some(rules_of(&git, commit)?);
        history.source = Some(git.source_digest_of(commit)?);
        let experiment = &plan.experiment;
        let plan_file = git.file_at(commit, &format!("harness/experiments/{experiment}/plan.toml"))?;
        history.planned = plan_file.as_ref().is_some_and(|text| freezes_to(text, plan));
        history.plan = plan_file.map(Digest::of);
        let claim_path = format!("harness/experiments/{experiment}/claims.toml");
        history.claims = git.file_at(commit, &claim_path)?.map(Digest::of);
        history.toolkit_lock = git.file_at(commit, "docker/toolkit.lock")?.map(Digest::of);
        history.budgets = budgets(&git, commit, folders)?;
        // A version of the notebook with a broken chain registers nothing.
        let notebooks: Vec<(String, Option<Notebook>)> = versions(&git, commit, "NOTEBOOK.md")?
            .into_iter()
            .map(|(commit, text)| (commit, text.and_then(|text| parse(&text).ok())))
            .collect();
        history.standing = standing(&notebooks, commit, plan, claims);
        history.registered = registered(paths, &git, commit, &claim_path, claims, &notebooks)?;
    }
    Ok(Some(history))
}

/// The version of the rules as of a commit: the highest that its tree or an ancestor's names, so that setting the
/// number back does not bring older rules.
///
/// # Errors
/// When git fails, or the file ever held something else than a version.
pub fn rules_of(git: &Git, commit: &str) -> Result<u32> {
    let mut highest = 1;
    for (commit, text) in versions(git, commit, rules::FILE)? {
        let Some(text) = text else { continue };
        highest = highest.max(rules::parse(&text).with_context(|| format!("{} as of {commit}", rules::FILE))?);
    }
    Ok(highest)
}

/// Whether a plan file freezes to exactly this plan: one profile, whole, and some of its phases.
fn freezes_to(text: &str, plan: &Plan) -> bool {
    PlanFile::parse(text).and_then(|file| file.freeze(plan.profile_name, &plan.phases)).is_ok_and(|ours| ours == *plan)
}

fn budgets(git: &Git, commit: &str, folders: &BTreeSet<String>) -> Result<Vec<KernelBudget>> {
    let mut budgets = Vec::new();
    for folder in folders {
        let path = format!("kernels/{folder}/budget.toml");
        let Some(text) = git.file_at(commit, &path)? else { continue };
        let file: BudgetFile = toml::from_str(&text).with_context(|| format!("{path} as of {commit}"))?;
        budgets.extend(file.kernel.into_iter().map(|budget| KernelBudget { folder: folder.clone(), budget }));
    }
    Ok(budgets)
}

fn registered(
    paths: &Paths,
    git: &Git,
    commit: &str,
    claim_path: &str,
    claims: &ClaimFile,
    notebooks: &[(String, Option<Notebook>)],
) -> Result<BTreeMap<String, Registered>> {
    let claim_files = versions(git, commit, claim_path)?;
    let claim_files: Vec<(String, Option<ClaimFile>)> = claim_files
        .into_iter()
        .map(|(commit, text)| (commit, text.and_then(|text| toml::from_str(&text).ok())))
        .collect();
    let now: Option<ClaimFile> =
        files::read_text(&paths.root().join(claim_path)).ok().and_then(|text| toml::from_str(&text).ok());
    let mut registered = BTreeMap::new();
    for claim in &claims.claim {
        let predicted = notebooks.first().and_then(|(_, notebook)| prediction(notebook.as_ref()?, claim));
        let found = Registered {
            claim_since: since(&claim_files, |file| file.claim.contains(claim)),
            prediction_since: predicted.and_then(|entry| since(notebooks, |book| book.entries.contains(entry))),
            unchanged_since: now.as_ref().is_some_and(|file| file.claim.contains(claim)),
            informed: predicted.is_some_and(|entry| entry.fields.informed),
        };
        registered.insert(claim.id.clone(), found);
    }
    Ok(registered)
}

/// What the notebook of the measured commit says of the run. A decision counts only when it is older than that commit.
fn standing(notebooks: &[(String, Option<Notebook>)], commit: &str, plan: &Plan, claims: &ClaimFile) -> Standing {
    let Some((_, Some(newest))) = notebooks.first() else { return Standing::default() };
    let mut standing = Standing::of(newest, plan, claims);
    standing.decisions.retain(|id, _| {
        let decided = newest.entry(id).and_then(|entry| since(notebooks, |book| book.entries.contains(entry)));
        decided.is_some_and(|since| since != commit)
    });
    standing
}

/// A file's versions reachable from a commit, newest first.
fn versions(git: &Git, commit: &str, path: &str) -> Result<Vec<(String, Option<String>)>> {
    let commits = git.commits_touching(commit, path)?;
    commits.into_iter().map(|commit| git.file_at(&commit, path).map(|text| (commit, text))).collect()
}

/// The commit since which the file has held this content without interruption. Rewriting an entry and the chain
/// behind it counts as an interruption.
fn since<T>(versions: &[(String, Option<T>)], holds: impl Fn(&T) -> bool) -> Option<String> {
    let unbroken = versions.iter().take_while(|(_, version)| version.as_ref().is_some_and(&holds));
    unbroken.last().map(|(commit, _)| commit.clone())
}

/// A claim's prediction.
fn prediction<'a>(notebook: &'a Notebook, claim: &Claim) -> Option<&'a Entry> {
    let entry = notebook.entry(&claim.prediction)?;
    (entry.fields.kind == Kind::Prediction && entry.fields.claims.contains(&claim.id)).then_some(entry)
}
