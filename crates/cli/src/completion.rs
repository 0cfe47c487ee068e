//! Completing arguments in a shell: its script calls this program, which knows the recordings.

use std::ffi::OsStr;

use clap::Command;
use clap_complete::env::CompleteEnv;
use clap_complete::{ArgValueCompleter, CompletionCandidate};
use retake_recording::{Location, list};

use crate::text;

/// Set by the scripts, to the name of the shell.
pub const VARIABLE: &str = "RETAKE_COMPLETE";
/// What arguments that name a recording are called.
const RECORDING: &str = "RECORDING";

/// If a shell asks, answers and ends this process.
pub fn answer(command: impl Fn() -> Command) {
    if std::env::var_os(VARIABLE).is_some() {
        CompleteEnv::with_factory(move || with_recordings(command())).var(VARIABLE).complete();
    }
}

/// The command line, with what each argument can be.
fn with_recordings(mut command: Command) -> Command {
    command.build();
    command.mut_subcommands(|subcommand| {
        subcommand.mut_args(|argument| {
            let names = argument.get_value_names().unwrap_or_default();
            let is_recording = names.iter().any(|name| name.as_str() == RECORDING);
            if is_recording { argument.add(ArgValueCompleter::new(names_of)) } else { argument }
        })
    })
}

/// The names that begin so, with the commands that were recorded. What is nothing but a path is
/// left to the shell.
fn names_of(begun: &OsStr) -> Vec<CompletionCandidate> {
    let begun = begun.to_string_lossy();
    let listings =
        Location::from_environment().ok().and_then(|location| list(&location.recordings).ok());
    let named = listings.unwrap_or_default().into_iter().map(|listing| {
        let about =
            listing.metadata.map_or_else(|_| String::new(), |one| text::command(&one.arguments));
        (listing.name, about)
    });
    named
        .chain([("latest".to_owned(), "the last one".to_owned())])
        .filter(|(name, _)| name.starts_with(&*begun))
        .map(|(name, about)| CompletionCandidate::new(name).help(Some(about.into())))
        .collect()
}
