//! Loads published runs for rendering, and the Markdown pages that show them. Rendering is done in `pure::book::render`.

use super::layout::{Layout, MANIFEST, REOPENED, VERDICT, run_of_manifest};
use super::past;
use anyhow::{Context, Result};
use host::failure::fail;
use host::files;
use host::paths::Paths;
use pure::book::notebook::{Entry, Kind, Notebook, parse};
use pure::book::prose::{self, Numbers};
use pure::book::render::{Elsewhere, PublishedRun, Withdrawal, headline_region, replace_region, results_region};
use pure::book::standing::Entries;
use pure::book::{name_of, name_of_claim};
use pure::gate::ADVICE;
use schema::contract::{CONTRACT, Contract};
use schema::environment::Environment;
use schema::manifest::Manifest;
use schema::metrics::{Metric, from_csv};
use schema::plan::ClockClass;
use schema::reopened::ReopenedFile;
use schema::verdict::Verdict;
use schema::{Digest, ExitCode};
use serde::de::DeserializeOwned;
use std::path::PathBuf;
use words::names::is_id;

/// The ids of the published runs, sorted: one for each manifest.
///
/// # Errors
/// When `manifests/` cannot be read.
pub fn ids(paths: &Paths) -> Result<Vec<String>> {
    let names = files::entries(&paths.manifests())?;
    let runs = names.iter().filter_map(|name| run_of_manifest(name));
    Ok(runs.filter(|run| is_id(run)).map(str::to_owned).collect())
}

/// Every published run.
///
/// # Errors
/// When a file of one cannot be read as the kind of file it must be, or the notebook, which may withdraw some of it,
/// does not hold.
pub fn runs(paths: &Paths) -> Result<Vec<PublishedRun>> {
    let notebook = notebook(paths)?;
    ids(paths)?.into_iter().map(|run| load(paths, run, notebook.as_ref())).collect()
}

fn load(paths: &Paths, run: String, notebook: Option<&Notebook>) -> Result<PublishedRun> {
    let left = past::record(paths, &run)?;
    let layout = Layout::published(paths, run);
    let manifest: Manifest = json(&layout, MANIFEST)?;
    let environment: Environment = serde_json::from_slice(&sealed(&layout, &manifest, "environment.json")?)
        .with_context(|| format!("failed to read {}", layout.shown("environment.json")))?;
    let metrics =
        String::from_utf8(sealed(&layout, &manifest, "summary/metrics.csv")?).context("summary/metrics.csv")?;
    let metrics = from_csv(&metrics)?;
    let mut run = told(&manifest, &json(&layout, VERDICT)?, &environment, metrics, notebook);
    run.events_in = left.map(|record| record.commit);
    if layout.read(CONTRACT)?.is_some() {
        run.contract =
            Contract::parse(&sealed(&layout, &manifest, CONTRACT)?).with_context(|| layout.shown(CONTRACT))?;
    }
    if let Some(reopened) = layout.read(REOPENED)? {
        let file: ReopenedFile = toml::from_str(&String::from_utf8(reopened).context(REOPENED)?)
            .with_context(|| format!("failed to read {}", layout.shown(REOPENED)))?;
        run.remarks.extend(file.reopened.iter().map(|taken| format!("reopens {}: {}", taken.entry, taken.changed)));
    }
    Ok(run)
}

fn read(layout: &Layout, name: &str) -> Result<Vec<u8>> {
    layout.read(name)?.with_context(|| format!("{} is absent", layout.shown(name)))
}

/// A file of which numbers are told, as its manifest names it: no edited number is ever rendered.
fn sealed(layout: &Layout, manifest: &Manifest, name: &str) -> Result<Vec<u8>> {
    let bytes = read(layout, name)?;
    let subject = manifest.subject.iter().find(|subject| subject.name == name).map(|subject| subject.digest.sha256);
    if subject == Some(Digest::of(&bytes)) {
        return Ok(bytes);
    }
    let message = format!("{} is not as it was sealed", layout.shown(name));
    Err(fail(ExitCode::Integrity, message, format!("cargo xtask verify {} says what else is not", layout.run())))
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
        refused_before: notebook.map(|notebook| refused_before(notebook, manifest, verdict)).unwrap_or_default(),
        withdrawn: notebook.map(|notebook| withdrawals(notebook, &predicate.run)).unwrap_or_default(),
        contract: Contract::default(),
        rules: verdict.rules,
        remarks: advice(verdict).into_iter().collect(),
        events_in: None,
    }
}

