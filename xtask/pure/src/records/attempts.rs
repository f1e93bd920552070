//! The chain of attempts: one JSON line for each, with the digest of the line before. Works on text only.
//!
//! An attempt has one line when it is opened and another, of the same number, when its outcome is known; both are
//! links of the chain. The chain alone does not show that its last lines were cut off; comparing it with a sealed
//! manifest does.

use anyhow::{Context, Result, bail, ensure};
use schema::Digest;
use schema::manifest::Attempt;
use std::collections::BTreeMap;

/// The outcome of an attempt that has not ended.
pub const OPEN: &str = "open";
/// The outcome of an attempt that the next one found open.
pub const ABANDONED: &str = "abandoned";
/// The outcome of an attempt that measured all it planned.
pub const MEASURED: &str = "measured";

/// What an attempt is about, known before its first launch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Intent {
    /// Run id.
    pub run: String,
    /// Digest of the frozen plan.
    pub plan: Digest,
    /// Digest over the SASS digests of the measured kernels; of nothing on the emulated device.
    pub sass: Digest,
    /// Device id.
    pub device: String,
    /// Digest of the run's contract.
    pub contract: Digest,
}

/// A chain that holds.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Chain {
    /// Every line, in order.
    pub links: Vec<Attempt>,
    head: Option<Digest>,
    /// Where the latest link of each attempt is, by number.
    last: BTreeMap<u64, usize>,
}

impl Chain {
    /// Reads a chain and checks every link.
    ///
    /// # Errors
    /// Names the first line that does not hold.
    pub fn parse(text: &str) -> Result<Self> {
        let mut chain = Self::default();
        for (i, line) in text.split_inclusive('\n').enumerate() {
            let line = line.strip_suffix('\n').context("the last line is cut off")?;
            let attempt = serde_json::from_str(line).map_err(anyhow::Error::from);
            attempt.and_then(|attempt| chain.add(attempt, line)).with_context(|| format!("line {}", i + 1))?;
        }
        Ok(chain)
    }

    /// The digest of the last line; of nothing in an empty chain.
    pub fn head(&self) -> Digest {
        self.head.unwrap_or_else(|| Digest::of(b""))
    }

    /// The latest link of each attempt, by number.
    pub fn latest(&self) -> BTreeMap<u64, &Attempt> {
        self.last.iter().map(|(n, at)| (*n, &self.links[*at])).collect()
    }

    /// Every attempt with this plan, oldest first, each with its latest outcome.
    pub fn of_plan(&self, plan: &Digest) -> Vec<Attempt> {
        self.latest().into_values().filter(|attempt| attempt.plan == *plan).cloned().collect()
    }

    /// The attempt that this run holds open, if any.
    pub fn open_of(&self, run: &str) -> Option<&Attempt> {
        self.latest().into_values().find(|attempt| attempt.run == run && attempt.outcome == OPEN)
    }

    /// The latest attempt with this plan, if this run measured all of it.
    pub fn measured_last(&self, intent: &Intent) -> Option<&Attempt> {
        let last = self.latest().into_values().rfind(|attempt| attempt.plan == intent.plan);
        last.filter(|attempt| attempt.run == intent.run && attempt.outcome == MEASURED)
    }

    /// Appends an attempt that opens now; gives the line for the file, with its line break.
    ///
    /// # Errors
    /// When it cannot be written as JSON.
    pub fn open(&mut self, intent: Intent, opened: String) -> Result<(Attempt, String)> {
        let n = self.next();
        let Intent { run, plan, sass, device, contract } = intent;
        let (previous, contract, outcome) = (self.head(), Some(contract), OPEN.to_owned());
        self.append(Attempt { n, previous, opened, run, plan, sass, device, contract, outcome })
    }

    /// Appends the outcome of an open attempt; gives the line for the file, with its line break.
    ///
    /// # Errors
    /// When that attempt is not open.
    pub fn close(&mut self, n: u64, outcome: &str) -> Result<(Attempt, String)> {
        let latest = self.latest().remove(&n).cloned().with_context(|| format!("there is no attempt {n}"))?;
        self.append(Attempt { previous: self.head(), outcome: outcome.to_owned(), ..latest })
    }

    fn append(&mut self, attempt: Attempt) -> Result<(Attempt, String)> {
        let line = serde_json::to_string(&attempt)?;
        self.add(attempt.clone(), &line)?;
        Ok((attempt, format!("{line}\n")))
    }

    /// The number of the next attempt.
    fn next(&self) -> u64 {
        self.last.last_key_value().map_or(0, |(n, _)| *n) + 1
    }

