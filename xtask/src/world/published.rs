//! Published runs as the rendered Markdown tells them, and the Markdown itself. Rendering is done in `pure::render`.

use super::files;
use super::layout::{Layout, MANIFEST, VERDICT};
use crate::failure::fail;
use crate::paths::Paths;
use crate::pure::notebook::{Kind, Notebook, parse};
use crate::pure::prose::{self, Numbers};
use crate::pure::render::{PublishedRun, headline_region, replace_region, results_region};
use crate::pure::standing::{Entries, NumberId};
use anyhow::{Context, Result};
use schema::ExitCode;
use schema::environment::Environment;
use schema::manifest::Manifest;
use schema::metrics::{Metric, from_csv};
use schema::plan::ClockClass;
use schema::verdict::Verdict;
use serde::de::DeserializeOwned;
use std::path::PathBuf;

/// The ids of the published runs, sorted: one for each manifest.
///
/// # Errors
/// When `manifests/` cannot be read.
pub fn ids(paths: &Paths) -> Result<Vec<String>> {
    let names = files::entries(&paths.manifests())?;
    let run = |name: &String| name.strip_suffix(".json").filter(|run| !run.ends_with(".verdict")).map(str::to_owned);
    Ok(names.iter().filter_map(run).collect())
}

/// Every published run.
///
/// # Errors
/// When a file of one does not read as what it must be.
pub fn runs(paths: &Paths) -> Result<Vec<PublishedRun>> {
    let notebook = files::read_text(&paths.notebook()).ok().and_then(|text| parse(&text).ok());
    ids(paths)?.into_iter().map(|run| load(paths, run, notebook.as_ref())).collect()
}

fn load(paths: &Paths, run: String, notebook: Option<&Notebook>) -> Result<PublishedRun> {
    let layout = Layout::Published { paths: paths.clone(), run };
    let environment: Environment = json(&layout, "environment.json")?;
    let metrics = from_csv(&files::read_text(&layout.path("summary/metrics.csv"))?)?;
    Ok(told(&json(&layout, MANIFEST)?, &json(&layout, VERDICT)?, &environment, metrics, notebook))
}

fn json<T: DeserializeOwned>(layout: &Layout, name: &str) -> Result<T> {
    let path = layout.path(name);
    serde_json::from_slice(&files::read_plain(&path)?).with_context(|| format!("failed to read {}", path.display()))
}

/// A run as the Markdown tells it.
#[must_use]
pub fn told(
    manifest: &Manifest,
    verdict: &Verdict,
    environment: &Environment,
    metrics: Vec<Metric>,
    notebook: Option<&Notebook>,
) -> PublishedRun {
    let predicate = &manifest.predicate;
    let class = verdict.gates.iter().find(|gate| gate.name == "clocks").and_then(|gate| gate.evidence.get("class"));
    let attempts = predicate.attempts.len() as u64;
    PublishedRun {
        run: predicate.run.clone(),
        experiment: predicate.experiment.clone(),
        gpu: environment.device.name.clone(),
        compute_capability: environment.device.compute_capability.clone(),
        clocks: class.and_then(|class| serde_json::from_value(class.clone()).ok()).unwrap_or(ClockClass::Unsteady),
        profile: predicate.profile,
        attempt: attempts,
        attempts,
        metrics,
        claims: verdict.claims.clone(),
        waivers: Vec::new(),
        remarks: notebook.map(|notebook| retractions(notebook, &predicate.run)).unwrap_or_default(),
    }
}

fn retractions(notebook: &Notebook, run: &str) -> Vec<String> {
    let of_run = notebook.entries.iter().filter(|entry| entry.fields.kind == Kind::Retraction);
    let of_run = of_run.filter(|entry| entry.fields.run.as_deref() == Some(run));
    of_run.map(|entry| format!("retracted by {}", entry.id)).collect()
}

/// Every published number by run and name, as a reference in prose shows it.
///
/// # Errors
/// When the notebook is there and does not read.
pub fn numbers(paths: &Paths, runs: &[PublishedRun]) -> Result<Numbers> {
    let notebook = files::exists(&paths.notebook()).then(|| files::read_text(&paths.notebook())).transpose()?;
    let notebook = notebook.map(|text| parse(&text)).transpose()?;
    let mut numbers = Numbers::default();
    for run in runs {
        let entries = notebook.as_ref().map(|book| Entries::of_run(book, &run.run)).unwrap_or_default();
        let mut add = |id: NumberId, value: &str, unit: &str| {
            let retracted = entries.retracted(&id);
            let retracted = retracted.map(|told| told.split(':').next().unwrap_or_default().to_owned());
            let (value, unit, gpu) = (value.to_owned(), unit.to_owned(), run.gpu.clone());
            numbers.add(&run.run, id.to_string(), prose::Published { value, unit, gpu, retracted });
        };
        run.metrics.iter().for_each(|m| add(NumberId::of_metric(m), &m.value, &m.unit));
        let valued = run.claims.iter().filter(|claim| !claim.value.is_empty());
        valued.for_each(|claim| add(NumberId::of_claim(&claim.id), &claim.value, &claim.unit));
    }
    Ok(numbers)
}

/// The Markdown files in which numbers are rendered: those of the root and of `docs/`. The notebook is append-only, so what
/// its references show is checked and never written.
///
/// # Errors
/// When a folder cannot be read.
pub fn documents(paths: &Paths) -> Result<Vec<PathBuf>> {
    let mut documents = Vec::new();
    for folder in [paths.root().to_owned(), paths.root().join("docs")] {
        let names = files::entries(&folder)?.into_iter().filter(|name| name.ends_with(".md"));
        documents
            .extend(names.map(|name| folder.join(name)).filter(|path| path.is_file() && *path != paths.notebook()));
    }
    Ok(documents)
}

/// The Markdown files with rendered regions or references, by path, as they must read for these runs. A file that is absent
/// is left out.
///
/// # Errors
/// When a file has not its region, or refers to what is not published.
pub fn rendered(paths: &Paths, runs: &[PublishedRun]) -> Result<Vec<(PathBuf, String)>> {
    let regions = [("RESULTS.md", "results", results_region(runs)), ("README.md", "headline", headline_region(runs))];
    let numbers = numbers(paths, runs)?;
    let mut rendered = Vec::new();
    for path in documents(paths)? {
        let read = files::read_text(&path)?;
        let name = path.strip_prefix(paths.root())?.display().to_string();
        let mut text = read.clone();
        for (_, region, body) in regions.iter().filter(|(file, ..)| *file == name) {
            text = replace_region(&text, region, body).with_context(|| name.clone())?;
        }
        let has_region = text != read || regions.iter().any(|(file, ..)| *file == name);
        let (resolved, _) = prose::resolve(&text, &numbers);
        // A reference to nothing stays as it is; one that shows something else is mended.
        if let Some(wrong) = prose::resolve(&resolved, &numbers).1.first() {
            let message = format!("{name} line {}: {}", wrong.line, wrong.what);
            return Err(fail(ExitCode::Config, message, "name a published run and one of its numbers"));
        }
        if has_region || resolved != text {
            rendered.push((path, resolved));
        }
    }
    Ok(rendered)
}
