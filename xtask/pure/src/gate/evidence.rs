//! What the gates judge: everything a sealed run holds, parsed, and the few facts from outside it.
//!
//! What is absent stays absent, and each gate decides what follows from that. Nothing here reads a file.

use crate::book::notebook::standing::Standing;
use crate::numbers::derive::Derived;
use crate::numbers::sample;
use crate::numbers::summary::CellData;
use crate::records::provenance::Origin;
use schema::Digest;
use schema::build::{Budget, BuildRecord};
use schema::bundle::BundleRecord;
use schema::claim::ClaimFile;
use schema::contract::{CellSpec, Contract};
use schema::counters::CounterReport;
use schema::environment::Environment;
use schema::manifest::Manifest;
use schema::plan::Plan;
use schema::reopened::Reopened;
use schema::sanitize::SanitizerVerdict;
use schema::verdict::GateResult;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use tables::Table;

/// A run, parsed.
#[derive(Clone, Debug)]
pub struct Evidence {
    /// The manifest.
    pub manifest: Manifest,
    /// The frozen plan.
    pub plan: Plan,
    /// Digest of the plan's bytes.
    pub plan_digest: Digest,
    /// What the run must contain, as it was frozen beside the plan; empty for a run from before there were contracts.
    pub contract: Contract,
    /// Digest of the contract's bytes; absent where there is none.
    pub contract_digest: Option<Digest>,
    /// The frozen claims.
    pub claims: ClaimFile,
    /// Digest of the claim file's bytes.
    pub claims_digest: Digest,
    /// The environment.
    pub environment: Environment,
    /// The build record; absent when the run has none.
    pub build: Option<BuildRecord>,
    /// Every sanitizer verdict, with what its log says when read again.
    pub sanitizer: Vec<SanitizerEvidence>,
    /// What hardware counters said of the kernels; absent unless they were asked.
    pub counters: Option<CounterEvidence>,
    /// Every cell, in name order.
    pub cells: Vec<CellEvidence>,
    /// Telemetry; absent when the run has none.
    pub telemetry: Option<Table>,
    /// The chain of attempts as it was when the run ended; absent when the run has none.
    pub attempts_log: Option<String>,
    /// The summary as sealed; absent when the run has none.
    pub metrics_csv: Option<String>,
    /// The figures as sealed, by file name.
    pub figures: BTreeMap<String, String>,
    /// The summary computed anew from the cells.
    pub recomputed: Derived,
    /// The closed work that the run takes up again.
    pub reopened: Vec<Reopened>,
    /// The bundle's record; absent unless the run was made from a bundle.
    pub bundle: Option<BundleRecord>,
}

impl Evidence {
    /// What the run was built from.
    #[must_use]
    pub fn origin(&self) -> Origin<'_> {
        Origin { manifest: &self.manifest, environment: &self.environment, build: self.build.as_ref() }
    }

    /// The events whose block rows are published in full: chosen by the manifest's digest among all that have any.
    ///
    /// # Errors
    /// When an event table lacks a column.
    pub fn sampled_events(&self, manifest: Digest) -> anyhow::Result<BTreeSet<sample::Event>> {
        let mut events = Vec::new();
        for cell in &self.cells {
            if !cell.data.record.files.iter().any(|file| file.suffix == ".blocks.parquet") {
                continue;
            }
            let (launch, event) = (cell.data.events.u32("launch")?, cell.data.events.u32("event")?);
            events.extend(launch.iter().zip(event).map(|(launch, event)| (cell.name(), *launch, *event)));
        }
        Ok(sample::choose(manifest, events))
    }
}

/// A sanitizer verdict and its log, read again.
#[derive(Clone, Debug)]
pub struct SanitizerEvidence {
    /// The verdict's file name.
    pub name: String,
    /// The verdict as sealed.
    pub verdict: SanitizerVerdict,
    /// How the log, read again, differs from the verdict; empty when it says the same.
    pub log_faults: Vec<String>,
}

/// What hardware counters said, and their logs, read again.
#[derive(Clone, Debug)]
pub struct CounterEvidence {
    /// The report as sealed.
    pub report: CounterReport,
    /// How the logs, read again, differ from the report; empty when they say the same.
    pub faults: Vec<String>,
}

