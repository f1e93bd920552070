//! The meaning: parse the evidence anew, recompute the summary, judge again, and compare with what was stored.

use super::Report;
use super::files::SealedBytes;
use crate::runs::layout::{Layout, MANIFEST, PROVENANCE, VERDICT};
use crate::runs::{evidence, provenance};
use anyhow::Result;
use host::paths::Paths;
use pure::gate::evidence::History;
use pure::gate::{self, Evidence, Facts};
use pure::json::to_bytes;
use pure::sample;
use pure::summary::check_blocks;
use schema::table::MAX_VALUES;
use schema::verdict::{GateResult, Verdict};
use std::collections::BTreeSet;

/// Judges a run again; gives whether it passes, or nothing when it could not be judged.
pub(super) fn check(paths: &Paths, layout: &Layout, sealed: &SealedBytes, report: &mut Report) -> Result<Option<bool>> {
    let evidence = match evidence::load(layout) {
        Ok(evidence) => evidence,
        Err(error) => {
            report.fault(layout.shown(MANIFEST), "malformed", &error);
            return Ok(None);
        }
    };
    check_recomputation(layout, &evidence, report);
    if matches!(layout, Layout::Published { .. }) {
        check_samples(layout, &evidence, sealed, report);
        check_provenance(paths, layout, &evidence, report)?;
    }
    let stored = Facts::stored(&sealed.verdict.gates);
    let detached = match evidence::detached(layout, &evidence) {
        Ok(found) => found,
        Err(error) => {
            report.fault(layout.shown(MANIFEST), "malformed", &error.context("a detached table"));
            None
        }
    };
    let same = Facts { detached: detached.clone(), ..Facts::default() }.or(stored.clone());
    let judged = match gate::verdict(&evidence, &same, sealed.manifest_digest) {
        Ok(judged) => judged,
        Err(error) => {
            report.fault(layout.shown("claims.toml"), "malformed", &error);
            return Ok(None);
        }
    };
    compare(layout, sealed, &judged, report)?;
    if sealed.verdict.passed {
        check_today(paths, layout, &evidence, same, sealed, report)?;
    } else if matches!(layout, Layout::Published { .. }) {
        report.problem(layout.shown(VERDICT), "verdict", "published although a gate refuses");
    }
    Ok(Some(judged.passed))
}

fn check_recomputation(layout: &Layout, evidence: &Evidence, report: &mut Report) {
    let anew = &evidence.recomputed;
    if !anew.fault.is_empty() {
        report.problem(layout.shown("summary/metrics.csv"), "recompute", &anew.fault);
    } else if evidence.metrics_csv.as_ref() != Some(&anew.metrics_csv) {
        report.problem(layout.shown("summary/metrics.csv"), "recompute", "the events give another summary");
    }
    for (name, figure) in &anew.figures {
        if evidence.figures.get(name) != Some(figure) {
            report.problem(layout.shown(&format!("summary/{name}")), "recompute", "the values give another figure");
        }
    }
}

/// The published block rows are those of the events that the manifest's digest chooses, and give their columns.
fn check_samples(layout: &Layout, evidence: &Evidence, sealed: &SealedBytes, report: &mut Report) {
    let chosen = match evidence.sampled_events(sealed.manifest_digest) {
        Ok(chosen) => chosen,
        Err(error) => return report.fault(layout.shown(MANIFEST), "malformed", &error),
    };
    let expected: BTreeSet<String> =
        chosen.iter().map(|(cell, _, _)| format!("cells/{cell}{}", sample::SUFFIX)).collect();
    for name in layout.listing().map(|listing| listing.files).unwrap_or_default().into_keys() {
        if sample::is_sample(&name) && !expected.contains(&name) {
            report.problem(layout.shown(&name), "extra", "no event of that cell was chosen");
        }
    }
    for cell in &evidence.cells {
        let name = cell.name();
        if !chosen.iter().any(|(cell, _, _)| *cell == name) {
            continue;
        }
        let file = format!("cells/{name}{}", sample::SUFFIX);
        let faults = layout.table(&file).and_then(|reader| reader.all(MAX_VALUES)).and_then(|rows| {
            let events = sample::rows_of(&cell.data.events, &name, &chosen)?;
            check_blocks(&events, &rows)
        });
        match faults {
            Err(error) => report.fault(layout.shown(&file), "malformed", &error),
            Ok(faults) => {
                faults.into_iter().for_each(|fault| report.problem(layout.shown(&file), "recompute", fault));
            }
        }
    }
}

