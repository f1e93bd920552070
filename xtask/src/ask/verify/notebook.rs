//! Checks the notebook: its chain holds, and it begins with the bytes that it had when each run was made.

use super::Report;
use crate::runs::layout::Layout;
use host::files;
use host::paths::Paths;
use pure::book::notebook::{Notebook, parse};
use pure::book::{name_of, name_of_claim};
use schema::Digest;
use schema::metrics::from_csv;
use schema::verdict::Verdict;
use std::collections::BTreeMap;

/// Checks the chain; absent when there is no notebook, or one that does not hold. Where a run is published there is one.
pub(super) fn check(paths: &Paths, layouts: &[Layout], report: &mut Report) -> Option<Notebook> {
    if !files::exists(&paths.notebook()) {
        if layouts.iter().any(|layout| matches!(layout, Layout::Published { .. })) {
            report.problem("NOTEBOOK.md", "missing", "published runs hold heads of its chain: git restores it");
        } else {
            report.notes.push("there is no NOTEBOOK.md here".to_owned());
        }
        return None;
    }
    match files::read_text(&paths.notebook()).and_then(|text| parse(&text)) {
        Ok(notebook) => {
            report.checked_files += 1;
            Some(notebook)
        }
        Err(error) => {
            report.fault("NOTEBOOK.md", "chain", &error);
            None
        }
    }
}

/// The head that a manifest names is a link of the chain: nothing before it was changed since.
pub(super) fn check_head(notebook: Option<&Notebook>, layout: &Layout, head: Digest, report: &mut Report) {
    if notebook.is_some_and(|notebook| !notebook.extends(&head)) {
        let run = layout.run();
        report.problem(
            "NOTEBOOK.md",
            "chain",
            format!("it does not begin with the notebook that run {run} was made with"),
        );
    }
}

/// What entries say that a published run gave is what it gave: a chain that holds vouches for no number in it.
pub(super) fn check_values(notebook: Option<&Notebook>, layout: &Layout, verdict: &Verdict, report: &mut Report) {
    let (Some(notebook), Layout::Published { run, .. }) = (notebook, layout) else { return };
    let summary = layout.read("summary/metrics.csv").ok().flatten().and_then(|bytes| String::from_utf8(bytes).ok());
    let metrics = summary.and_then(|text| from_csv(&text).ok()).unwrap_or_default();
    let mut gave: BTreeMap<String, &str> = metrics.iter().map(|m| (name_of(m), m.value.as_str())).collect();
    for claim in verdict.claims.iter().filter(|claim| !claim.value.is_empty()) {
        gave.insert(claim.id.clone(), &claim.value);
        gave.insert(name_of_claim(&claim.id), &claim.value);
    }
    for entry in notebook.standing().filter(|entry| entry.fields.run.as_ref() == Some(run)) {
        for (name, said) in entry.fields.measured() {
            let gave = gave.get(name).copied().unwrap_or("no such number");
            if gave != said.to_string() {
                let detail = format!("{} says that {name} of run {run} is {said}, and the run gave {gave}", entry.id);
                report.problem("NOTEBOOK.md", "recompute", detail);
            }
        }
    }
}
