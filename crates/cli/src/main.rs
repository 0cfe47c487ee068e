//! The `retake` command. It parses arguments, calls the other crates, and prints.

#![forbid(unsafe_code)]
// These macros panic when the stream cannot be written.
#![cfg_attr(not(test), deny(clippy::print_stderr, clippy::print_stdout))]

mod check;
mod checks;
mod commands;
mod completion;
mod deferred;
mod failure;
mod find_program;
mod gdb;
mod in_memory;
mod json_event;
mod keep_last;
mod machine;
mod output;
mod processes;
mod progress;
mod quantity;
mod recordings;
mod replayable;
mod scratch;
mod text;
mod trace_output;
mod trace_source;

use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};
use deferred::Deferred;
use failure::{Result, STATUS_FAILED};
use retake_compiler::Language;

/// The whole command line.
#[derive(Debug, Parser)]
#[command(
    name = "retake",
    version,
    about = "Record a program once; replay it bit for bit as often as you like.",
    after_help = "\
Examples:
  retake record make -j2      run a build as always, and record it
  retake replay               see it run again, exactly
  retake ps; retake dump      what ran, and every system call it made
  retake doctor               whether this machine can record, and what to do if not

Exit status:
  record and replay end as the program ended: with its status, or by its signal.
  120  replay did something else than the recording says
  125  retake itself failed, or cannot do what was asked
  126  the program was found but cannot be executed
  127  the program was not found

Environment:
  RETAKE_DIR  where recordings are kept; without it $XDG_DATA_HOME/retake, or ~/.local/share/retake
  TMPDIR      where replay keeps its scratch files
  NO_COLOR    if set, no colour
"
)]
struct CommandLine {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run a program and record it, with all the processes it starts
    Record(Deferred<commands::record::Options>),
    /// Run a recorded execution again
    Replay(Deferred<commands::replay::Options>),
    /// Run the system calls of a trace again on a file system, and verify them
    Reanimate(Deferred<commands::reanimate::Options>),
    /// Debug a recorded execution with gdb
    Debug(Deferred<commands::debug::Options>),
    /// Run a test command, record it, and keep the recording if it fails
    Ci(Deferred<commands::ci::Options>),
    /// Keep places of a recorded execution, so that debugging begins there at once
    Checkpoint(Deferred<commands::checkpoint::Options>),
    /// Print what crashed in a recorded execution, and where
    Backtrace(Deferred<commands::backtrace::Options>),
    /// List the recordings
    Ls(Deferred<commands::ls::Options>),
    /// Show what a recording says about itself
    Info(Deferred<commands::info::Options>),
    /// Show the processes of a recording as a tree
    Ps(Deferred<commands::ps::Options>),
    /// Show what happened, event by event
    Dump(Deferred<commands::dump::Options>),
    /// Pack a recording into one file, to keep or to move it
    Pack(Deferred<commands::pack::Options>),
    /// Save a recording that is kept in memory
    Save(Deferred<commands::save::Options>),
    /// Turn a packed recording back into a folder
    Unpack(Deferred<commands::unpack::Options>),
    /// Give a recording another name
    Mv(Deferred<commands::mv::Options>),
    /// Remove recordings
    Rm(Deferred<commands::rm::Options>),
    /// Print, summarise, rewrite, convert and recover DataSeries files, such as traces
    Ds(Deferred<commands::ds::Options>),
    /// Show or keep the system calls of a program, or of a recording, with all their data
    Trace(Box<Deferred<commands::trace::Options>>),
    /// Compile C so that plain atomic accesses are recorded in order, too
    Cc(Deferred<commands::cc::Options>),
    /// Compile C++ so that plain atomic accesses are recorded in order, too
    #[command(name = "c++")]
    Cxx(Deferred<commands::cc::Options>),
    /// Check whether this machine can record, and say what to do if not
    Doctor(Deferred<commands::doctor::Options>),
    /// Print what a shell needs to complete commands
    Completions(Deferred<commands::completions::Options>),
    /// Write the manual pages
    #[command(hide = true)]
    Man(Deferred<commands::man::Options>),
}