/// The provenance statement says what the sealed run says. Runs published before there was one have none.
fn check_provenance(paths: &Paths, layout: &Layout, evidence: &Evidence, report: &mut Report) -> Result<()> {
    let run = layout.run();
    let Some(published) = layout.read(PROVENANCE)? else {
        report.notes.push(format!("{run}: no provenance statement was published with it"));
        return Ok(());
    };
    match provenance::statement(paths, evidence) {
        Ok(None) => report.notes.push(format!("{run}: its toolkit lock is not at hand to check its provenance with")),
        Ok(Some(expected)) if published == expected => {}
        Ok(Some(_)) => {
            report.problem(layout.shown(PROVENANCE), "provenance", "not what the sealed run says it was built from");
        }
        Err(error) => report.fault(layout.shown(PROVENANCE), "provenance", &error),
    }
    Ok(())
}

fn compare(layout: &Layout, sealed: &SealedBytes, judged: &Verdict, report: &mut Report) -> Result<()> {
    if to_bytes(judged)? == sealed.verdict_bytes {
        return Ok(());
    }
    let shown = layout.shown(VERDICT);
    for (stored, anew) in differing(&sealed.verdict.gates, &judged.gates) {
        let word =
            |gate: &GateResult| if gate.passed { "passed".to_owned() } else { format!("refused ({})", gate.reason) };
        let detail = format!("gate {}: stored as {}, judged again {}", stored.name, word(stored), word(anew));
        report.problem(shown.clone(), "verdict", detail);
    }
    if sealed.verdict.claims != judged.claims {
        report.problem(shown.clone(), "verdict", "the claims come out differently");
    }
    report.problem(shown, "verdict", "judging again gives another verdict");
    Ok(())
}

fn differing<'a>(
    stored: &'a [GateResult],
    judged: &'a [GateResult],
) -> impl Iterator<Item = (&'a GateResult, &'a GateResult)> {
    stored.iter().zip(judged).filter(|(a, b)| a != b)
}

/// What history says of a commit, without what it says of the branch and tree checked out, which change.
fn steady(history: &History) -> History {
    let mut steady = History { in_history: true, ..history.clone() };
    steady.registered.values_mut().for_each(|claim| claim.unchanged_since = true);
    steady
}

/// What history says now, as far as it was asked when this was recorded.
fn as_then(now: History, recorded: &History) -> History {
    History { source: now.source.filter(|_| recorded.source.is_some()), ..now }
}

/// What passed must still pass by what this repository's history says today.
fn check_today(
    paths: &Paths,
    layout: &Layout,
    evidence: &Evidence,
    same: Facts,
    sealed: &SealedBytes,
    report: &mut Report,
) -> Result<()> {
    let run = layout.run();
    let history = match evidence::history(paths, evidence) {
        Ok(history) => history,
        Err(error) => {
            report.fault(layout.shown(MANIFEST), "malformed", &error.context("its history"));
            return Ok(());
        }
    };
    let Some(history) = history else {
        report
            .notes
            .push(format!(
            "{run}: no git history here, or it is cut off (git fetch --unshallow); source and registration rest on what the \
             verdict recorded"
        ));
        return Ok(());
    };
    if same.history.as_ref().is_none_or(|recorded| steady(recorded) != steady(&as_then(history.clone(), recorded))) {
        report.problem(
            layout.shown(VERDICT),
            "verdict",
            "it recorded something else of this repository's history than there is",
        );
    }
    let today = Facts { history: Some(history), ..same };
    let judged = gate::verdict(evidence, &today, sealed.manifest_digest)?;
    for gate in judged.gates.iter().filter(|gate| !gate.passed) {
        report.problem(layout.shown(VERDICT), "verdict", format!("gate {} refuses today: {}", gate.name, gate.reason));
    }
    report.notes.push(format!("{run}: kernels were not rebuilt here; freshness rests on what the verdict recorded"));
    Ok(())
}
