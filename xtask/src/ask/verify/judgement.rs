//! Parses the evidence anew, recomputes the summary, judges again, and compares the results with what was stored.

use super::Report;
use super::files::SealedBytes;
use crate::runs::layout::{Layout, MANIFEST, PROVENANCE, VERDICT};
use crate::runs::{evidence, provenance};
use anyhow::{Context, Result};
use host::paths::Paths;
use pure::gate::evidence::History;
use pure::gate::{self, Evidence, Facts};
use pure::numbers::sample;
use pure::numbers::summary::check_blocks;
use pure::records::json::to_bytes;
use pure::records::provenance::Origin;
use schema::verdict::{GateResult, Verdict};
use std::collections::BTreeSet;
use tables::MAX_VALUES;

/// What came of judging a run.
#[derive(Clone, Copy, Default)]
pub(super) struct Judged {
    /// Whether it passes; absent when it was not judged.
    pub(super) passed: Option<bool>,
    /// Whether its summary and figures were recomputed.
    pub(super) recomputed: bool,
}

/// Judges a run again by today's rules.
pub(super) fn check(paths: &Paths, layout: &Layout, sealed: &SealedBytes, report: &mut Report) -> Result<Judged> {
    let evidence = match evidence::load(layout) {
        Ok(evidence) => evidence,
        Err(error) => {
            report.fault(layout.shown(MANIFEST), "malformed", &error);
            return Ok(Judged::default());
        }
    };
    for (name, fault) in recomputation_faults(&evidence) {
        report.problem(layout.shown(&name), "recompute", fault);
    }
    if matches!(layout, Layout::Published { .. }) {
        check_samples(layout, &evidence, sealed, report);
        if !check_provenance(paths, layout, evidence.origin(), report)? {
            report.problem(layout.shown(PROVENANCE), "missing", "it says what the run was built from");
        }
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
            return Ok(Judged { passed: None, recomputed: true });
        }
    };
    compare(layout, sealed, &judged, report)?;
    if sealed.verdict.passed {
        check_today(paths, layout, &evidence, same, sealed, report)?;
    } else if matches!(layout, Layout::Published { .. }) {
        report.problem(layout.shown(VERDICT), "verdict", "published although a gate refuses it");
    }
    Ok(Judged { passed: Some(judged.passed), recomputed: true })
}

/// The files of the summary that do not follow from the events, each with what is wrong.
pub(super) fn recomputation_faults(evidence: &Evidence) -> Vec<(String, String)> {
    let anew = &evidence.recomputed;
    let mut faults = Vec::new();
    if !anew.fault.is_empty() {
        faults.push(("summary/metrics.csv".to_owned(), anew.fault.clone()));
    } else if evidence.metrics_csv.as_ref() != Some(&anew.metrics_csv) {
        faults.push(("summary/metrics.csv".to_owned(), "the events give a different summary".to_owned()));
    }
    let figures = anew.figures.iter().filter(|(name, figure)| evidence.figures.get(*name) != Some(*figure));
    faults
        .extend(figures.map(|(name, _)| (format!("summary/{name}"), "the values give a different figure".to_owned())));
    faults
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
            report.problem(layout.shown(&name), "extra", "no event of that cell is in the sample");
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
            let spec = cell.spec(&evidence.contract).and_then(|spec| evidence.contract.table(spec));
            check_blocks(&events, spec.context("the contract does not name this cell")?, &rows)
        });
        match faults {
            Err(error) => report.fault(layout.shown(&file), "malformed", &error),
            Ok(faults) => {
                faults.into_iter().for_each(|fault| report.problem(layout.shown(&file), "recompute", fault));
            }
        }
    }
}

/// The provenance statement says what the sealed run says. Gives whether there is one.
pub(super) fn check_provenance(paths: &Paths, layout: &Layout, run: Origin<'_>, report: &mut Report) -> Result<bool> {
    let shown = layout.shown(PROVENANCE);
    let Some(published) = layout.read(PROVENANCE)? else { return Ok(false) };
    match provenance::statement(paths, run) {
        Ok(None) => {
            let note = format!("{}: its toolkit lock is not here, so its provenance is not checked", layout.run());
            report.notes.push(note);
        }
        Ok(Some(expected)) if published == expected => {}
        Ok(Some(_)) => report.problem(shown, "provenance", "does not match what the sealed run says it was built from"),
        Err(error) => report.fault(shown, "provenance", &error),
    }
    Ok(true)
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
        report.problem(shown.clone(), "verdict", "judging again gives other outcomes of claims");
    }
    report.problem(shown, "verdict", "judging again gives a different verdict");
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
    if same.history.as_ref().is_none_or(|recorded| steady(recorded) != steady(&history)) {
        report.problem(
            layout.shown(VERDICT),
            "verdict",
            "what it recorded of this repository's history is not what git shows",
        );
    }
    let today = Facts { history: Some(history), ..same };
    let judged = gate::verdict(evidence, &today, sealed.manifest_digest)?;
    for gate in judged.gates.iter().filter(|gate| !gate.passed) {
        report.problem(layout.shown(VERDICT), "verdict", format!("gate {} refuses today: {}", gate.name, gate.reason));
    }
    report.notes.push(format!("{run}: kernels were not rebuilt here, so freshness rests on what the verdict recorded"));
    Ok(())
}
