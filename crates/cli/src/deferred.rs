//! Options that are described to the parser only when their command is called. Describing those of
//! all commands takes longer than many programs run.

use clap::builder::Resettable;
use clap::{ArgMatches, Args, Command, Error, FromArgMatches};

/// The options of a command.
#[derive(Debug)]
pub struct Deferred<Options>(pub Options);

impl<Options: Args> Args for Deferred<Options> {
    fn augment_args(command: Command) -> Command {
        command.defer(described::<Options>)
    }

    fn augment_args_for_update(command: Command) -> Command {
        command.defer(Options::augment_args_for_update)
    }
}

/// Describes the options. The command keeps the description that the list of commands shows.
fn described<Options: Args>(command: Command) -> Command {
    let (about, long_about) = (command.get_about().cloned(), command.get_long_about().cloned());
    Options::augment_args(command)
        .about(Resettable::from(about))
        .long_about(Resettable::from(long_about))
}

impl<Options: FromArgMatches> FromArgMatches for Deferred<Options> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        Options::from_arg_matches(matches).map(Self)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        self.0.update_from_arg_matches(matches)
    }
}