/// Refused runs of other machines that the notebook tells of: those of this one are among the manifest's attempts.
fn refused_before(notebook: &Notebook, manifest: &Manifest, verdict: &Verdict) -> Vec<String> {
    let predicate = &manifest.predicate;
    let claims: Vec<&str> = verdict.claims.iter().map(|claim| claim.id.as_str()).collect();
    let known: Vec<&str> = predicate.attempts.iter().map(|attempt| attempt.run.as_str()).collect();
    notebook.refused_before(&predicate.run, &claims, &known)
}

fn withdrawals(notebook: &Notebook, run: &str) -> Vec<Withdrawal> {
    let of_run = notebook.standing_of(Kind::Retraction).filter(|entry| entry.fields.run.as_deref() == Some(run));
    let withdrawal = |entry: &Entry| Withdrawal {
        entry: entry.id.clone(),
        reason: entry.fields.reason.clone().unwrap_or_default(),
        metric: entry.fields.metric.clone(),
        claims: entry.fields.claims.clone(),
        rests: entry.fields.rests.clone(),
    };
    of_run.map(withdrawal).collect()
}

/// What the notebook withdraws that is no number of one of these runs.
fn elsewhere(notebook: &Notebook, runs: &[PublishedRun]) -> Vec<Elsewhere> {
    let told = |entry: &Entry| {
        let fields = &entry.fields;
        let what = match (&fields.run, &fields.about, &fields.cited) {
            (Some(run), _, _) if runs.iter().any(|published| published.run == *run) => return None,
            (Some(run), _, _) => format!("run {run}"),
            (_, Some(id), _) => format!("entry {id}: {}", notebook.entry(id)?.title),
            (_, _, Some(cited)) => format!("{} ({})", cited.quantity(), cited.source),
            _ => return None,
        };
        Some(Elsewhere { entry: entry.id.clone(), what, reason: fields.reason.clone().unwrap_or_default() })
    };
    notebook.standing_of(Kind::Retraction).filter_map(told).collect()
}

/// What the compiler said of the measured kernels, as the gate kept it.
fn advice(verdict: &Verdict) -> Option<String> {
    let build = verdict.gates.iter().find(|gate| gate.name == "build")?;
    let said: Vec<String> = serde_json::from_value(build.evidence.get(ADVICE)?.clone()).ok()?;
    (!said.is_empty()).then(|| format!("compiler advice: {}", said.join("; ")))
}

/// The notebook, when there is one.
fn notebook(paths: &Paths) -> Result<Option<Notebook>> {
    let read = || parse(&files::read_text(&paths.notebook())?);
    files::exists(&paths.notebook()).then(read).transpose()
}

