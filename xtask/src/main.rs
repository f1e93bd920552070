//! The entry point: reads the command line, calls one function, prints one object, ends with the documented exit
//! code.

use clap::Parser;
use host::failure::{code_of, remedy_of};
use host::paths::Paths;
use host::process::watch_interrupts;
use host::tell;
use host::ui::Ui;
use schema::ExitCode;
use serde_json::json;
use std::io::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use words::text::{plain, plain_json, plain_lines};
use xtask::cli::flags::{Cli, Clocks, Command};
use xtask::{cli, steps};

fn main() {
    let cli = Cli::parse();
    // The privileged child handles signals itself and prints nothing but its own lines.
    if let Command::Clocks(Clocks::Hold(args)) = &cli.command {
        finish(&cli, steps::clocks::hold::hold(args).map(|()| cli::Done::silent()));
    }
    // A probe runs anywhere, and its parent reads the one line that it prints.
    if let Command::Probe(what) = &cli.command {
        finish(&cli, cli::probe(what));
    }
    let result = catch_unwind(AssertUnwindSafe(|| watch_interrupts().and_then(|()| run(&cli))));
    finish(&cli, result.unwrap_or_else(|_| Err(bug())));
}

/// A panic, which was told where it happened. Unwinding has put back and removed what was ours to put back and remove.
fn bug() -> anyhow::Error {
    let message = "a bug in Assay, told above; everything complete is kept";
    host::failure::fail(ExitCode::Bug, message, "report what is told above; the same command again goes on")
}

fn run(cli: &Cli) -> anyhow::Result<cli::Done> {
    let paths = Paths::new(root()?);
    let quiet = cli.quiet || cli.json;
    let ui = Ui::new(quiet);
    let ctx = cli::Context::new(&paths, &ui, quiet);
    match &cli.command {
        Command::Reproduce(ask) => cli::reproduce(&ctx, ask),
        Command::Doctor(place) => cli::doctor(&ctx, place),
        Command::List => cli::list(&ctx),
        Command::Provision(ask) => cli::provision(&ctx, ask),
        Command::Build(ask) => cli::build(&ctx, ask),
        Command::Sanitize(ask) => cli::sanitize(&ctx, ask),
        Command::Run(ask) => cli::run(&ctx, ask),
        Command::Clean => cli::clean(&ctx),
        Command::Verify(ask) => cli::verify(&ctx, ask),
        Command::Compare(ask) => cli::compare(&ctx, ask),
        Command::Publish(ask) => cli::publish(&ctx, ask),
        Command::Status(place) => cli::status(&ctx, place),
        Command::Notebook(entry) => cli::notebook(&ctx, entry),
        Command::Clocks(ask) => cli::clocks(&ctx, ask),
        Command::Probe(_) => unreachable!("answered before a root is looked for"),
        Command::Bundle(ask) => cli::bundle(&ctx, ask),
        Command::Pack(ask) => cli::pack(&ctx, ask),
        Command::Unpack(ask) => cli::unpack(&ctx, ask),
        Command::Test => xtask::repo::ci::test(&paths).map(|()| cli::Done::silent()),
        Command::Tidy(ask) => cli::tidy(&ctx, ask),
        Command::Ci => xtask::repo::ci::ci(&paths).map(|()| cli::Done::silent()),
    }
}

/// An unpacked bundle is its own root; otherwise the checkout that this program was built in.
fn root() -> anyhow::Result<PathBuf> {
    let beside = std::env::current_exe()?.parent().map(PathBuf::from).unwrap_or_default();
    if beside.join("bundle.json").is_file() {
        return Ok(beside);
    }
    let here = std::env::current_dir()?;
    let found = here.ancestors().find(|dir| dir.join("bundle.json").is_file() || dir.join("harness/schema").is_dir());
    found.map(PathBuf::from).ok_or_else(|| {
        host::failure::fail(
            ExitCode::Usage,
            format!("{} is in no checkout of Assay and in no unpacked bundle", here.display()),
            "cd into the checkout",
        )
    })
}

/// A message of several lines: a gate's reasons come one a line.
fn indented(text: &str) -> String {
    plain_lines(text).replace('\n', "\n  ")
}

fn finish(cli: &Cli, result: anyhow::Result<cli::Done>) -> ! {
    let (mut code, object) = match result {
        Ok(done) => {
            if !cli.json && !cli.quiet && !done.text.is_empty() {
                tell!("{}", plain_lines(&done.text));
            }
            (done.code, done.json)
        }
        Err(error) => {
            tell!("error: {}", indented(&format!("{error:#}")));
            if let Some(remedy) = remedy_of(&error) {
                tell!("  try: {}", indented(remedy));
            }
            let code = code_of(&error);
            (code, json!({"error": plain(&format!("{error:#}")), "exit": code.status(), "remedy": remedy_of(&error)}))
        }
    };
    if cli.json {
        let mut stdout = std::io::stdout().lock();
        let written = writeln!(stdout, "{}", plain_json(&object.to_string())).and_then(|()| stdout.flush());
        if let Err(error) = written {
            tell!("error: the answer cannot be written to stdout: {error}");
            code = if code == ExitCode::Done { ExitCode::Environment } else { code };
        }
    }
    std::process::exit(code.status());
}
