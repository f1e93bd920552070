//! `status`: what every published number is today, and why. It reads files and git; the caller passes in what this
//! tree builds.

mod told;
mod tree;

use super::verify::sealed_bytes;
use crate::runs::layout::{Layout, MANIFEST, VERDICT};
use crate::runs::published;
use anyhow::{Context, Result};
use host::failure::fail;
use host::files;
use host::paths::Paths;
use pure::book::notebook::{Notebook, parse};
use pure::book::standing::{Basis, Differences, Entries, Plans, Standing, State, judge};
use pure::identity::measured::measured_sass;
use schema::ExitCode;
use schema::build::{BuildRecord, Kernel};
use schema::cell::CellRecord;
use schema::claim::ClaimFile;
use schema::contract::{CONTRACT, Contract};
use schema::environment::Environment;
use schema::manifest::Manifest;
use schema::metrics::{Metric, from_csv};
use schema::plan::Plan;
use schema::verdict::Verdict;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::collections::{BTreeMap, BTreeSet};
use tree::Tree;

/// What this tree builds.
#[derive(Clone, Debug)]
pub struct TreeSass {
    /// The compiler's version line.
    pub nvcc: String,
    /// Its kernels, for every architecture asked for.
    pub kernels: Vec<Kernel>,
}

/// Every published number.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Report {
    /// Those whose state is known.
    pub numbers: Vec<Number>,
    /// Those whose state cannot be known here.
    pub unknown: Vec<Unknown>,
    /// The version of the rules that judged each run.
    pub rules: BTreeMap<String, u32>,
}

/// A published number and what it is today.
#[derive(Clone, Debug, Serialize)]
pub struct Number {
    /// `METRIC@PHASE/CELL`, or `CLAIM-ID@claim`.
    pub id: String,
    /// As published.
    pub value: String,
    /// Its unit.
    pub unit: String,
    /// The run that gave it.
    pub run: String,
    /// What it is today.
    pub state: State,
    /// Why; for a stale number, everything that changed.
    pub why: String,
}

/// A published number of which nothing can be said here.
#[derive(Clone, Debug, Serialize)]
pub struct Unknown {
    /// As [`Number::id`].
    pub id: String,
    /// As published.
    pub value: String,
    /// Its unit.
    pub unit: String,
    /// The run that gave it.
    pub run: String,
    /// What is missing, and what to type.
    pub why: String,
}

impl Report {
    /// Exit 11 while the state of a number cannot be known here; a stale number is an answer like any other.
    #[must_use]
    pub fn exit_code(&self) -> ExitCode {
        if self.unknown.is_empty() { ExitCode::Done } else { ExitCode::Environment }
    }
}

/// Judges every published number. `built` is what this tree builds, or why that is not known.
///
/// # Errors
/// When a published run does not read, or this tree's harness does not parse.
pub fn status(paths: &Paths, built: &Result<TreeSass, String>) -> Result<Report> {
    let mut report = Report::default();
    let runs = published::ids(paths)?;
    if runs.is_empty() {
        return Ok(report);
    }
    let notebook = parse(&files::read_text(&paths.notebook())?)?;
    let mut tree = Tree::read(paths)?;
    for run in runs {
        let run = Run::load(paths, run)?;
        let now = tree.differences(&run, built)?;
        report.rules.insert(run.id.clone(), run.verdict.rules);
        run.judge(&mut tree, &now, &notebook, &mut report)?;
    }
    Ok(report)
}

/// A published run, as far as its numbers' standing needs it.
struct Run {
    id: String,
    manifest: Manifest,
    environment: Environment,
    build: BuildRecord,
    plan: Plan,
    claims: ClaimFile,
    verdict: Verdict,
    metrics: Vec<Metric>,
    contract: Contract,
    /// Symbols by `phase/cell`.
    launched: BTreeMap<String, BTreeSet<String>>,
}

impl Run {
    fn load(paths: &Paths, id: String) -> Result<Self> {
        let layout = Layout::published(paths, id.clone());
        // A number in an edited file does not count, whatever the tree is.
        sealed_bytes(&layout).map_err(|problem| {
            let message = format!("run {id} does not verify, so none of its numbers stands: {problem:#}");
            fail(ExitCode::Integrity, message, format!("cargo xtask verify {id} lists every problem"))
        })?;
        let text = |name: &str| String::from_utf8(read(&layout, name)?).with_context(|| layout.shown(name));
        let manifest: Manifest = json(&layout, MANIFEST)?;
        let mut launched = BTreeMap::new();
        let headers = manifest.subject.iter().map(|subject| subject.name.as_str());
        for name in headers.filter(|name| name.starts_with("cells/") && name.ends_with(".json")) {
            let record: CellRecord = json(&layout, name)?;
            let symbols = record.configs.into_iter().map(|config| config.symbol).collect();
            launched.insert(format!("{}/{}", record.phase, record.cell), symbols);
        }
        Ok(Self {
            environment: json(&layout, "environment.json")?,
            build: json(&layout, "build/resources.json")?,
            plan: toml::from_str(&text("plan.toml")?).context("plan.toml")?,
            claims: toml::from_str(&text("claims.toml")?).context("claims.toml")?,
            verdict: json(&layout, VERDICT)?,
            metrics: from_csv(&text("summary/metrics.csv")?)?,
            contract: contract_of(&layout)?,
            id,
            manifest,
            launched,
        })
    }

    fn judge(&self, tree: &mut Tree<'_>, now: &Differences, notebook: &Notebook, report: &mut Report) -> Result<()> {
        let planned = tree.plan_like(&self.plan)?;
        let plans = Plans {
            measured: &self.plan,
            now: planned.as_ref(),
            contract: &self.contract,
            slots: &self.environment.device.slots,
            launched: &self.launched,
        };
        let mut bases = plans.of_metrics(&self.metrics);
        bases.extend(plans.of_claims(&self.verdict.claims, &self.claims, &self.metrics)?);
        let measured = measured_sass(&self.build, &self.environment.device.arch);
        let entries = Entries::of_run(notebook, &self.id);
        for basis in bases {
            let standing = judge(&basis, &measured, now, &entries);
            let Basis { id, value, unit, .. } = basis;
            let run = self.id.clone();
            match standing {
                Standing::Known(state, why) => {
                    report.numbers.push(Number { id, value, unit, run, state, why: why.join("; ") });
                }
                Standing::Unknown(why) => report.unknown.push(Unknown { id, value, unit, run, why: why.join("; ") }),
            }
        }
        Ok(())
    }
}

/// The run's contract; the empty one for a run from before there were any.
fn contract_of(layout: &Layout) -> Result<Contract> {
    let held = layout.read(CONTRACT)?.map(|bytes| Contract::parse(&bytes).with_context(|| layout.shown(CONTRACT)));
    Ok(held.transpose()?.unwrap_or_default())
}

fn json<T: DeserializeOwned>(layout: &Layout, name: &str) -> Result<T> {
    serde_json::from_slice(&read(layout, name)?).with_context(|| format!("failed to read {}", layout.shown(name)))
}

fn read(layout: &Layout, name: &str) -> Result<Vec<u8>> {
    layout.read(name)?.with_context(|| format!("{} is absent", layout.shown(name)))
}

#[cfg(test)]
mod tests;
