//! Who published a manifest: an SSHSIG over its exact bytes. Signing is `ssh-keygen`'s; reading needs no program.
//!
//! A signature says which key signed, never that what is signed is true.

use super::process::Child;
use crate::failure::fail;
use anyhow::{Context, Result, ensure};
use schema::ExitCode;
use ssh_key::{HashAlg, PublicKey, SshSig};
use std::path::Path;
use std::time::Duration;

/// What the signature is for, so that no other signature of the key counts.
pub const NAMESPACE: &str = "assay";

/// Signs a file; the signature lies beside it, its name ending in `.sig`.
///
/// # Errors
/// When `ssh-keygen` is missing or the key does not sign.
pub fn sign(key: &Path, file: &Path) -> Result<()> {
    let arg =
        |path: &Path| path.to_str().map(str::to_owned).with_context(|| format!("{} is not UTF-8", path.display()));
    let args = ["-Y", "sign", "-n", NAMESPACE, "-f"].map(str::to_owned).into_iter();
    let env = ["PATH", "HOME", "SSH_AUTH_SOCK"].into_iter();
    let child = Child {
        program: "ssh-keygen".into(),
        args: args.chain([arg(key)?, arg(file)?]).collect(),
        env: env.filter_map(|name| Some((name.to_owned(), std::env::var(name).ok()?))).collect(),
        dir: file.parent().context("a file needs a folder")?.to_owned(),
        deadline: Duration::from_secs(120),
        hold_stdin: false,
    };
    let ended = child.run(&mut |_| {})?;
    if ended.code != Some(0) {
        let message = format!("{} did not sign the manifest: {}", key.display(), ended.stderr.trim());
        return Err(fail(ExitCode::Environment, message, "add the key to ssh-agent (ssh-add), then publish again"));
    }
    Ok(())
}

/// The fingerprint of the key that signed these bytes.
///
/// # Errors
/// When the signature is of other bytes, for another purpose, or by a kind of key that is not read here.
pub fn signer(bytes: &[u8], signature: &[u8]) -> Result<String> {
    let signature = SshSig::from_pem(signature).context("not an SSH signature")?;
    ensure!(signature.namespace() == NAMESPACE, "the signature is for {:?}", signature.namespace());
    let key = PublicKey::from(signature.public_key().clone());
    let algorithm = key.algorithm();
    key.verify(NAMESPACE, bytes, &signature).with_context(|| format!("a {algorithm} signature that does not hold"))?;
    Ok(key.fingerprint(HashAlg::Sha256).to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A key without a passphrase; absent where there is no ssh-keygen.
    fn key(dir: &Path) -> Option<std::path::PathBuf> {
        let path = dir.join("key");
        let made =
            std::process::Command::new("ssh-keygen").args(["-q", "-t", "ed25519", "-N", "", "-f"]).arg(&path).status();
        made.is_ok_and(|status| status.success()).then_some(path)
    }

    #[test]
    fn a_signature_names_its_key_and_holds_for_these_bytes_only() {
        let dir = tempfile::tempdir().unwrap();
        let Some(key) = key(dir.path()) else {
            eprintln!("skipped: no ssh-keygen");
            return;
        };
        let file = dir.path().join("manifest.json");
        fs_err::write(&file, b"{}\n").unwrap();
        sign(&key, &file).unwrap();
        let signature = fs_err::read(dir.path().join("manifest.json.sig")).unwrap();
        assert!(signer(b"{}\n", &signature).unwrap().starts_with("SHA256:"));
        assert!(signer(b"{ }\n", &signature).is_err());
        assert!(signer(b"{}\n", b"-----BEGIN SSH SIGNATURE-----\n").is_err());
        assert!(sign(&dir.path().join("no-key"), &file).is_err());
    }
}
