//! `compare`: two runs, published or in their run directories, and whether their numbers agree. Writes nothing.
//!
//! Every byte of both is checked against its manifest first; what is compared is recomputed from the events. Whether
//! a run may be published is not judged here; refusals in its verdict are only reported.

use super::verify::{layouts_of, sealed_bytes};
use crate::runs::layout::Layout;
use crate::runs::{evidence, published};
use anyhow::{Context, Result};
use host::failure::fail;
use host::paths::Paths;
use pure::compare::{Compared, Comparison, Difference, Word, compare as compare_evidence};
use pure::gate::Evidence;
use schema::ExitCode;
use schema::contract::{CONTRACT, Contract};
use serde::Serialize;
use std::fmt;
use words::text::plain;

/// Two runs, compared.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// The comparison.
    #[serde(flatten)]
    pub comparison: Comparison,
    /// The first input in which they differ; absent where they differ in none.
    pub first_difference: Option<Difference>,
    /// The first run.
    pub a: Side,
    /// The second.
    pub b: Side,
}

/// One of the two.
#[derive(Clone, Debug, Serialize)]
pub struct Side {
    /// Its id.
    pub run: String,
    /// Its GPU's model.
    pub gpu: String,
    /// `sealed` in a run directory, or `published`.
    pub state: &'static str,
    /// The gates that refused it, as its verdict says.
    pub refused_by: Vec<String>,
}

/// Compares two runs, each given as `verify` takes it.
///
/// # Errors
/// Exit 2 when one is no run, 16 when a byte of one is not as it was sealed or nothing follows from its events.
pub fn compare(paths: &Paths, a: &str, b: &str) -> Result<Report> {
    let ((a, mut evidence_a), (b, mut evidence_b)) = (load(paths, a)?, load(paths, b)?);
    if evidence_a.contract_digest.is_none() && evidence_b.contract_digest.is_none() {
        // Both are from before there were contracts: the newest published one says how such tables are read.
        let contract = newest_contract(paths, &evidence_a.plan.experiment)?;
        (evidence_a.contract, evidence_b.contract) = (contract.clone(), contract);
    }
    let comparison = compare_evidence(&evidence_a, &evidence_b);
    Ok(Report { first_difference: comparison.environment.first().cloned(), comparison, a, b })
}

/// The contract of the newest published run of an experiment that has one; the empty one where none has.
fn newest_contract(paths: &Paths, experiment: &str) -> Result<Contract> {
    for run in published::ids(paths)?.into_iter().rev() {
        let layout = Layout::published(paths, run);
        if layout.read(CONTRACT)?.is_some() {
            let (contract, _) = evidence::contract(&layout)?;
            if contract.experiment == experiment {
                return Ok(contract);
            }
        }
    }
    Ok(Contract::default())
}

fn load(paths: &Paths, target: &str) -> Result<(Side, Evidence)> {
    let layout = layouts_of(paths, target)?.into_iter().next().context("a target names at least one run")?;
    let verdict = sealed_bytes(&layout).map_err(|problem| broken(target, &problem.to_string()))?;
    let evidence = evidence::load(&layout)?;
    if !evidence.recomputed.fault.is_empty() {
        return Err(broken(target, &evidence.recomputed.fault));
    }
    let refused = verdict.gates.iter().filter(|gate| !gate.passed).map(|gate| gate.name.clone());
    let side = Side {
        run: layout.run(),
        gpu: evidence.environment.device.name.clone(),
        state: if matches!(layout, Layout::Raw(_)) { "sealed" } else { "published" },
        refused_by: refused.collect(),
    };
    Ok((side, evidence))
}

fn broken(target: &str, detail: &str) -> anyhow::Error {
    let message = format!("{target} does not verify, so nothing is compared: {detail}");
    fail(ExitCode::Integrity, message, format!("cargo xtask verify {target} lists every problem"))
}

