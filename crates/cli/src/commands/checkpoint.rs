//! `retake checkpoint`: keeps checkpoints of a recording, so that debugging begins there at once.

use std::ffi::OsString;
use std::io::Write;
use std::time::{Duration, Instant};

use clap::Args;
use retake_debug::{DebugSession, Destination, Keeping, Listed, Summary};
use retake_recording::{Checkpoints, KeptCheckpoint, Recording};
use serde::Serialize;

use crate::commands::debug::{failure_of, place, seconds, target_of};
use crate::failure::{Failure, Result};
use crate::output::{Output, Table};
use crate::recordings;
use crate::replayable::{check_replayable, check_whole};
use crate::scratch::Scratch;
use crate::text;

/// The replay time between attempts while the threads do not come to rest.
const NEXT_ATTEMPT: Duration = Duration::from_millis(50);
const MOST_ATTEMPTS: usize = 40;

/// Options of `retake checkpoint`.
#[derive(Debug, Args)]
#[command(after_help = "\
A debugging session first replays the recording up to the place where the session begins. If that \
place comes after an hour, this takes an hour. A kept checkpoint is a file that holds the whole \
process at one place. A session begins at the last kept checkpoint before its place, and uses \
earlier ones to go back. No option is needed for that. A session that took long to reach a place \
leaves a checkpoint there, too.

Checkpoints are in the recording's folder, and are removed with it. If the folder cannot be \
written to, or the recording is packed, they are in the store's cache. They belong to the build of \
retake that made the recording. They hold all memory of the process: treat them as secrets. \
`retake pack` leaves them out.

Examples:
  retake checkpoint --at crash          at the crash of the latest recording
  retake checkpoint --every 60 server-1 every minute of the replay
  retake checkpoint --at 1.5s -p cc1    a second and a half after recording began, of the first process that ran `cc1`
  retake checkpoint --list
  retake checkpoint --delete 3
")]
pub struct Options {
    /// A name, a path, or `latest`
    #[arg(value_name = "RECORDING", default_value = "latest", hide_default_value = true)]
    recording: OsString,

    /// The process: its number while recording, or the name of its program. Without it, the one
    /// that crashed, or the first
    #[arg(short, long, value_name = "PID|NAME")]
    process: Option<String>,

    /// Keep this place: EVENT, THREAD:EVENT, a time since recording began such as 1.5s or 20ms,
    /// `exit`, or `crash`. May be given several times
    #[arg(long, value_name = "PLACE", value_parser = place)]
    at: Vec<Destination>,

    /// Keep a place after every SECONDS of replay
    #[arg(long, value_name = "SECONDS", value_parser = seconds, conflicts_with = "at")]
    every: Option<f64>,

    /// List the kept checkpoints
    #[arg(long, conflicts_with_all = ["at", "every", "delete", "process"])]
    list: bool,

    /// Print the list as JSON
    #[arg(long, requires = "list")]
    json: bool,

    /// Delete the checkpoint with this number, or `all`. May be given several times
    #[arg(long, value_name = "NUMBER", conflicts_with_all = ["at", "every", "process"])]
    delete: Vec<String>,
}

/// Keeps, lists or deletes checkpoints.
pub fn run(options: &Options) -> Result<()> {
    let recording = recordings::open(&options.recording)?;
    let places = recordings::checkpoints(&recording);
    if options.list {
        return list(&recording, &places, options.json);
    }
    if !options.delete.is_empty() {
        return delete(&recording, &places, &options.delete);
    }
    if options.at.is_empty() && options.every.is_none() {
        return Err(Failure::new("no place to keep is named")
            .attempt("--at PLACE, --every SECONDS, or --list"));
    }
    recordings::warn(&recording);
    check_replayable(&recording)?;
    check_whole(&recording, "keeping a checkpoint")?;
    keep(&recording, options)
}

fn keep(recording: &Recording, options: &Options) -> Result<()> {
    let target = target_of(recording, options.process.as_deref())?;
    let scratch = Scratch::create()?;
    let session = DebugSession::start(recording, target, scratch.path()).map_err(failure_of)?;
    // Existing checkpoints help to reach places. `--every` does not use them, because they would
    // make the intervals uneven.
    let mut session = session.with_kept(Keeping { uses: options.every.is_none(), after: None });
    let mut output = Output::new();
    match options.every {
        Some(seconds) => keep_every(&mut session, Duration::from_secs_f64(seconds), &mut output)?,
        None => {
            let since = Instant::now();
            for &at in &options.at {
                session.go(at).map_err(failure_of)?;
                let kept = session.keep_here(Some(at), since.elapsed()).map_err(failure_of)?;
                let _ = write!(std::io::stderr(), "{}", session.take_remarks());
                say(&mut output, &kept)?;
            }
        }
    }
    output.finish()
}