/// Every published number by run and name, as a reference in prose shows it.
///
/// # Errors
/// When the notebook is there and does not read.
pub fn numbers(paths: &Paths, runs: &[PublishedRun]) -> Result<Numbers> {
    let notebook = notebook(paths)?;
    let mut numbers = Numbers::default();
    for run in runs {
        let entries = notebook.as_ref().map(|book| Entries::of_run(book, &run.run)).unwrap_or_default();
        let mut add = |id: String, value: &str, unit: &str, ends: Option<(String, String)>| {
            let retracted = entries.retracted(&id);
            let retracted = retracted.map(|told| told.split(':').next().unwrap_or_default().to_owned());
            let (value, unit, gpu) = (value.to_owned(), unit.to_owned(), run.gpu.clone());
            numbers.add(&run.run, id, prose::Published { value, unit, gpu, retracted, ends });
        };
        for m in &run.metrics {
            let spec = run.contract.metric(&m.phase, &m.cell, &m.metric);
            add(name_of(m), &m.value, &m.unit, spec.and_then(|spec| spec.ends.clone()));
        }
        let valued = run.claims.iter().filter(|claim| !claim.value.is_empty());
        valued.for_each(|claim| add(name_of_claim(&claim.id), &claim.value, &claim.unit, None));
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
/// When a file has not its region or refers to what is not published, or the notebook does not hold.
pub fn rendered(paths: &Paths, runs: &[PublishedRun]) -> Result<Vec<(PathBuf, String)>> {
    let withdrawn = notebook(paths)?.map(|notebook| elsewhere(&notebook, runs)).unwrap_or_default();
    let regions =
        [("RESULTS.md", "results", results_region(runs, &withdrawn)), ("README.md", "headline", headline_region(runs))];
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
        // A reference that resolves to nothing stays as it is; one with a wrong value is corrected.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::publish::publish;
    use crate::steps::gate::gate;
    use crate::steps::seal::Sealed;
    use crate::trial::{RUN, Trial, copy};
    use schema::build::Advisory;

    #[test]
    fn closed_work_taken_up_again_is_told_above_every_table_and_a_broken_notebook_hides_nothing() {
        let disk = copy();
        let judged = gate(&disk.paths, Sealed::load(&disk.run()).unwrap(), Some(&disk.build)).unwrap();
        publish(&disk.paths, &judged.pass().unwrap(), None).unwrap();
        let name = format!("results/events/{RUN}/{REOPENED}");
        disk.put(&name, "format = 1\n\n[[reopened]]\nentry = \"C-001\"\nchanged = \"two producers\"\n");
        let text = results_region(&runs(&disk.paths).unwrap(), &[]);
        let told = text.find("**reopens C-001: two producers**").unwrap();
        assert!(told < text.find("\n|---|").unwrap(), "{text}");
        disk.put(&name, "format = 1\n");
        assert!(runs(&disk.paths).unwrap_err().to_string().contains(REOPENED));
        disk.put(&name, "format = 1\nreopened = []\n");
        // A notebook with a broken chain may have lost a retraction.
        disk.put("NOTEBOOK.md", "# Notebook\n\nchain: 0\n");
        assert!(runs(&disk.paths).is_err());
        fs_err::remove_file(disk.paths.notebook()).unwrap();
        assert_eq!(runs(&disk.paths).unwrap().len(), 1);
    }

    #[test]
    fn a_number_that_was_edited_is_neither_rendered_nor_told() {
        let disk = copy();
        let judged = gate(&disk.paths, Sealed::load(&disk.run()).unwrap(), Some(&disk.build)).unwrap();
        publish(&disk.paths, &judged.pass().unwrap(), None).unwrap();
        assert_eq!(runs(&disk.paths).unwrap().len(), 1);
        for name in [format!("results/summary/{RUN}/metrics.csv"), format!("results/events/{RUN}/environment.json")] {
            let whole = fs_err::read_to_string(disk.root.path().join(&name)).unwrap();
            disk.put(&name, &whole.replacen('1', "2", 1));
            let error = runs(&disk.paths).unwrap_err();
            assert_eq!(host::failure::code_of(&error), ExitCode::Integrity, "{name}");
            assert!(error.to_string().contains(&name), "{error}");
            let built = Ok(crate::ask::status::TreeSass { nvcc: String::new(), kernels: Vec::new() });
            let error = crate::ask::status::status(&disk.paths, &built).unwrap_err();
            assert_eq!(host::failure::code_of(&error), ExitCode::Integrity, "{name}");
            assert!(error.to_string().contains("none of its numbers stands"), "{error}");
            disk.put(&name, &whole);
        }
    }

    #[test]
    fn the_compiler_s_advice_stands_next_to_the_numbers() {
        let mut trial = Trial::passing();
        trial.build.advisories = vec![Advisory {
            file: "preempt/yield".to_owned(),
            arch: "sm_90".to_owned(),
            function: Some("preempt_yield_p1".to_owned()),
            code: Some("C7510".to_owned()),
            text: "serialized".to_owned(),
        }];
        let (_disk, judged) = trial.judged();
        let evidence = judged.evidence();
        let run = told(judged.sealed().manifest(), judged.verdict(), &evidence.environment, Vec::new(), None);
        assert_eq!(run.remarks, ["compiler advice: C7510 on preempt_yield_p1"]);
        let region = results_region(&[run], &[]);
        assert!(region.contains("**compiler advice: C7510 on preempt_yield_p1**"), "{region}");
    }
}
