//! Who published a manifest: an SSHSIG over its exact bytes. Signing is `ssh-keygen`'s, with a key file or a key that an agent
//! holds; a private key is never read here. An ed25519 signature is read without any program, other kinds by `ssh-keygen`.
//!
//! A signature says which key signed, never that what is signed is true, and a key has a name only by a list of allowed signers
//! that the reader trusts.

mod allowed;

pub use allowed::{Allowed, allowed};

use anyhow::{Context, Result, ensure};
use host::failure::fail;
use host::files;
use host::process::{Child, Ended};
use schema::ExitCode;
use ssh_key::{Algorithm, HashAlg, PublicKey, SshSig};
use std::path::{Path, PathBuf};
use std::time::Duration;
use words::text::quoted;
use xshell::{Shell, cmd};

/// What the signature is for, so that no other signature of the key counts.
pub const NAMESPACE: &str = "assay";

/// The key to sign with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SigningKey {
    /// A private key's file, or the public one of a key that an agent holds.
    File(PathBuf),
    /// A public key's text; an agent holds the key.
    Held(String),
}

impl SigningKey {
    /// What `--sign` or git's `user.signingkey` names: `key::` and a public key, or a file.
    #[must_use]
    pub fn named(text: &str) -> Self {
        match text.strip_prefix("key::") {
            Some(key) => Self::Held(key.to_owned()),
            // The form that git took before it had the prefix.
            None if text.starts_with("ssh-") => Self::Held(text.to_owned()),
            None => Self::File(text.into()),
        }
    }

    /// The key that git signs with in this repository; absent unless it signs with ssh and names a key.
    #[must_use]
    pub fn of_git(root: &Path) -> Option<Self> {
        let sh = Shell::new().ok()?;
        let ask = |args: &[&str]| cmd!(sh, "git -C {root} config --get {args...}").quiet().ignore_stderr().read().ok();
        ask(&["gpg.format"]).filter(|format| format == "ssh")?;
        // As a path, `~/` is the home folder; a literal key stays as it is.
        ask(&["--type=path", "user.signingkey"]).filter(|key| !key.is_empty()).map(|key| Self::named(&key))
    }
}

/// Signs a file; the signature lies beside it, its name ending in `.sig`.
///
/// # Errors
/// Exit 11 when `ssh-keygen` or the key is missing, or the key does not sign without a passphrase.
pub fn sign(key: &SigningKey, file: &Path) -> Result<()> {
    sign_by(key, file, std::env::var("SSH_AUTH_SOCK").ok())
}

fn sign_by(key: &SigningKey, file: &Path, agent: Option<String>) -> Result<()> {
    let held = tempfile::tempdir()?;
    let (path, agent_only) = match key {
        SigningKey::File(path) => (path.clone(), false),
        SigningKey::Held(text) => {
            let path = held.path().join("key.pub");
            files::write_whole(&path, format!("{text}\n").as_bytes())?;
            (path, true)
        }
    };
    let name = match key {
        SigningKey::File(path) => path.display().to_string(),
        SigningKey::Held(text) => quoted(text, 60),
    };
    if !path.is_file() {
        let message = format!("there is no signing key {name}");
        return Err(fail(ExitCode::Environment, message, "--sign KEY names another; --unsigned publishes without one"));
    }
    let (path, file) = (argument(&path)?, argument(file)?);
    let mut args = vec!["-Y", "sign", "-n", NAMESPACE, "-f", &path];
    args.extend(agent_only.then_some("-U"));
    args.push(&file);
    let mut child = ssh_keygen(&args);
    child.env.extend(agent.map(|socket| ("SSH_AUTH_SOCK".to_owned(), socket)));
    ensure_signed(&child.run(&mut |_| {})?, &name)?;
    ensure_holds(Path::new(&file), &name)
}

