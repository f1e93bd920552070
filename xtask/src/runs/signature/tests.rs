//! Signing and reading signatures, with the real `ssh-keygen`.

use super::*;
use host::failure::{code_of, remedy_of};
use std::process::Command;

/// A new key; absent, and said, where there is no ssh-keygen.
pub(crate) fn key(dir: &Path, name: &str, kind: &str, passphrase: &str) -> Option<PathBuf> {
    let path = dir.join(name);
    let args = ["-q", "-C", "", "-t", kind, "-N", passphrase, "-f"];
    let made = Command::new("ssh-keygen").args(args).arg(&path).status().is_ok_and(|status| status.success());
    if !made {
        eprintln!("skipped: no ssh-keygen");
    }
    made.then_some(path)
}

/// A line of an allowed-signers file.
pub(crate) fn line(principal: &str, options: &str, key: &Path) -> String {
    let public = fs_err::read_to_string(key.with_extension("pub")).unwrap();
    format!("{principal} {options} {public}")
}

struct Signed {
    dir: tempfile::TempDir,
    key: PathBuf,
    file: PathBuf,
    signature: PathBuf,
}

fn signed(kind: &str) -> Option<Signed> {
    let dir = tempfile::tempdir().unwrap();
    let key = key(dir.path(), "key", kind, "")?;
    let file = dir.path().join("manifest.json");
    fs_err::write(&file, b"{}\n").unwrap();
    sign(&SigningKey::File(key.clone()), &file).unwrap();
    let signature = dir.path().join("manifest.json.sig");
    Some(Signed { dir, key, file, signature })
}

impl Signed {
    fn says(&self, list: &str) -> Allowed {
        let path = self.dir.path().join("allowed");
        fs_err::write(&path, list).unwrap();
        allowed(&path, &self.file, &self.signature).unwrap()
    }
}

#[test]
fn a_signature_names_its_key_and_holds_for_these_bytes_only() {
    for kind in ["ed25519", "ecdsa", "rsa"] {
        let Some(signed) = signed(kind) else { return };
        let found = signer(&signed.file, &signed.signature).unwrap();
        assert!(found.fingerprint.starts_with("SHA256:"), "{found:?}");
        let public = fs_err::read_to_string(signed.key.with_extension("pub")).unwrap();
        assert_eq!(found.public_key.trim(), public.trim(), "{kind}");
        fs_err::write(&signed.file, b"{ }\n").unwrap();
        assert!(signer(&signed.file, &signed.signature).is_err(), "{kind}");
        fs_err::write(&signed.signature, "-----BEGIN SSH SIGNATURE-----\n").unwrap();
        assert!(signer(&signed.file, &signed.signature).is_err(), "{kind}");
    }
}

#[test]
fn a_program_that_ends_well_and_signs_nothing_is_found() {
    let Some(signed) = signed("ed25519") else { return };
    ensure_holds(&signed.file, "key").unwrap();
    fs_err::remove_file(&signed.signature).unwrap();
    let absent = ensure_holds(&signed.file, "key").unwrap_err();
    assert_eq!(code_of(&absent), ExitCode::Environment);
    assert!(remedy_of(&absent).unwrap().contains("ssh-keygen"));
    fs_err::write(&signed.signature, b"").unwrap();
    assert!(ensure_holds(&signed.file, "key").is_err());
}

#[test]
fn a_signature_for_another_purpose_is_none() {
    let Some(signed) = signed("ed25519") else { return };
    fs_err::remove_file(&signed.signature).unwrap();
    let mut made = Command::new("ssh-keygen");
    made.args(["-q", "-Y", "sign", "-n", "git", "-f"]).arg(&signed.key).arg(&signed.file);
    assert!(made.status().unwrap().success());
    let error = signer(&signed.file, &signed.signature).unwrap_err();
    assert!(error.to_string().contains("the signature is for \"git\""), "{error}");
    let Allowed::No(_) = signed.says(&line("alice", "", &signed.key)) else { panic!("allowed for git") };
}

