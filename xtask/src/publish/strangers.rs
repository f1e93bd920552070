//! What `publish` writes, checked by programs that share no code with ours: coreutils, ssh-keygen, the in-toto reader, a JSON
//! Schema validator. The run is made up; the programs and files are real.

use super::tests::judged;
use super::*;
use crate::ask::verify::{Asked, Report, verify, verify_as};
use crate::runs::signature::tests::{key, line};
use crate::trial::{OnDisk, RUN, copy};
use host::failure::{code_of, remedy_of};
use std::path::Path;
use std::process::Command;

/// What `verify` says with a list of allowed signers.
fn signed_by(paths: &Paths, targets: &[String], list: &Path) -> Result<Report> {
    verify_as(paths, targets, Asked { allowed_signers: Some(list), as_published: false })
}

/// A published run, signed, with a list that allows its key to `author`.
struct Signed {
    disk: OnDisk,
    written: Written,
    keys: tempfile::TempDir,
    key: PathBuf,
}

impl Signed {
    fn new() -> Option<Self> {
        let keys = tempfile::tempdir().unwrap();
        let key = key(keys.path(), "key", "ed25519", "")?;
        let disk = copy();
        let signing = SigningKey::File(key.clone());
        let written = publish(&disk.paths, &judged(&disk).pass().unwrap(), Some(&signing)).unwrap();
        let signed = Self { disk, written, keys, key };
        signed.allow(&line("author", "", &signed.key));
        Some(signed)
    }

    fn allow(&self, list: &str) {
        self.disk.put("allowed_signers", list);
    }

    fn verified(&self) -> Report {
        let list = self.disk.root.path().join("allowed_signers");
        signed_by(&self.disk.paths, &[RUN.to_owned()], &list).unwrap()
    }

    /// Whether a line holds in a shell, in the repository's root.
    fn holds(&self, line: &str) -> bool {
        let output = Command::new("sh").args(["-c", line]).current_dir(self.disk.root.path()).output().unwrap();
        host::tell!("$ {line}\n{}", String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr));
        output.status.success()
    }
}

#[test]
fn the_lines_that_publish_prints_hold_without_assay_until_a_byte_changes() {
    let Some(signed) = Signed::new() else { return };
    let lines = &signed.written.check;
    assert!(lines.len() == 2 && lines[0].starts_with("sha256sum") && lines[1].starts_with("ssh-keygen -Y verify"));
    assert!(lines.iter().all(|line| signed.holds(line)));
    let public = &signed.written.signer.as_ref().unwrap().public_key;
    signed.allow(&format!("author {public}\n"));
    assert!(signed.holds(&lines[1]), "the key that publish shows is the one that signed");
    let manifest = signed.disk.paths.manifests().join(format!("{RUN}.json"));
    let mut bytes = fs_err::read(&manifest).unwrap();
    bytes[100] ^= 1;
    fs_err::write(&manifest, bytes).unwrap();
    assert!(lines.iter().all(|line| !signed.holds(line)));
}

#[test]
fn verify_says_who_signed_by_a_list_and_what_no_list_allows() {
    let Some(signed) = Signed::new() else { return };
    let report = signed.verified();
    assert!(report.ok, "{report}");
    assert_eq!(report.runs[0].signer.as_deref(), Some("author"));
    assert!(report.to_string().contains("signed by author"));
    let other = key(signed.keys.path(), "other", "ed25519", "").unwrap();
    for list in [line("author", "", &other), line("author", "valid-before=\"20200101Z\"", &signed.key)] {
        signed.allow(&list);
        let report = signed.verified();
        assert!(
            report.problems.iter().any(|p| p.kind == "signature" && p.detail.contains("allowed")),
            "{list}: {report}"
        );
        assert_eq!(report.runs[0].signer, None);
        assert!(report.runs[0].authorship.starts_with("SHA256:"));
    }
    let missing = signed_by(&signed.disk.paths, &[], Path::new("no-such-list")).unwrap_err();
    assert_eq!(code_of(&missing), ExitCode::Usage);
}

#[test]
fn an_unsigned_run_is_unproven_and_no_list_allows_it() {
    let disk = copy();
    let written = publish(&disk.paths, &judged(&disk).pass().unwrap(), None).unwrap();
    assert!(written.signer.is_none() && written.check.len() == 1);
    disk.put("allowed_signers", "");
    let report = signed_by(&disk.paths, &[], &disk.root.path().join("allowed_signers")).unwrap();
    assert!(report.problems.iter().any(|problem| problem.detail.contains("not signed")), "{report}");
    assert_eq!(report.runs[0].authorship, "unproven");
    let sealed = disk.run().display().to_string();
    let report = signed_by(&disk.paths, &[sealed], &disk.root.path().join("allowed_signers")).unwrap();
    assert!(report.problems.iter().any(|problem| problem.detail.contains("not signed")), "{report}");
}

