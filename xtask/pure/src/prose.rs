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
//! What could show a reader another figure than is checked, such as HTML, is one too.

mod end_points;
mod figures;
mod pieces;
mod references;
mod seen;

pub use end_points::end_points;
pub use references::{Numbers, Published, resolve};

use figures::{Figure, figures};
use pieces::fenced;
use seen::Seen;
use std::collections::BTreeSet;

/// Regions that are rendered, each in the one page in which it is compared with what it is rendered from.
const REGIONS: [(&str, &str); 2] = [("README.md", "headline"), ("RESULTS.md", "results")];

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

/// Every figure of a page that does not say what it is, every citation of a source that is not listed, and everything that
/// could hide a figure from this. `page` is its path below the root.
#[must_use]
pub fn untyped(page: &str, text: &str, sources: &BTreeSet<String>, numbers: &Numbers) -> Vec<Wrong> {
    let (fenced, mut wrong) = fenced(text);
    let mut region = Region::of(page);
    let mut table = Table::default();
    let lines: Vec<&str> = text.lines().collect();
    for (at, line) in lines.iter().enumerate() {
        let mut add = |what: String| wrong.push(Wrong { line: at + 1, what });
        let sourced = table.names_its_source(line);
        if fenced[at] {
            continue;
        }
        match region.step(line) {
            Ok(true) => continue,
            Ok(false) => {}
            Err(what) => add(what),
        }
        let seen = Seen::of(line);
        seen.hides.iter().for_each(|what| add(format!("{what}; a figure could hide behind it")));
        let cited = citations(&seen);
        for key in cited.iter().filter(|key| !sources.contains(*key)) {
            add(format!("[cited: {key}] names no row under \"## Sources\" of FINDINGS.md"));
        }
        let next = lines.get(at + 1).filter(|_| !fenced[at + 1]).copied().unwrap_or_default();
        for Figure { value, unit, range } in figures(&seen.continued(next), seen.text.len()) {
            let text = format!("{value} {unit}");
            if numbers.prints(&value, unit) {
                add(format!("{text:?} is a published number: refer to it with <!-- assay:measured RUN NUMBER -->"));
            } else if cited.is_empty() && !sourced && !seen.is_code(&range) {
                add(format!(
                    "{text:?} does not say what it is: refer to a run (assay:measured), cite a source ([cited: KEY]), \
                     or put a limit of ours in backticks"
                ));
            }
        }
    }
    wrong
}

/// The rendered region of a page, and whether a line lies in it.
struct Region {
    name: Option<&'static str>,
    inside: bool,
}

impl Region {
    fn of(page: &str) -> Self {
        Self { name: REGIONS.iter().find(|(of, _)| *of == page).map(|(_, name)| *name), inside: false }
    }

    /// Whether the next line is rendered. Only the two marks that rendering looks for, each alone on its line, begin and end it.
    fn step(&mut self, line: &str) -> Result<bool, String> {
        let is = |mark: &str| self.name.is_some_and(|name| line == format!("<!-- assay:{mark} {name} -->"));
        if is(if self.inside { "end" } else { "begin" }) {
            self.inside = !self.inside;
            return Ok(true);
        }
        match ["<!-- assay:begin", "<!-- assay:end"].iter().any(|mark| line.starts_with(mark)) {
            true => Err(format!("{line:?} is no mark of a region that is rendered in this page")),
            false => Ok(self.inside),
        }
    }
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
fn citations(seen: &Seen) -> Vec<String> {
    let found = seen.text.match_indices("[cited:").filter(|(at, mark)| !seen.is_code(&(*at..at + mark.len())));
    let keys = found.filter_map(|(at, mark)| seen.text[at + mark.len()..].split_once(']'));
    keys.map(|(key, _)| key.trim().to_owned()).collect()
}
