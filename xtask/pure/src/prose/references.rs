//! References to published numbers, and what they resolve to.

use super::Wrong;
use super::end_points::end_points;
use super::pieces::{Piece, fenced, pieces};
use crate::decimal::Decimal;
use crate::summary::decimal;
use std::collections::BTreeMap;

const OPEN: &str = "<!-- assay:";
const MEASURED: &str = "measured ";
const RATIO: &str = "ratio ";
const SHUT: &str = " -->";
const END: &str = "<!-- /assay -->";

/// A published number, as a reference shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Published {
    /// The value as printed.
    pub value: String,
    /// Its unit; `1` is not shown.
    pub unit: String,
    /// The GPU's product name.
    pub gpu: String,
    /// What withdrew it, if anything did.
    pub retracted: Option<String>,
}

/// Every published number, by run and name.
#[derive(Clone, Debug, Default)]
pub struct Numbers(BTreeMap<(String, String), Published>);

impl Numbers {
    /// Adds a number of a run.
    pub fn add(&mut self, run: &str, id: String, number: Published) {
        self.0.insert((run.to_owned(), id), number);
    }

    /// Whether some published number is printed so. Round figures are left out: they may well be somebody else's, and so may a
    /// whole number in another unit.
    pub(super) fn prints(&self, value: &str, unit: &str) -> bool {
        let digits = value.chars().filter(char::is_ascii_digit).count();
        let same = |number: &Published| number.value == value && (value.contains('.') || number.unit == unit);
        digits >= 4 && self.0.values().any(same)
    }

    fn find(&self, run: &str, id: &str) -> Result<&Published, String> {
        let key = (run.to_owned(), id.to_owned());
        self.0.get(&key).ok_or_else(|| format!("no published run {run} has a number {id}: cargo xtask status --json"))
    }

    /// What a reference shows.
    fn told(&self, reference: &str) -> Result<String, String> {
        if let Some(named) = reference.strip_prefix(MEASURED) {
            let (run, id) = named.split_once(' ').ok_or("assay:measured names RUN METRIC@PHASE/CELL")?;
            let number = self.find(run, id)?;
            return Ok(struck(&number.shown(), number.retracted.as_deref()));
        }
        let sides = reference.strip_prefix(RATIO).and_then(|named| named.split_once(" over "));
        let sides = sides.and_then(|(a, b)| Some((a.split_once(' ')?, b.split_once(' ')?)));
        let Some(((run, id), (other_run, other_id))) = sides else {
            return Err(format!(
                "assay:{reference} is neither `measured RUN NUMBER` nor `ratio RUN NUMBER over RUN NUMBER`"
            ));
        };
        let (over, under) = (self.find(run, id)?, self.find(other_run, other_id)?);
        let metric = |id: &str| id.split('@').next().unwrap_or_default().to_owned();
        let value = ratio((&metric(id), over), (&metric(other_id), under))?;
        Ok(struck(&value, over.retracted.as_deref().or(under.retracted.as_deref())))
    }
}

impl Published {
    fn shown(&self) -> String {
        if self.unit == "1" { self.value.clone() } else { format!("{} {}", self.value, self.unit) }
    }
}

/// A withdrawn number stays to be seen, struck out.
fn struck(shown: &str, retracted: Option<&str>) -> String {
    retracted.map_or_else(|| shown.to_owned(), |why| format!("~~{shown}~~ ({why})"))
}

fn ratio((over, a): (&str, &Published), (under, b): (&str, &Published)) -> Result<String, String> {
    let (from, to) = (points(over)?, points(under)?);
    if from != to || a.unit != b.unit {
        let told = |(begin, end, quantile): (&str, &str, &str)| format!("{begin} to {end}, {quantile}");
        return Err(format!("a ratio of different end points: {over} is {}; {under} is {}", told(from), told(to)));
    }
    if a.gpu != b.gpu {
        return Err(format!("a ratio across GPU models, {} and {}: show them side by side", a.gpu, b.gpu));
    }
    let parse = |number: &Published| number.value.parse::<Decimal>().map_err(|error| format!("{error:#}"));
    let (a, b) = (parse(a)?, parse(b)?);
    if b <= Decimal::ZERO {
        return Err(format!("{under} is not above zero, so no ratio is formed"));
    }
    Ok(decimal(a.over(b), 3))
}

