//! Under which rules a run is judged: those of the commit that was measured, whatever its verdict claims. A run under
//! older rules than this tree's is checked in everything its bytes show. Only the tree that published it can judge it
//! again, since this one keeps no code for older rules.

mod published;

use super::files::SealedBytes;
use super::judgement::{self, Judged, check_provenance};
use super::{Problem, Report, UNREADABLE};
use crate::runs::evidence::{self, Records};
use crate::runs::history::{Teller, rules_of, teller};
use crate::runs::layout::{Layout, MANIFEST, VERDICT, published_name};
use anyhow::Result;
use host::paths::Paths;
use pure::gate::{all_passed, rules};
use pure::records::attempts::Chain;
use schema::verdict::Verdict;

use published::Judge;

/// The kind of a problem with a verdict's claim of its rules.
const RULES: &str = "rules";

/// Whether the verdict names the rules that it must have been judged under, as far as that can be told here.
pub(super) fn check(paths: &Paths, layout: &Layout, sealed: &SealedBytes, report: &mut Report) -> bool {
    let (claimed, ours) = (sealed.verdict.rules, rules());
    let detail = match measured(paths, sealed) {
        _ if claimed > ours => {
            format!("judged under rules {claimed}, and this program knows up to {ours}: use a newer checkout")
        }
        Err(error) => {
            report.fault(layout.shown(MANIFEST), "malformed", &error.context("its measured commit"));
            return false;
        }
        Ok(Measured::NotAtHand) => {
            let run = layout.run();
            report.notes.push(format!(
                "{run}: no git history here, or it is cut off (git fetch --unshallow); whether its measured commit has rules \
                 {claimed} could not be checked"
            ));
            return true;
        }
        Ok(Measured::Rules(measured)) if measured == claimed => return true,
        Ok(Measured::Rules(measured)) => format!(
            "it claims rules {claimed}, and the measured commit has rules {measured}: a run is judged by those of its own commit"
        ),
        // Today's rules refuse such a run.
        Ok(Measured::Unknown) if claimed == ours => return true,
        Ok(Measured::Unknown) => {
            format!(
                "it claims rules {claimed}, and this repository does not hold the measured commit, whose rules count"
            )
        }
    };
    report.problem(layout.shown(VERDICT), RULES, detail);
    false
}

/// What the repository says of the rules of a run's measured commit.
enum Measured {
    Rules(u32),
    /// The run names no commit, or one that the repository does not hold.
    Unknown,
    /// There is no history here that would tell.
    NotAtHand,
}

fn measured(paths: &Paths, sealed: &SealedBytes) -> Result<Measured> {
    let Some(commit) = &sealed.manifest.predicate.source.commit else { return Ok(Measured::Unknown) };
    Ok(match teller(paths, commit)? {
        None => Measured::NotAtHand,
        Some(Teller { known: false, .. }) => Measured::Unknown,
        Some(Teller { git, .. }) => Measured::Rules(rules_of(&git, commit)?),
    })
}

/// Checks what the bytes of a run under older rules show, with no gate of this tree's; with `as_published`, also judges it by
/// the tree that published it.
pub(super) fn check_older(
    paths: &Paths,
    layout: &Layout,
    sealed: &SealedBytes,
    as_published: bool,
    report: &mut Report,
) -> Result<Judged> {
    match evidence::records(layout) {
        Ok(records) => {
            check_logs(layout, &records, report);
            check_attempts(layout, &records, report);
            let published = matches!(layout, Layout::Published { .. });
            if published && !check_provenance(paths, layout, records.origin(), report)? {
                report.notes.push(format!("{}: no provenance statement was published with it", layout.run()));
            }
        }
        Err(error) => report.fault(layout.shown(MANIFEST), "malformed", &error),
    }
    check_stored(layout, &sealed.verdict, report);
    let (run, theirs) = (layout.run(), sealed.verdict.rules);
    let judge = check_history(paths, layout, sealed, report)?;
    match &judge {
        Some(judge) if as_published => return take_over(judge, paths, layout, report),
        None if as_published => {
            let detail = "the commit that published it is not here: use a clone with the whole history";
            report.problem(layout.shown(VERDICT), UNREADABLE, detail);
        }
        _ => {}
    }
    let recomputed = recomputes(layout, sealed);
    let summary = match recomputed {
        true => "its summary recomputes to the same bytes".to_owned(),
        false => format!("its summary is not recomputed here: its recipes are those of rules {theirs}"),
    };
    let judged = format!("judged under rules {theirs} and not again here, where rules {} hold", rules());
    report.notes.push(format!("{run}: {judged}; {summary}"));
    if let Some(Judge { commit, target, .. }) = judge {
        let did = if matches!(layout, Layout::Published { .. }) { "published" } else { "measured" };
        let command = format!("cargo xtask verify {target} --as-published");
        report
            .notes
            .push(format!("{run}: judged exactly by the tree of commit {commit}, where it was {did}: {command}"));
    }
    Ok(Judged { passed: None, recomputed })
}

