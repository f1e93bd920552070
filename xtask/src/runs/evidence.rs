//! Loads a sealed run as evidence: only files that its manifest names, each parsed once.
//!
//! It does not check digests; `Sealed::load` and `verify` do that first.

use super::layout::{COUNTERS, Layout, MANIFEST, REOPENED, is_detached};
use anyhow::{Context, Result, ensure};
use host::failure::does_not_hold;
use host::paths::Paths;
use pure::gate::evidence::{CellEvidence, CounterEvidence, DetachedFacts, Evidence, History, SanitizerEvidence};
use pure::numbers::derive::{Derived, derive};
use pure::numbers::summary::{BlockCheck, CellData};
use pure::records::counters;
use pure::records::provenance::Origin;
use pure::records::sanitizer::faults;
use rayon::prelude::*;
use schema::build::BuildRecord;
use schema::cell::{CellFile, CellRecord};
use schema::contract::{CONTRACT, Contract, TableSpec};
use schema::counters::{CounterLog, CounterReport};
use schema::environment::Environment;
use schema::manifest::Manifest;
use schema::reopened::{Reopened, ReopenedFile};
use schema::sanitize::{Printed, SanitizerVerdict, VERDICT_FORMAT};
use schema::{Digest, FORMAT, check_format, check_format_of_json_up_to};
use serde::de::DeserializeOwned;
use std::collections::{BTreeMap, BTreeSet};
use tables::{MAX_VALUES, Reader, Table};
use words::names::is_id;

/// The records of a run that mean the same under any version of the rules: nothing of its plan, its claims or its
/// cells.
pub struct Records {
    /// The manifest.
    pub manifest: Manifest,
    /// The environment.
    pub environment: Environment,
    /// The build record; absent when the run has none.
    pub build: Option<BuildRecord>,
    /// Every sanitizer verdict, with what its log and the output beside it say when read again.
    pub sanitizer: Vec<SanitizerEvidence>,
    /// What hardware counters said, with what their logs say when read again; absent unless they were asked.
    pub counters: Option<CounterEvidence>,
    /// The chain of attempts as it was when the run ended; absent when the run has none.
    pub attempts_log: Option<String>,
}

impl Records {
    /// What the run was built from.
    #[must_use]
    pub fn origin(&self) -> Origin<'_> {
        Origin { manifest: &self.manifest, environment: &self.environment, build: self.build.as_ref() }
    }
}

/// Loads those records.
///
/// # Errors
/// As [`load`].
pub fn records(layout: &Layout) -> Result<Records> {
    let manifest: Manifest = json(layout, MANIFEST)?;
    check_format(MANIFEST, manifest.predicate.format)?;
    let digests = digests(&manifest);
    let has = |name: &str| digests.contains_key(name);
    Ok(Records {
        environment: json(layout, "environment.json")?,
        build: has("build/resources.json").then(|| json(layout, "build/resources.json")).transpose()?,
        sanitizer: sanitizer(layout, &digests)?,
        counters: has(COUNTERS).then(|| counters(layout, &digests)).transpose()?,
        attempts_log: has("attempts.jsonl").then(|| text(layout, "attempts.jsonl")).transpose()?,
        manifest,
    })
}

fn digests(manifest: &Manifest) -> BTreeMap<&str, Digest> {
    manifest.subject.iter().map(|subject| (subject.name.as_str(), subject.digest.sha256)).collect()
}

/// Loads a run.
///
/// # Errors
/// When a file that every run must hold is absent, or a file does not parse; ends with the exit code of integrity.
pub fn load(layout: &Layout) -> Result<Evidence> {
    let Records { manifest, environment, build, sanitizer, counters, attempts_log } = records(layout)?;
    let digests = digests(&manifest);
    let has = |name: &str| digests.contains_key(name);
    let cells = cells(layout, &digests)?;
    let plan: schema::plan::Plan = toml_file(layout, "plan.toml")?;
    check_format("plan.toml", plan.format)?;
    // It becomes part of a path.
    if !is_id(&plan.experiment) {
        let error = anyhow::anyhow!("{:?} is no experiment", plan.experiment);
        return Err(unreadable(layout, "plan.toml", &error));
    }
    let data: Vec<CellData> = cells.iter().map(|cell| cell.data.clone()).collect();
    let contract = has(CONTRACT).then(|| contract(layout)).transpose()?;
    let (contract, contract_digest) = contract.map_or_else(Default::default, |(it, digest)| (it, Some(digest)));
    Ok(Evidence {
        // Without a contract there are no recipes, and the gates say so.
        recomputed: match contract_digest {
            Some(_) => derive(&contract, &manifest.predicate.run, &data),
            None => Derived::default(),
        },
        contract,
        contract_digest,
        plan_digest: text(layout, "plan.toml").map(Digest::of)?,
        claims: toml_file(layout, "claims.toml")?,
        claims_digest: text(layout, "claims.toml").map(Digest::of)?,
        build,
        sanitizer,
        counters,
        telemetry: has("telemetry.parquet").then(|| table(layout, "telemetry.parquet")).transpose()?,
        attempts_log,
        metrics_csv: has("summary/metrics.csv").then(|| text(layout, "summary/metrics.csv")).transpose()?,
        figures: figures(layout, &digests)?,
        reopened: has(REOPENED).then(|| reopened(layout)).transpose()?.unwrap_or_default(),
        bundle: has("bundle.json").then(|| json(layout, "bundle.json")).transpose()?,
        cells,
        environment,
        plan,
        manifest,
    })
}

