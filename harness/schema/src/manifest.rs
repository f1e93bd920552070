//! `manifest.json`: an in-toto Statement v1 over every file of a run, sealed once before judgement.

use crate::Digest;
use crate::plan::ProfileName;
use serde::{Deserialize, Serialize};

/// The Statement's type.
pub const STATEMENT_TYPE: &str = "https://in-toto.io/Statement/v1";
/// The predicate's type: our own, versioned. `harness/schema/run-predicate.v1.json` is its JSON Schema.
pub const PREDICATE_TYPE: &str = "https://assay.invalid/run/v1";

/// The Statement.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    /// Always [`STATEMENT_TYPE`].
    #[serde(rename = "_type")]
    pub statement_type: String,
    /// Every file of the run, sorted by name.
    pub subject: Vec<Subject>,
    /// Always [`PREDICATE_TYPE`].
    #[serde(rename = "predicateType")]
    pub predicate_type: String,
    /// What the run was made from.
    pub predicate: Predicate,
}

/// One file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Subject {
    /// Path below the run directory, with `/`.
    pub name: String,
    /// Its digests.
    pub digest: SubjectDigest,
}

/// A subject's digests.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SubjectDigest {
    /// SHA-256.
    pub sha256: Digest,
}

/// What the run was made from, and the steps that made it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Predicate {
    /// Format version.
    pub format: u32,
    /// Run id.
    pub run: String,
    /// Experiment.
    pub experiment: String,
    /// Profile.
    pub profile: ProfileName,
    /// The source it was built from.
    pub source: Source,
    /// Digest of the frozen plan.
    pub plan: Digest,
    /// Digest of the claim file.
    pub claims: Digest,
    /// Files that are detached: named as subjects, with their size, but not committed.
    pub detached: Vec<Detached>,
    /// Every attempt with this plan known on this machine, this one last.
    pub attempts: Vec<Attempt>,
    /// The steps with when they began (UTC) and how long they took.
    pub steps: Vec<Step>,
    /// The head of the notebook's chain when the run began.
    pub notebook_head: Digest,
}

/// A detached file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Detached {
    /// Path below the run directory.
    pub name: String,
    /// Its length.
    pub bytes: u64,
}

/// The source of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Source {
    /// `git` or `bundle`.
    pub kind: String,
    /// Commit, 40 hex digits; absent outside a repository.
    pub commit: Option<String>,
    /// Digest over the tracked source files (manifests/, results/ and rendered Markdown left out).
    pub digest: Digest,
    /// The same, taken again after the run.
    pub digest_after: Digest,
    /// Whether the tree was clean at the start.
    pub clean_before: bool,
    /// Whether it was clean at the end.
    pub clean_after: bool,
}

/// One attempt: a record chained before the first launch, and its outcome.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Attempt {
    /// Position in the chain, from 1.
    pub n: u64,
    /// Digest of the line before it (of nothing for the first).
    pub previous: Digest,
    /// UTC time it was opened.
    pub opened: String,
    /// Run id.
    pub run: String,
    /// Digest of the plan.
    pub plan: Digest,
    /// Digest over the SASS digests of the measured kernels; of nothing on the emulated device.
    pub sass: Digest,
    /// Device id.
    pub device: String,
    /// Digest of the contract; absent in attempts from before there were contracts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub contract: Option<Digest>,
    /// `open`, or how it ended: `measured`, `failed: …`, `abandoned`.
    pub outcome: String,
}

/// A step that ran.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Step {
    /// Its name.
    pub name: String,
    /// UTC time it began.
    pub began: String,
    /// Seconds.
    pub seconds: f64,
    /// Whether its result was cached.
    pub cached: bool,
    /// Digest of everything it depended on.
    pub key: Digest,
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    fn path() -> std::path::PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("run-predicate.v1.json")
    }

    fn schema() -> String {
        let mut schema = schemars::schema_for!(Predicate).to_value();
        schema["$id"] = PREDICATE_TYPE.into();
        schema["title"] = "The predicate of a sealed run, version 1".into();
        serde_json::to_string_pretty(&schema).unwrap() + "\n"
    }

    /// `ASSAY_UPDATE=1 cargo test -p schema` writes it anew. A change that old readers refuse needs a new version.
    #[test]
    fn the_published_schema_of_the_predicate_is_current() {
        if std::env::var_os("ASSAY_UPDATE").is_some() {
            fs_err::write(path(), schema()).unwrap();
        }
        assert!(
            fs_err::read_to_string(path()).unwrap() == schema(),
            "ASSAY_UPDATE=1 cargo test -p schema writes it anew"
        );
    }

    #[test]
    fn the_schema_wants_every_field_and_no_other() {
        let schema: serde_json::Value = serde_json::from_str(&schema()).unwrap();
        assert_eq!(schema["additionalProperties"], false);
        for field in ["run", "source", "plan", "claims", "attempts", "steps", "notebook_head"] {
            assert!(schema["required"].as_array().unwrap().contains(&field.into()), "{field}");
        }
        assert!(PREDICATE_TYPE.ends_with("/v1") && path().to_string_lossy().ends_with(".v1.json"));
    }
}
