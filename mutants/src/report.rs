//! What came out: counts per file, and every mutant that no test killed.

use crate::build::Built;
use crate::config::Config;
use crate::run::State;
use serde::Serialize;
use std::collections::BTreeMap;

/// Of the viable mutants that are not excluded, at least so many per cent must be killed.
pub(crate) const KILLED_PCT: usize = 95;

/// Counts of a file, or of all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Counts {
    /// Killed by a failing test.
    killed: usize,
    /// Ended because the test ran on and on.
    spun: usize,
    /// Reached by a test, and not killed.
    survived: usize,
    /// Reached by no test.
    unreached: usize,
    /// Not compiling.
    unviable: usize,
    /// Excluded by name, whatever came of them.
    excluded: usize,
}

/// A mutant that was not killed.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Survivor {
    mutant: String,
    line: usize,
    /// `survived`, `unreached` or `hung`.
    state: String,
}

/// The whole report.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Report {
    files: BTreeMap<String, Counts>,
    total: Counts,
    survivors: Vec<Survivor>,
    /// Exclusions that name no mutant of a file that was looked at.
    unknown_exclusions: Vec<String>,
}

/// Counts.
pub(crate) fn report(config: &Config, built: &Built, states: &[State]) -> Report {
    let (mut files, mut survivors, mut unknown) = (BTreeMap::new(), Vec::new(), Vec::new());
    for file in &built.files {
        let mut counts = Counts { unviable: file.unviable, ..Counts::default() };
        let mut names = Vec::new();
        for mutant in &file.mutants {
            let (place, state) = (&file.places[mutant.place], states[mutant.id]);
            let name = place.name(&file.name, &mutant.instead);
            let excluded = config.exclude.iter().any(|exclude| exclude.mutant == name);
            let count = match state {
                _ if excluded => &mut counts.excluded,
                state if state.killed() => &mut counts.killed,
                state if state.spun() => &mut counts.spun,
                state if state.reached() => &mut counts.survived,
                _ => &mut counts.unreached,
            };
            *count += 1;
            if !excluded && !state.killed() && !state.spun() {
                let word = if state.hung() {
                    "hung"
                } else if state.reached() {
                    "survived"
                } else {
                    "unreached"
                };
                survivors.push(Survivor { mutant: name.clone(), line: place.line, state: word.to_owned() });
            }
            names.push(name);
        }
        let of_file = config.exclude.iter().filter(|e| e.mutant.starts_with(&format!("{}: ", file.name)));
        unknown.extend(of_file.filter(|e| !names.contains(&e.mutant)).map(|e| e.mutant.clone()));
        files.insert(file.name.clone(), counts);
    }
    let total = files.values().fold(Counts::default(), |total, counts| total.and(*counts));
    Report { files, total, survivors, unknown_exclusions: unknown }
}

impl Counts {
    fn and(self, other: Self) -> Self {
        Self {
            killed: self.killed + other.killed,
            spun: self.spun + other.spun,
            survived: self.survived + other.survived,
            unreached: self.unreached + other.unreached,
            unviable: self.unviable + other.unviable,
            excluded: self.excluded + other.excluded,
        }
    }

    fn line(self) -> String {
        let Self { killed, spun, survived, unreached, unviable, excluded } = self;
        let viable = killed + spun + survived + unreached;
        let pct = if viable == 0 { 100.0 } else { 100.0 * (killed + spun) as f64 / viable as f64 };
        format!("{killed:7} {spun:5} {survived:9} {unreached:10} {excluded:9} {unviable:9} {pct:6.1} %")
    }
}

impl Report {
    /// For people.
    pub(crate) fn text(&self) -> String {
        let mut text = String::new();
        for survivor in &self.survivors {
            text += &format!("{} (line {}): {}\n", survivor.state, survivor.line, survivor.mutant);
        }
        for name in &self.unknown_exclusions {
            text += &format!("excluded, but there is no such mutant: {name}\n");
        }
        text += " killed  spun  survived  unreached  excluded  unviable  killed\n";
        for (file, counts) in &self.files {
            text += &format!("{}  {file}\n", counts.line());
        }
        text + &format!("{}  total", self.total.line())
    }

    /// Whether enough are killed, and every exclusion still names a mutant.
    pub(crate) fn enough(&self) -> bool {
        let Counts { killed, spun, survived, unreached, .. } = self.total;
        let viable = killed + spun + survived + unreached;
        (killed + spun) * 100 >= viable * KILLED_PCT && self.unknown_exclusions.is_empty()
    }
}
