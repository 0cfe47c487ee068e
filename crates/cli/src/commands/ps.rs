//! `retake ps`: shows the processes of a recording.

use std::ffi::OsString;

use clap::Args;
use retake_recording::ByteText;

use crate::failure::Result;
use crate::output::{Output, Table};
use crate::processes::{self, End, Placed, Process};
use crate::recordings;
use crate::text::{self, Moment};

/// Options of `retake ps`.
#[derive(Debug, Args)]
#[command(after_help = "\
Each line shows a process: the number that it had while recording, how many events its threads \
have, how it ended, when it began (counted from the beginning of the recording), how long it ran, \
and the last program that it ran. A process ended with a status or by a signal; `-` means that it \
had not ended when the recording did, `dropped` that --keep-last has left only its beginning. With \
-w, the line shows the times of day at which the process began and ended instead.

With --threads, each thread is shown, too: how many system calls it made, how many signals it got, \
how often it got its turn from another thread of the process, how often it was stopped between \
events, and how often and how long it waited for its turn.

Examples:
  retake ps
  retake ps -w
  retake ps make-1 --json | jq -r '.[] | select(.end.exited != 0) | .program'
")]
pub struct Options {
    /// A name, a path, or `latest`
    #[arg(value_name = "RECORDING", default_value = "latest", hide_default_value = true)]
    recording: OsString,

    /// Show the threads of each process
    #[arg(short, long)]
    threads: bool,

    /// Show at what time of day processes began and ended
    #[arg(short, long, conflicts_with = "threads")]
    wall_clock: bool,

    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Prints the processes.
pub fn run(options: &Options) -> Result<()> {
    let recording = recordings::open(&options.recording)?;
    recordings::warn(&recording);
    let dropped = recordings::dropped(&recording);
    recordings::note_dropped(&recording);
    let (processes, failure) = processes::of_recording(&recording, &dropped);
    let mut output = Output::new();
    if options.json {
        output.json(&processes)?;
        output.finish()?;
        return failure.map_or(Ok(()), Err);
    }
    if options.threads {
        table_of_threads(&processes).print(&mut output)?;
        output.finish()?;
        return failure.map_or(Ok(()), Err);
    }
    let tree = processes::tree(&processes);
    let table = if options.wall_clock { table_of_times(&tree) } else { table_of(&tree) };
    table.print(&mut output)?;
    output.finish()?;
    failure.map_or(Ok(()), Err)
}

/// A table with a row for each process.
pub fn table_of(tree: &[Placed<'_>]) -> Table {
    let mut table = Table::new(
        &["PID", "PARENT", "THREADS", "EVENTS", "START", "TIME", "EXIT", "PROGRAM"],
        &[0, 1, 2, 3, 4, 5],
    );
    for Placed { process, prefix } in tree {
        let parent = process.parent_pid;
        table.row([
            process.pid.to_string(),
            parent.map_or("-".to_owned(), |parent| parent.to_string()),
            process.thread_count.to_string(),
            process.event_count.to_string(),
            process.started_ms.map_or("-".to_owned(), start_text),
            process
                .started_ms
                .zip(process.ended_ms)
                .map_or("-".to_owned(), |(start, end)| duration_text(end - start)),
            end_text(process.end),
            prefix.clone() + &command_text(process),
        ]);
    }
    table
}

fn table_of_times(tree: &[Placed<'_>]) -> Table {
    let mut table = Table::new(&["PID", "PARENT", "START", "END", "EXIT", "PROGRAM"], &[0, 1]);
    let time = |time: Option<Moment>| time.map_or("-".to_owned(), Moment::local);
    for Placed { process, prefix } in tree {
        table.row([
            process.pid.to_string(),
            process.parent_pid.map_or("-".to_owned(), |parent| parent.to_string()),
            time(process.started_at),
            time(process.ended_at),
            end_text(process.end),
            prefix.clone() + &command_text(process),
        ]);
    }
    table
}

fn table_of_threads(processes: &[Process]) -> Table {
    let headings = [
        "PID", "TID", "EVENTS", "CALLS", "SIGNALS", "TURNS", "FORCED", "WAITS", "WAITED", "START",
        "TIME", "PROGRAM",
    ];
    let mut table = Table::new(&headings, &[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10]);
    let number = |number: Option<u64>| number.map_or("-".to_owned(), |number| number.to_string());
    for Placed { process, prefix } in processes::tree(processes) {
        for (index, thread) in process.threads.iter().enumerate() {
            table.row([
                process.pid.to_string(),
                thread.tid.to_string(),
                thread.event_count.to_string(),
                number(thread.calls),
                number(thread.signals),
                thread.turns.to_string(),
                thread.forced.to_string(),
                number(thread.waits),
                thread.waited_ms.map_or("-".to_owned(), duration_text),
                thread.started_ms.map_or("-".to_owned(), start_text),
                thread
                    .started_ms
                    .zip(thread.ended_ms)
                    .map_or("-".to_owned(), |(start, end)| duration_text(end - start)),
                if index == 0 { prefix.clone() + &command_text(process) } else { String::new() },
            ]);
        }
    }
    table
}

/// Seconds since recording began, such as `+1.204`.
fn start_text(milliseconds: f64) -> String {
    format!("+{:.3}", milliseconds / 1000.0)
}

fn duration_text(milliseconds: f64) -> String {
    if milliseconds < 10.0 {
        format!("{:.1} ms", milliseconds.max(0.0))
    } else {
        text::duration(milliseconds as u64)
    }
}

fn end_text(end: End) -> String {
    match end {
        End::Exited(status) => status.to_string(),
        End::Killed(signal) => text::signal_name(signal),
        End::Dropped => "dropped".to_owned(),
        End::Unknown => "-".to_owned(),
        End::Unborn => "never began".to_owned(),
    }
}

/// The program's path and its arguments, without `argv[0]`.
fn command_text(process: &Process) -> String {
    let program = process.program.as_deref().unwrap_or("?");
    let arguments = process.arguments.iter().skip(1).map(String::as_str);
    let words: Vec<ByteText> =
        std::iter::once(program).chain(arguments).map(ByteText::from).collect();
    text::command(&words)
}
