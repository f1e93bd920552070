//! The door: reads the command line, calls one function, prints one object, ends with the documented exit code.

use clap::Parser;
use pure::text::{plain, plain_json, plain_lines};
use schema::ExitCode;
use serde_json::json;
use std::io::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use xtask::failure::{code_of, remedy_of};
use xtask::flags::{Cli, Clocks, Command};
use xtask::paths::Paths;
use xtask::world::process::watch_interrupts;
use xtask::world::ui::Ui;
use xtask::{commands, steps, tell};

fn main() {
    let cli = Cli::parse();
    // The privileged child handles signals itself and prints nothing but its own lines.
    if let Command::Clocks(Clocks::Hold(args)) = &cli.command {
        finish(&cli, steps::clocks::hold::hold(args).map(|()| commands::Done::silent()));
    }
    // A probe runs anywhere, and its parent reads the one line that it prints.
    if let Command::Probe(what) = &cli.command {
        finish(&cli, commands::probe(what));
    }
    let result = catch_unwind(AssertUnwindSafe(|| watch_interrupts().and_then(|()| run(&cli))));
    finish(&cli, result.unwrap_or_else(|_| Err(bug())));
}

/// A panic, which was told where it happened. Unwinding has put back and removed what was ours to put back and remove.
fn bug() -> anyhow::Error {
    let message = "a bug in Assay, told above; what was complete is kept";
    xtask::failure::fail(ExitCode::Bug, message, "report what is told above; the same command again goes on")
}

fn run(cli: &Cli) -> anyhow::Result<commands::Done> {
    let paths = Paths::new(root()?);
    let quiet = cli.quiet || cli.json;
    let ui = Ui::new(quiet);
    let ctx = commands::Context { paths: &paths, ui: &ui, quiet };
    match &cli.command {
        Command::Reproduce(ask) => commands::reproduce(&ctx, ask),
        Command::Doctor(place) => commands::doctor(&ctx, place),
        Command::List => commands::list(&ctx),
        Command::Provision(ask) => commands::provision(&ctx, ask),
        Command::Build(ask) => commands::build(&ctx, ask),
        Command::Sanitize(ask) => commands::sanitize(&ctx, ask),
        Command::Run(ask) => commands::run(&ctx, ask),
        Command::Clean => commands::clean(&ctx),
        Command::Verify(ask) => commands::verify(&ctx, ask),
        Command::Compare(ask) => commands::compare(&ctx, ask),
        Command::Publish(ask) => commands::publish(&ctx, ask),
        Command::Status(place) => commands::status(&ctx, place),
        Command::Notebook(entry) => commands::notebook(&ctx, entry),
        Command::Clocks(ask) => commands::clocks(&ctx, ask),
        Command::Probe(_) => unreachable!("answered before a root is looked for"),
        Command::Bundle(ask) => commands::bundle(&ctx, ask),
        Command::Pack(ask) => commands::pack(&ctx, ask),
        Command::Unpack(ask) => commands::unpack(&ctx, ask),
        Command::Test => xtask::ci::test(&paths).map(|()| commands::Done::silent()),
        Command::Tidy(ask) => commands::tidy(&ctx, ask),
        Command::Ci => xtask::ci::ci(&paths).map(|()| commands::Done::silent()),
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
        xtask::failure::fail(
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

fn finish(cli: &Cli, result: anyhow::Result<commands::Done>) -> ! {
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
