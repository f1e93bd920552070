//! Parses a compute-sanitizer log. The log is the tool's own file, so it holds nothing that the program prints.
//!
//! A clean log holds the banner, blank lines, one summary and nothing else. A log with any other line is not clean.

use schema::sanitize::Tool;
use std::collections::BTreeMap;
use words::text::quoted;

const PREFIX: &str = "=========";
const BANNER: &str = "========= COMPUTE-SANITIZER";
const SUMMARIES: [&str; 3] = ["ERROR SUMMARY:", "RACECHECK SUMMARY:", "LEAK SUMMARY:"];
const QUOTE_CHARS: usize = 160;
/// What the tool says when it did not watch the program: on a device or in a mode it does not know, or when it never got hold
/// of it. Whatever such a log counts are errors of the tool and no findings.
const NOT_CHECKED: [&str; 8] = [
    "device not supported",
    "failed to initialize",
    "will be disabled",
    "before first instrumented api call",
    "unable to find injection",
    "unable to attach",
    "not a valid executable",
    "no attachable process",
];
/// What the tool says when it stopped counting.
const CAPPED: [&str; 2] = ["maximum number of", "were not printed"];

/// What a log says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reading {
    /// Banner, one summary of the tool's own type that counts zero, and nothing else.
    Clean,
    /// The summary counts this many.
    Findings(u64),
    /// Anything else, in words.
    Unclear(String),
}

impl Reading {
    /// How many findings it counts; absent where that is not clear.
    pub fn findings(&self) -> Option<u64> {
        match self {
            Self::Clean => Some(0),
            Self::Findings(n) => Some(*n),
            Self::Unclear(_) => None,
        }
    }
}

/// Reads the log of one run of `tool`.
pub fn read(tool: Tool, log: &str) -> Reading {
    if let (Some(said), true) = (not_checked(log), sorts(log).is_empty()) {
        return Reading::Unclear(format!("not checked: {said}"));
    }
    let counts: Vec<u64> = log.lines().filter_map(|line| count(tool, line)).collect();
    // A count above zero outweighs everything else in the log.
    match counts.iter().max() {
        Some(most) if *most > 0 => Reading::Findings(*most),
        _ => clean(tool, log),
    }
}

/// The first line with which the tool says that it did not watch the program.
fn not_checked(log: &str) -> Option<String> {
    let says = |body: &&str| NOT_CHECKED.iter().any(|words| body.to_lowercase().contains(words));
    log.lines().filter_map(body).find(says).map(|body| quoted(body, QUOTE_CHARS))
}

/// Whether the tool says that it stopped counting: what it counts is then the least there is.
pub fn is_lower_bound(log: &str) -> bool {
    log.lines().filter_map(body).any(|body| CAPPED.iter().any(|words| body.to_lowercase().contains(words)))
}

/// How many reports of each sort a log prints. A failed call of the driver is another thing than a bad access of a kernel.
pub fn sorts(log: &str) -> BTreeMap<&'static str, u64> {
    let mut found = BTreeMap::new();
    for sort in log.lines().filter_map(body).filter_map(sort) {
        *found.entry(sort).or_default() += 1;
    }
    found
}

/// The sort of report that a headline begins; nothing for lines inside a report and for what the tool says of itself.
fn sort(body: &str) -> Option<&'static str> {
    // Lines of a report are set in by five blanks, headlines by one.
    let headline = body.strip_prefix(' ').filter(|rest| !rest.starts_with(' '))?;
    let starts = |words: &[&str]| words.iter().any(|word| headline.starts_with(word));
    if starts(&["Program hit ", "CUDA API Error"]) {
        Some("API error")
    } else if headline.contains("Race reported between ") || headline.contains(" hazard detected at ") {
        Some("race")
    } else if starts(&["Uninitialized ", "Unused memory"]) {
        Some("uninitialised access")
    } else if starts(&["Barrier error detected", "Cluster Barrier", "Missing "]) {
        Some("barrier error")
    } else if starts(&["Leaked "]) {
        Some("leak")
    } else if starts(&["Invalid ", "Misaligned ", "Out-of-range ", "Address ", "Malloc/Free error", "Fatal "]) {
        Some("memory error")
    } else {
        None
    }
}