fn keep_every(session: &mut DebugSession, time: Duration, output: &mut Output) -> Result<()> {
    let mut replayed = Duration::ZERO;
    loop {
        let since = Instant::now();
        let goes_on = session.go_on_for(time).map_err(failure_of)?;
        replayed += since.elapsed();
        if !goes_on {
            return Ok(());
        }
        let mut attempts = 0;
        let kept = loop {
            match session.keep_here(None, replayed) {
                Ok(kept) => break kept,
                Err(error) if attempts == MOST_ATTEMPTS => return Err(failure_of(error)),
                Err(_) => attempts += 1,
            }
            let since = Instant::now();
            if !session.go_on_for(NEXT_ATTEMPT).map_err(failure_of)? {
                return Ok(());
            }
            replayed += since.elapsed();
        };
        say(output, &kept)?;
    }
}

fn say(output: &mut Output, (kept, summary): &(KeptCheckpoint, Summary)) -> Result<()> {
    let after = text::duration(summary.after_ms);
    let line = format!(
        "checkpoint {}: {}, after {after} of replay, {}",
        kept.number,
        where_it_is(summary),
        text::bytes(kept.bytes)
    );
    output.line(line)?;
    output.flush()
}

fn where_it_is(summary: &Summary) -> String {
    let end = if summary.is_end() { ", the end" } else { "" };
    format!("event {} of thread {}{end}", text::count(summary.events), summary.thread)
}

/// A row of the list.
#[derive(Debug, Serialize)]
struct Row {
    number: u64,
    path: String,
    file_bytes: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    summary: Option<Summary>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

impl Row {
    fn of((kept, summary): Listed) -> Self {
        let (summary, error) = match summary {
            Ok(summary) => (Some(summary), None),
            Err(error) => (None, Some(error)),
        };
        Self {
            number: kept.number,
            path: kept.path.to_string_lossy().into_owned(),
            file_bytes: kept.bytes,
            summary,
            error,
        }
    }
}

fn list(recording: &Recording, places: &Checkpoints, as_json: bool) -> Result<()> {
    let listed = retake_debug::list_kept(recording, places)?;
    let rows: Vec<Row> = listed.into_iter().map(Row::of).collect();
    let mut output = Output::new();
    if as_json {
        output.json(&rows)?;
        return output.finish();
    }
    if rows.is_empty() {
        retake_kernel::tell!(
            "no checkpoint of this recording is kept: try retake checkpoint --at exit"
        );
        return output.finish();
    }
    let mut table =
        Table::new(&["NUMBER", "PROCESS", "AFTER", "SIZE", "MADE", "BY", "WHERE"], &[0, 1, 2, 3]);
    for row in &rows {
        table.row(cells(row));
    }
    table.print(&mut output)?;
    output.finish()
}

fn cells(row: &Row) -> [String; 7] {
    let (number, size) = (row.number.to_string(), text::bytes(row.file_bytes));
    let Some(summary) = &row.summary else {
        let none = || "-".to_owned();
        return [
            number,
            none(),
            none(),
            size,
            none(),
            none(),
            text::harmless(row.error.as_deref().unwrap_or_default()),
        ];
    };
    let by = if summary.is_automatic { "itself" } else { "command" };
    let (after, made) = (text::duration(summary.after_ms), text::local_time(summary.made_unix_ms));
    [number, summary.pid.to_string(), after, size, made, by.to_owned(), where_it_is(summary)]
}

fn delete(recording: &Recording, places: &Checkpoints, numbers: &[String]) -> Result<()> {
    if recording.begins_late() {
        return Err(Failure::new(
            "replay of this recording begins at its images: --keep-last left \
            out what came before",
        )
        .attempt("retake rm, if you no longer need the recording"));
    }
    let all = places.list()?;
    if numbers.iter().any(|number| number == "all") {
        return Ok(all.iter().try_for_each(|kept| places.remove(kept))?);
    }
    for number in numbers {
        let found = all.iter().find(|kept| kept.number.to_string() == *number);
        let none = || {
            Failure::new(format!("there is no checkpoint {number}"))
                .attempt("retake checkpoint --list")
        };
        places.remove(found.ok_or_else(none)?)?;
    }
    Ok(())
}