/// The contract that a run holds, with the digest of its bytes.
///
/// # Errors
/// When it is absent or is none.
pub fn contract(layout: &Layout) -> Result<(Contract, Digest)> {
    let text = text(layout, CONTRACT)?;
    let contract = Contract::parse(text.as_bytes()).map_err(|error| unreadable(layout, CONTRACT, &error))?;
    Ok((contract, Digest::of(&text)))
}

fn reopened(layout: &Layout) -> Result<Vec<Reopened>> {
    let file: ReopenedFile = toml_file(layout, REOPENED)?;
    check_format(REOPENED, file.format)?;
    Ok(file.reopened)
}

/// What this repository's history says of a run.
///
/// # Errors
/// When git fails.
pub fn history(paths: &Paths, evidence: &Evidence) -> Result<Option<History>> {
    let predicate = &evidence.manifest.predicate;
    let Some(commit) = &predicate.source.commit else { return Ok(None) };
    let kernels = evidence.build.iter().flat_map(|build| &build.kernels);
    let folders: BTreeSet<String> = kernels
        .filter_map(|kernel| kernel.file.split_once('/'))
        .map(|(folder, _)| folder.to_owned())
        .filter(|folder| is_id(folder))
        .collect();
    super::history::of_run(paths, commit, &evidence.plan, &evidence.claims, &folders)
}

/// What the detached tables say; absent unless every one that the manifest names is at hand, or one is not even named.
///
/// # Errors
/// When a table does not parse.
pub fn detached(layout: &Layout, evidence: &Evidence) -> Result<Option<DetachedFacts>> {
    let named: BTreeSet<&str> = evidence.manifest.subject.iter().map(|subject| subject.name.as_str()).collect();
    let mut tables = Vec::new();
    let owed = |cell: &CellEvidence| -> Vec<String> {
        let table = table_of(evidence, cell);
        let blocks = table.is_some_and(|table| table.blocks.is_some()).then_some(".blocks.parquet");
        let clock = cell.data.launches.is_some().then_some(".clock.parquet");
        clock.into_iter().chain(blocks).map(|suffix| format!("cells/{}{suffix}", cell.name())).collect()
    };
    let unnamed = evidence.cells.iter().flat_map(owed);
    let unnamed: Vec<String> = unnamed.filter(|name| !named.contains(name.as_str())).collect();
    for cell in &evidence.cells {
        for (suffix, check) in [(".blocks.parquet", blocks as Check), (".clock.parquet", clock as Check)] {
            let name = format!("cells/{}{suffix}", cell.name());
            if named.contains(name.as_str()) {
                tables.push((cell, name, check));
            }
        }
    }
    // A table that no header names is not counted as a detached one.
    let faults: Vec<String> = unnamed.into_iter().map(|name| format!("{name} was never written")).collect();
    let absent = DetachedFacts { faults, ..DetachedFacts::default() };
    for (_, name, _) in &tables {
        if layout.open(name)?.is_none() {
            return Ok((!absent.faults.is_empty()).then_some(absent));
        }
    }
    // A cell can have millions of block rows, so cells are read in parallel, in pieces, and only the results are kept.
    let found = tables.par_iter().map(|(cell, name, check)| {
        let mut facts = layout
            .table(name)
            .and_then(|reader| check(cell, table_of(evidence, cell), reader))
            .with_context(|| name.clone())?;
        facts.faults = facts.faults.into_iter().map(|fault| format!("{name}: {fault}")).collect();
        Ok(facts)
    });
    let found: Vec<DetachedFacts> = found.collect::<Result<_>>()?;
    Ok(Some(found.into_iter().fold(absent, DetachedFacts::and)))
}

fn table_of<'a>(evidence: &'a Evidence, cell: &CellEvidence) -> Option<&'a TableSpec> {
    evidence.contract.table(cell.spec(&evidence.contract)?)
}

type Check = fn(&CellEvidence, Option<&TableSpec>, Reader) -> Result<DetachedFacts>;

