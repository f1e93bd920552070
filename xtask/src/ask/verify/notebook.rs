//! The notebook: its chain holds, and it has grown from what it was when each run began.

use super::Report;
use crate::paths::Paths;
use crate::pure::notebook::{Notebook, parse};
use crate::world::files;
use crate::world::layout::Layout;
use schema::Digest;

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
            format!("it has not grown from the notebook that run {run} was made with"),
        );
    }
}