#[test]
fn a_list_names_its_signer_and_only_those_it_allows_today_for_this() {
    let Some(signed) = signed("ed25519") else { return };
    let Some(other) = key(signed.dir.path(), "other", "ed25519", "") else { return };
    let check = |list: String, expected: Option<&str>| match (signed.says(&list), expected) {
        (Allowed::By(principal), Some(expected)) => assert_eq!(principal, expected),
        (Allowed::No(_), None) => {}
        (found, expected) => panic!("{list}: {found:?}, not {expected:?}"),
    };
    check(line("alice", "", &signed.key), Some("alice"));
    check(line("bob", "", &other) + &line("alice,carol", "namespaces=\"assay\"", &signed.key), Some("alice"));
    check(line("alice", "namespaces=\"git\"", &signed.key), None);
    check(line("alice", "valid-before=\"20200101Z\"", &signed.key), None);
    check(line("alice", "valid-after=\"20990101Z\"", &signed.key), None);
    check(line("alice", "valid-after=\"20200101Z\",valid-before=\"20990101Z\"", &signed.key), Some("alice"));
    check(line("!mallory,alice", "", &signed.key), Some("alice"));
    check(line("!mallory", "", &signed.key), None);
    check(line("bob", "", &other), None);
    check(String::new(), None);
    check("not a list\n".to_owned(), None);
    fs_err::write(&signed.file, b"{ }\n").unwrap();
    check(line("alice", "", &signed.key), None);
}

#[test]
fn a_key_that_cannot_sign_says_what_to_do() {
    let Some(signed) = signed("ed25519") else { return };
    let Some(locked) = key(signed.dir.path(), "locked", "ed25519", "a passphrase") else { return };
    fs_err::remove_file(&signed.signature).unwrap();
    let check = |key: SigningKey, said: &str, remedy: &str| {
        let error = sign(&key, &signed.file).unwrap_err();
        assert_eq!(code_of(&error), ExitCode::Environment);
        assert!(error.to_string().contains(said), "{error}");
        assert!(remedy_of(&error).unwrap().contains(remedy), "{error}: {:?}", remedy_of(&error));
        assert!(!signed.signature.exists());
    };
    check(SigningKey::File(locked), "passphrase", "ssh-add");
    check(SigningKey::File(signed.dir.path().join("none")), "there is no signing key", "--unsigned");
    check(SigningKey::File(signed.file.clone()), "did not sign", "--sign KEY");
    check(SigningKey::named("key::ssh-ed25519 nonsense"), "did not sign", "--");
}

#[test]
fn names_of_keys_are_read_as_git_reads_them() {
    let check = |text: &str, expected| assert_eq!(SigningKey::named(text), expected, "{text}");
    check("key::ssh-ed25519 AAAA c", SigningKey::Held("ssh-ed25519 AAAA c".to_owned()));
    check("ssh-ed25519 AAAA", SigningKey::Held("ssh-ed25519 AAAA".to_owned()));
    check("/k/id", SigningKey::File("/k/id".into()));
}

/// The key that an agent holds, also one with a passphrase, named by its file or by its text alone.
#[test]
fn an_agent_signs_with_the_key_it_holds() {
    let dir = tempfile::tempdir().unwrap();
    let Some(key) = key(dir.path(), "key", "ed25519", "") else { return };
    let socket = dir.path().join("agent");
    let agent = Command::new("ssh-agent").args(["-D", "-a"]).arg(&socket).stdout(std::process::Stdio::null()).spawn();
    let Ok(mut agent) = agent else {
        eprintln!("skipped: no ssh-agent");
        return;
    };
    for _ in 0..200 {
        if socket.exists() {
            break;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    let added = Command::new("ssh-add").arg("-q").arg(&key).env("SSH_AUTH_SOCK", &socket).status();
    let public = fs_err::read_to_string(key.with_extension("pub")).unwrap();
    fs_err::remove_file(&key).unwrap();
    let file = dir.path().join("manifest.json");
    fs_err::write(&file, b"{}\n").unwrap();
    let signature = dir.path().join("manifest.json.sig");
    let sign = |key: &SigningKey| {
        let _ = fs_err::remove_file(&signature);
        sign_by(key, &file, Some(socket.display().to_string()))?;
        signer(&file, &signature)
    };
    let keys = [SigningKey::named(&format!("key::{}", public.trim())), SigningKey::File(key.with_extension("pub"))];
    let found = keys.each_ref().map(sign);
    agent.kill().unwrap();
    agent.wait().unwrap();
    assert!(added.unwrap().success());
    for found in found {
        assert_eq!(found.unwrap().public_key.trim(), public.trim());
    }
    for key in &keys {
        assert!(remedy_of(&sign(key).unwrap_err()).is_some(), "no agent holds it any more");
    }
}
