//! `retake replay`: runs the recorded execution again, from the recording alone.

use std::ffi::OsString;
use std::io::IsTerminal;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use clap::Args;
use retake_debug::Destination;
use retake_recording::{CheckLevel, Progress, Recording};
use retake_replay::{CutOff, Outcome, ReplayError, Status};

mod calls;
mod flame_graph;
mod from;
mod profile;
mod until;

use crate::check::Check;
use crate::commands::debug;
use crate::failure::{Failure, Result, STATUS_DIVERGED};
use crate::progress::Bar;
use crate::recordings;
use crate::replayable::{check_replayable, check_whole};
use crate::scratch::Scratch;
use crate::text;

/// Options of `retake replay`.
#[derive(Debug, Args)]
#[command(after_help = "\
No file, process or network of the original is needed, and system calls act on nothing outside. \
What the program printed is printed again, byte for byte and in the recorded order, and replay \
ends as the program ended. The recorded program runs here, but the kernel lets it make only the \
system calls that replay needs. A program that tries another one is ended.

Every system call, its input and the noted states of memory are compared with the recording. If \
anything differs, replay stops, says where and what, and ends with status 120.

Examples:
  retake replay                      the latest recording
  retake replay make-3               one by name
  retake replay ./build.retake       a packed one, by path
  retake replay --quiet && echo same check that it still replays
  retake replay --until 4711:120     as far as thread 4711 has consumed 120 events
  retake replay --trace-calls 2>log  and print every system call, with all its data
  retake replay --profile p.svg      where the time goes: a flame graph of the system calls
")]
pub struct Options {
    /// A name, a path, or `latest`
    #[arg(value_name = "RECORDING", default_value = "latest", hide_default_value = true)]
    recording: OsString,

    /// Do not print what the program printed
    #[arg(short, long)]
    quiet: bool,

    /// At the end, print what the replay cost: time, rate, and the search for places between events
    /// where threads were stopped
    #[arg(long)]
    statistics: bool,

    /// Whether to compare memory with the recorded states; `full` and `sampled` compare all of them
    #[arg(long, value_enum, value_name = "LEVEL")]
    check: Option<Check>,

    /// Replay one process (-p, else the one that crashed, else the first) up to a place, print what
    /// it printed up to there, and say where it stands: EVENT, THREAD:EVENT, a time since recording
    /// began such as 1.5s or 20ms, `exit` or `crash`
    #[arg(long, value_name = "PLACE", value_parser = debug::place,
        conflicts_with_all = ["statistics", "check"])]
    until: Option<Destination>,

    /// Begin at an image that was made while recording (retake record --image-every): NUMBER as in
    /// `retake checkpoint --list`, the last one before a time since recording began such as 1.5s,
    /// `first` or `last`. Its process is replayed to the end, with those that it makes from there
    /// on, and replay ends as it ended. If --keep-last left out what came before, `first` is the
    /// default
    #[arg(long, value_name = "NUMBER|TIME|first|last",
        conflicts_with_all = ["until", "trace_calls", "profile"])]
    from: Option<from::Place>,

    /// Print every system call with its data to standard error, when all is replayed, in an order
    /// in which they can have happened
    #[arg(long, conflicts_with_all = ["until", "statistics", "check"])]
    trace_calls: bool,

    /// Replay one process (as with --until), look at its stack at places spread evenly over its
    /// events, and write how often each stack was seen: a flame graph if the name ends in .svg,
    /// else folded stacks. The same recording gives the same profile. Needs gdb
    #[arg(long, value_name = "FILE", conflicts_with_all = ["until", "trace_calls", "statistics",
        "check"])]
    profile: Option<PathBuf>,

    /// The most samples that --profile takes
    #[arg(long, value_name = "COUNT", default_value_t = 500, requires = "profile",
        value_parser = clap::value_parser!(u64).range(1..))]
    samples: u64,

    /// The process for --until, --profile and --from: its number while recording, or the name of
    /// its program
    #[arg(short, long, value_name = "PID|NAME", conflicts_with = "trace_calls")]
    process: Option<String>,
}

