//! A SLSA provenance v1 statement for what a run was built from: which source, toolkit and base gave these cubins and
//! this harness. Its builder's name says that it is self-attested: only the machine that built vouches for it.
//!
//! Everything in it follows from the sealed run and the toolkit lock, so that anybody can write it again.

use anyhow::{Context, Result};
use schema::Digest;
use schema::build::BuildRecord;
use schema::environment::Environment;
use schema::manifest::{Manifest, STATEMENT_TYPE};
use serde::Serialize;
use serde_json::{Value, json};

/// The predicate's type.
pub const PREDICATE_TYPE: &str = "https://slsa.dev/provenance/v1";
/// How a build of this kind is described.
pub const BUILD_TYPE: &str = "https://assay.invalid/build/v1";
/// Who says so: the machine that built, of itself.
pub const BUILDER: &str = "https://assay.invalid/builder/self-attested";

/// The records of a run that say what it was built from.
#[derive(Clone, Copy, Debug)]
pub struct Origin<'a> {
    /// The manifest.
    pub manifest: &'a Manifest,
    /// The environment.
    pub environment: &'a Environment,
    /// The build record; absent when the run has none.
    pub build: Option<&'a BuildRecord>,
}

/// A wheel of the toolkit lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wheel {
    /// Package.
    pub name: String,
    /// Exact version.
    pub version: String,
    /// Digest of the file.
    pub sha256: Digest,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Statement {
    #[serde(rename = "_type")]
    statement_type: &'static str,
    subject: Vec<Value>,
    predicate_type: &'static str,
    predicate: Value,
}

/// The statement's bytes. `wheels` are those of the lock that the run names.
///
/// # Errors
/// When the run has no build record or no build step.
pub fn provenance(run: Origin<'_>, wheels: &[Wheel]) -> Result<Vec<u8>> {
    let build = run.build.context("the run has no build record")?;
    let mut subject: Vec<(String, Digest)> =
        build.cubins.iter().map(|cubin| (format!("build/{}", cubin.path), cubin.sha256)).collect();
    subject.push(("harness".to_owned(), build.harness));
    subject.sort();
    let subject = subject.into_iter().map(|(name, digest)| json!({"name": name, "digest": {"sha256": digest}}));
    super::json::to_bytes(&Statement {
        statement_type: STATEMENT_TYPE,
        subject: subject.collect(),
        predicate_type: PREDICATE_TYPE,
        predicate: json!({
            "buildDefinition": {
                "buildType": BUILD_TYPE,
                "externalParameters": {
                    "experiment": run.manifest.predicate.experiment,
                    "arch": run.environment.device.arch,
                },
                "internalParameters": {
                    "runtime": run.environment.runtime,
                    "toolkit": build.toolkit,
                    "nvcc": build.nvcc,
                    "flags": build.flags,
                },
                "resolvedDependencies": dependencies(run, wheels),
            },
            "runDetails": run_details(run)?,
        }),
    })
}

/// Source, toolkit and base; the toolkit's wheels only where it was made from them.
fn dependencies(run: Origin<'_>, wheels: &[Wheel]) -> Vec<Value> {
    let source = &run.manifest.predicate.source;
    let commit = source.commit.as_ref().map(|commit| json!({"gitCommit": commit})).unwrap_or_else(|| json!({}));
    let mut list = vec![json!({
        "name": "source",
        "digest": commit,
        "annotations": {"kind": source.kind, "trackedFiles": source.digest},
    })];
    list.push(json!({"name": "docker/toolkit.lock", "digest": {"sha256": run.environment.toolkit_lock}}));
    if made_from_wheels(run) {
        list.extend(wheels.iter().map(|wheel| {
            let uri = format!("pkg:pypi/{}@{}", wheel.name, wheel.version);
            json!({"name": wheel.name, "uri": uri, "digest": {"sha256": wheel.sha256}})
        }));
    }
    if let Some(container) = &run.environment.container {
        let digest = container.base_digest.trim_start_matches("sha256:");
        list.push(json!({
            "name": container.base,
            "digest": {"sha256": digest},
            "annotations": {"role": "base image", "local": container.base_local},
        }));
        list.push(json!({"name": "docker/Dockerfile", "digest": {"sha256": container.dockerfile}}));
    }
    list
}

/// Whether the run's toolkit is the lock's wheels.
#[must_use]
pub fn made_from_wheels(run: Origin<'_>) -> bool {
    run.build.is_some_and(|build| build.toolkit == "wheels")
}

fn run_details(run: Origin<'_>) -> Result<Value> {
    let predicate = &run.manifest.predicate;
    let step = predicate.steps.iter().find(|step| step.name == "build").context("the run has no build step")?;
    let record = run.manifest.subject.iter().find(|subject| subject.name == "build/resources.json");
    let record = record.map(|file| json!({"name": file.name, "digest": {"sha256": file.digest.sha256}}));
    Ok(json!({
        "builder": {"id": BUILDER},
        "metadata": {"invocationId": predicate.run, "startedOn": step.began},
        "byproducts": record.into_iter().collect::<Vec<_>>(),
    }))
}
