//! Finds out which compute-sanitizer this is and whether it works at all, in the runtime in which it will be used.

use super::{SHORT_DEADLINE, ending, path};
use anyhow::{Context, Result};
use host::container::{Runtime, Task};
use host::failure::fail;
use host::gpu::toolkit::Toolkit;
use host::process::Ended;
use schema::{Digest, ExitCode};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use words::surroundings::harmful;

/// The first release that knows the barriers and bulk copies of sm_90 well enough (CUDA 12.8).
const OLDEST: (u32, u32) = (2025, 1);
const TOOL: &str = "compute-sanitizer";
/// The program that starts the target. Without it the tool prints its banner and runs nothing.
const LAUNCHER: &str = "TreeLauncherSubreaper";
const COLLECTION: &str = "libsanitizer-collection.so";

/// A compute-sanitizer that was asked who it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Identity {
    /// The program itself, not a script that starts it.
    pub(super) program: PathBuf,
    /// Its version line.
    pub(super) version: String,
    /// Digest of the program file.
    pub(super) digest: Digest,
    /// Digest of the library it puts into the target.
    pub(super) collection: Digest,
}

/// Finds the program behind the toolkit's `compute-sanitizer`, and asks for version and digests.
pub(super) fn identify(toolkit: &Toolkit, runtime: &dyn Runtime, scratch: &Path) -> Result<Identity> {
    let named = toolkit
        .sanitizer
        .as_ref()
        .ok_or_else(|| refuse(format!("the toolkit in {} has no compute-sanitizer", toolkit.root.display())))?;
    let ask = Ask { runtime, scratch };
    ask.surroundings()?;
    let (folder, files) = ask.whole_folder(named)?;
    let program = folder.join(TOOL);
    let version = ask.version(&program)?;
    let digest = |name: &str| files.get(&folder.join(name)).copied().context("it was hashed");
    Ok(Identity { digest: digest(TOOL)?, collection: digest(COLLECTION)?, program, version })
}

struct Ask<'a> {
    runtime: &'a dyn Runtime,
    scratch: &'a Path,
}

impl Ask<'_> {
    /// Refuses where a variable is set that changes what the tool checks or how kernels run, by whomever: an image carries its own.
    fn surroundings(&self) -> Result<()> {
        let ended = self.run("env", Vec::new())?;
        let (found, name) = (harmful(&ended.stdout), self.runtime.name());
        if ended.code == Some(0) && found.is_empty() {
            return Ok(());
        }
        let (message, remedy) = match ended.code {
            Some(0) => (
                format!(
                    "{} set where programs run ({name}), which changes what is checked and measured",
                    found.join(" and ")
                ),
                "take a base image whose ENV does not set it, then cargo xtask provision",
            ),
            _ => (format!("the environment of programs cannot be read: env: {}", ending(&ended)), "cargo xtask doctor"),
        };
        Err(fail(ExitCode::Environment, message, remedy))
    }

    /// The folder that holds the tool and all it needs: `bin/compute-sanitizer` is often a script that leads to it.
    fn whole_folder(&self, named: &Path) -> Result<(PathBuf, BTreeMap<PathBuf, Digest>)> {
        let beside = named.parent().unwrap_or(Path::new("/"));
        let own = beside.parent().unwrap_or(Path::new("/")).join(TOOL);
        let mut tool_without_launcher = false;
        for folder in [own.as_path(), beside] {
            let files = self.digests(folder)?;
            if files.len() == 3 {
                return Ok((folder.to_owned(), files));
            }
            tool_without_launcher |=
                files.contains_key(&folder.join(TOOL)) && !files.contains_key(&folder.join(LAUNCHER));
        }
        Err(refuse(match tool_without_launcher {
            true => format!(
                "{} cannot start programs: {LAUNCHER} is not beside it (wheels nvidia-cuda-sanitizer-api before 13.4 lack it)",
                named.display()
            ),
            false => format!("{} is not a whole compute-sanitizer: {TOOL} or {COLLECTION} is missing", named.display()),
        }))
    }

    /// Digests of those of the tool's files that are there.
    fn digests(&self, folder: &Path) -> Result<BTreeMap<PathBuf, Digest>> {
        let names = [TOOL, LAUNCHER, COLLECTION].map(|name| folder.join(name));
        let mut args = vec!["--".to_owned()];
        for name in &names {
            args.push(path(name)?.to_owned());
        }
        let ended = self.run("sha256sum", args)?;
        let line = |line: &str| {
            let (digest, file) = line.split_once("  ")?;
            Some((PathBuf::from(file), digest.parse().ok()?))
        };
        Ok(ended.stdout.lines().filter_map(line).filter(|(file, _)| names.contains(file)).collect())
    }

    fn version(&self, program: &Path) -> Result<String> {
        let ended = self.run(path(program)?, vec!["--version".to_owned()])?;
        let line = ended.stdout.lines().find(|line| line.starts_with("Version ")).map(|line| line.trim().to_owned());
        match line {
            Some(line) if ended.code == Some(0) => recent(&line).map(|()| line),
            _ => Err(refuse(format!("{} --version gave no version: {}", program.display(), ending(&ended)))),
        }
    }

    fn run(&self, program: &str, args: Vec<String>) -> Result<Ended> {
        let task = Task {
            label: "sanitize-tool".to_owned(),
            program: program.to_owned(),
            args,
            env: Vec::new(),
            readable: Vec::new(),
            writable: self.scratch.to_owned(),
            gpu: false,
            deadline: SHORT_DEADLINE,
            hold_stdin: false,
        };
        self.runtime.run(&task, &mut |_| {})
    }
}

/// Refuses a version older than [`OLDEST`].
fn recent(line: &str) -> Result<()> {
    let mut numbers = line.trim_start_matches("Version ").split('.').map(|part| part.parse::<u32>().ok());
    match (numbers.next().flatten(), numbers.next().flatten()) {
        (Some(major), Some(minor)) if (major, minor) >= OLDEST => Ok(()),
        (Some(_), Some(_)) => {
            Err(refuse(format!("compute-sanitizer is too old ({line}); {}.{} is the oldest used", OLDEST.0, OLDEST.1)))
        }
        _ => Err(refuse(format!("compute-sanitizer's version cannot be read: {line:?}"))),
    }
}

fn refuse(message: String) -> anyhow::Error {
    fail(
        ExitCode::Environment,
        message,
        "pin nvidia-cuda-sanitizer-api 13.4 or newer in docker/toolkit.lock, then cargo xtask provision",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn captured_versions_are_read_and_old_or_odd_ones_refused() {
        for (text, fine) in [
            (include_str!("../../../testdata/sanitizer/captured-2025.3.1-version.txt"), true),
            (include_str!("../../../testdata/sanitizer/captured-2026.4.0-version.txt"), true),
            ("Version 2024.1.0.0 (build 1) (public-release)", false),
            ("Version 2024.10.0.0", false),
            ("Version x", false),
        ] {
            let line = text.lines().find(|line| line.starts_with("Version ")).unwrap();
            assert_eq!(recent(line).is_ok(), fine, "{line}");
        }
    }
}
