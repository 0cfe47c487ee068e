//! `retake debug`: gdb on a replay.

use std::ffi::{OsStr, OsString};
use std::net::TcpListener;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus};
use std::time::Duration;

use clap::Args;
use retake_debug::{DebugError, Session, Target};
use retake_recording::Recording;

use crate::commands::replay::check_replayable;
use crate::failure::{Failure, Result, STATUS_DIVERGED};
use crate::find_program;
use crate::processes::{self, Process};
use crate::recordings;
use crate::scratch::Scratch;

/// How often we look whether the debugger has come, or has gone.
const LOOK: Duration = Duration::from_millis(5);

/// Options of `retake debug`.
#[derive(Debug, Args)]
#[command(after_help = "\
gdb stands at the beginning of the program: of the process that crashed, if one did, else of the first. It has executed nothing \
yet. What happens then is what happened while recording: set breakpoints, continue, step, look.

Examples:
  retake debug                        the latest recording
  retake debug make-1 -p cc1          the first process of it that ran `cc1`
  retake debug -- -ex 'break main' -ex continue
  retake debug --serve localhost:1234 for another debugger: target remote localhost:1234
")]
pub struct Options {
    /// A name, a path, or `latest`
    #[arg(value_name = "RECORDING", default_value = "latest", hide_default_value = true)]
    recording: OsString,

    /// Debug this process of the tree, by its number while recording or by the name of its program
    #[arg(short, long, value_name = "PID|NAME")]
    process: Option<String>,

    /// The debugger to run
    #[arg(long, value_name = "PATH", default_value = "gdb")]
    gdb: PathBuf,

    /// Run no debugger: wait at this address for one that speaks gdb's protocol
    #[arg(long, value_name = "HOST:PORT", conflicts_with_all = ["gdb", "gdb_arguments"])]
    serve: Option<String>,

    /// Further arguments of gdb
    #[arg(last = true, value_name = "GDB ARGUMENTS")]
    gdb_arguments: Vec<OsString>,
}

/// Debugs until the debugger goes.
pub fn run(options: &Options) -> Result<()> {
    let recording = recordings::open(&options.recording)?;
    recordings::warn(&recording);
    check_replayable(recording.metadata())?;
    let gdb = if options.serve.is_none() { Some(find_gdb(&options.gdb)?) } else { None };
    let pid = options.process.as_deref().map(|process| pid_of(&recording, process)).transpose()?;
    let target = Target::choose(&recording, pid).map_err(failure_of)?;
    let scratch = Scratch::create()?;
    retake_kernel::signals::leave_to_children();
    let session = Session::start(&recording, target, scratch.path()).map_err(failure_of)?;
    match (gdb, &options.serve) {
        (Some(gdb), _) => {
            let status = with_gdb(session, &gdb, &options.gdb_arguments, &scratch)?;
            drop(scratch);
            end_as(status)
        }
        (None, address) => serve(session, address.as_deref().unwrap_or_default()),
    }
}

/// The number of the process that the user means.
pub(super) fn pid_of(recording: &Recording, text: &str) -> Result<i32> {
    let (all, failure) = processes::of_recording(recording, &recordings::dropped(recording));
    if let Some(failure) = failure {
        eprintln!("warning: {failure}");
    }
    let by_number = |process: &&Process| text.parse() == Ok(process.pid);
    let found = all.iter().find(by_number).or_else(|| all.iter().find(|process| is_called(process, text)));
    let none = || Failure::new(format!("no process of the recording is {text}")).attempt("retake ps, which lists them");
    found.map(|process| process.pid).ok_or_else(none)
}

fn is_called(process: &Process, name: &str) -> bool {
    let program = process.program.as_deref().unwrap_or_default();
    program == name || program.rsplit('/').next() == Some(name)
}

fn find_gdb(gdb: &Path) -> Result<PathBuf> {
    let found = find_program::find(&[gdb.as_os_str().to_owned()], std::env::var_os("PATH").as_deref());
    found.map(|found| found.program).map_err(|_| {
        Failure::new(format!("there is no {}", gdb.display()))
            .attempt("installing it (apt install gdb, dnf install gdb), --gdb PATH, or --serve HOST:PORT for another debugger")
    })
}

fn with_gdb(session: Session, gdb: &Path, arguments: &[OsString], scratch: &Scratch) -> Result<ExitStatus> {
    let socket = scratch.path().join("gdb");
    let failed = |error| Failure::system("make the socket", socket.display(), &error);
    let listener = UnixListener::bind(&socket).map_err(failed)?;
    listener.set_nonblocking(true).map_err(failed)?;
    let script = scratch.path().join("retake.py");
    std::fs::write(&script, retake_debug::SCRIPT).map_err(|error| Failure::system("write", script.display(), &error))?;
    let mut command = Command::new(gdb);
    command.arg("-q").arg("-ex").arg(target_command(socket.as_os_str())).arg("-x").arg(script).args(arguments);
    let mut child = command.spawn().map_err(|error| Failure::system("run", gdb.display(), &error))?;
    let served = match accept(&listener, &mut child) {
        Some(stream) => retake_debug::serve(session, stream),
        None => Ok(()), // it ended without asking for us
    };
    let status = child.wait().map_err(|error| Failure::system("wait for", gdb.display(), &error))?;
    served.map_err(failure_of).map(|()| status)
}

fn target_command(socket: &OsStr) -> OsString {
    let mut command = OsString::from("target remote ");
    command.push(socket);
    command
}

fn accept(listener: &UnixListener, child: &mut Child) -> Option<UnixStream> {
    loop {
        if let Ok((stream, _)) = listener.accept() {
            stream.set_nonblocking(false).ok()?;
            return Some(stream);
        }
        if !matches!(child.try_wait(), Ok(None)) {
            return None;
        }
        std::thread::sleep(LOOK);
    }
}

fn serve(session: Session, address: &str) -> Result<()> {
    let failed = |error| Failure::system("listen at", address, &error);
    let listener = TcpListener::bind(address).map_err(failed)?;
    let own = listener.local_addr().map_err(failed)?;
    eprintln!("waiting for a debugger: target remote {own}");
    let (stream, _) = listener.accept().map_err(failed)?;
    stream.set_nodelay(true).map_err(failed)?;
    retake_debug::serve(session, stream).map_err(failure_of)
}

pub(super) fn failure_of(error: DebugError) -> Failure {
    match error {
        DebugError::Recording(error) => error.into(),
        DebugError::Diverged(report) => Failure::new(report.to_string()).with_status(STATUS_DIVERGED),
        error => Failure::new(error.to_string()),
    }
}

fn end_as(status: ExitStatus) -> Result<()> {
    use std::os::unix::process::ExitStatusExt;
    retake_kernel::signals::end_as(status.into_raw())
}
