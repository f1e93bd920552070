//! The provenance statement of a run with the toolkit lock it names, which this tree or its history holds.

use anyhow::Result;
use host::files;
use host::git::Git;
use host::paths::Paths;
use host::wheels::Lock;
use pure::records::provenance::{Origin, Wheel, made_from_wheels, provenance};
use schema::Digest;

/// The statement's bytes; absent when the lock whose wheels it must name is not at hand.
///
/// # Errors
/// When git fails, the lock does not parse, or the run has no build.
pub fn statement(paths: &Paths, run: Origin<'_>) -> Result<Option<Vec<u8>>> {
    if !made_from_wheels(run) {
        return provenance(run, &[]).map(Some);
    }
    let Some(text) = lock_text(paths, run)? else { return Ok(None) };
    let wheels = Lock::of(&text)?.wheels.into_iter();
    let wheels = wheels.map(|wheel| Wheel { name: wheel.name, version: wheel.version, sha256: wheel.sha256 });
    provenance(run, &wheels.collect::<Vec<_>>()).map(Some)
}

/// The lock with the digest that the run names: this tree's, or that of the measured commit.
fn lock_text(paths: &Paths, run: Origin<'_>) -> Result<Option<String>> {
    let named = |text: &String| Digest::of(text) == run.environment.toolkit_lock;
    if let Some(text) = files::read_text(&paths.toolkit_lock()).ok().filter(named) {
        return Ok(Some(text));
    }
    let (Some(git), Some(commit)) = (Git::at(paths.root())?, &run.manifest.predicate.source.commit) else {
        return Ok(None);
    };
    if !git.knows(commit)? {
        return Ok(None);
    }
    Ok(git.file_at(commit, "docker/toolkit.lock")?.filter(named))
}

#[cfg(test)]
mod tests {
    use crate::trial::evidence;
    use pure::gate::Evidence;
    use pure::records::provenance::*;
    use schema::Digest;
    use serde_json::Value;

    fn statement(run: &Evidence) -> Value {
        let wheel = Wheel { name: "nvidia-cuda-nvcc".into(), version: "13.0.88".into(), sha256: Digest::of(b"w") };
        serde_json::from_slice(&provenance(run.origin(), &[wheel]).unwrap()).unwrap()
    }

    fn names(statement: &Value) -> Vec<String> {
        let list = statement["predicate"]["buildDefinition"]["resolvedDependencies"].as_array().unwrap();
        list.iter().map(|dependency| dependency["name"].as_str().unwrap().to_owned()).collect()
    }

    #[test]
    fn it_names_what_was_built_and_from_what_and_that_nobody_else_says_so() {
        let (run, _) = evidence();
        let statement = statement(&run);
        let build = run.build.as_ref().unwrap();
        assert_eq!(statement["subject"].as_array().unwrap().len(), build.cubins.len() + 1);
        assert!(statement["subject"].as_array().unwrap().iter().any(|s| s["name"] == "harness"));
        assert_eq!(
            names(&statement),
            ["source", "docker/toolkit.lock", "nvidia-cuda-nvcc", "rust:1-bookworm", "docker/Dockerfile"]
        );
        let builder = &statement["predicate"]["runDetails"]["builder"]["id"];
        assert!(builder.as_str().unwrap().ends_with("self-attested"));
        let commit = run.manifest.predicate.source.commit.as_ref().unwrap();
        let source = &statement["predicate"]["buildDefinition"]["resolvedDependencies"][0];
        assert_eq!(source["digest"]["gitCommit"], commit.as_str());
    }

    #[test]
    fn a_toolkit_that_is_not_of_wheels_claims_none_and_a_run_without_a_build_has_no_provenance() {
        let (mut run, _) = evidence();
        run.build.as_mut().unwrap().toolkit = "box".to_owned();
        run.environment.container = None;
        assert_eq!(names(&statement(&run)), ["source", "docker/toolkit.lock"]);
        run.build = None;
        assert!(provenance(run.origin(), &[]).is_err());
    }
}
