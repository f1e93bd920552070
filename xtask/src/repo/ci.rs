//! `test` and `ci`: the same commands a person types, one after the other, ending at the first that fails.
//!
//! No check lives here; this file only says which commands make up CI.

use anyhow::Result;
use host::failure::fail;
use host::paths::Paths;
use schema::ExitCode;
use std::time::Instant;
use xshell::{Cmd, Shell, cmd};

/// Every architecture the kernels are built for.
pub const ARCHS: &[&str] = &["sm_80", "sm_86", "sm_89", "sm_90", "sm_90a", "sm_100", "sm_120", "sm_121a"];

/// This very program, called as a person would. By its open file: building the tests may have replaced the one on disk.
const XTASK: &str = "/proc/self/exe";

/// Runs every test of the project.
///
/// # Errors
/// When a test fails; its output has been shown.
pub fn test(paths: &Paths) -> Result<()> {
    let sh = super::shell(paths.root())?;
    shown(cmd!(sh, "cargo test --workspace --locked --no-fail-fast"))
}

/// Runs all of CI.
///
/// # Errors
/// When a command fails; its output has been shown.
pub fn ci(paths: &Paths) -> Result<()> {
    let sh = super::shell(paths.root())?;
    shown(cmd!(sh, "cargo fmt --all --check"))?;
    shown(cmd!(sh, "cargo clippy --workspace --all-targets --locked -- --deny warnings"))?;
    deny(&sh)?;
    shown(cmd!(sh, "{XTASK} doctor"))?;
    shown(cmd!(sh, "{XTASK} provision --runtime docker"))?;
    shown(cmd!(sh, "{XTASK} provision --runtime host"))?;
    shown(cmd!(sh, "{XTASK} tidy"))?;
    test(paths)?;
    mutants(&sh, paths)?;
    let every_arch = ARCHS.iter().flat_map(|arch| ["--arch", *arch]);
    shown(cmd!(sh, "{XTASK} build --runtime docker {every_arch...}"))?;
    for runtime in ["docker", "host"] {
        shown(cmd!(sh, "{XTASK} reproduce --runtime {runtime} --device emulated --profile smoke"))?;
    }
    shown(cmd!(sh, "{XTASK} verify"))
}

/// Licences, sources and doubled versions of what we depend on (`deny.toml`).
fn deny(sh: &Shell) -> Result<()> {
    if installed(sh, "deny") {
        shown(cmd!(sh, "cargo deny --offline --locked check bans licenses sources"))?;
    }
    Ok(())
}

/// Whether the tests notice a change of what the last commit wrote, in the files that `.cargo/mutants.toml` lists.
fn mutants(sh: &Shell, paths: &Paths) -> Result<()> {
    if installed(sh, "mutants") {
        let file = paths.root().join("target/mutants.diff");
        fs_err::write(&file, cmd!(sh, "git diff HEAD~1").quiet().output()?.stdout)?;
        shown(cmd!(sh, "cargo mutants --workspace --in-diff {file} --output target"))?;
    }
    Ok(())
}

/// Whether cargo knows this tool. They take minutes to compile, so they are used where they are, and their absence is said.
fn installed(sh: &Shell, tool: &str) -> bool {
    let there = cmd!(sh, "cargo {tool} --version").quiet().ignore_stderr().read().is_ok();
    if !there {
        host::tell!("skipped: cargo-{tool} is not installed (cargo install --locked cargo-{tool})");
    }
    there
}

fn shown(command: Cmd<'_>) -> Result<()> {
    let line = command.to_string().replace(XTASK, "cargo xtask");
    host::tell!("$ {line}");
    let began = Instant::now();
    let run = command.quiet().run();
    let how = if run.is_ok() { "passed" } else { "failed" };
    host::tell!("$ {line}: {how}, {:.1} s", began.elapsed().as_secs_f64());
    run.map_err(|error| fail(ExitCode::Bug, error.to_string().replace(XTASK, "cargo xtask"), line))
}
