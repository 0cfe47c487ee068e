//! Completes arguments in a shell. The shell's script calls this program, which knows the
//! recordings.

use std::ffi::OsStr;

use clap::Command;
use clap_complete::env::CompleteEnv;
use clap_complete::{ArgValueCompleter, CompletionCandidate};
use retake_recording::{Location, list};

use crate::text;

/// The environment variable that the scripts set to the name of the shell.
pub const VARIABLE: &str = "RETAKE_COMPLETE";
/// The value name of arguments that name a recording.
const RECORDING: &str = "RECORDING";

/// If a shell asks for completions, prints them and ends this process.
pub fn answer(command: impl Fn() -> Command) {
    if std::env::var_os(VARIABLE).is_some() {
        CompleteEnv::with_factory(move || with_recordings(command())).var(VARIABLE).complete();
    }
}

/// Adds completions to the arguments that name a recording.
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

/// The recordings whose names begin so, with their commands. The shell itself completes paths.
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
