//! Published runs as the rendered Markdown tells them, and the Markdown itself. Rendering is done in `pure::render`.

use super::files;
use super::layout::{Layout, MANIFEST, VERDICT};
use crate::paths::Paths;
use crate::pure::notebook::{Kind, Notebook, parse};
use crate::pure::render::{PublishedRun, headline_region, replace_region, results_region};
use anyhow::{Context, Result};
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
    Ok(names.iter().filter_map(run).filter(|run| is_id(run)).collect())
}

/// Whether a word can be a run's id, and therefore name a folder.
#[must_use]
pub fn is_id(word: &str) -> bool {
    !word.contains('/') && files::check_name(word).is_ok()
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
    let metrics = String::from_utf8(read(&layout, "summary/metrics.csv")?).context("summary/metrics.csv")?;
    let metrics = from_csv(&metrics)?;
    Ok(told(&json(&layout, MANIFEST)?, &json(&layout, VERDICT)?, &environment, metrics, notebook))
}

fn read(layout: &Layout, name: &str) -> Result<Vec<u8>> {
    layout.read(name)?.with_context(|| format!("{} is absent", layout.shown(name)))
}

fn json<T: DeserializeOwned>(layout: &Layout, name: &str) -> Result<T> {
    serde_json::from_slice(&read(layout, name)?).with_context(|| format!("failed to read {}", layout.shown(name)))
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

/// The Markdown files with rendered regions, by path, as they must read for these runs. A file that is absent is left out.
///
/// # Errors
/// When a file has not its region.
pub fn rendered(paths: &Paths, runs: &[PublishedRun]) -> Result<Vec<(PathBuf, String)>> {
    let regions = [("RESULTS.md", "results", results_region(runs)), ("README.md", "headline", headline_region(runs))];
    let mut rendered = Vec::new();
    for (file, region, body) in regions {
        let path = paths.root().join(file);
        if files::exists(&path) {
            let text = replace_region(&files::read_text(&path)?, region, &body).with_context(|| file.to_owned())?;
            rendered.push((path, text));
        }
    }
    Ok(rendered)
}
