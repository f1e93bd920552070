//! Numbers in prose: every figure with a unit says what it is.
//!
//! | kind | how it is written |
//! |---|---|
//! | measured | `<!-- assay:measured RUN METRIC@PHASE/CELL -->` value `<!-- /assay -->`: resolved from the published run |
//! | ratio | `<!-- assay:ratio RUN NUMBER over RUN NUMBER -->` value `<!-- /assay -->`: both sides have equal end points |
//! | cited | somebody else's, on a line with `[cited: KEY]` or in a table row that fills a column `source` |
//! | stated | a limit, a setting or a threshold of ours, as inline code; fenced blocks count as code |
//!
//! The keys are the rows under "## Sources" in the FINDINGS.md of each experiment. A region between `assay:begin` and
//! `assay:end` is rendered from data and compared as a whole, so the regions listed in [`REGIONS`] are left out here.
//!
//! A figure with a unit that is none of these is a finding, and so is a published number that is printed without a reference.
//! The page is read by a CommonMark parser; HTML other than a comment is a finding too, since its words are not read. The
//! check finds what an honest author overlooks, and does not defend against one who hides a figure.

mod figures;
mod page;
mod references;

pub use page::links;
pub use references::{Numbers, Published, resolve};

use crate::book::render::{region, replace_region};
use figures::{Figure, figures};
use page::Block;
use references::references;
use std::collections::BTreeSet;
use std::ops::Range;

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

/// The keys of the sources that a page of findings lists.
#[must_use]
pub fn sources(findings: &str) -> BTreeSet<String> {
    let section = findings.lines().skip_while(|line| *line != "## Sources").skip(1);
    let rows = section.take_while(|line| !line.starts_with("## ")).filter_map(|line| line.strip_prefix('|'));
    let keys = rows.filter_map(|row| row.split('|').next()).map(str::trim);
    keys.filter(|key| !key.is_empty() && !key.starts_with("---") && *key != "key").map(str::to_owned).collect()
}

/// Every figure of a page that does not say what it is, every citation of a source that is not listed, and HTML, whose words
/// are not read. `page` is its path below the root.
#[must_use]
pub fn untyped(page: &str, text: &str, sources: &BTreeSet<String>, numbers: &Numbers) -> Vec<Wrong> {
    let read = page::read(&written(page, text));
    let mut wrong = read.wrong;
    let mut add = |line: usize, what: String| wrong.push(Wrong { line, what });
    let mut typed = read.sourced;
    for (line, key) in read.blocks.iter().flat_map(citations) {
        if !sources.contains(key) {
            add(line, format!("[cited: {key}] names no row under \"## Sources\" of an experiment's FINDINGS.md"));
        }
        typed.insert(line);
    }
    for block in &read.blocks {
        for Figure { value, unit, range } in figures(&block.text) {
            let (line, figure) = (block.line(range.start), format!("{value} {unit}"));
            if numbers.prints(&value, unit) {
                let what = "is a published number: refer to it with <!-- assay:measured RUN NUMBER -->";
                add(line, format!("{figure:?} {what}"));
            } else if !typed.contains(&line) && !block.is_code(&range) {
                add(
                    line,
                    format!(
                        "{figure:?} does not say what it is: refer to a run (assay:measured), cite a source \
                         ([cited: KEY]), or put a limit of ours in backticks"
                    ),
                );
            }
        }
    }
    wrong.sort_by_key(|wrong| wrong.line);
    wrong
}

/// A page without its rendered region and without the values of references, line by line as it was.
fn written(page: &str, text: &str) -> String {
    let rendered = REGIONS.iter().find(|(of, _)| *of == page).map(|(_, name)| *name);
    let mut prose = text.to_owned();
    if let Some((name, body)) = rendered.and_then(|name| Some((name, region(text, name).ok()?))) {
        let lines = "\n".repeat(body.lines().count());
        prose = replace_region(text, name, &lines).unwrap_or(prose);
    }
    let values: Vec<Range<usize>> = references(&prose).0.into_iter().map(|reference| reference.whole).collect();
    values.into_iter().rev().for_each(|value| prose.replace_range(value, " "));
    prose
}

/// The sources that a block cites, each with its line; inline code only shows how that is written.
fn citations(block: &Block) -> impl Iterator<Item = (usize, &str)> {
    let found = block.text.match_indices("[cited:").filter(|(at, mark)| !block.is_code(&(*at..at + mark.len())));
    found.filter_map(|(at, mark)| {
        let (key, _) = block.text[at + mark.len()..].split_once(']')?;
        Some((block.line(at), key.trim()))
    })
}

#[cfg(test)]
mod tests;