fn clean(tool: Tool, log: &str) -> Reading {
    let unclear = |why: String| Reading::Unclear(why);
    if log.is_empty() {
        return unclear("the tool wrote no log".to_owned());
    }
    // Split at newlines alone: a carriage return is a byte that a clean log does not hold.
    let mut lines = log.strip_suffix('\n').unwrap_or(log).split('\n');
    if lines.next() != Some(BANNER) {
        return unclear("the log does not begin with the tool's banner".to_owned());
    }
    let rest: Vec<&str> = lines.filter(|line| *line != PREFIX && line.strip_suffix(' ') != Some(PREFIX)).collect();
    if let Some(odd) = rest.iter().find(|line| !is_summary(line)) {
        return unclear(format!("the log says: {}", quoted(odd.trim_start_matches(PREFIX), QUOTE_CHARS)));
    }
    match rest.as_slice() {
        [] => unclear("the log has no summary".to_owned()),
        [only] if *only != clean_summary(tool) => {
            unclear(format!("not the summary of a clean {}: {only:?}", tool.name()))
        }
        [_] if !log.ends_with('\n') => unclear("the log is cut off".to_owned()),
        [_] => Reading::Clean,
        more => unclear(format!("{} summaries where one is expected", more.len())),
    }
}

/// The one summary line of a clean run, to the letter.
fn clean_summary(tool: Tool) -> &'static str {
    match tool {
        Tool::Racecheck => "========= RACECHECK SUMMARY: 0 hazards displayed (0 errors, 0 warnings)",
        Tool::Memcheck | Tool::Initcheck | Tool::Synccheck => "========= ERROR SUMMARY: 0 errors",
    }
}

fn is_summary(line: &str) -> bool {
    body(line).is_some_and(|body| SUMMARIES.iter().any(|summary| body.trim_start().starts_with(summary)))
}

fn body(line: &str) -> Option<&str> {
    line.strip_prefix(PREFIX)
}

/// What a summary line of the tool's own type counts; nothing when the line is no such summary or cannot be read.
///
/// The largest number of the line is taken, whatever words stand around it, so that no singular form hides a finding.
fn count(tool: Tool, line: &str) -> Option<u64> {
    let (kind, rest) = body(line)?.trim().split_once(':')?;
    let own = match tool {
        Tool::Racecheck => kind == "RACECHECK SUMMARY",
        Tool::Memcheck | Tool::Initcheck | Tool::Synccheck => kind == "ERROR SUMMARY",
    };
    // "ERROR SUMMARY: 3 errors were not printed …" only comments on the summary before it.
    if !own || rest.contains("were not printed") {
        return None;
    }
    rest.split(|c: char| !c.is_ascii_digit() && c != ',')
        .filter_map(|digits| digits.replace(',', "").parse::<u64>().ok())
        .max()
}

/// The headline of a finding of the kind that `tool`'s planted fault must cause, in the kernel `symbol`.
pub fn planted(tool: Tool, log: &str, symbol: &str) -> Option<String> {
    let bodies: Vec<&str> = log.lines().filter_map(body).collect();
    bodies.iter().enumerate().find_map(|(at, headline)| {
        let block = &bodies[at..];
        let end = 1 + block[1..].iter().take_while(|line| line.starts_with("     ")).count();
        let fits = right_kind(tool, headline, &block[..end]) && block[..end].iter().any(|line| names(line, symbol));
        fits.then(|| quoted(headline, QUOTE_CHARS))
    })
}

fn right_kind(tool: Tool, headline: &str, block: &[&str]) -> bool {
    let text = headline.trim_start();
    match tool {
        Tool::Memcheck => {
            text.starts_with("Invalid __")
                && text.contains(" write of size ")
                && block.iter().any(|line| line.contains(" is out of bounds"))
        }
        Tool::Racecheck => {
            let text = text.split_once(": ").map_or(text, |(_, rest)| rest);
            text.starts_with("Race reported between ") || text.contains(" hazard detected at __shared__ ")
        }
        Tool::Initcheck => text.starts_with("Uninitialized __") && text.contains(" memory read of size "),
        Tool::Synccheck => text.starts_with("Barrier error detected. Divergent thread(s) in "),
    }
}

/// Whether a line names a function, as a whole word.
fn names(line: &str, symbol: &str) -> bool {
    let word = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || c == '_');
    line.match_indices(symbol)
        .any(|(at, _)| !word(line[..at].chars().next_back()) && !word(line[at + symbol.len()..].chars().next()))
}
