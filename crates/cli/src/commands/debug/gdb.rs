//! Runs gdb on a session.

use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus};
use std::thread::ScopedJoinHandle;
use std::time::Duration;

use retake_debug::DebugSession;
use retake_kernel::process;

use super::failure_of;
use super::front_end::FrontEnd;
use crate::failure::{Failure, Result};
use crate::find_program;
use crate::gdb::trouble;
use crate::scratch::Scratch;

/// The time between checks for the debugger's connection or its end.
const LOOK: Duration = Duration::from_millis(5);
/// The time between checks for the process that gives the debugger its commands.
const LOOK_FOR_FRONT_END_MS: i32 = 250;
/// The environment variable that tells a script the socket to connect to.
pub const SOCKET: &str = "RETAKE_SOCKET";

/// How to install gdb.
pub const HOW_TO_GET: &str = "installing it: apt install gdb, dnf install gdb, pacman -S gdb, \
zypper install gdb, apk add gdb";

/// Finds the debugger with this name or path.
///
/// # Errors
/// There is no such program.
pub fn find(gdb: &Path) -> Result<PathBuf> {
    find_debugger(
        gdb,
        HOW_TO_GET,
        "--gdb PATH for one elsewhere, or --serve HOST:PORT for another debugger",
    )
}

/// Finds the program with this name or path. If there is none, the error suggests the other two
/// texts.
pub fn find_debugger(debugger: &Path, how_to_get: &str, elsewhere: &str) -> Result<PathBuf> {
    let found =
        find_program::find(&[debugger.as_os_str().to_owned()], std::env::var_os("PATH").as_deref());
    let none = |_| {
        Failure::new(format!("there is no {}", debugger.display()))
            .attempt(how_to_get)
            .attempt(elsewhere)
    };
    found.map(|found| found.program).map_err(none)
}

/// A command that runs gdb with a script of ours, which connects to the session.
///
/// # Errors
/// The script cannot be written, or this gdb cannot run Python.
pub fn with_script(gdb: &Path, script: &str, scratch: &Scratch) -> Result<Command> {
    if let Some(trouble) = trouble(gdb) {
        return Err(Failure::new(trouble).attempt(
            "installing the full gdb again; or --serve HOST:PORT, \
        and `monitor help` in any debugger",
        ));
    }
    let path = scratch.path().join("retake.py");
    std::fs::write(&path, script)
        .map_err(|error| Failure::system("write", path.display(), &error))?;
    let mut command = Command::new(gdb);
    // Hashing or searching large memory takes longer than gdb's own time limit.
    command.args(["-q", "-iex", "set remotetimeout 600", "-x"]).arg(path);
    Ok(command)
}

/// The socket on which a session waits for its debugger.
pub fn socket(scratch: &Scratch) -> PathBuf {
    scratch.path().join("gdb")
}

/// Runs the debugger until it ends.
///
/// # Errors
/// The debugger cannot be run, or the replay diverged.
pub fn run(
    session: DebugSession,
    command: &mut Command,
    front_end: &FrontEnd,
    scratch: &Scratch,
) -> Result<ExitStatus> {
    let socket = socket(scratch);
    let failed = |error| Failure::system("make the socket", socket.display(), &error);
    let listener = UnixListener::bind(&socket).map_err(failed)?;
    listener.set_nonblocking(true).map_err(failed)?;
    let name = command.get_program().to_owned();
    command.env(SOCKET, &socket);
    std::thread::scope(|scope| {
        // The session waits for all children of this thread, so another thread must start gdb.
        let gdb = scope.spawn(|| command.spawn().and_then(|gdb| wait(gdb, front_end)));
        let served = match accept(&listener, &gdb) {
            Some(stream) => retake_debug::serve(session, stream),
            None => {
                drop(session);
                // gdb ended without connecting.
                Ok(())
            }
        };
        let ended = gdb
            .join()
            .unwrap_or_else(|_| Err(std::io::Error::other("the thread that ran it panicked")));
        let status = ended.map_err(|error| Failure::system("run", name.display(), &error));
        served.map_err(failure_of).and(status)
    })
}

/// Waits until gdb has ended, and kills it when its front end is gone. During a long command, gdb
/// itself would not notice that.
fn wait(mut gdb: Child, front_end: &FrontEnd) -> std::io::Result<ExitStatus> {
    let watch = process::watch(gdb.id() as i32)?;
    while !process::ended(&watch, LOOK_FOR_FRONT_END_MS) {
        if front_end.is_gone() {
            gdb.kill()?;
        }
    }
    gdb.wait()
}

fn accept<T>(listener: &UnixListener, gdb: &ScopedJoinHandle<'_, T>) -> Option<UnixStream> {
    loop {
        if let Ok((stream, _)) = listener.accept() {
            stream.set_nonblocking(false).ok()?;
            return Some(stream);
        }
        if gdb.is_finished() {
            return None;
        }
        std::thread::sleep(LOOK);
    }
}
