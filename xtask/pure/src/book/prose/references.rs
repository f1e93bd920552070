//! References to published numbers, and what they resolve to.

use super::Wrong;
use super::page::{self, line_of};
use crate::book::with_unit;
use crate::numbers::decimal::Decimal;
use crate::numbers::summary::decimal;
use std::collections::BTreeMap;
use std::ops::Range;

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
    /// From where to where it was timed, as the contract of its run says; absent where no contract does.
    pub ends: Option<(String, String)>,
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
            return Ok(struck(&with_unit(&number.value, &number.unit), number.retracted.as_deref()));
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

/// A withdrawn number stays to be seen, struck out.
fn struck(shown: &str, retracted: Option<&str>) -> String {
    retracted.map_or_else(|| shown.to_owned(), |why| format!("~~{shown}~~ ({why})"))
}

fn ratio((over, a): (&str, &Published), (under, b): (&str, &Published)) -> Result<String, String> {
    let quantiles = (quantile(over)?, quantile(under)?);
    // Two metrics of the same name have the same end points, even if no contract states them.
    if over != under {
        let (from, to) = (ends(over, a)?, ends(under, b)?);
        if from != to || quantiles.0 != quantiles.1 || a.unit != b.unit {
            let told = |(begin, end): &(String, String), quantile: &str| format!("{begin} to {end}, {quantile}");
            let (from, to) = (told(from, quantiles.0), told(to, quantiles.1));
            return Err(format!("a ratio of different end points: {over} is {from}; {under} is {to}"));
        }
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

/// The quantile of a timed metric, e.g. `p50` of `host_e2e_us_p50`.
fn quantile(metric: &str) -> Result<&str, String> {
    let named = metric.rsplit_once('_').and_then(|(named, quantile)| Some((named.rsplit_once('_')?.1, quantile)));
    let timed = named.filter(|(unit, _)| ["ns", "us", "ms"].contains(unit));
    timed.map(|(_, quantile)| quantile).ok_or_else(|| format!("{metric} is no interval, so no ratio is formed"))
}

fn ends<'a>(metric: &str, number: &'a Published) -> Result<&'a (String, String), String> {
    let none = || format!("no contract says where {metric} begins and ends, so a ratio is only formed with its like");
    number.ends.as_ref().ok_or_else(none)
}

/// A reference in a text.
pub(super) struct Reference<'a> {
    /// What it refers to.
    words: &'a str,
    /// Where its value stands.
    body: Range<usize>,
    /// Where all of it stands.
    pub(super) whole: Range<usize>,
}

/// The references of a text, and those that do not end. Code only shows how they are written.
pub(super) fn references(text: &str) -> (Vec<Reference<'_>>, Vec<Wrong>) {
    let (mut found, mut wrong) = (Vec::new(), Vec::new());
    let code = page::code(text);
    for (start, _) in text.match_indices(OPEN).filter(|(at, _)| !code.iter().any(|code| code.contains(at))) {
        let line = text[start + OPEN.len()..].lines().next().unwrap_or_default();
        if ["begin ", "end "].iter().any(|region| line.starts_with(region)) {
            continue;
        }
        let whole = line.split_once(SHUT).and_then(|(words, rest)| Some((words, rest.find(END)?)));
        let Some((words, length)) = whole else {
            let what = format!("a reference that does not end in {END} on the same line");
            wrong.push(Wrong { line: line_of(text, start), what });
            continue;
        };
        let body = start + OPEN.len() + words.len() + SHUT.len();
        let body = body..body + length;
        found.push(Reference { words, whole: start..body.end + END.len(), body });
    }
    (found, wrong)
}

/// The text with every reference showing what it resolves to, and what is wrong with those that show something else or
/// resolve to nothing.
#[must_use]
pub fn resolve(text: &str, numbers: &Numbers) -> (String, Vec<Wrong>) {
    let (references, mut wrong) = references(text);
    let (mut now, mut done) = (String::new(), 0);
    for Reference { words, body, .. } in references {
        let told = numbers.told(words);
        let shown = &text[body.clone()];
        let what = match &told {
            Ok(told) if told == shown => continue,
            Ok(told) => format!("{shown:?} is not what {words} resolves to, {told:?}: cargo xtask tidy --write"),
            Err(what) => what.clone(),
        };
        wrong.push(Wrong { line: line_of(text, body.start), what });
        now += &text[done..body.start];
        now += told.as_deref().unwrap_or(shown);
        done = body.end;
    }
    (now + &text[done..], wrong)
}