fn points(metric: &str) -> Result<(&'static str, &'static str, &str), String> {
    end_points(metric).ok_or_else(|| format!("{metric} is no interval, so no ratio is formed"))
}

/// One reference in a text: its words, and where its value lies.
struct Reference<'a> {
    words: &'a str,
    body: std::ops::Range<usize>,
}

/// The next reference at or behind `from`; its value ends on its own line.
fn next(text: &str, from: usize) -> Option<Result<Reference<'_>, usize>> {
    let mut from = from;
    loop {
        let start = from + text[from..].find(OPEN)?;
        let words_at = start + OPEN.len();
        let line_end = text[start..].find('\n').map_or(text.len(), |at| start + at);
        let words = &text[words_at..line_end];
        if ["begin ", "end "].iter().any(|region| words.starts_with(region)) {
            from = words_at;
            continue;
        }
        let whole = words.split_once(SHUT).and_then(|(words, rest)| Some((words, rest.find(END)?)));
        return Some(match whole {
            Some((words, length)) => {
                let body_at = words_at + words.len() + SHUT.len();
                Ok(Reference { words, body: body_at..body_at + length })
            }
            None => Err(start),
        });
    }
}

/// The text with every reference showing what it resolves to, and what is wrong with those that show something else or
/// resolve to nothing. Fenced blocks and inline code hold no references.
#[must_use]
pub fn resolve(text: &str, numbers: &Numbers) -> (String, Vec<Wrong>) {
    let (mut now, mut wrong, mut done) = (String::new(), Vec::new(), 0);
    let line_of = |at: usize| text[..at].matches('\n').count() + 1;
    let fenced = fenced(text).0;
    let mut from = 0;
    while let Some(found) = next(text, from) {
        let (at, told) = match &found {
            Ok(reference) => (reference.body.start, numbers.told(reference.words)),
            Err(at) => (*at, Err(format!("a reference that does not end in {END} on its line"))),
        };
        from = found.as_ref().map_or(at + OPEN.len(), |reference| reference.body.end);
        if fenced.get(line_of(at) - 1) == Some(&true) || is_code(text, at) {
            continue;
        }
        match (found, told) {
            (Ok(reference), Ok(told)) => {
                let shown = &text[reference.body.clone()];
                if shown != told {
                    let what = format!(
                        "{shown:?} is not what {} resolves to, {told:?}: cargo xtask tidy --write",
                        reference.words
                    );
                    wrong.push(Wrong { line: line_of(at), what });
                }
                now += &text[done..reference.body.start];
                now += &told;
                done = reference.body.end;
            }
            (_, Err(what)) => wrong.push(Wrong { line: line_of(at), what }),
            (Err(_), Ok(_)) => unreachable!("only a whole reference is resolved"),
        }
    }
    (now + &text[done..], wrong)
}

/// Whether a place lies in inline code of its line.
fn is_code(text: &str, at: usize) -> bool {
    let start = text[..at].rfind('\n').map_or(0, |found| found + 1);
    let line = text[start..].lines().next().unwrap_or_default();
    let covers = |piece: &Piece| matches!(piece, Piece::Code(range, _) if range.contains(&(at - start)));
    pieces(line).iter().any(covers)
}

/// Where on a line a reference ends, value and end mark included, that begins at a place of it.
pub(super) fn reference_at(line: &str, at: usize) -> Option<usize> {
    let reference = next(line, at)?.ok()?;
    let start = reference.body.start - reference.words.len() - SHUT.len() - OPEN.len();
    (start == at).then_some(reference.body.end + END.len())
}
