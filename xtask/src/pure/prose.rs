//! Numbers in prose: every figure with a unit says what it is.
//!
//! | kind | how it is written |
//! |---|---|
//! | measured | `<!-- assay:measured RUN METRIC@PHASE/CELL -->` value `<!-- /assay -->`: resolved from the published run |
//! | ratio | `<!-- assay:ratio RUN NUMBER over RUN NUMBER -->` value `<!-- /assay -->`: both sides have equal end points |
//! | cited | somebody else's, on a line with `[cited: KEY]` or in a table row that fills a column `source` |
//! | stated | a limit, a setting or a threshold of ours, as inline code; fenced blocks count as code |
//!
//! The keys of sources are the rows under "## Sources" in FINDINGS.md. A region between `assay:begin` and `assay:end` is
//! rendered from data and compared as a whole, so only regions that are known for that are left out.
//!
//! A figure with a unit that is none of these is a finding, and so is a published number that is not referred to as such.

mod end_points;
mod figures;
mod references;

pub use end_points::end_points;
pub use references::{Numbers, Published, resolve};

use figures::{Figure, figures};
use std::collections::BTreeSet;

/// Regions that are rendered, and compared with what they are rendered from.
const REGIONS: [&str; 3] = ["faults", "headline", "results"];

/// A line of a text and what is wrong on it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wrong {
    /// The line's number, from 1.
    pub line: usize,
    /// What is wrong.
    pub what: String,
}

/// The keys of the sources that FINDINGS.md lists.
#[must_use]
pub fn sources(findings: &str) -> BTreeSet<String> {
    let section = findings.lines().skip_while(|line| *line != "## Sources").skip(1);
    let rows = section.take_while(|line| !line.starts_with("## ")).filter_map(|line| line.strip_prefix('|'));
    let keys = rows.filter_map(|row| row.split('|').next()).map(str::trim);
    keys.filter(|key| !key.is_empty() && !key.starts_with("---") && *key != "key").map(str::to_owned).collect()
}

/// Every figure that does not say what it is, and every citation of a source that is not listed.
#[must_use]
pub fn untyped(text: &str, sources: &BTreeSet<String>, numbers: &Numbers) -> Vec<Wrong> {
    let mut wrong = Vec::new();
    let (mut fenced, mut rendered) = (false, false);
    let mut table = Table::default();
    for (at, line) in text.lines().enumerate() {
        let mut add = |what: String| wrong.push(Wrong { line: at + 1, what });
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
            continue;
        }
        let begun = line.strip_prefix("<!-- assay:begin ").map(|rest| rest.trim_end_matches(" -->"));
        if let Some(region) = begun.filter(|region| !REGIONS.contains(region)) {
            add(format!("{region:?} is no region that is rendered: {}", REGIONS.join(", ")));
        }
        rendered = begun.is_some() || (rendered && !line.starts_with("<!-- assay:end "));
        let sourced = table.names_its_source(line);
        if fenced || rendered {
            continue;
        }
        let cited = citations(line);
        for key in cited.iter().filter(|key| !sources.contains(*key)) {
            add(format!("[cited: {key}] names no row under \"## Sources\" of FINDINGS.md"));
        }
        for Figure { text, in_code } in figures(&references::blanked(line)) {
            if numbers.prints(&text) {
                add(format!("{text:?} is a published number: refer to it with <!-- assay:measured RUN NUMBER -->"));
            } else if cited.is_empty() && !sourced && !in_code {
                add(format!(
                    "{text:?} does not say what it is: refer to a run (assay:measured), cite a source ([cited: KEY]), \
                     or put a limit of ours in backticks"
                ));
            }
        }
    }
    wrong
}

/// The table that a line belongs to.
#[derive(Default)]
struct Table {
    inside: bool,
    /// The place of its column `source`, if it has one.
    source: Option<usize>,
}

impl Table {
    /// Whether the next line is a row whose source is given.
    fn names_its_source(&mut self, line: &str) -> bool {
        let is_row = line.starts_with('|');
        let line = line.replace("\\|", " ");
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        if is_row && !self.inside {
            self.source = cells.iter().position(|cell| *cell == "source");
        }
        self.inside = is_row;
        is_row && self.source.and_then(|at| cells.get(at)).is_some_and(|cell| !cell.is_empty())
    }
}

/// The sources that a line cites; inline code only shows how that is written.
fn citations(line: &str) -> Vec<String> {
    let outside: String = line.split('`').step_by(2).collect::<Vec<_>>().join(" ");
    let parts = outside.split("[cited:").skip(1);
    parts.filter_map(|rest| rest.split_once(']')).map(|(key, _)| key.trim().to_owned()).collect()
}

#[cfg(test)]
mod tests;
