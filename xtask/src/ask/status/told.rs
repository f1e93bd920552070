//! The report for people: one paragraph for each run, numbers that are not current grouped by reason, and one line
//! with the totals.

use super::Report;
use pure::gate::rules;
use std::collections::BTreeMap;
use std::fmt;

/// Numbers that are named before the rest is counted.
const NAMED: usize = 2;

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.numbers.is_empty() && self.unknown.is_empty() {
            return write!(f, "nothing is published yet");
        }
        // By run, then by state and reason; a claim or a cell is an example of many.
        let mut groups: BTreeMap<(&str, String, &str), Vec<&str>> = BTreeMap::new();
        for number in &self.numbers {
            groups.entry((&number.run, number.state.name(), &number.why)).or_default().push(&number.id);
        }
        for number in &self.unknown {
            groups.entry((&number.run, "unknown".to_owned(), &number.why)).or_default().push(&number.id);
        }
        let mut last = "";
        for ((run, state, why), ids) in &groups {
            if *run != last {
                match self.rules.get(*run).filter(|theirs| **theirs != rules()) {
                    Some(theirs) => writeln!(f, "{run}, judged under rules {theirs}")?,
                    None => writeln!(f, "{run}")?,
                }
                last = run;
            }
            writeln!(f, "  {state:<12} {:>4}  {why}", ids.len())?;
            if state != "current" && state != "carried-over" {
                let more = ids.len().saturating_sub(NAMED);
                let named = ids.iter().take(NAMED).copied().collect::<Vec<_>>().join(", ");
                let more = if more > 0 { format!(" and {more} more") } else { String::new() };
                writeln!(f, "                     {named}{more}")?;
            }
        }
        let count = |name: &str| self.numbers.iter().filter(|number| number.state.name() == name).count();
        let counts = ["current", "carried-over", "stale", "retracted"].map(|name| format!("{} {name}", count(name)));
        let unknown = self.unknown.len();
        let unknown = if unknown > 0 { format!(", {unknown} cannot be judged on this machine") } else { String::new() };
        write!(f, "{}{unknown}", counts.join(", "))
    }
}