/// Replays, and ends this process as the program ended. Returns only if that fails.
pub fn run(options: &Options) -> Result<()> {
    let recording = recordings::open(&options.recording)?;
    recordings::warn(&recording);
    recordings::note_dropped(&recording);
    let metadata = recording.metadata();
    check_replayable(&recording)?;
    if options.trace_calls {
        check_whole(&recording, "--trace-calls")?;
    }
    if let Some(analysis) = options.analysis(&recording) {
        return analysis(&recording, options);
    }
    if options.check == Some(Check::Full)
        && metadata.check_level != CheckLevel::Full
        && std::io::stderr().is_terminal()
    {
        retake_kernel::tell!(
            "note: only what was noted while recording can be compared; see retake record \
            --check=full"
        );
    }
    let request = retake_replay::Request {
        quiet: options.quiet,
        check_off: options.check == Some(Check::Off),
    };
    let place = options.from.or(recording.begins_late().then_some(from::Place::First));
    let process = options.process.as_deref();
    let images = place.map(|place| from::open(&recording, &place, process)).transpose()?;
    let scratch = Scratch::create()?;
    let started = Instant::now();
    let program_went_on = recording.metadata().program_went_on();
    let mut status = Status::default();
    let outcome = {
        // On a terminal, a bar would mix with the program's output.
        let bar =
            (options.quiet || !std::io::stdout().is_terminal()).then(|| Bar::new("replaying"));
        let observe = &mut |now: &Status| {
            status = *now;
            if let Some(bar) = &bar {
                bar.show(Progress { done_bytes: now.done_bytes, total_bytes: now.total_bytes });
            }
        };
        let folder = scratch.path();
        match images {
            Some(begin) => retake_replay::replay_from(&recording, begin, request, folder, observe),
            None => retake_replay::replay(recording, request, folder, observe),
        }
    };
    drop(scratch);
    if options.statistics && outcome.is_ok() {
        tell(&status, started.elapsed());
    }
    match outcome.map_err(failure_of)? {
        Outcome::Finished(_) if program_went_on => {
            retake_kernel::tell!("note: the recording ends here; the program went on without it");
            Ok(())
        }
        Outcome::Finished(status) => retake_kernel::signals::end_as(status),
        Outcome::CutOff(cut_off) => {
            retake_kernel::tell!("warning: {cut_off}");
            retake_kernel::signals::end_as(CutOff::STATUS)
        }
        Outcome::Diverged(report) => {
            Err(Failure::new(report.to_string()).with_status(STATUS_DIVERGED))
        }
    }
}

/// A function that does something else than a whole replay.
type Analysis = fn(&Recording, &Options) -> Result<()>;

impl Options {
    fn analysis(&self, recording: &Recording) -> Option<Analysis> {
        let is_of_process = self.process.is_some() && !recording.begins_late();
        if self.from.is_some() {
            None
        } else if self.until.is_some() || is_of_process && self.profile.is_none() {
            Some(until::run)
        } else if self.profile.is_some() {
            Some(profile::run)
        } else {
            self.trace_calls.then_some(calls::run as Analysis)
        }
    }
}

/// Prints what the replay cost.
fn tell(status: &Status, duration: Duration) {
    let rate = status.done_bytes as f64 / duration.as_secs_f64().max(0.001);
    let duration = text::duration(duration.as_millis() as u64);
    retake_kernel::tell!(
        "retake: replayed {} of events in {duration}, {} a second, without a ptrace stop",
        text::bytes(status.done_bytes),
        text::bytes(rate as u64)
    );
    if status.forced_found > 0 {
        let search = text::duration(status.forced_search.as_millis() as u64);
        let (found, misses) = (text::count(status.forced_found), text::count(status.forced_misses));
        retake_kernel::tell!(
            "retake: {found} places between events found again, after {misses} other visits and \
            {search} of search"
        );
    }
}

fn failure_of(error: ReplayError) -> Failure {
    match error {
        ReplayError::Recording(error) => error.into(),
        error => Failure::new(error.to_string()),
    }
}
