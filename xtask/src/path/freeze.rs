//! Plans and claims: read, checked and frozen. Nothing after this step reads a TOML file of the experiment again.

use anyhow::Result;
use host::failure::fail;
use host::paths::Paths;
use schema::claim::ClaimFile;
use schema::plan::{Plan, PlanFile, ProfileName};
use schema::{Digest, ExitCode};
use std::path::Path;

/// One experiment, frozen for one run.
#[derive(Clone, Debug)]
pub struct Frozen {
    /// The plan.
    pub plan: Plan,
    /// The plan's file, byte for byte as the run carries it.
    pub plan_toml: String,
    /// The claims.
    pub claims: ClaimFile,
    /// The claim file, byte for byte.
    pub claims_toml: String,
    /// The closed work that is taken up again, as the run carries it; absent when there is none.
    pub reopened_toml: Option<String>,
}

impl Frozen {
    /// Digest of the frozen plan.
    pub fn plan_digest(&self) -> Digest {
        Digest::of(&self.plan_toml)
    }

    /// Digest of the claims.
    pub fn claims_digest(&self) -> Digest {
        Digest::of(&self.claims_toml)
    }
}

/// The experiments of this checkout, by name.
///
/// # Errors
/// When the folder cannot be read.
pub fn experiments(paths: &Paths) -> Result<Vec<String>> {
    let folder = paths.experiment("");
    let mut names = Vec::new();
    for entry in fs_err::read_dir(&folder)? {
        let entry = entry?;
        if entry.path().join("plan.toml").is_file() {
            names.push(entry.file_name().to_string_lossy().into_owned());
        }
    }
    names.sort();
    Ok(names)
}

/// Reads an experiment and freezes one of its profiles.
///
/// # Errors
/// Exit 10 for an unknown experiment, profile or phase, and for a plan or claim file that is malformed or inconsistent.
pub fn freeze(paths: &Paths, name: &str, profile: ProfileName, phases: &[String]) -> Result<Frozen> {
    let file = plan_file(paths, name)?;
    if !file.profile.contains_key(&profile) {
        let known: Vec<_> = file.profile.keys().map(|p| format!("{p:?}").to_lowercase()).collect();
        return Err(fail(
            ExitCode::Config,
            format!("experiment {name:?} has no profile {:?}; it has {}", profile, known.join(", ")),
            "cargo xtask list",
        ));
    }
    if let Some(other) = phases.iter().find(|phase| !file.phases.contains(phase)) {
        let message = format!("there is no phase {other:?}; the phases are {}", file.phases.join(", "));
        return Err(fail(ExitCode::Config, message, "cargo xtask list"));
    }
    let plan_path = paths.experiment(name).join("plan.toml");
    let plan = file.freeze(profile, phases).map_err(|error| invalid(&plan_path, &format!("{error:#}")))?;
    let plan_toml = toml::to_string(&plan)?;
    let claims_path = paths.experiment(name).join("claims.toml");
    let claims_toml = fs_err::read_to_string(&claims_path)?;
    let claims = parse_claims(&claims_path, &claims_toml)?;
    Ok(Frozen { plan, plan_toml, claims, claims_toml, reopened_toml: None })
}

/// Reads a plan file.
///
/// # Errors
/// Exit 10 when there is no such experiment or the file is malformed.
pub fn plan_file(paths: &Paths, name: &str) -> Result<PlanFile> {
    let path = paths.experiment(name).join("plan.toml");
    let known = experiments(paths)?;
    if name.is_empty() || !known.iter().any(|k| k == name) {
        let message = format!("there is no experiment {name:?}; the experiments are {}", known.join(", "));
        return Err(fail(ExitCode::Config, message, "cargo xtask list"));
    }
    let text = fs_err::read_to_string(&path)?;
    let file: PlanFile = toml::from_str(&text).map_err(|error| invalid(&path, &located(&text, &error)))?;
    schema::check_format(&path.display().to_string(), file.format).map_err(|e| invalid(&path, &e.to_string()))?;
    if file.experiment != name {
        return Err(invalid(&path, &format!("it says experiment = {:?}, and its folder {name:?}", file.experiment)));
    }
    Ok(file)
}

