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
    mutants(paths)?;
    let mut every_arch = vec!["build", "--runtime", "docker"];
    every_arch.extend(ARCHS.iter().flat_map(|arch| ["--arch", *arch]));
    xtask(paths, &every_arch)?;
    for runtime in ["docker", "host"] {
        xtask(paths, &["reproduce", "--runtime", runtime, "--device", "emulated", "--profile", "smoke"])?;
    }
    xtask(paths, &["verify"])
}

/// Licences, sources and doubled versions of what we depend on (`deny.toml`).
fn deny(paths: &Paths) -> Result<()> {
    if installed(paths, "deny") {
        cargo(paths, &["deny", "--offline", "--locked", "check", "bans", "licenses", "sources"])?;
    }
    Ok(())
}

/// Whether the tests notice a change of what the last commit wrote, in the files that `.cargo/mutants.toml` lists.
fn mutants(paths: &Paths) -> Result<()> {
    if installed(paths, "mutants") {
        let diff = Command::new("git").args(["diff", "HEAD~1"]).current_dir(paths.root()).output()?;
        let file = paths.root().join("target/mutants.diff");
        fs_err::write(&file, diff.stdout)?;
        let file = file.to_string_lossy();
        cargo(paths, &["mutants", "--workspace", "--in-diff", &file, "--output", "target"])?;
    }
    Ok(())
}

/// Whether cargo knows this tool. They take minutes to compile, so they are used where they are, and their absence is said.
fn installed(paths: &Paths, tool: &str) -> bool {
    let there = Command::new("cargo").args([tool, "--version"]).current_dir(paths.root()).output();
    let there = there.is_ok_and(|output| output.status.success());
    if !there {
        host::tell!("skipped: cargo-{tool} is not installed (cargo install --locked cargo-{tool})");
    }
    there
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