#[test]
fn a_key_that_does_not_sign_publishes_nothing() {
    let keys = tempfile::tempdir().unwrap();
    let Some(locked) = key(keys.path(), "locked", "ed25519", "a passphrase") else { return };
    let disk = copy();
    for (key, remedy) in [(locked, "ssh-add"), (keys.path().join("none"), "--unsigned")] {
        let error = publish(&disk.paths, &judged(&disk).pass().unwrap(), Some(&SigningKey::File(key))).unwrap_err();
        assert_eq!(code_of(&error), ExitCode::Environment);
        assert!(remedy_of(&error).unwrap().contains(remedy), "{error}");
        assert!(!disk.paths.manifests().exists() && !disk.paths.events().exists());
    }
}

#[test]
fn git_says_which_key_signs() {
    let disk = copy();
    let found = || SigningKey::of_git(disk.root.path());
    // What the person at this machine configured must not decide a test.
    disk.git(&["config", "gpg.format", "openpgp"]);
    disk.git(&["config", "user.signingkey", "/keys/id"]);
    assert_eq!(found(), None);
    disk.git(&["config", "gpg.format", "ssh"]);
    assert_eq!(found(), Some(SigningKey::File("/keys/id".into())));
    disk.git(&["config", "user.signingkey", "key::ssh-ed25519 AAAA"]);
    assert_eq!(found(), Some(SigningKey::Held("ssh-ed25519 AAAA".to_owned())));
    disk.git(&["config", "user.signingkey", ""]);
    assert_eq!(found(), None);
}

#[test]
fn the_in_toto_reader_and_the_schema_accept_both_statements() {
    let python = std::env::var("ASSAY_TEST_PYTHON").unwrap_or_else(|_| "python3".to_owned());
    let found = Command::new(&python).args(["-c", "import in_toto_attestation, jsonschema"]).output();
    if !found.is_ok_and(|output| output.status.success()) {
        host::tell!("skipped: no in_toto_attestation or no jsonschema");
        return;
    }
    let disk = copy();
    publish(&disk.paths, &judged(&disk).pass().unwrap(), None).unwrap();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../scripts/read_statement.py");
    let (manifest, provenance) = (disk.paths.manifests().join(format!("{RUN}.json")), disk.paths.manifests());
    let provenance = provenance.join(format!("{RUN}.provenance.json"));
    let read = || Command::new(&python).arg(&script).args([&manifest, &provenance]).output().unwrap();
    let output = read();
    let said = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.contains("self-attested from 5 things"), "{said}");
    for (file, from, to) in [
        (&manifest, "\"notebook_head\"", "\"notebook_tail\""),
        (&provenance, "\"buildType\"", "\"buildKind\""),
        (&provenance, "https://in-toto.io/Statement/v1", "https://in-toto.io/Statement/v2"),
    ] {
        let text = fs_err::read_to_string(file).unwrap();
        assert!(text.contains(from));
        fs_err::write(file, text.replace(from, to)).unwrap();
        assert!(!read().status.success(), "{from}");
        fs_err::write(file, text).unwrap();
    }
}

#[test]
fn a_provenance_that_says_otherwise_or_is_missing_is_found() {
    let disk = copy();
    publish(&disk.paths, &judged(&disk).pass().unwrap(), None).unwrap();
    let path = disk.paths.manifests().join(format!("{RUN}.provenance.json"));
    let sums = disk.paths.manifests().join(format!("{RUN}.SHA256SUMS"));
    let (text, before) = (fs_err::read_to_string(&path).unwrap(), fs_err::read_to_string(&sums).unwrap());
    let kinds = || verify(&disk.paths, &[]).unwrap().problems.into_iter().map(|p| p.kind).collect::<Vec<_>>();
    // With sums that were made to fit.
    let fit = |text: &str| {
        fs_err::write(&path, text).unwrap();
        let lines = before.lines().map(|line| match line.strip_suffix(&format!("manifests/{RUN}.provenance.json")) {
            Some(_) => format!("{}  manifests/{RUN}.provenance.json\n", schema::Digest::of(text)),
            None => format!("{line}\n"),
        });
        fs_err::write(&sums, lines.collect::<String>()).unwrap();
    };
    fit(&text.replace("13.0.88", "13.0.99"));
    assert_eq!(kinds(), ["provenance"]);
    fit(&text);
    assert!(kinds().is_empty());
    fs_err::remove_file(&path).unwrap();
    assert!(!kinds().is_empty(), "the sums name it");
    let without: String = before.lines().filter(|l| !l.contains("provenance")).map(|l| format!("{l}\n")).collect();
    fs_err::write(&sums, without).unwrap();
    assert_eq!(kinds(), ["missing"], "a run of today's rules has one");
}