fn parse_claims(path: &Path, text: &str) -> Result<ClaimFile> {
    let file: ClaimFile = toml::from_str(text).map_err(|error| invalid(path, &located(text, &error)))?;
    schema::check_format(&path.display().to_string(), file.format).map_err(|e| invalid(path, &e.to_string()))?;
    let mut ids: Vec<_> = file.claim.iter().map(|claim| claim.id.as_str()).collect();
    ids.sort_unstable();
    if let Some(twice) = ids.windows(2).find(|pair| pair[0] == pair[1]) {
        return Err(invalid(path, &format!("claim {:?} stands there twice", twice[0])));
    }
    for claim in &file.claim {
        for term in &claim.term {
            if term.threshold.parse::<f64>().is_err() {
                let message = format!("claim {}: threshold {:?} is not a decimal number", claim.id, term.threshold);
                return Err(invalid(path, &message));
            }
        }
    }
    Ok(file)
}

/// File, line and what was expected: what a person needs to correct a TOML file.
fn located(text: &str, error: &toml::de::Error) -> String {
    let line = error.span().map_or(1, |span| text[..span.start.min(text.len())].matches('\n').count() + 1);
    format!("line {line}: {}", error.message())
}

fn invalid(path: &Path, what: &str) -> anyhow::Error {
    fail(ExitCode::Config, format!("{} is invalid: {what}", path.display()), format!("edit {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use host::failure::code_of;

    fn paths_with(plan: &str) -> (tempfile::TempDir, Paths) {
        let dir = tempfile::tempdir().unwrap();
        let paths = Paths::new(dir.path());
        fs_err::create_dir_all(paths.experiment("preempt")).unwrap();
        fs_err::write(paths.experiment("preempt").join("plan.toml"), plan).unwrap();
        fs_err::write(paths.experiment("preempt").join("claims.toml"), "format = 1\nclaim = []\n").unwrap();
        (dir, paths)
    }

    fn shipped() -> String {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        fs_err::read_to_string(root.join("harness/experiments/preempt/plan.toml")).unwrap()
    }

    fn check_refused(plan: &str, phases: &[String], expected: &str) {
        let (_dir, paths) = paths_with(plan);
        let error = freeze(&paths, "preempt", ProfileName::Smoke, phases).unwrap_err();
        assert_eq!(code_of(&error), ExitCode::Config);
        assert!(error.to_string().contains(expected), "{error}");
    }

    #[test]
    fn the_shipped_plan_freezes_in_every_profile() {
        let (_dir, paths) = paths_with(&shipped());
        for profile in [ProfileName::Smoke, ProfileName::Quick, ProfileName::Full] {
            let frozen = freeze(&paths, "preempt", profile, &[]).unwrap();
            assert_eq!(toml::from_str::<Plan>(&frozen.plan_toml).unwrap(), frozen.plan);
        }
    }

    #[test]
    fn what_is_wrong_is_named_with_its_line() {
        check_refused("format = 1\nexperiment = 7\n", &[], "line 2");
        check_refused(&shipped().replacen("format = 1", "format = 2", 1), &[], "format 2");
        check_refused(&shipped().replacen("experiment = \"preempt\"", "experiment = \"other\"", 1), &[], "folder");
        check_refused(&shipped(), &["baslin".to_owned()], "there is no phase \"baslin\"");
    }

    #[test]
    fn an_unknown_experiment_is_named_with_those_there_are() {
        let (_dir, paths) = paths_with(&shipped());
        let error = freeze(&paths, "premept", ProfileName::Smoke, &[]).unwrap_err();
        assert!(error.to_string().contains("the experiments are preempt"), "{error}");
    }

    #[test]
    fn the_instrument_phase_always_runs() {
        let (_dir, paths) = paths_with(&shipped());
        let frozen = freeze(&paths, "preempt", ProfileName::Smoke, &["yield".to_owned()]).unwrap();
        assert_eq!(frozen.plan.phases, ["instrument", "yield"]);
    }
}
