//! The verdict over one run of compute-sanitizer: clean only on positive evidence.
//!
//! An exit code alone passes nothing, and neither does a log alone. The tool's log, the end marker of our harness and the
//! exit code must agree; anything else is inconclusive, which counts as failed.

pub mod budget;
pub mod log;
mod retold;

#[cfg(test)]
mod tests;

pub use retold::faults;

use log::Reading;
use schema::Digest;
use schema::sanitize::{State, Tool};
use std::collections::{BTreeMap, BTreeSet};
use words::progress::{EndMark, end_mark, stray};
use words::text::quoted;

/// What compute-sanitizer exits with when it found something. The harness never exits with it.
pub const FOUND: i32 = 86;
const QUOTE_CHARS: usize = 160;

/// All that was seen of one run.
#[derive(Clone, Copy, Debug)]
pub struct Seen<'a> {
    /// The tool.
    pub tool: Tool,
    /// The tool's log file.
    pub log: &'a str,
    /// Exit code; absent when killed.
    pub code: Option<i32>,
    /// Whether the deadline ended it.
    pub timed_out: bool,
    /// What the harness printed.
    pub stdout: &'a str,
    /// The nonce the harness was given.
    pub nonce: &'a str,
}

/// What the build made: only runs of this count.
#[derive(Clone, Debug, Default)]
pub struct Known {
    /// SASS digests by symbol.
    pub sass: BTreeMap<String, Digest>,
    /// Digests of the cubins built for sanitizing.
    pub cubins: BTreeSet<Digest>,
}

/// A verdict and what it rests on.
#[derive(Clone, Debug, PartialEq)]
pub struct Judgement {
    /// The state.
    pub state: State,
    /// Why it is not clean; empty when it is.
    pub why: String,
    /// What the summary counts; absent without one that can be read.
    pub findings: Option<u64>,
    /// For a control: whether the tool caught it.
    pub control_caught: Option<bool>,
    /// The end marker; zeroes where it is missing.
    pub end: EndMark,
    /// SASS digests of the kernels that ran, by symbol.
    pub sass: Vec<(String, Digest)>,
}

impl Judgement {
    /// The same program failed without a tool, and `how`. So a clean log is not believed: a tool slows a program down until a
    /// race no longer shows.
    pub fn fails_without_a_tool(&mut self, how: &str) {
        if self.state == State::Clean {
            self.state = State::Inconclusive;
        }
        let apart = if self.why.is_empty() { "" } else { "; " };
        self.why += &format!("{apart}without a tool: {how}");
    }
}

/// Judges a program that must be clean and must have passed these sites.
pub fn judge_program(seen: &Seen, sites: &[String], known: &Known) -> Judgement {
    let (end, mut why) = match end_mark(seen.stdout, seen.nonce) {
        Ok(end) => {
            let why = lacking(&end, sites, known);
            (end, why)
        }
        Err(missing) => (EndMark::default(), vec![missing]),
    };
    why.extend(strayed(seen.stdout));
    why.extend(ending(seen, 0));
    let reading = log::read(seen.tool, seen.log);
    let state = match &reading {
        Reading::Findings(n) => {
            why.insert(0, counted(*n, seen.log));
            State::Finding
        }
        Reading::Clean if why.is_empty() => State::Clean,
        Reading::Clean => State::Inconclusive,
        Reading::Unclear(words) => {
            why.insert(0, words.clone());
            State::Inconclusive
        }
    };
    let sass = ran(&end, known);
    Judgement { state, why: why.join("; "), findings: reading.findings(), control_caught: None, end, sass }
}

/// Judges a planted fault, which the tool must report as what it is and where it is.
pub fn judge_control(seen: &Seen, known: &Known) -> Judgement {
    let symbol = seen.tool.control();
    let reading = log::read(seen.tool, seen.log);
    let mut why = Vec::new();
    match &reading {
        Reading::Findings(_) => {}
        Reading::Clean => why.push("the summary counts nothing".to_owned()),
        Reading::Unclear(words) => why.push(words.clone()),
    }
    let headline = log::planted(seen.tool, seen.log, symbol);
    if headline.is_none() {
        why.push(format!("no finding of the planted kind in {symbol}"));
    }
    why.extend(ending(seen, FOUND));
    let caught = why.is_empty();
    let state = match (&reading, caught) {
        (_, true) => State::Finding,
        (Reading::Clean, false) => State::Clean,
        (_, false) => State::Inconclusive,
    };
    let why = match headline {
        Some(headline) if caught => format!("as planted: {headline}"),
        _ => format!("planted fault not caught: {}", why.join("; ")),
    };
    // A fault may end the context before the harness can print its end marker, so the marker is not required here.
    let end = end_mark(seen.stdout, seen.nonce).unwrap_or_default();
    let sass = ran(&end, known);
    Judgement { state, why, findings: reading.findings(), control_caught: Some(caught), end, sass }
}

/// How many findings of which sorts; at least so many where the tool stopped counting.
fn counted(n: u64, log: &str) -> String {
    let least = if log::is_lower_bound(log) { "at least " } else { "" };
    let total = if n == 1 { "1 finding".to_owned() } else { format!("{n} findings") };
    let sorts: Vec<String> = log::sorts(log).iter().map(|(sort, n)| format!("{sort} {n} times")).collect();
    let printed = if sorts.is_empty() { String::new() } else { format!(" (printed: {})", sorts.join(", ")) };
    format!("{least}{total}{printed}")
}

/// A line that the harness does not print. A kernel that prints took a path that it should not take.
fn strayed(stdout: &str) -> Option<String> {
    stray(stdout)
        .map(|line| format!("stdout holds a line that the harness does not print: {}", quoted(line, QUOTE_CHARS)))
}

/// What is wrong with how the run ended.
fn ending(seen: &Seen, expected: i32) -> Option<String> {
    match seen.code {
        _ if seen.timed_out => Some("TIMEOUT: killed at its deadline, with every process it had started".to_owned()),
        Some(code) if code == expected => None,
        Some(code) => Some(format!("exit code {code} instead of {expected}")),
        None => Some("ended by a signal".to_owned()),
    }
}

/// What the end marker lacks as evidence that the program did its work, and did it right.
fn lacking(end: &EndMark, sites: &[String], known: &Known) -> Vec<String> {
    let mut why = Vec::new();
    if end.launches == 0 {
        why.push("no launch".to_owned());
    }
    for site in sites.iter().filter(|site| end.sites.get(*site).is_none_or(|times| *times == 0)) {
        why.push(format!("site {site} was never passed"));
    }
    if end.wrong > 0 {
        why.push(format!("{} outputs wrong or unwritten", end.wrong));
    }
    if end.configs.is_empty() {
        why.push("no launch configuration".to_owned());
    }
    for config in &end.configs {
        if !known.sass.contains_key(&config.symbol) {
            why.push(format!("kernel {} is not in the build", config.symbol));
        }
        if !config.cubin.is_some_and(|cubin| known.cubins.contains(&cubin)) {
            why.push(format!("the cubin of {} is not in the build", config.symbol));
        }
    }
    why.dedup();
    why
}

fn ran(end: &EndMark, known: &Known) -> Vec<(String, Digest)> {
    let symbols: BTreeSet<&String> = end.configs.iter().map(|config| &config.symbol).collect();
    symbols.into_iter().filter_map(|symbol| Some((symbol.clone(), *known.sass.get(symbol)?))).collect()
}