fn blocks(cell: &CellEvidence, table: Option<&TableSpec>, mut rows: Reader) -> Result<DetachedFacts> {
    let events = cell.data.events.rows() as u64;
    let table = table.context("the contract does not name this cell")?;
    let mut check = BlockCheck::new(&cell.data.events, table)?;
    while let Some(piece) = rows.piece()? {
        check.add(&piece)?;
    }
    Ok(DetachedFacts { events, clock_launches: 0, faults: check.finish()? })
}

/// The most clock windows of one cell: many times what a GPU's SMs give in a cell of minutes.
const MOST_WINDOWS: usize = 1 << 23;

/// Window count, slowest, median and fastest window of each launch, derived again; kilohertz may differ by how they were
/// rounded.
fn clock(cell: &CellEvidence, _: Option<&TableSpec>, mut windows: Reader) -> Result<DetachedFacts> {
    const ROUNDING_KHZ: f64 = 2.0;
    let launches = cell.data.launches.as_ref().context("the cell has no launches")?;
    ensure!(windows.rows() <= MOST_WINDOWS, "{} clock windows are more than a cell may have", windows.rows());
    let mut seen: BTreeMap<u32, Vec<f64>> = BTreeMap::new();
    while let Some(piece) = windows.piece()? {
        let (launch, cycles, ns) = (piece.u32("launch")?, piece.u32("cycles")?, piece.u32("ns")?);
        for row in 0..piece.rows() {
            let khz = f64::from(cycles[row]) * 1e6 / f64::from(ns[row]).max(1.0);
            seen.entry(launch[row]).or_default().push(khz);
        }
    }
    let (name, count) = (launches.u32("launch")?, launches.u32("clock_windows")?);
    let said = [launches.u32("clock_khz_min")?, launches.u32("clock_khz_p50")?, launches.u32("clock_khz_max")?];
    let mut facts = DetachedFacts::default();
    for row in (0..launches.rows()).filter(|row| count[*row] > 0) {
        let mut khz = seen.remove(&name[row]).unwrap_or_default();
        khz.sort_unstable_by(f64::total_cmp);
        let places = [0, khz.len().saturating_sub(1) / 2, khz.len().saturating_sub(1)];
        let near = |at: usize, said: u32| khz.get(at).is_some_and(|khz| (khz - f64::from(said)).abs() <= ROUNDING_KHZ);
        let shown = places.into_iter().zip(said).all(|(at, said)| near(at, said[row]));
        if khz.len() != count[row] as usize || !shown {
            facts.faults.push(format!("launch {} does not show the clock its windows show", name[row]));
        }
        facts.clock_launches += 1;
    }
    facts.faults.extend(seen.keys().map(|launch| format!("windows of launch {launch}, which observed none")));
    Ok(facts)
}

/// The most values of all cells together, which are in memory at once; a full run has a few millions.
const MOST_VALUES: usize = 1 << 25;

fn cells(layout: &Layout, digests: &BTreeMap<&str, Digest>) -> Result<Vec<CellEvidence>> {
    let headers = digests.keys().filter(|name| name.starts_with("cells/") && name.ends_with(".json"));
    let (mut cells, mut values) = (Vec::new(), 0);
    for name in headers {
        let cell = cell(layout, name, digests)?;
        values += cell.data.events.rows() * cell.data.events.columns.len();
        if values > MOST_VALUES {
            let error = anyhow::anyhow!("its cells hold more than {MOST_VALUES} values together");
            return Err(unreadable(layout, name, &error));
        }
        cells.push(cell);
    }
    Ok(cells)
}

fn cell(layout: &Layout, name: &str, digests: &BTreeMap<&str, Digest>) -> Result<CellEvidence> {
    let record: CellRecord = json(layout, name)?;
    check_format(name, record.format)?;
    let stem = name.strip_suffix(".json").expect("headers end so");
    let mut faults = Vec::new();
    if stem != format!("cells/{}/{}", record.phase, record.cell) {
        faults.push(format!("{name} holds the header of {}/{}", record.phase, record.cell));
    }
    for CellFile { suffix, sha256, .. } in &record.files {
        if digests.get(format!("{stem}{suffix}").as_str()) != Some(sha256) {
            faults.push(format!("{stem}{suffix} is not the file that the header names"));
        }
    }
    let beside = |suffix: &str| digests.contains_key(format!("{stem}{suffix}").as_str());
    let named = |suffix: &str| record.files.iter().any(|file| file.suffix == suffix);
    for suffix in [".parquet", ".launches.parquet", ".blocks.parquet", ".clock.parquet"] {
        if beside(suffix) && !named(suffix) {
            faults.push(format!("the header does not name {stem}{suffix}"));
        }
    }
    let events = table(layout, &format!("{stem}.parquet"))?;
    let launches = format!("{stem}.launches.parquet");
    let launches = digests.contains_key(launches.as_str()).then(|| table(layout, &launches)).transpose()?;
    let data = CellData { record, events, launches };
    data.check_range().map_err(|error| unreadable(layout, &format!("{stem}.parquet"), &error))?;
    Ok(CellEvidence { data, faults })
}

