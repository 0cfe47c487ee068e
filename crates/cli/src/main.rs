//! The `retake` command: parses, calls, prints. What it does is in the crates it calls.

#![forbid(unsafe_code)]

mod check;
mod commands;
mod failure;
mod find_program;
mod machine;
mod recordings;
mod scratch;

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use failure::{Result, STATUS_FAILED};

/// The whole command line.
#[derive(Debug, Parser)]
#[command(
    name = "retake",
    version,
    about = "Record a program once; replay it bit for bit as often as you like."
)]
struct CommandLine {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run a program and record it, with all the processes it starts
    Record(commands::record::Options),
    /// Run a recorded execution again
    Replay(commands::replay::Options),
}

impl Command {
    fn run(&self) -> Result<()> {
        match self {
            Self::Record(options) => commands::record::run(options),
            Self::Replay(options) => commands::replay::run(options),
        }
    }
}

fn main() -> ExitCode {
    let command_line = match CommandLine::try_parse() {
        Ok(command_line) => command_line,
        Err(error) => return usage(&error),
    };
    match command_line.command.run() {
        Ok(()) => ExitCode::SUCCESS,
        // As every other program ends whose reader is gone.
        Err(failure) if failure.is_broken_pipe() => retake_kernel::signals::end_as(SIGPIPE),
        Err(failure) => {
            eprintln!("error: {failure}");
            ExitCode::from(failure.status)
        }
    }
}

/// The wait status of a process that a closed pipe killed.
const SIGPIPE: i32 = 13;

/// Prints help, or what is wrong with the command line.
fn usage(error: &clap::Error) -> ExitCode {
    // Nobody is left to be told if this fails.
    let _ = error.print();
    if error.use_stderr() {
        ExitCode::from(STATUS_FAILED)
    } else {
        ExitCode::SUCCESS
    }
}
