//! `retake backtrace`: what crashed, and where, without a dialogue.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use clap::Args;
use retake_debug::{BACKTRACE_SCRIPT, Crash, Destination, Keeping, Target};
use retake_model::text::TextOptions;
use retake_recording::{EventReader, Recording, StreamSummary};

mod report;
mod text;

use crate::commands::debug::front_end::FrontEnd;
use crate::commands::debug::{self, failure_of, gdb};
use crate::failure::{Failure, Result};
use crate::json_event::JsonEvent;
use crate::output::Output;
use crate::processes;
use crate::recordings;
use crate::replayable::check_replayable;
use crate::scratch::Scratch;
use report::{CrashReport, Report, Thread};

/// Bytes of each string of an event that are shown.
const STRING_BYTES: usize = 64;

/// Options of `retake backtrace`.
#[derive(Debug, Args)]
#[command(after_help = "\
For logs: what crashed and why, the stack of the thread with the values of arguments and variables, the stacks of the other threads, and \
the last system calls before. If nothing crashed, it says how each process ended.

The stack comes from gdb, which looks at a replay; without gdb the rest is shown.

Examples:
  retake backtrace                      the latest recording
  retake backtrace --json make-1 | jq '.crash.signal, .threads[0].frames[0].function'
  retake backtrace -p server --at 1.5s  where a process was a second and a half after recording began
  retake record ./test || retake backtrace
")]
pub struct Options {
    /// A name, a path, or `latest`
    #[arg(value_name = "RECORDING", default_value = "latest", hide_default_value = true)]
    recording: OsString,

    /// This process of the tree, by its number while recording or by the name of its program
    #[arg(short, long, value_name = "PID|NAME")]
    process: Option<String>,

    /// Where else than at the crash or the exit: see retake debug
    #[arg(long, value_name = "PLACE", value_parser = debug::place)]
    at: Option<Destination>,

    /// How many events before are shown
    #[arg(long, value_name = "COUNT", default_value_t = 10)]
    events: u64,

    /// The gdb to use
    #[arg(long, value_name = "PATH", default_value = "gdb")]
    gdb: PathBuf,

    /// As JSON
    #[arg(long)]
    json: bool,
}

/// Prints it.
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
    let crash = target
        .as_ref()
        .map_or_else(|| Crash::find(recording, None), |target| target.crash(recording))
        .map_err(failure_of)?;
    let (processes, failure) = processes::of_recording(recording, &recordings::dropped(recording));
    if let Some(failure) = failure {
        eprintln!("warning: {failure}");
    }
    let metadata = recording.metadata();
    let mut report = Report {
        recording: recording.path().to_string_lossy().into_owned(),
        command: metadata.arguments.iter().map(|argument| argument.to_string_lossy()).collect(),
        crash: None,
        threads: Vec::new(),
        no_threads: None,
        events: Vec::new(),
        processes,
    };
    if let Some(crash) = &crash {
        report.events = events_before(recording, crash, options.events)?;
        report.crash = Some(CrashReport::new(crash, &report.processes));
    }
    let is_asked_for = crash.is_some() || target.is_some() || options.at.is_some();
    if is_asked_for {
        let of_crash =
            || Target::choose(recording, crash.map(|crash| crash.pid)).map_err(failure_of);
        match target
            .map_or_else(of_crash, Ok)
            .and_then(|target| threads(recording, target, options))
        {
            Ok(threads) => report.threads = threads,
            Err(failure) => report.no_threads = Some(failure.to_string()),
        }
    }
    Ok(report)
}

/// The events of a thread up to its last.
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

/// What gdb sees on a replay.
fn threads(recording: &Recording, target: Target, options: &Options) -> Result<Vec<Thread>> {
    check_replayable(recording.metadata())?;
    let found = gdb::find(&options.gdb)?;
    let scratch = Scratch::create()?;
    let session = debug::start(
        recording,
        target,
        options.at.unwrap_or(Destination::End),
        Keeping::default(),
        &scratch,
    )?;
    let result = scratch.path().join("threads.json");
    let mut command = gdb::with_script(&found, BACKTRACE_SCRIPT, &scratch)?;
    command.args(["-nx", "-batch"]).env("RETAKE_OUTPUT", &result);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    gdb::run(session, &mut command, &FrontEnd::ours(), &scratch)?;
    read(&result).ok_or_else(|| {
        Failure::new("gdb did not say what it sees")
            .likely(format!("{} was built without Python", found.display()))
    })
}

fn read(path: &Path) -> Option<Vec<Thread>> {
    let text = std::fs::read(path).ok()?;
    serde_json::from_slice(&text).ok()
}
