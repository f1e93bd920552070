//! Our own programs, by cargo, offline, in the runtime that the kernels are built in.
//!
//! Crates are fetched on the host by the ordinary client; the build sees the registry's files and no network.

use super::BuildContext;
use super::fresh::Sources;
use anyhow::{Context, Result};
use host::container::{Runtime, Task};
use host::failure::fail;
use host::process::{Child, own_environment};
use schema::ExitCode;
use std::path::{Path, PathBuf};
use std::time::Duration;

const FETCH_DEADLINE: Duration = Duration::from_secs(20 * 60);
const BUILD_DEADLINE: Duration = Duration::from_secs(60 * 60);
/// What cargo on the host may know of its surroundings: where it and its files are, and how to reach the registry.
const HOST_ENV: &[&str] = &["HOME", "PATH", "CARGO_HOME", "RUSTUP_HOME", "RUSTUP_TOOLCHAIN", "SSL_CERT_FILE"];
const HOST_ENV_PREFIXES: &[&str] = &["CARGO_HTTP_", "CARGO_NET_", "CARGO_SOURCE_", "CARGO_REGISTRIES_"];
const PROXY_ENV: &[&str] = &["http_proxy", "https_proxy", "no_proxy", "all_proxy"];

/// Builds a package of this workspace in release, and gives its binary.
///
/// # Errors
/// Exit 11 when crates are missing and cannot be fetched, 12 when it does not compile.
pub fn program(ctx: &BuildContext<'_>, runtime: &dyn Runtime, package: &str) -> Result<PathBuf> {
    fetch(ctx)?;
    let what = format!("cargo build {package}");
    (ctx.progress)(0, 1, &what);
    let writable = ctx.paths.state().join("cargo").join(runtime.name());
    let target = writable.join("target");
    fs_err::create_dir_all(&target)?;
    let sources = Sources::before(ctx.paths.root(), &target)?;
    let ended = runtime.run(&task(ctx.paths.root(), runtime.name(), package, writable, &target)?, &mut |_| {})?;
    let binary = target.join("release").join(package);
    if ended.code == Some(0) && binary.is_file() {
        sources.built()?;
        (ctx.progress)(1, 1, &what);
        return Ok(binary);
    }
    let told = first_error(&ended.stderr).join("\n    ");
    let message = format!("cargo build -p {package} failed in runtime {}:\n    {told}", runtime.name());
    Err(fail(ExitCode::Build, message, format!("cargo build --locked --release -p {package}")))
}

fn task(root: &Path, runtime: &str, package: &str, writable: PathBuf, target: &Path) -> Result<Task> {
    let registry = host_cargo_home()?.join("registry");
    let home = cargo_home(&writable, &registry)?;
    let mut env = vec![
        ("CARGO_HOME".to_owned(), home.display().to_string()),
        ("HOME".to_owned(), writable.display().to_string()),
        ("CARGO_TARGET_DIR".to_owned(), target.display().to_string()),
        ("CARGO_INCREMENTAL".to_owned(), "0".to_owned()),
        // The image has the compiler and none of the other components that the toolchain file asks for.
        ("RUSTUP_TOOLCHAIN".to_owned(), channel(root)?),
    ];
    let mut program = "cargo".to_owned();
    if runtime != "docker" {
        let cargo = host_cargo()?;
        env.extend(host_rust(&cargo));
        program = cargo.display().to_string();
    }
    let manifest = root.join("Cargo.toml").display().to_string();
    let args = ["build", "--locked", "--offline", "--release", "-p", package, "--manifest-path", &manifest];
    Ok(Task {
        label: format!("build-{package}"),
        program,
        args: args.map(str::to_owned).to_vec(),
        env,
        readable: vec![root.to_owned(), registry],
        writable,
        gpu: false,
        deadline: BUILD_DEADLINE,
        hold_stdin: false,
    })
}

/// Where this machine's Rust is, for a cargo that no longer sees the caller's home.
fn host_rust(cargo: &Path) -> Vec<(String, String)> {
    let beside = cargo.parent().map(|dir| dir.display().to_string()).unwrap_or_default();
    let path = ("PATH".to_owned(), format!("{beside}:/usr/local/bin:/usr/bin:/bin"));
    let rustup = rustup_home().map(|home| ("RUSTUP_HOME".to_owned(), home.display().to_string()));
    std::iter::once(path).chain(rustup).collect()
}

/// Cargo's first error with what follows it, or its last lines where it names none.
fn first_error(stderr: &str) -> Vec<&str> {
    let lines: Vec<&str> = stderr.lines().collect();
    let from = lines.iter().position(|line| line.starts_with("error")).unwrap_or(lines.len().saturating_sub(12));
    lines[from..].iter().take(12).copied().collect()
}

/// Cargo as it is called on the host, in the workspace.
fn on_host(ctx: &BuildContext<'_>, args: Vec<String>) -> Result<Child> {
    let (program, dir) = (host_cargo()?, ctx.paths.root().to_owned());
    Ok(Child { program, args, env: host_env(), dir, deadline: FETCH_DEADLINE, hold_stdin: false })
}

fn fetch(ctx: &BuildContext<'_>) -> Result<()> {
    let mut args = vec!["fetch".to_owned(), "--locked".to_owned(), "--quiet".to_owned()];
    if ctx.offline {
        args.push("--offline".to_owned());
    }
    let ended = on_host(ctx, args)?.run(&mut |_| {})?;
    if ended.code == Some(0) {
        return Ok(());
    }
    let message = format!("cargo fetch --locked failed: {}", ended.stderr.trim());
    let remedy = if ctx.offline { "run it once without --offline" } else { "cargo fetch --locked" };
    Err(fail(ExitCode::Environment, message, remedy))
}

