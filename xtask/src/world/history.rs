//! What this repository's history says of a run: whether it knows the commit, and when claims and predictions entered it.

use super::files;
use super::git::Git;
use crate::paths::Paths;
use crate::pure::gate::evidence::{History, KernelBudget, Registered};
use anyhow::{Context, Result};
use schema::Digest;
use schema::build::BudgetFile;
use schema::claim::{Claim, ClaimFile};
use std::collections::{BTreeMap, BTreeSet};

/// Asks this repository about a run: its measured commit, its experiment, its claims, and the folders of its kernels.
///
/// Absent when there is no repository, or when its history is cut off before the commit.
///
/// # Errors
/// When git fails, or a file of that commit does not parse.
pub fn of_run(
    paths: &Paths,
    commit: &str,
    experiment: &str,
    claims: &ClaimFile,
    folders: &BTreeSet<String>,
) -> Result<Option<History>> {
    let Some(git) = Git::at(paths.root()) else { return Ok(None) };
    let known = git.knows(commit)?;
    if !known && git.is_shallow()? {
        return Ok(None);
    }
    let mut history = History {
        commit: commit.to_owned(),
        known,
        in_history: known && git.is_ancestor(commit, &git.head()?)?,
        claims: None,
        toolkit_lock: None,
        budgets: Vec::new(),
        registered: BTreeMap::new(),
    };
    if known {
        let claim_path = format!("harness/experiments/{experiment}/claims.toml");
        history.claims = git.file_at(commit, &claim_path)?.map(Digest::of);
        history.toolkit_lock = git.file_at(commit, "docker/toolkit.lock")?.map(Digest::of);
        history.budgets = budgets(&git, commit, folders)?;
        history.registered = registered(paths, &git, commit, &claim_path, claims)?;
    }
    Ok(Some(history))
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
) -> Result<BTreeMap<String, Registered>> {
    let claim_files = versions(git, commit, claim_path)?;
    let claim_files: Vec<(String, Option<ClaimFile>)> =
        claim_files.into_iter().map(|(commit, text)| (commit, text.and_then(|text| toml::from_str(&text).ok()))).collect();
    let notebooks = versions(git, commit, "NOTEBOOK.md")?;
    let now: Option<ClaimFile> =
        files::read_text(&paths.root().join(claim_path)).ok().and_then(|text| toml::from_str(&text).ok());
    let mut registered = BTreeMap::new();
    for claim in &claims.claim {
        let prediction = |text: &Option<String>| text.as_ref().and_then(|text| prediction(text, &claim.prediction));
        // Entries are never removed, so the oldest version that has the prediction brought it in.
        let first = notebooks.iter().rev().find_map(|(commit, text)| Some((commit.clone(), prediction(text)?)));
        let found = Registered {
            claim_since: since(&claim_files, claim),
            prediction_since: first.as_ref().map(|(commit, _)| commit.clone()),
            unchanged_since: now.as_ref().is_some_and(|file| file.claim.contains(claim)),
            informed: first.is_some_and(|(_, informed)| informed),
        };
        registered.insert(claim.id.clone(), found);
    }
    Ok(registered)
}

/// A file's versions reachable from a commit, newest first.
fn versions(git: &Git, commit: &str, path: &str) -> Result<Vec<(String, Option<String>)>> {
    let commits = git.commits_touching(commit, path)?;
    commits.into_iter().map(|commit| git.file_at(&commit, path).map(|text| (commit, text))).collect()
}

/// The commit since which, without a break, the file has held exactly this claim.
fn since(files: &[(String, Option<ClaimFile>)], claim: &Claim) -> Option<String> {
    let holds = |file: &Option<ClaimFile>| file.as_ref().is_some_and(|file| file.claim.contains(claim));
    files.iter().take_while(|(_, file)| holds(file)).last().map(|(commit, _)| commit.clone())
}

/// Whether a notebook holds this prediction, and if so whether it is marked `informed`.
fn prediction(notebook: &str, id: &str) -> Option<bool> {
    let heading = |line: &str| line.strip_prefix("## ").and_then(|rest| rest.split_once(' ')).map(|(_, rest)| rest.to_owned());
    let names = |line: &str| heading(line).is_some_and(|rest| rest.strip_prefix(id).is_some_and(|r| r.starts_with(':')));
    let mut lines = notebook.lines().skip_while(|line| !names(line));
    lines.next()?;
    let entry: Vec<&str> = lines.take_while(|line| !line.starts_with("## ")).collect();
    entry.contains(&"kind = \"prediction\"").then(|| entry.contains(&"informed = true"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prediction_is_found_by_its_exact_id() {
        let text = "# Notebook\n\n## 2026-01-01 P-001: a\n\n```toml\nkind = \"prediction\"\n```\n\n## 2026-01-02 O-001: b\n\nkind = \"outcome\"\n";
        assert_eq!(prediction(text, "P-001"), Some(false));
        assert_eq!(prediction(text, "P-00"), None);
        assert_eq!(prediction(text, "O-001"), None);
    }
}