impl Command {
    fn run(&self) -> Result<()> {
        match self {
            Self::Record(Deferred(options)) => commands::record::run(options),
            Self::Replay(Deferred(options)) => commands::replay::run(options),
            Self::Reanimate(Deferred(options)) => commands::reanimate::run(options),
            Self::Debug(Deferred(options)) => commands::debug::run(options),
            Self::Ci(Deferred(options)) => commands::ci::run(options),
            Self::Checkpoint(Deferred(options)) => commands::checkpoint::run(options),
            Self::Backtrace(Deferred(options)) => commands::backtrace::run(options),
            Self::Ls(Deferred(options)) => commands::ls::run(options),
            Self::Info(Deferred(options)) => commands::info::run(options),
            Self::Ps(Deferred(options)) => commands::ps::run(options),
            Self::Dump(Deferred(options)) => commands::dump::run(options),
            Self::Pack(Deferred(options)) => commands::pack::run(options),
            Self::Save(Deferred(options)) => commands::save::run(options),
            Self::Unpack(Deferred(options)) => commands::unpack::run(options),
            Self::Mv(Deferred(options)) => commands::mv::run(options),
            Self::Rm(Deferred(options)) => commands::rm::run(options),
            Self::Ds(Deferred(options)) => commands::ds::run(options),
            Self::Trace(options) => commands::trace::run(&options.0),
            Self::Cc(Deferred(options)) => commands::cc::run(Language::C, options),
            Self::Cxx(Deferred(options)) => commands::cc::run(Language::Cxx, options),
            Self::Doctor(Deferred(options)) => commands::doctor::run(options),
            Self::Completions(Deferred(options)) => commands::completions::run(options),
            Self::Man(Deferred(options)) => commands::man::run(options, CommandLine::command()),
        }
    }
}

fn main() -> ExitCode {
    abort_on_panic();
    retake_kernel::signals::survive_file_limit();
    let own_name = std::env::args_os().next().unwrap_or_default();
    if retake_compiler::is_called_as_assembler(&own_name) {
        return conclude(commands::cc::assemble());
    }
    completion::answer(CommandLine::command);
    match CommandLine::try_parse() {
        Ok(command_line) => conclude(command_line.command.run()),
        Err(error) => usage(&error),
    }
}

fn conclude(result: Result<()>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        // Like any program whose output has lost its reader.
        Err(failure) if failure.is_broken_pipe() => retake_kernel::signals::end_as(SIGPIPE),
        Err(failure) => {
            retake_kernel::tell!("error: {failure}");
            ExitCode::from(failure.status)
        }
    }
}

/// Makes a panic in any thread end the process. Otherwise other threads might wait for that thread
/// for ever.
fn abort_on_panic() {
    let print = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        print(panic);
        std::process::abort();
    }));
}

/// The wait status of a process killed by SIGPIPE.
const SIGPIPE: i32 = 13;

/// Prints the help, or an error about the command line.
fn usage(error: &clap::Error) -> ExitCode {
    // If this fails, there is nowhere to report it.
    let _ = error.print();
    if error.use_stderr() { ExitCode::from(STATUS_FAILED) } else { ExitCode::SUCCESS }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        CommandLine::command().debug_assert();
    }

    #[test]
    fn help_says_what_a_command_is_for() {
        let mut whole = CommandLine::command();
        let listed: Vec<_> =
            whole.get_subcommands().map(|command| command.get_about().cloned()).collect();
        whole.build();
        let built = whole
            .get_subcommands()
            .filter(|command| command.get_name() != "help")
            .map(|command| command.get_about().cloned());
        assert_eq!(built.collect::<Vec<_>>(), listed);
    }

    #[test]
    fn options_of_record_end_at_the_program() {
        for arguments in [
            &["retake", "record", "--check=full", "ls", "-o", "x", "--", "-y"][..],
            &["retake", "record", "--", "ls", "--check=nothing"],
        ] {
            assert!(CommandLine::try_parse_from(arguments).is_ok(), "{arguments:?}");
        }
        for arguments in [
            &["retake", "record"][..],
            &["retake", "record", "--nonsense", "ls"],
            &["retake", "record", "--check=nothing", "ls"],
        ] {
            assert!(CommandLine::try_parse_from(arguments).is_err(), "{arguments:?}");
        }
    }
}
