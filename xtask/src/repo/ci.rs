//! `test` and `ci`: the same commands a person types, one after the other, ending at the first that fails.
//!
//! No check lives here; this file only says which commands make up CI.

use anyhow::{Context, Result};
use host::failure::fail;
use host::paths::Paths;
use schema::ExitCode;
use std::process::Command;
use std::time::Instant;

/// Every architecture the kernels are built for.
pub const ARCHS: &[&str] = &["sm_80", "sm_86", "sm_89", "sm_90", "sm_90a", "sm_100", "sm_120", "sm_121a"];

/// Runs every test of the project.
///
/// # Errors
/// When a test fails; its output has been shown.
pub fn test(paths: &Paths) -> Result<()> {
    cargo(paths, &["test", "--workspace", "--locked", "--no-fail-fast"])
}

/// Runs all of CI.
///
/// # Errors
/// When a command fails; its output has been shown.
pub fn ci(paths: &Paths) -> Result<()> {
    cargo(paths, &["fmt", "--all", "--check"])?;
    cargo(paths, &["clippy", "--workspace", "--all-targets", "--locked", "--", "--deny", "warnings"])?;
    deny(paths)?;
    xtask(paths, &["doctor"])?;
    xtask(paths, &["provision", "--runtime", "docker"])?;
    xtask(paths, &["provision", "--runtime", "host"])?;
    xtask(paths, &["tidy"])?;
    test(paths)?;
    let mut every_arch = vec!["build", "--runtime", "docker"];
    every_arch.extend(ARCHS.iter().flat_map(|arch| ["--arch", *arch]));
    xtask(paths, &every_arch)?;
    for runtime in ["docker", "host"] {
        xtask(paths, &["reproduce", "--runtime", runtime, "--device", "emulated", "--profile", "smoke"])?;
    }
    xtask(paths, &["verify"])
}

/// Licences, sources and doubled versions of what we depend on (`deny.toml`). cargo-deny takes minutes to compile, so it is
/// used where it is installed, and its absence is said.
fn deny(paths: &Paths) -> Result<()> {
    let there = Command::new("cargo").args(["deny", "--version"]).current_dir(paths.root()).output();
    if there.is_ok_and(|output| output.status.success()) {
        return cargo(paths, &["deny", "--offline", "--locked", "check", "bans", "licenses", "sources"]);
    }
    host::tell!("skipped: cargo-deny is not installed (cargo install --locked cargo-deny)");
    Ok(())
}

fn cargo(paths: &Paths, args: &[&str]) -> Result<()> {
    shown(paths, "cargo", args)
}

/// Calls this very program, as a person would. By its open file: building the tests may have replaced the one on disk.
fn xtask(paths: &Paths, args: &[&str]) -> Result<()> {
    shown(paths, &format!("/proc/{}/exe", std::process::id()), args)
}

fn shown(paths: &Paths, program: &str, args: &[&str]) -> Result<()> {
    let name = if program == "cargo" { "cargo".to_owned() } else { "cargo xtask".to_owned() };
    let line = format!("{name} {}", args.join(" "));
    host::tell!("$ {line}");
    let began = Instant::now();
    let status = Command::new(program).args(args).current_dir(paths.root()).status();
    let status = status.with_context(|| format!("failed to start {program}"))?;
    host::tell!("$ {line}: {status}, {:.1} s", began.elapsed().as_secs_f64());
    if status.success() { Ok(()) } else { Err(fail(ExitCode::Bug, format!("failed: {line} ({status})"), line)) }
}