/// A cargo home that can be written, over the host's registry that cannot. Only where crates come from is taken over.
fn cargo_home(writable: &Path, registry: &Path) -> Result<PathBuf> {
    let home = writable.join("home");
    fs_err::create_dir_all(&home)?;
    let link = home.join("registry");
    if fs_err::read_link(&link).ok().as_deref() != Some(registry) {
        let _ = fs_err::remove_file(&link);
        fs_err::os::unix::fs::symlink(registry, &link)?;
    }
    let host = host_cargo_home()?.join("config.toml");
    let text = if host.is_file() { fs_err::read_to_string(&host)? } else { String::new() };
    host::files::write_whole(&home.join("config.toml"), sources_of(&text)?.as_bytes())?;
    Ok(home)
}

/// The `[source]` tables of a cargo configuration, and nothing else of it.
fn sources_of(config: &str) -> Result<String> {
    let mut table: toml::Table = config.parse().context("the host's cargo configuration is malformed")?;
    table.retain(|key, _| key == "source");
    Ok(toml::to_string(&table)?)
}

fn channel(root: &Path) -> Result<String> {
    let text = fs_err::read_to_string(root.join("rust-toolchain.toml"))?;
    let table: toml::Table = text.parse().context("rust-toolchain.toml is malformed")?;
    let channel = table.get("toolchain").and_then(|toolchain| toolchain.get("channel")).and_then(toml::Value::as_str);
    Ok(channel.context("rust-toolchain.toml names no channel")?.to_owned())
}

fn host_cargo() -> Result<PathBuf> {
    let given = std::env::var_os("CARGO").map(PathBuf::from);
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found =
        given.or_else(|| std::env::split_paths(&path).map(|dir| dir.join("cargo")).find(|cargo| cargo.is_file()));
    found.ok_or_else(|| fail(ExitCode::Environment, "no cargo on PATH", "install Rust with rustup, https://rustup.rs"))
}

fn host_cargo_home() -> Result<PathBuf> {
    below_home("CARGO_HOME", ".cargo").context("neither CARGO_HOME nor HOME is set")
}

fn rustup_home() -> Option<PathBuf> {
    below_home("RUSTUP_HOME", ".rustup").filter(|home| home.is_dir())
}

fn below_home(variable: &str, folder: &str) -> Option<PathBuf> {
    let given = std::env::var_os(variable).map(PathBuf::from);
    given.or_else(|| std::env::var_os("HOME").map(|home| PathBuf::from(home).join(folder)))
}

fn host_env() -> Vec<(String, String)> {
    let wanted = |name: &str| {
        HOST_ENV.contains(&name)
            || HOST_ENV_PREFIXES.iter().any(|prefix| name.starts_with(prefix))
            || PROXY_ENV.contains(&name.to_lowercase().as_str())
    };
    own_environment().into_iter().filter(|(name, _)| wanted(name)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_error_is_told() {
        let log = "   Compiling a v0.1.0\nwarning: unused\nerror[E0583]: file not found\n --> src/main.rs:1:1\n";
        assert_eq!(first_error(log), ["error[E0583]: file not found", " --> src/main.rs:1:1"]);
        assert_eq!(first_error("killed\n"), ["killed"]);
    }

    #[test]
    fn sources_that_changed_and_look_old_are_built_anew() {
        let root = tempfile::tempdir().unwrap();
        let put = |name: &str, text: &str| host::files::write_whole(&root.path().join(name), text.as_bytes()).unwrap();
        put("Cargo.toml", "[workspace]\nmembers = [\"harness\"]\nresolver = \"3\"\n");
        put("Cargo.lock", "version = 4\n\n[[package]]\nname = \"harness\"\nversion = \"0.1.0\"\n");
        put("rust-toolchain.toml", include_str!("../../../../rust-toolchain.toml"));
        put("harness/Cargo.toml", "[package]\nname = \"harness\"\nversion = \"0.1.0\"\nedition = \"2024\"\n");
        let source = |text: &str| put("harness/src/main.rs", &format!("fn main() {{\n    print!(\"{text}\");\n}}\n"));
        let paths = host::paths::Paths::new(root.path());
        let (environment_key, archs) = (String::new(), Vec::new());
        let experiment = None;
        let progress = &|_, _, _: &str| {};
        let ctx = BuildContext { paths: &paths, archs, environment_key, offline: true, jobs: 1, progress, experiment };
        let runtime = host::container::HostRuntime { name: "host", env: Vec::new() };
        let says = || {
            let binary = program(&ctx, &runtime, "harness").unwrap();
            String::from_utf8(std::process::Command::new(binary).output().unwrap().stdout).unwrap()
        };
        source("one");
        assert_eq!(says(), "one");
        source("two");
        let main = root.path().join("harness/src/main.rs");
        assert!(std::process::Command::new("touch").args(["-d", "@1073741824"]).arg(main).status().unwrap().success());
        assert_eq!(says(), "two");
    }

    #[test]
    fn only_where_crates_come_from_is_taken_over() {
        let config = "[registries.mine]\ntoken = \"secret\"\n[source.crates-io]\nreplace-with = \"near\"\n[source.near]\nregistry = \"sparse+https://example.org/\"\n";
        let kept = sources_of(config).unwrap();
        assert!(kept.contains("replace-with") && !kept.contains("secret"), "{kept}");
        assert_eq!(sources_of("").unwrap(), "");
        assert!(sources_of("[").is_err());
    }
}
