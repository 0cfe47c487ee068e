//! `retake debug`: runs gdb on a replay.

use std::ffi::OsString;
use std::io::Write;
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::ExitStatus;
use std::time::Duration;

use clap::Args;
use retake_debug::{DebugError, DebugSession, Destination, Keeping, Target, program_path};
use retake_recording::Recording;

mod dap;
pub(super) mod front_end;
pub(super) mod gdb;
mod lldb;

use self::front_end::FrontEnd;
use crate::failure::{Failure, Result, STATUS_DIVERGED};
use crate::processes::{self, Process};
use crate::recordings;
use crate::replayable::check_replayable;
use crate::scratch::Scratch;

/// Options of `retake debug`.
#[derive(Debug, Args)]
#[command(after_help = "\
gdb begins at the end: at the crash if a process crashed, else where the first process is about to \
exit. From there, go backwards: reverse-continue, reverse-next, `last VARIABLE`. With --at, gdb \
begins at another place. When the program goes forwards, it does what it did while recording. \
`help user-defined` in gdb lists the commands that Retake adds.

Examples:
  retake debug                        the latest recording, at its crash or its end
  retake debug --at begin -- -ex 'break main' -ex continue
  retake debug --at 1.5s make-1 -p cc1
                                      the first process of it that ran `cc1`, a second and a half after recording began
  retake debug --at 4711:120          where thread 4711 has consumed 120 events (see `retake dump`)
  retake debug --serve localhost:1234 for another debugger: target remote localhost:1234
  retake debug --lldb                 with lldb: see docs/DEBUG.md
  retake debug --dap                  for editors: see docs/DEBUG.md
")]
pub struct Options {
    /// A name, a path, or `latest`
    #[arg(value_name = "RECORDING", default_value = "latest", hide_default_value = true)]
    recording: OsString,

    /// Debug this process: its number while recording, or the name of a program that it executed,
    /// the last one or an earlier one
    #[arg(short, long, value_name = "PID|NAME")]
    process: Option<String>,

    /// Where to begin: EVENT, THREAD:EVENT, a time since recording began such as 1.5s or 20ms,
    /// `begin`, `exit`, or `crash`. Without it, at the crash if there is one, else at the exit
    #[arg(long, value_name = "PLACE", default_value = "end", hide_default_value = true,
        value_parser = place)]
    at: Destination,

    /// The debugger to run
    #[arg(long, value_name = "PATH", default_value = "gdb")]
    gdb: PathBuf,

    /// Run lldb, or the one at PATH, instead of gdb
    #[arg(long, value_name = "PATH", num_args = 0..=1, require_equals = true,
        default_missing_value = "lldb", conflicts_with_all = ["gdb", "serve", "dap"])]
    lldb: Option<PathBuf>,

    /// Run no debugger: wait at this address for one that speaks gdb's protocol
    #[arg(long, value_name = "HOST:PORT", conflicts_with = "gdb_arguments")]
    serve: Option<String>,

    /// Speak the Debug Adapter Protocol of VS Code and other editors, on standard input and output
    /// or at the address of --serve
    #[arg(long, conflicts_with = "gdb_arguments")]
    dap: bool,

    /// Keep a checkpoint at a place that takes at least SECONDS to reach, so that later sessions
    /// begin there at once; see retake checkpoint
    #[arg(long, value_name = "SECONDS", default_value_t = 3.0, value_parser = seconds)]
    checkpoint_after: f64,

    /// Neither use nor keep checkpoints
    #[arg(long, conflicts_with = "checkpoint_after")]
    no_checkpoints: bool,

    /// Further arguments of the debugger
    #[arg(last = true, value_name = "DEBUGGER ARGUMENTS")]
    gdb_arguments: Vec<OsString>,
}

/// Debugs until the debugger ends.
pub fn run(options: &Options) -> Result<()> {
    if options.dap {
        return dap::run(options);
    }
    let front_end = FrontEnd::ours();
    let recording = recordings::open(&options.recording)?;
    recordings::warn(&recording);
    check_replayable(&recording)?;
    let debugger = match &options.lldb {
        Some(lldb) => Some(lldb::find(lldb)?),
        None => options.serve.is_none().then(|| gdb::find(&options.gdb)).transpose()?,
    };
    let target = target_of(&recording, options.process.as_deref())?;
    let scratch = Scratch::create()?;
    let session = start(&recording, target, options.at, options.keeping(), &scratch)?;
    match (debugger, &options.serve) {
        (Some(debugger), _) => {
            let mut command = match options.lldb {
                Some(_) => lldb::with_script(&debugger, &session, &scratch)?,
                None => gdb::with_script(&debugger, retake_debug::SCRIPT, &scratch)?,
            };
            let status =
                gdb::run(session, command.args(&options.gdb_arguments), &front_end, &scratch)?;
            drop(scratch);
            end_as(status)
        }
        (None, address) => serve(session, address.as_deref().unwrap_or_default()),
    }
}