fn sanitizer(layout: &Layout, digests: &BTreeMap<&str, Digest>) -> Result<Vec<SanitizerEvidence>> {
    let verdicts = digests.keys().filter(|name| name.starts_with("sanitize/") && name.ends_with(".json"));
    let one = |name: &&str| -> Result<SanitizerEvidence> {
        let verdict: SanitizerVerdict = json_up_to(layout, name, VERDICT_FORMAT)?;
        let log_faults = match beside_verdict(layout, digests, &verdict)? {
            Ok((log, printed)) => faults(&verdict, &log, printed.as_deref()),
            Err(fault) => vec![fault],
        };
        Ok(SanitizerEvidence { name: (*name).to_owned(), verdict, log_faults })
    };
    verdicts.map(one).collect()
}

/// The log of a verdict and what the harness printed, or which of them is not the file that the verdict was made from.
fn beside_verdict(
    layout: &Layout,
    digests: &BTreeMap<&str, Digest>,
    verdict: &SanitizerVerdict,
) -> Result<Result<(String, Option<String>), String>> {
    let beside = |file: &str, sha256: Digest| -> Result<Result<String, String>> {
        let name = format!("sanitize/{file}");
        match digests.get(name.as_str()) {
            Some(digest) if *digest == sha256 => text(layout, &name).map(Ok),
            Some(_) => Ok(Err(format!("{name} is not the file it was made from"))),
            None => Ok(Err(format!("its file {name} is absent"))),
        }
    };
    let log = match beside(&verdict.log, verdict.log_digest)? {
        Ok(log) => log,
        Err(fault) => return Ok(Err(fault)),
    };
    let Some(Printed { file, sha256 }) = &verdict.printed else { return Ok(Ok((log, None))) };
    Ok(beside(file, *sha256)?.map(|printed| (log, Some(printed))))
}

fn counters(layout: &Layout, digests: &BTreeMap<&str, Digest>) -> Result<CounterEvidence> {
    let report: CounterReport = json(layout, COUNTERS)?;
    let logs = report.programs.iter().filter_map(|program| program.log.as_ref());
    let mut texts = BTreeMap::new();
    for CounterLog { file, sha256 } in logs {
        let name = format!("counters/{file}");
        if digests.get(name.as_str()) == Some(sha256) {
            texts.insert(file.clone(), text(layout, &name)?);
        }
    }
    let faults = counters::faults(&report, |file| texts.get(file).cloned());
    Ok(CounterEvidence { report, faults })
}

fn figures(layout: &Layout, digests: &BTreeMap<&str, Digest>) -> Result<BTreeMap<String, String>> {
    let svg = digests.keys().filter_map(|name| name.strip_prefix("summary/").filter(|rest| rest.ends_with(".svg")));
    svg.map(|rest| Ok((rest.to_owned(), text(layout, &format!("summary/{rest}"))?))).collect()
}

fn text(layout: &Layout, name: &str) -> Result<String> {
    ensure!(!is_detached(name), "{name} is detached");
    let read = || Ok(String::from_utf8(layout.read(name)?.context("it is absent")?)?);
    read().map_err(|error: anyhow::Error| unreadable(layout, name, &error))
}

fn json<T: DeserializeOwned>(layout: &Layout, name: &str) -> Result<T> {
    json_up_to(layout, name, FORMAT)
}

fn json_up_to<T: DeserializeOwned>(layout: &Layout, name: &str, newest: u32) -> Result<T> {
    let text = text(layout, name)?;
    let format = check_format_of_json_up_to(name, text.as_bytes(), newest);
    let parsed = format.and_then(|()| Ok(serde_json::from_str(&text)?));
    parsed.map_err(|error| unreadable(layout, name, &error))
}

fn toml_file<T: DeserializeOwned>(layout: &Layout, name: &str) -> Result<T> {
    toml::from_str(&text(layout, name)?).map_err(|error| unreadable(layout, name, &error.into()))
}

fn table(layout: &Layout, name: &str) -> Result<Table> {
    layout.table(name).and_then(|reader| reader.all(MAX_VALUES)).map_err(|error| unreadable(layout, name, &error))
}

fn unreadable(layout: &Layout, name: &str, error: &anyhow::Error) -> anyhow::Error {
    let what = format!("{} cannot be read as the kind of file it must be", layout.shown(name));
    does_not_hold(&what, error, "restore the file from where the run was made")
}

#[cfg(test)]
mod tests;
