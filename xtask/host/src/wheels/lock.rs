//! `docker/toolkit.lock`: pip requirements, one exact version and one digest a line.

use crate::failure::fail;
use anyhow::{Context, Result};
use schema::{Digest, ExitCode};
use std::path::Path;

/// The lock.
#[derive(Clone, Debug)]
pub struct Lock {
    /// Digest of the file.
    pub digest: Digest,
    /// What it pins, in order.
    pub wheels: Vec<Wheel>,
}

/// One pinned wheel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wheel {
    /// Package.
    pub name: String,
    /// Exact version.
    pub version: String,
    /// Digest of the file.
    pub sha256: Digest,
    /// Its size, for progress only.
    pub bytes: u64,
}

impl Lock {
    /// Reads the lock.
    ///
    /// # Errors
    /// When it cannot be read, or a line is not `NAME==VERSION --hash=sha256:HEX # BYTES`.
    pub fn read(path: &Path) -> Result<Self> {
        let text = fs_err::read_to_string(path)?;
        Self::of(&text).map_err(|error| {
            let message = format!("{}: {error:#}", path.display());
            fail(ExitCode::Config, message, "git checkout -- docker/toolkit.lock")
        })
    }

    /// Reads the lock's text.
    ///
    /// # Errors
    /// When a line is not as [`Lock::read`] wants it.
    pub fn of(text: &str) -> Result<Self> {
        Ok(Self { digest: Digest::of(text), wheels: parse(text)? })
    }
}

impl Wheel {
    /// The name it is kept under: pip's names depend on the platform, the digest does not.
    pub fn file_name(&self) -> String {
        format!("{}-{}-{}.whl", self.name, self.version, self.sha256.short())
    }

    /// The line as pip reads it.
    pub fn requirement(&self) -> String {
        format!("{}=={} --hash=sha256:{}\n", self.name, self.version, self.sha256)
    }
}

/// What a lock's text pins, in order.
///
/// # Errors
/// Names the first line that does not pin a wheel.
pub fn parse(text: &str) -> Result<Vec<Wheel>> {
    let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty() && !line.starts_with('#'));
    let wheels = lines
        .map(|(n, line)| wheel(line).with_context(|| format!("line {} does not pin a wheel: {line:?}", n + 1)))
        .collect::<Result<Vec<_>>>()?;
    anyhow::ensure!(!wheels.is_empty(), "nothing is pinned");
    Ok(wheels)
}

fn wheel(line: &str) -> Result<Wheel> {
    let (pin, bytes) = line.split_once(" # ").context("its size is missing")?;
    let (package, hash) = pin.split_once(" --hash=sha256:").context("its sha256 is missing")?;
    let (name, version) = package.split_once("==").context("its exact version is missing")?;
    let word = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"-._".contains(&b));
    anyhow::ensure!(word(name) && word(version), "name or version has a character that no package has");
    Ok(Wheel { name: name.into(), version: version.into(), sha256: hash.parse()?, bytes: bytes.trim().parse()? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lock_of_this_tree_pins_a_compiler_and_a_sanitizer() {
        let lock = Lock::read(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docker/toolkit.lock")).unwrap();
        for name in ["nvidia-cuda-nvcc", "nvidia-nvvm", "nvidia-cuda-crt", "nvidia-cuda-sanitizer-api"] {
            assert!(lock.wheels.iter().any(|wheel| wheel.name == name), "{name}");
        }
    }

    #[test]
    fn anything_but_an_exact_pin_is_refused() {
        let hash = "0".repeat(64);
        assert!(parse(&format!("# note\n\na==1 --hash=sha256:{hash} # 3\n")).is_ok());
        for bad in [
            String::new(),
            "a==1 # 3".into(),
            format!("a>=1 --hash=sha256:{hash} # 3"),
            format!("a==1 --hash=sha256:{} # 3", &hash[1..]),
            format!("a==1 --hash=sha256:{hash}"),
            format!("--index-url==x --hash=sha256:{hash} --hash=sha256:{hash} # 3"),
        ] {
            assert!(parse(&bad).is_err(), "{bad}");
        }
    }
}