/// For people: metrics with the worst first, what differs in how the runs were made, and the word last.
impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, side) in [("a", &self.a), ("b", &self.b)] {
            let refused = match side.refused_by.as_slice() {
                [] => String::new(),
                gates => format!(", refused by {}", gates.join(", ")),
            };
            writeln!(f, "{}", plain(&format!("{name}: {} on {}, {}{refused}", side.run, side.gpu, side.state)))?;
        }
        let mut metrics: Vec<&Compared> = self.comparison.metrics.iter().collect();
        metrics.sort_by_key(|metric| metric.verdict);
        metrics.into_iter().try_for_each(|metric| writeln!(f, "{}", plain(&line(metric))))?;
        for Difference { key, a, b } in &self.comparison.environment {
            writeln!(f, "{}", plain(&format!("differs: {key}: {a} | {b}")))?;
        }
        match &self.first_difference {
            Some(first) => writeln!(f, "first difference: {}", first.key)?,
            None => writeln!(f, "no input differs")?,
        }
        match self.comparison.verdict {
            None => write!(f, "no verdict: {}", self.comparison.why),
            Some(word) => {
                let count = |word| self.comparison.metrics.iter().filter(|m| m.verdict == Some(word)).count();
                let counts = [Word::Reproduced, Word::Ambiguous, Word::Shifted].map(count);
                let [reproduced, ambiguous, shifted] = counts;
                write!(f, "{}: {reproduced} reproduced, {ambiguous} ambiguous, {shifted} shifted", word.name())
            }
        }
    }
}

fn line(metric: &Compared) -> String {
    let Compared { id, cell, unit, a, b, effect, lo, hi, band, verdict, why, .. } = metric;
    let number = |value: &Option<f64>| value.map_or_else(|| "absent".to_owned(), |value| value.to_string());
    let unit = if unit == "1" { String::new() } else { format!(" {unit}") };
    let mut line = verdict.map_or_else(String::new, |word| format!("{} ", word.name()));
    line += &format!("{cell} {id}: {} | {}{unit}", number(a), number(b));
    if let (Some(effect), Some(band)) = (effect, band) {
        line += &format!(", effect {effect:+}");
        if let (Some(lo), Some(hi)) = (lo, hi) {
            line += &format!(" [{lo:+}, {hi:+}]");
        }
        line += &format!(", band {band}");
    }
    if why.is_empty() { line } else { format!("{line} ({why})") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trial::{RUN, copy, shared};
    use host::failure::code_of;

    #[test]
    fn a_run_is_reproduced_by_itself_and_its_keys_are_the_promised_ones() {
        let (disk, _) = shared();
        let report = compare(&disk.paths, RUN, disk.run().to_str().unwrap()).unwrap();
        assert_eq!(report.comparison.verdict, Some(Word::Reproduced));
        assert!(report.a.refused_by.is_empty() && report.a.state == "sealed");
        let json = serde_json::to_value(&report).unwrap();
        assert_eq!(json["verdict"], "REPRODUCED");
        assert!(json["environment"].as_array().unwrap().is_empty() && json["first_difference"].is_null());
        for key in ["id", "cell", "a", "b", "effect", "lo", "hi", "verdict"] {
            assert!(json["metrics"][0].get(key).is_some(), "{key}");
        }
        let text = report.to_string();
        assert!(text.ends_with(" 0 ambiguous, 0 shifted") && text.contains("no input differs"), "{text}");
    }

    #[test]
    fn a_changed_byte_or_an_unknown_run_is_no_comparison() {
        let disk = copy();
        let unknown = compare(&disk.paths, RUN, "nobody").unwrap_err();
        assert_eq!(code_of(&unknown), ExitCode::Usage);
        fs_err::write(disk.run().join("environment.json"), b"{}").unwrap();
        let error = compare(&disk.paths, RUN, RUN).unwrap_err();
        assert_eq!(code_of(&error), ExitCode::Integrity);
        assert!(error.to_string().contains("environment.json: changed"), "{error}");
    }
}

#[cfg(test)]
mod of_sealed_runs;
