//! Options that are described to the parser only once their command was called: describing those of all commands takes longer than many programs run.

use clap::{ArgMatches, Args, Command, Error, FromArgMatches};

/// The options of a command.
#[derive(Debug)]
pub struct Deferred<Options>(pub Options);

impl<Options: Args> Args for Deferred<Options> {
    fn augment_args(command: Command) -> Command {
        command.defer(Options::augment_args)
    }

    fn augment_args_for_update(command: Command) -> Command {
        command.defer(Options::augment_args_for_update)
    }
}

impl<Options: FromArgMatches> FromArgMatches for Deferred<Options> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        Options::from_arg_matches(matches).map(Self)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        self.0.update_from_arg_matches(matches)
    }
}