    /// Adds a link after checking that it may follow the ones before.
    fn add(&mut self, attempt: Attempt, line: &str) -> Result<()> {
        ensure!(
            attempt.previous == self.head(),
            "it does not follow the line before: a line was changed, moved or removed"
        );
        let next = self.next();
        match self.last.get(&attempt.n).map(|at| &self.links[*at]) {
            None => ensure!(
                attempt.n == next && attempt.outcome == OPEN,
                "attempt {} does not open as number {next}",
                attempt.n
            ),
            Some(before) if before.outcome != OPEN => bail!("attempt {} had ended as {:?}", attempt.n, before.outcome),
            Some(before) => {
                let (previous, outcome) = (attempt.previous, attempt.outcome.clone());
                let ended = outcome != OPEN && Attempt { previous, outcome, ..before.clone() } == attempt;
                ensure!(ended, "attempt {} changes more than its outcome", attempt.n);
            }
        }
        self.head = Some(Digest::of(line));
        self.last.insert(attempt.n, self.links.len());
        self.links.push(attempt);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn intent(run: &str) -> Intent {
        let [plan, sass, contract] = ["plan", "sass", "contract"].map(Digest::of);
        Intent { run: run.into(), plan, sass, device: "gpu".into(), contract }
    }

    /// Three attempts: measured, failed, open.
    fn example() -> String {
        let mut chain = Chain::default();
        let mut text = String::new();
        for (run, outcome) in [("a", Some(MEASURED)), ("b", Some("failed: lost cell")), ("c", None)] {
            let (attempt, line) = chain.open(intent(run), "2026-01-01T00:00:00Z".into()).unwrap();
            text += &line;
            if let Some(outcome) = outcome {
                text += &chain.close(attempt.n, outcome).unwrap().1;
            }
        }
        text
    }

    #[test]
    fn a_chain_reads_as_it_was_written() {
        let chain = Chain::parse(&example()).unwrap();
        let latest: Vec<(u64, &str)> = chain.latest().into_iter().map(|(n, a)| (n, a.outcome.as_str())).collect();
        assert_eq!(latest, [(1, "measured"), (2, "failed: lost cell"), (3, "open")]);
        assert_eq!(chain.open_of("c").unwrap().n, 3);
        assert_eq!(chain.open_of("a"), None);
        assert_eq!(chain.head(), Digest::of(example().lines().last().unwrap()));
        assert_eq!(Chain::parse("").unwrap().head(), Digest::of(b""));
    }

    #[test]
    fn a_removed_line_is_found() {
        let text = example();
        let lines: Vec<&str> = text.lines().collect();
        // All but the last, whose absence only a manifest shows.
        for gone in 0..lines.len() - 1 {
            let kept: Vec<&str> = (0..lines.len()).filter(|i| *i != gone).map(|i| lines[i]).collect();
            assert!(Chain::parse(&format!("{}\n", kept.join("\n"))).is_err(), "line {gone}");
        }
    }

    #[test]
    fn exchanged_lines_are_found() {
        let text = example();
        let lines: Vec<&str> = text.lines().collect();
        for at in 1..lines.len() {
            let mut moved = lines.clone();
            moved.swap(at - 1, at);
            assert!(Chain::parse(&format!("{}\n", moved.join("\n"))).is_err(), "line {at}");
        }
    }

    #[test]
    fn an_edited_byte_is_found_before_the_last_line() {
        let text = example();
        let last = text.trim_end().rfind('\n').unwrap() + 1;
        for at in 0..last {
            let mut bytes = text.clone().into_bytes();
            bytes[at] = if bytes[at] == b'x' { b'y' } else { b'x' };
            assert!(Chain::parse(&String::from_utf8(bytes).unwrap()).is_err(), "byte {at}");
        }
    }

    #[test]
    fn a_cut_last_line_is_found() {
        let text = example();
        for length in text.trim_end().rfind('\n').unwrap() + 2..text.len() {
            assert!(Chain::parse(&text[..length]).is_err(), "{length}");
        }
    }

    #[test]
    fn an_attempt_that_ends_as_another_than_it_began_is_found() {
        let (_, line) = Chain::parse(&example()).unwrap().close(3, MEASURED).unwrap();
        let json = |of: &str| serde_json::to_string(&Digest::of(of)).unwrap();
        for part in ["plan", "sass", "contract"] {
            let forged = line.replace(&json(part), &json("other"));
            assert!(forged != line && Chain::parse(&format!("{}{forged}", example())).is_err(), "{part}");
        }
        assert!(Chain::parse(&format!("{}{line}", example())).is_ok());
    }

    #[test]
    fn an_attempt_ends_once_and_exists_before() {
        let mut chain = Chain::parse(&example()).unwrap();
        assert!(chain.close(1, MEASURED).is_err());
        assert!(chain.close(9, MEASURED).is_err());
        assert!(chain.close(3, OPEN).is_err());
        assert!(chain.close(3, MEASURED).is_ok());
    }
}
