//! `retake ps`: the processes of a recording.

use std::ffi::OsString;

use clap::Args;
use retake_recording::ByteText;

use crate::failure::Result;
use crate::output::{Output, Table};
use crate::processes::{self, End, Placed, Process};
use crate::recordings;
use crate::text;

/// Options of `retake ps`.
#[derive(Debug, Args)]
#[command(after_help = "\
A process is shown with the number it had while recording, how many events its threads have, how it ended (a status, or the \
signal that killed it; `-` if it had not ended when the recording did), and the program it ran last.

Examples:
  retake ps
  retake ps make-1 --json | jq -r '.[] | select(.end.exited != 0) | .program'
")]
pub struct Options {
    /// A name, a path, or `latest`
    #[arg(value_name = "RECORDING", default_value = "latest", hide_default_value = true)]
    recording: OsString,

    /// As JSON
    #[arg(long)]
    json: bool,
}

/// Prints the processes.
pub fn run(options: &Options) -> Result<()> {
    let recording = recordings::open(&options.recording)?;
    recordings::warn(&recording);
    let (processes, failure) = processes::of_recording(&recording);
    let mut output = Output::new();
    if options.json {
        output.json(&processes)?;
        output.finish()?;
        return failure.map_or(Ok(()), Err);
    }
    let mut table = Table::new(&["PID", "PARENT", "THREADS", "EVENTS", "EXIT", "PROGRAM"], &[0, 1, 2, 3]);
    for Placed { process, prefix } in processes::tree(&processes) {
        let parent = process.parent_pid;
        table.row([
            process.pid.to_string(),
            parent.map_or("-".to_owned(), |parent| parent.to_string()),
            process.thread_count.to_string(),
            process.event_count.to_string(),
            end_text(process.end),
            prefix + &command_text(process),
        ]);
    }
    table.print(&mut output)?;
    output.finish()?;
    failure.map_or(Ok(()), Err)
}

fn end_text(end: End) -> String {
    match end {
        End::Exited(status) => status.to_string(),
        End::Killed(signal) => text::signal_name(signal),
        End::Unknown => "-".to_owned(),
    }
}

/// The program's path and its arguments without its own name.
fn command_text(process: &Process) -> String {
    let program = process.program.as_deref().unwrap_or("?");
    let arguments = process.arguments.iter().skip(1).map(String::as_str);
    let words: Vec<ByteText> = std::iter::once(program).chain(arguments).map(ByteText::from).collect();
    text::command(&words)
}
