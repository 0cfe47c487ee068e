//! `retake backtrace`: prints what crashed, and where, or which threads wait for each other. It
//! asks no questions.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use clap::Args;
use retake_debug::{Crash, Destination, EndedOutside, Target};
use retake_model::text::TextOptions;
use retake_recording::{EventReader, Recording, StreamSummary};

mod looks;
mod report;
mod text;

use crate::commands::debug::{self, failure_of};
use crate::failure::Result;
use crate::json_event::JsonEvent;
use crate::output::Output;
use crate::processes;
use crate::recordings;
use looks::Looks;
pub use report::Report;
use report::{CrashReport, EndedReport};

/// The number of events that are shown.
const EVENTS: u64 = 10;
/// The bytes of each string of an event that are shown.
const STRING_BYTES: usize = 64;
/// The most processes ended from outside that are looked at. Each takes a replay.
const MOST_ENDED: usize = 8;

/// Options of `retake backtrace`.
#[derive(Debug, Args)]
#[command(after_help = "\
For logs: prints what crashed and why, the stack of the thread with the values of arguments and \
variables, the stacks of the other threads, and the last system calls before the crash. If the \
program hung and was ended from outside, it prints who waits for whom instead, and names \
deadlocks. If nothing crashed, it prints how each process ended.

The stacks come from gdb, which looks at a replay. Without gdb, the rest is printed.

Examples:
  retake backtrace                      the latest recording
  retake backtrace --json make-1 | jq '.crash.signal, .threads[0].frames[0].function'
  retake backtrace -p server --at 1.5s  where a process was a second and a half after recording began
  retake record ./test || retake backtrace
  retake record --timeout 60 ./test || retake backtrace
                                        who waits for whom, if it hangs
")]
pub struct Options {
    /// A name, a path, or `latest`
    #[arg(value_name = "RECORDING", default_value = "latest", hide_default_value = true)]
    recording: OsString,

    /// The process: its number while recording, or the name of its program
    #[arg(short, long, value_name = "PID|NAME")]
    process: Option<String>,

    /// Look at this place instead of the crash or the exit: see retake debug
    #[arg(long, value_name = "PLACE", value_parser = debug::place)]
    at: Option<Destination>,

    /// Show this many events before that place
    #[arg(long, value_name = "COUNT", default_value_t = EVENTS)]
    events: u64,

    /// The gdb to use
    #[arg(long, value_name = "PATH", default_value = "gdb")]
    gdb: PathBuf,

    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Reports on a process, or on all that are of interest. Other commands call this.
///
/// # Errors
/// The recording cannot be read.
pub fn of_process(recording: &Recording, process: Option<i32>, gdb: &Path) -> Result<Report> {
    let options = Options {
        recording: OsString::new(),
        process: process.map(|pid| pid.to_string()),
        at: None,
        events: EVENTS,
        gdb: gdb.to_owned(),
        json: false,
    };
    collect(recording, &options)
}

/// The report as `retake backtrace` prints it.
pub fn in_words(report: &Report) -> String {
    Output::in_words(|output| text::print(report, output)).unwrap_or_default()
}

/// Prints the report.
pub fn run(options: &Options) -> Result<()> {
    let recording = recordings::open(&options.recording)?;
    recordings::warn(&recording);
    let report = collect(&recording, options)?;
    let mut output = Output::new();
    if options.json {
        output.json(&report)?;
    } else {
        text::print(&report, &mut output)?;
    }
    output.finish()
}

fn collect(recording: &Recording, options: &Options) -> Result<Report> {
    let target = options
        .process
        .as_deref()
        .map(|process| debug::target_of(recording, Some(process)))
        .transpose()?;
    let died = target
        .as_ref()
        .map_or_else(|| Crash::find(recording, None), |target| target.crash(recording))
        .map_err(failure_of)?;
    let crash = died.filter(|crash| !crash.is_from_outside(recording));
    let (processes, failure) = processes::of_recording(recording, &recordings::dropped(recording));
    if let Some(failure) = failure {
        retake_kernel::tell!("warning: {failure}");
    }
    let metadata = recording.metadata();
    let mut report = Report {
        recording: recording.path().to_string_lossy().into_owned(),
        command: metadata.arguments.iter().map(|argument| argument.to_string_lossy()).collect(),
        crash: None,
        ended: Vec::new(),
        threads: Vec::new(),
        no_threads: None,
        waits: Vec::new(),
        deadlocks: Vec::new(),
        told: Vec::new(),
        events: Vec::new(),
        processes,
    };
    if let Some(crash) = &crash {
        report.events = events_before(recording, crash, options.events)?;
        report.crash = Some(CrashReport::new(crash, &report.processes));
    }
    let ended = match &crash {
        Some(_) => Vec::new(),
        None => retake_debug::from_outside(recording).map_err(failure_of)?,
    };
    let is_ended = |target: &Target| ended.iter().any(|one| one.pid == target.pid);
    // Waits are of interest where a program hung, or where the user names a place.
    let wants_waits = crash.is_none();
    let looks = Looks { recording, at: options.at, gdb: &options.gdb, wants_waits };
    if crash.is_some() || options.at.is_some() || target.as_ref().is_some_and(|one| !is_ended(one))
    {
        let of_crash =
            || Target::choose(recording, crash.map(|crash| crash.pid)).map_err(failure_of);
        match target.map_or_else(of_crash, Ok).and_then(|target| looks.at(target)) {
            Ok(seen) => {
                report.tell(seen.waits, &seen.known);
                report.threads = seen.threads;
            }
            Err(failure) => report.no_threads = Some(failure.to_string()),
        }
    } else {
        let wanted = target.map(|target| target.pid);
        let of_wanted = ended.iter().filter(|one| wanted.is_none_or(|wanted| wanted == one.pid));
        ended_from_outside(&looks, of_wanted, &mut report);
    }
    Ok(report)
}

/// Adds the processes that were ended from outside, and what their threads waited for then.
fn ended_from_outside<'a>(
    looks: &Looks<'_>,
    ended: impl Iterator<Item = &'a EndedOutside>,
    report: &mut Report,
) {
    let (mut known, mut waits) = (Vec::new(), Vec::new());
    for one in ended {
        let mut told = EndedReport::new(one, &report.processes);
        if report.ended.len() < MOST_ENDED {
            let seen = Target::choose(looks.recording, Some(one.pid))
                .map_err(failure_of)
                .and_then(|target| looks.at(target));
            match seen {
                Ok(seen) => {
                    known.extend(seen.known);
                    waits.extend(seen.waits);
                    told.threads = seen.threads;
                }
                Err(failure) => report.no_threads = Some(failure.to_string()),
            }
        }
        report.ended.push(told);
    }
    report.tell(waits, &known);
}

/// The crash of a thread, with `count` events before it.
fn events_before(recording: &Recording, crash: &Crash, count: u64) -> Result<Vec<JsonEvent>> {
    let options = TextOptions { string_bytes: STRING_BYTES, ..TextOptions::default() };
    let Some(StreamSummary { info, .. }) =
        recording.streams().find(|stream| stream.info.id == crash.stream)
    else {
        return Ok(Vec::new());
    };
    let first = crash.event.saturating_sub(count);
    let mut reader = EventReader::new(recording, crash.stream)?;
    reader.seek_before(first)?;
    let mut events = Vec::new();
    while let Some(numbered) = reader.next()? {
        if let (true, Ok(event)) = (numbered.index >= first, &numbered.event) {
            events.push(JsonEvent::new(&info, numbered.index, event, &options));
        }
    }
    Ok(events)
}