impl Options {
    fn keeping(&self) -> Keeping {
        if self.no_checkpoints {
            Keeping::NONE
        } else {
            Keeping {
                after: Some(Duration::from_secs_f64(self.checkpoint_after)),
                ..Keeping::default()
            }
        }
    }
}

/// Replays a process up to a place. From then on the debugger handles the signals that the terminal
/// sends.
pub(super) fn start(
    recording: &Recording,
    target: Target,
    at: Destination,
    keeping: Keeping,
    scratch: &Scratch,
) -> Result<DebugSession> {
    let session = replay_to(recording, target, at, keeping, scratch)?;
    retake_kernel::signals::leave_to_children();
    Ok(session)
}

/// Replays a process up to a place, from its beginning or from a checkpoint near the place.
pub(super) fn replay_to(
    recording: &Recording,
    target: Target,
    at: Destination,
    keeping: Keeping,
    scratch: &Scratch,
) -> Result<DebugSession> {
    let mut session = DebugSession::start(recording, target, scratch.path())
        .map_err(failure_of)?
        .with_kept(keeping);
    session.go(at).map_err(failure_of)?;
    let _ = write!(std::io::stderr(), "{}", session.take_remarks());
    Ok(session)
}

/// Parses a number of seconds that a `Duration` can hold.
pub(super) fn seconds(text: &str) -> std::result::Result<f64, String> {
    let seconds: f64 = text.parse().map_err(|_| format!("{text:?} is not a number of seconds"))?;
    Duration::try_from_secs_f64(seconds).map(|_| seconds).map_err(|error| error.to_string())
}

pub(super) fn place(text: &str) -> std::result::Result<Destination, String> {
    text.parse()
}

/// The process that the user names by number or by name, and its program. That is the last one,
/// unless the name is that of an earlier one.
pub(super) fn target_of(recording: &Recording, named: Option<&str>) -> Result<Target> {
    let choose = |pid| Target::choose(recording, pid).map_err(failure_of);
    let Some(text) = named else { return choose(None) };
    let (all, failure) = processes::of_recording(recording, &recordings::dropped(recording));
    if let Some(failure) = failure {
        retake_kernel::tell!("warning: {failure}");
    }
    if let Some(process) = all.iter().find(|process| text.parse() == Ok(process.pid)) {
        return choose(Some(process.pid));
    }
    let runs_last = |process: &&Process| {
        process.program.as_deref().is_some_and(|program| is_called(program, text))
    };
    if let Some(process) = all.iter().find(runs_last) {
        let last = choose(Some(process.pid))?;
        return Ok(program_called(recording, &last, text).unwrap_or(last));
    }
    for process in all.iter().filter(|process| process.exec_count > 0) {
        if let Some(target) = program_called(recording, &choose(Some(process.pid))?, text) {
            return Ok(target);
        }
    }
    Err(Failure::new(format!("the recording has no process {text}"))
        .attempt("retake ps, which lists them"))
}

/// The last program with this name in the process of `last`.
fn program_called(recording: &Recording, last: &Target, name: &str) -> Option<Target> {
    let programs = (0..=last.program)
        .rev()
        .filter_map(|program| last.with_program(recording, program).ok()?);
    programs.into_iter().find(|target| is_called(&program_path(recording, target), name))
}

fn is_called(program: &str, name: &str) -> bool {
    program == name || program.rsplit('/').next() == Some(name)
}

fn serve(session: DebugSession, address: &str) -> Result<()> {
    let stream = accept_one(address, "a debugger: target remote")?;
    retake_debug::serve(session, stream).map_err(failure_of)
}

/// Prints the address, and waits for a connection. `whom` says who should connect.
fn accept_one(address: &str, whom: &str) -> Result<TcpStream> {
    let failed = |error| Failure::system("listen at", address, &error);
    let listener = TcpListener::bind(address).map_err(failed)?;
    let own = listener.local_addr().map_err(failed)?;
    retake_kernel::tell!("waiting for {whom} {own}");
    let (stream, _) = listener.accept().map_err(failed)?;
    stream.set_nodelay(true).map_err(failed)?;
    Ok(stream)
}

pub(super) fn failure_of(error: DebugError) -> Failure {
    match error {
        DebugError::Recording(error) => error.into(),
        DebugError::Diverged(report) => {
            Failure::new(report.to_string()).with_status(STATUS_DIVERGED)
        }
        error => Failure::new(error.to_string()),
    }
}

fn end_as(status: ExitStatus) -> Result<()> {
    use std::os::unix::process::ExitStatusExt;
    retake_kernel::signals::end_as(status.into_raw())
}
