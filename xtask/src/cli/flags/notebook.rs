//! The flags of `notebook`, built from the table of kinds: one command for each kind. `cli/notebook.rs` carries them
//! out.

use clap::error::ErrorKind;
use clap::{Arg, ArgAction, ArgGroup, ArgMatches, Command, Error, FromArgMatches, Subcommand};
use pure::book::notebook::Flags;
use pure::book::notebook::kinds::{Flag, Given, KINDS, Row};

/// A `notebook` command as typed.
#[derive(Clone, Debug)]
pub struct Notebook {
    /// The kind of entry.
    pub row: &'static Row,
    /// Its flags.
    pub flags: Flags,
}

impl Subcommand for Notebook {
    fn augment_subcommands(command: Command) -> Command {
        command.subcommands(KINDS.iter().map(of_kind))
    }

    fn augment_subcommands_for_update(command: Command) -> Command {
        Self::augment_subcommands(command)
    }

    fn has_subcommand(name: &str) -> bool {
        KINDS.iter().any(|row| row.command == name)
    }
}

impl FromArgMatches for Notebook {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        let found =
            matches.subcommand().and_then(|(name, given)| Some((KINDS.iter().find(|row| row.command == name)?, given)));
        let (row, given) = found.ok_or_else(|| Error::new(ErrorKind::MissingSubcommand))?;
        let values = |flag: &Flag| match flag.given {
            Given::Switch => given.get_flag(&flag.name).then(Vec::new),
            _ => given.get_many(&flag.name).map(|values| values.cloned().collect()),
        };
        let flags = row.flags.iter().filter_map(|flag| Some((flag.name.as_str(), values(flag)?))).collect();
        Ok(Self { row, flags })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

fn of_kind(row: &'static Row) -> Command {
    let named = |given| row.flags.iter().filter(move |flag| flag.given == given).map(|flag| flag.name.as_str());
    let alone = named(Given::Alone).next();
    let command =
        Command::new(&*row.command).about(&row.help).args(row.flags.iter().map(|flag| match (flag.given, alone) {
            (Given::Alone, _) => arg(flag).conflicts_with_all(named(Given::Once)),
            (Given::Once, Some(alone)) => arg(flag).required_unless_present(alone),
            (Given::Once | Given::AtLeastOnce, _) => arg(flag).required(true),
            _ => arg(flag),
        }));
    let one_of: Vec<&str> = named(Given::OneOfThese).collect();
    if one_of.is_empty() { command } else { command.group(ArgGroup::new("one").args(one_of).required(true)) }
}

fn arg(flag: &'static Flag) -> Arg {
    let action = match flag.given {
        Given::Switch => ArgAction::SetTrue,
        Given::Often | Given::AtLeastOnce => ArgAction::Append,
        _ => ArgAction::Set,
    };
    let arg = Arg::new(&*flag.name).long(&*flag.name).value_name(&*flag.value).help(&*flag.help).action(action);
    flag.with.as_deref().map_or(arg.clone(), |other| arg.requires(other))
}