/// One cell's header and committed tables.
#[derive(Clone, Debug)]
pub struct CellEvidence {
    /// Header, events and launches.
    pub data: CellData,
    /// How the files beside the header differ from it.
    pub faults: Vec<String>,
}

impl CellEvidence {
    /// `phase/cell`.
    #[must_use]
    pub fn name(&self) -> String {
        format!("{}/{}", self.data.record.phase, self.data.record.cell)
    }

    /// What the contract says of it; absent where it names no such cell.
    #[must_use]
    pub fn spec<'a>(&self, contract: &'a Contract) -> Option<&'a CellSpec> {
        contract.cell(&self.data.record.phase, &self.data.record.cell)
    }
}

/// Facts from outside the run. The verdict stores them, so that the same judgement can be made where they are not
/// available.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Facts {
    /// What this repository's history says of the run; absent without a repository.
    pub history: Option<History>,
    /// SASS digests that this tree builds for the run's architecture, by symbol; absent when nothing was built.
    pub built: Option<BTreeMap<String, Digest>>,
    /// What the detached tables say; absent when not all of them are at hand.
    pub detached: Option<DetachedFacts>,
}

impl Facts {
    /// The facts a stored judgement rested on.
    #[must_use]
    pub fn stored(gates: &[GateResult]) -> Self {
        Self {
            history: kept(gates, "registration", "history"),
            built: kept(gates, "freshness", "built"),
            detached: kept(gates, "recompute", "detached"),
        }
    }

    /// These facts, completed by another's where these are absent.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        Self {
            history: self.history.or(other.history),
            built: self.built.or(other.built),
            detached: self.detached.or(other.detached),
        }
    }
}

fn kept<T: for<'de> Deserialize<'de>>(gates: &[GateResult], gate: &str, key: &str) -> Option<T> {
    let value = gates.iter().find(|g| g.name == gate)?.evidence.get(key)?;
    serde_json::from_value(value.clone()).ok()
}

/// What a repository's history says of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct History {
    /// The commit asked about.
    pub commit: String,
    /// Whether the repository holds it.
    pub known: bool,
    /// Whether it is the commit checked out or one of its ancestors.
    pub in_history: bool,
    /// Version of the rules as of that commit; absent when the repository does not hold it, like all that follows.
    pub rules: Option<u32>,
    /// Digest over the source as of that commit.
    pub source: Option<Digest>,
    /// Digest of the claim file as of that commit.
    pub claims: Option<Digest>,
    /// Digest of the experiment's plan file as of that commit.
    pub plan: Option<Digest>,
    /// Whether that plan file freezes to the run's plan.
    pub planned: bool,
    /// Digest of the toolkit lock as of that commit.
    pub toolkit_lock: Option<Digest>,
    /// Budgets as of that commit.
    pub budgets: Vec<KernelBudget>,
    /// Each claim's registration, by claim id.
    pub registered: BTreeMap<String, Registered>,
    /// What the notebook of that commit says of closed work, decisions and missing provenance that the run names.
    pub standing: Standing,
}

/// A budget with its file relative to `kernels/`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KernelBudget {
    /// The folder below `kernels/`.
    pub folder: String,
    /// The budget.
    pub budget: Budget,
}

/// When a claim and its prediction entered history.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Registered {
    /// The commit since which the claim has been as the run has it, up to the measured commit.
    pub claim_since: Option<String>,
    /// The commit that brought its prediction into the notebook.
    pub prediction_since: Option<String>,
    /// Whether the tree still holds the claim as the run has it.
    pub unchanged_since: bool,
    /// Whether the prediction is marked `informed`: filed after a look at such data.
    pub informed: bool,
}

/// What the detached tables say.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DetachedFacts {
    /// Events whose columns were derived again from block rows.
    pub events: u64,
    /// Launches whose clock columns were derived again from windows.
    pub clock_launches: u64,
    /// What does not agree.
    pub faults: Vec<String>,
}

impl DetachedFacts {
    /// These facts and another table's.
    #[must_use]
    pub fn and(mut self, other: Self) -> Self {
        self.events += other.events;
        self.clock_launches += other.clock_launches;
        self.faults.extend(other.faults);
        self
    }
}
