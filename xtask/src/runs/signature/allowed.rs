//! Whether a list of allowed signers, as `ssh-keygen` reads it, knows the key that signed, for our namespace and today.

use super::{NAMESPACE, argument, ssh_keygen};
use anyhow::Result;
use std::path::Path;
use words::text::quoted;

/// What a list says of a signature.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Allowed {
    /// Signed by this principal of the list.
    By(String),
    /// Not by anyone the list allows, and why.
    No(String),
}

/// Asks `ssh-keygen` whether `list` allows the signature of `file`.
///
/// # Errors
/// Exit 11 when there is no `ssh-keygen`.
pub fn allowed(list: &Path, file: &Path, signature: &Path) -> Result<Allowed> {
    let (list, signature) = (argument(list)?, argument(signature)?);
    let find = ["-Y", "find-principals", "-s", &signature, "-f", &list];
    let found = ssh_keygen(&find).run(&mut |_| {})?;
    // An entry also lists principals that it denies, which are not names of the signer.
    let named = |line: &&str| !line.is_empty() && !line.starts_with('!');
    let principals: Vec<&str> = found.stdout.lines().map(str::trim).filter(named).collect();
    if found.code != Some(0) || principals.is_empty() {
        return Ok(Allowed::No(format!("no entry of the list allows its key: {}", quoted(&found.stderr, 200))));
    }
    let mut said = String::new();
    for principal in principals {
        let verify = ["-Y", "verify", "-n", NAMESPACE, "-f", &list, "-I", principal, "-s", &signature];
        let ended = ssh_keygen(&verify).run_reading(file)?;
        if ended.code == Some(0) {
            return Ok(Allowed::By(quoted(principal, 100)));
        }
        said = ended.stderr + &ended.stdout;
    }
    Ok(Allowed::No(quoted(&said, 300)))
}
