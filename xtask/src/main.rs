//! The entry point: reads the command line, calls one function, prints one object, ends with the documented exit
//! code.

use clap::Parser;
use host::paths::Paths;
use host::program::{finish, guarded, root};
use host::ui::Ui;
use xtask::cli::flags::{Cli, Clocks, Command};
use xtask::{cli, steps};

fn main() {
    let cli = Cli::parse();
    // The privileged child handles signals itself and prints nothing but its own lines.
    if let Command::Clocks(Clocks::Hold(args)) = &cli.command {
        end(&cli, steps::clocks::hold::hold(args).map(|()| cli::Done::silent()));
    }
    // A probe runs anywhere, and its parent reads the one line that it prints.
    if let Command::Probe(what) = &cli.command {
        end(&cli, provision::cli::probe(what));
    }
    end(&cli, guarded(|| run(&cli)));
}

fn end(cli: &Cli, result: anyhow::Result<cli::Done>) -> ! {
    finish(cli.json, cli.quiet, result)
}

fn run(cli: &Cli) -> anyhow::Result<cli::Done> {
    let paths = Paths::new(root()?);
    let quiet = cli.quiet || cli.json;
    let ui = Ui::new(quiet);
    let ctx = cli::Context::new(&paths, &ui, quiet);
    match &cli.command {
        Command::Reproduce(ask) => cli::reproduce(&ctx, ask),
        Command::Doctor(place) => Ok(provision::cli::doctor(&paths, place)),
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