/// A program that ends well has not signed for that.
fn ensure_holds(file: &Path, name: &str) -> Result<()> {
    let mut signature = file.as_os_str().to_owned();
    signature.push(".sig");
    signer(file, Path::new(&signature)).map(drop).map_err(|error| {
        let message = format!("{name} was used to sign, but its signature does not verify: {error:#}");
        fail(ExitCode::Environment, message, "type -a ssh-keygen; --sign KEY names another key")
    })
}

fn ensure_signed(ended: &Ended, name: &str) -> Result<()> {
    if ended.code == Some(0) {
        return Ok(());
    }
    let said = quoted(&ended.stderr, 300);
    let message = format!("{name} did not sign the manifest: {said}");
    let remedy = if said.contains("passphrase") {
        "ssh-add KEY gives a key with a passphrase to ssh-agent; then publish again"
    } else if said.contains("agent") {
        "start ssh-agent and ssh-add the key; then publish again"
    } else {
        "--sign KEY names another; --unsigned publishes without one"
    };
    Err(fail(ExitCode::Environment, message, remedy))
}

/// A key that signed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Signer {
    /// `SHA256:…`, as ssh shows it.
    pub fingerprint: String,
    /// The public key as a line of an allowed-signers file has it, without a comment.
    pub public_key: String,
}

/// The key that signed a file.
///
/// # Errors
/// When the signature is of other bytes or for another purpose, or its kind of key takes an `ssh-keygen` that is not there.
pub fn signer(file: &Path, signature: &Path) -> Result<Signer> {
    let parsed = parse(&files::read_plain(signature)?)?;
    let key = PublicKey::from(parsed.public_key().clone());
    let algorithm = key.algorithm();
    if algorithm == Algorithm::Ed25519 {
        let holds = key.verify(NAMESPACE, &files::read_plain(file)?, &parsed);
        holds.with_context(|| format!("a {algorithm} signature that does not verify"))?;
    } else {
        let signature = argument(signature)?;
        let args = ["-Y", "check-novalidate", "-n", NAMESPACE, "-s", &signature];
        let ended = ssh_keygen(&args).run_reading(file)?;
        let said = quoted(&(ended.stderr + &ended.stdout), 200);
        ensure!(ended.code == Some(0), "a {algorithm} signature that does not verify: {said}");
    }
    Ok(Signer { fingerprint: key.fingerprint(HashAlg::Sha256).to_string(), public_key: key.to_openssh()? })
}

/// A signature for our purpose, whoever made it and whatever it is of.
///
/// # Errors
/// When the bytes are no SSH signature, or one for another purpose.
pub fn parse(signature: &[u8]) -> Result<SshSig> {
    let parsed = SshSig::from_pem(signature).context("not an SSH signature")?;
    ensure!(parsed.namespace() == NAMESPACE, "the signature is for {:?}", parsed.namespace());
    Ok(parsed)
}

/// `ssh-keygen` with absolute paths, which must not ask anything: a passphrase is for an agent to know.
fn ssh_keygen(args: &[&str]) -> Child {
    let kept = ["PATH", "HOME"].into_iter();
    let kept = kept.filter_map(|name| Some((name.to_owned(), std::env::var(name).ok()?)));
    let never_ask = [("SSH_ASKPASS_REQUIRE", "force"), ("SSH_ASKPASS", "/bin/false"), ("LC_ALL", "C")];
    Child {
        program: "ssh-keygen".into(),
        args: args.iter().map(|arg| (*arg).to_owned()).collect(),
        env: kept.chain(never_ask.map(|(k, v)| (k.to_owned(), v.to_owned()))).collect(),
        dir: "/".into(),
        deadline: Duration::from_secs(120),
        hold_stdin: false,
    }
}

/// An absolute path as an argument.
fn argument(path: &Path) -> Result<String> {
    let path = std::path::absolute(path)?;
    path.to_str().map(str::to_owned).with_context(|| format!("{} is not UTF-8", path.display()))
}

#[cfg(test)]
pub(crate) mod tests;