/// Verifies a run by another tree's program, and makes what that reports part of this report.
fn take_over(judge: &Judge, paths: &Paths, layout: &Layout, report: &mut Report) -> Result<Judged> {
    let told = judge.verify(paths)?;
    let (run, commit) = (layout.run(), &judge.commit);
    for Problem { path, kind, detail } in told.problems {
        report.problem(path, &kind, format!("the program of commit {commit} says: {detail}"));
    }
    if !told.ok {
        report.problem(layout.shown(VERDICT), "verdict", format!("the program of commit {commit} refuses it"));
        return Ok(Judged::default());
    }
    report.notes.push(format!("{run}: recomputed and judged again by the program of commit {commit}"));
    Ok(Judged { passed: told.runs.first().and_then(|run| run.passed), recomputed: true })
}

/// Sanitizer verdicts and counters say what their logs and outputs say when read again.
fn check_logs(layout: &Layout, records: &Records, report: &mut Report) {
    for verdict in &records.sanitizer {
        for fault in &verdict.log_faults {
            report.problem(layout.shown(&verdict.name), "recompute", fault);
        }
    }
    for fault in records.counters.iter().flat_map(|counters| &counters.faults) {
        report.problem(layout.shown(crate::runs::layout::COUNTERS), "recompute", fault);
    }
}

/// The chain of attempts holds, and the manifest lists every attempt with the plan.
fn check_attempts(layout: &Layout, records: &Records, report: &mut Report) {
    let predicate = &records.manifest.predicate;
    let fault = match records.attempts_log.as_deref().map(Chain::parse) {
        None => "the run holds no chain of attempts".to_owned(),
        Some(Err(error)) => format!("{error:#}"),
        Some(Ok(chain)) if chain.of_plan(&predicate.plan) != predicate.attempts => {
            "the manifest does not list every attempt with this plan, as the chain has them".to_owned()
        }
        Some(Ok(_)) => return,
    };
    report.problem(layout.shown("attempts.jsonl"), "chain", fault);
}

/// The stored verdict does not contradict itself, and nothing that it refuses is published.
fn check_stored(layout: &Layout, verdict: &Verdict, report: &mut Report) {
    if verdict.passed != all_passed(&verdict.gates) {
        report.problem(
            layout.shown(VERDICT),
            "verdict",
            "it passes although a gate refuses, or refuses although none does",
        );
    }
    if !verdict.passed && matches!(layout, Layout::Published { .. }) {
        report.problem(layout.shown(VERDICT), "verdict", "published although a gate refuses it");
    }
}

/// The source is that of a commit which the one checked out grew from, and a tree of the same rules published the run. Gives
/// who judges it exactly; absent without history.
fn check_history(paths: &Paths, layout: &Layout, sealed: &SealedBytes, report: &mut Report) -> Result<Option<Judge>> {
    let source = &sealed.manifest.predicate.source;
    let Some(commit) = &source.commit else { return Ok(None) };
    let Some(Teller { git, in_history, .. }) = teller(paths, commit)? else { return Ok(None) };
    if !in_history {
        let detail =
            format!("commit {commit}, which was measured, is not an ancestor of the commit that is checked out");
        report.problem(layout.shown(MANIFEST), "history", detail);
    }
    if git.source_digest_of(commit)? != source.digest {
        let detail = format!("the source that was built is not what commit {commit} holds");
        report.problem(layout.shown(MANIFEST), "history", detail);
    }
    let (commit, target) = match layout {
        Layout::Raw(dir) => (commit.clone(), dir.display().to_string()),
        Layout::Published { run, .. } => {
            // The first commit that holds the manifest as it is now; before it is committed, nothing published it.
            let added = git.additions_below(&published_name(run, MANIFEST))?;
            let Some(added) = added.into_iter().find(|added| added.digest == sealed.manifest_digest) else {
                return Ok(None);
            };
            (added.commit, run.clone())
        }
    };
    let theirs = rules_of(&git, &commit)?;
    if theirs != sealed.verdict.rules {
        let detail = format!("it was published by commit {commit}, whose tree judges by rules {theirs}");
        report.problem(layout.shown(VERDICT), RULES, detail);
        return Ok(None);
    }
    Ok(Some(Judge { git, commit, target }))
}

/// What a run must hold for another version's recipes to be known: which metrics it has and how each follows from its tables.
const CONTRACT: &str = "contract.json";

/// Whether the summary follows from the events by the recipes that the run names and this tree still has.
fn recomputes(layout: &Layout, sealed: &SealedBytes) -> bool {
    let names_recipes = sealed.manifest.subject.iter().any(|subject| subject.name == CONTRACT);
    names_recipes && evidence::load(layout).is_ok_and(|evidence| judgement::recomputation_faults(&evidence).is_empty())
}
