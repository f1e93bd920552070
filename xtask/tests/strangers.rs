//! What is published, checked by programs that share no code with ours: coreutils, ssh-keygen, the in-toto reader, a JSON
//! Schema validator, a Python script. `steps/publish/strangers.rs` does the same to a made-up run. The events of a superseded run
//! are brought back as a stranger brings them back, by git, in a clone.

use std::path::{Path, PathBuf};
use std::process::Command;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

fn published() -> Vec<String> {
    let entries = std::fs::read_dir(root().join("manifests")).map(|entries| entries.flatten().collect::<Vec<_>>());
    let names = entries.unwrap_or_default().into_iter().map(|entry| entry.file_name().to_string_lossy().into_owned());
    let run = |name: String| name.strip_suffix(".json").filter(|run| !run.contains('.')).map(str::to_owned);
    names.filter_map(run).collect()
}

/// Python with the module, or why not.
fn python(module: &str) -> Option<String> {
    let python = std::env::var("ASSAY_TEST_PYTHON").unwrap_or_else(|_| "python3".to_owned());
    let found = Command::new(&python).args(["-c", &format!("import {module}")]).output();
    if found.is_ok_and(|output| output.status.success()) {
        return Some(python);
    }
    eprintln!("skipped: no {module}");
    None
}

fn check(program: &str, args: &[&str]) {
    check_in(&root(), program, args);
}

fn check_in(dir: &Path, program: &str, args: &[&str]) {
    let output = Command::new(program).args(args).current_dir(dir).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program} {}: {said}", args.join(" "));
}

/// A place where all of a run lies: the checkout, or a clone of it into which the run's events came back.
struct Place {
    dir: PathBuf,
    _clone: Option<tempfile::TempDir>,
}

/// Where all of a run lies; absent, and said, where history does not reach back to its events.
fn whole(run: &str) -> Option<Place> {
    let record = root().join(format!("manifests/{run}.events.json"));
    if root().join("results/events").join(run).is_dir() || !record.is_file() {
        return Some(Place { dir: root(), _clone: None });
    }
    let record: serde_json::Value = serde_json::from_slice(&std::fs::read(record).unwrap()).unwrap();
    let commit = record["commit"].as_str().unwrap();
    let known = Command::new("git").args(["cat-file", "-e", commit]).current_dir(root()).output();
    if !known.is_ok_and(|output| output.status.success()) {
        eprintln!("skipped: the events of {run}, which are in commit {commit}: git fetch --unshallow");
        return None;
    }
    let clone = tempfile::tempdir().unwrap();
    let dir = clone.path().to_owned();
    check("git", &["clone", "--quiet", "--shared", ".", dir.to_str().unwrap()]);
    check_in(&dir, "git", &["checkout", "--quiet", commit, "--", &format!("results/events/{run}")]);
    Some(Place { dir, _clone: Some(clone) })
}

#[test]
fn coreutils_accept_the_sums_of_every_published_run() {
    for run in published() {
        let Some(place) = whole(&run) else { continue };
        let sums = format!("manifests/{run}.SHA256SUMS");
        check_in(&place.dir, "sha256sum", &["--check", "--strict", "--quiet", &sums]);
    }
}

#[test]
fn the_in_toto_reader_and_the_schema_accept_every_published_statement() {
    let Some(python) = python("in_toto_attestation, jsonschema") else { return };
    for run in published() {
        let statements = [format!("manifests/{run}.json"), format!("manifests/{run}.provenance.json")];
        for statement in statements.iter().filter(|name| root().join(name).is_file()) {
            check(&python, &["scripts/read_statement.py", statement]);
        }
    }
}

/// By the key that the signature itself names, since a list of allowed signers is the reader's own: this shows that the
/// signature is one over the manifest's exact bytes in our namespace, not whose it is.
#[test]
fn ssh_keygen_accepts_the_signature_of_every_signed_manifest() {
    for run in published() {
        let (manifest, signature) = (format!("manifests/{run}.json"), format!("manifests/{run}.json.sig"));
        let Ok(pem) = std::fs::read(root().join(&signature)) else { continue };
        let key = ssh_key::PublicKey::from(ssh_key::SshSig::from_pem(pem).unwrap().public_key().clone());
        let list = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(list.path(), format!("author {}\n", key.to_openssh().unwrap())).unwrap();
        let mut verify = Command::new("ssh-keygen");
        verify.args(["-Y", "verify", "-n", "assay", "-I", "author", "-s", &signature, "-f"]).arg(list.path());
        match verify.stdin(std::fs::File::open(root().join(&manifest)).unwrap()).current_dir(root()).output() {
            Err(_) => eprintln!("skipped: no ssh-keygen"),
            Ok(output) => assert!(output.status.success(), "{run}: {}", String::from_utf8_lossy(&output.stderr)),
        }
    }
}

#[test]
fn headline_values_recompute_without_our_code() {
    let Some(python) = python("pyarrow.parquet") else { return };
    for run in published() {
        let Some(place) = whole(&run) else { continue };
        check(&python, &["scripts/recompute.py", &run, place.dir.to_str().unwrap()]);
    }
}

/// A signature covers the manifest, and through it every file that a value rests on.
#[test]
fn a_value_recomputed_from_files_that_were_not_sealed_is_refused() {
    // The events of superseded runs have left the tree.
    let in_tree = |run: &String| root().join("results/events").join(run).is_dir();
    let (Some(python), Some(run)) = (python("pyarrow.parquet"), published().into_iter().find(in_tree)) else { return };
    let copy = tempfile::tempdir().unwrap();
    let folders = [format!("results/events/{run}"), format!("results/summary/{run}"), "manifests".to_owned()];
    for folder in &folders {
        let to = copy.path().join(folder);
        std::fs::create_dir_all(to.parent().unwrap()).unwrap();
        assert!(Command::new("cp").arg("-r").arg(root().join(folder)).arg(to).status().unwrap().success());
    }
    let recompute = || {
        let mut command = Command::new(&python);
        command.arg(root().join("scripts/recompute.py")).arg(&run).arg(copy.path()).output().unwrap()
    };
    assert!(recompute().status.success());
    let metrics = copy.path().join(&folders[1]).join("metrics.csv");
    let text = std::fs::read_to_string(&metrics).unwrap();
    std::fs::write(&metrics, text.replacen(",us,", ",ns,", 1)).unwrap();
    let output = recompute();
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("metrics.csv is not the file that was sealed"));
}
