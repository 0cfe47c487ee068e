//! Replaying a recording: processes made of the runtime alone, fed with their streams.
//!
//! The kernel executes nothing but the runtime. The recording is the only input; standard output
//! and error are the only outputs. That also holds for a recording that an attacker made. Its code
//! runs natively, but the kernel lets it make no calls except those that the runtime needs
//! (`confined`, `warden`; docs/SECURITY.md). That code can write to the shared header, so no
//! process number or path in there is trusted.

#![forbid(unsafe_code)]
// They panic where the stream cannot be written.
#![cfg_attr(not(test), deny(clippy::print_stderr, clippy::print_stdout))]

mod begin;
mod confined;
mod copies;
mod cut_ends;
mod forced;
mod host;
mod report;
mod running;
mod search;
mod service;
mod standstill;
mod status;
mod wanted;
mod warden;
mod windows;

pub use begin::{Begin, copies, replay_from, restore_all, restore_other};
pub use copies::CopySlots;
pub use report::Report;
pub use running::{Purpose, Running};
pub use standstill::{Awaited, CutOff, Waiting};
pub use status::Status;
pub use wanted::{Held, Wanted};

use host::Host;
use retake_kernel::memory;
use retake_kernel::process;
use retake_kernel::shared::{self, Header};
use retake_recording::{Recording, StreamId};
use retake_supervisor::SessionError;
use retake_supervisor::runtime::RuntimeError;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::time::Duration;

/// How to replay.
#[derive(Debug, Clone, Copy, Default)]
pub struct Request {
    /// Do not print the program's output.
    pub quiet: bool,
    /// Compare no memory hashes.
    pub check_off: bool,
}

/// How a replay ended.
#[derive(Debug)]
pub enum Outcome {
    /// As in the recording, with the wait status of the first process.
    Finished(i32),
    /// The recording was cut off, and replay ended where it could not follow it any further.
    CutOff(CutOff),
    /// Replay did what the log does not say.
    Diverged(Box<Report>),
}

/// Why a replay could not be made.
#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    /// The session could not be set up.
    #[error(transparent)]
    Session(#[from] SessionError),
    /// The recording could not be read.
    #[error("cannot read the recording: {0}")]
    Recording(#[from] retake_recording::Error),
    /// The runtime that made the recording cannot be used.
    #[error(transparent)]
    Runtime(#[from] RuntimeError),
    /// The recording holds no events.
    #[error("the recording is empty: its program never ran, or the recorder was killed at once")]
    Empty,
    /// The process cannot be restored from an image.
    #[error("replay cannot begin there: {0}")]
    Image(String),
    /// The kernel cannot confine the replayed processes.
    #[error(
        "the kernel does not confine replayed processes: {0}\n  try       `retake doctor`, which \
        says what is missing"
    )]
    Confinement(io::Error),
    /// The machine refused something.
    #[error("{0}")]
    System(#[from] io::Error),
}

/// Replays the whole recording. `observe` is called periodically, and once at the end.
///
/// # Errors
/// See [`ReplayError`].
pub fn replay(
    recording: Recording,
    request: Request,
    folder: &Path,
    observe: &mut dyn FnMut(&Status),
) -> Result<Outcome, ReplayError> {
    replay_for(recording, request, folder, None, observe)
}

/// Why a replayed process stands still and can be looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// After a file was mapped that the process may write to.
    Mapped,
    /// Before a call after which mapped memory is gone, or can no longer be told from what other
    /// processes write.
    BeforeUnmap,
    /// Before a call that read or wrote a file that a process has mapped.
    UsesMappedFile,
}

/// A replayed process that stands still at one of its threads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Standing {
    /// The number of the replayed process.
    pub pid: i32,
    /// The thread's stream.
    pub stream: StreamId,
    /// The number of events that this thread has consumed.
    pub events: u64,
    /// The reason.
    pub stage: Stage,
}

/// Takes data that a recording holds only in part, or not at all, and that replay reveals.
pub trait Onlooker: Send + Sync {
    /// Takes the next input of a stream that the recording holds only in part. Inputs come in the
    /// order of their items in the stream.
    ///
    /// # Errors
    /// The input cannot be stored.
    fn take_input(&self, stream: StreamId, bytes: &[u8]) -> io::Result<()>;

    /// Called when a process may have stored something in the files that it has mapped.
    ///
    /// # Errors
    /// The memory cannot be read, or the data found there cannot be stored.
    fn look(&self, at: &Standing) -> io::Result<()>;
}

/// As [`replay`], with an onlooker.
///
/// # Errors
/// See [`ReplayError`].
pub fn replay_for(
    recording: Recording,
    request: Request,
    folder: &Path,
    onlooker: Option<Arc<dyn Onlooker>>,
    observe: &mut dyn FnMut(&Status),
) -> Result<Outcome, ReplayError> {
    let running =
        Running::start(recording, request, Purpose { onlooker, ..Purpose::default() }, folder)?;
    let outcome = running.wait(observe);
    finish_or_end(running, &outcome);
    Ok(outcome)
}

fn finish_or_end(running: Running, outcome: &Outcome) {
    match outcome {
        Outcome::Finished(_) => running.finish(),
        Outcome::CutOff(_) | Outcome::Diverged(_) => running.end_with_children(),
    }
}

/// Returns a descriptor that stays open across exec and does not have a standard number.
fn host_descriptor(file: &std::fs::File) -> io::Result<std::fs::File> {
    file.try_clone().and_then(|copy| memory::keep_across_exec(&copy).map(|()| copy))
}

/// The slot of the first process.
const ROOT_SLOT: usize = 0;

/// Returns a folder that has every content under its hash.
fn lay_out_files(recording: &Recording, folder: &Path) -> Result<PathBuf, ReplayError> {
    let cache = folder.join("files");
    let mut at = None;
    for (id, _) in recording.contents()? {
        let path = recording.content_path(id, &cache)?;
        at = path.parent().map(Path::to_path_buf);
    }
    let found = at.unwrap_or(cache);
    Ok(std::fs::canonicalize(&found).unwrap_or(found))
}

fn live_slots(header: &Header) -> usize {
    header
        .used_slots()
        .iter()
        .filter(|slot| {
            let live = matches!(slot.state.load(Acquire), shared::SLOT_CLAIMED | shared::SLOT_LIVE);
            let pid = slot.pid.load(Relaxed) as i32;
            if live && pid > 0 && matches!(process::state(pid), None | Some('Z' | 'X')) {
                slot.state.store(shared::SLOT_EXITED, Release);
                return false;
            }
            live
        })
        .count()
}

fn end_everything(header: &Header, host: Host) {
    for _ in 0..200 {
        let mut alive = false;
        for slot in header.used_slots() {
            let pid = slot.pid.load(Relaxed) as i32;
            if matches!(slot.state.load(Acquire), shared::SLOT_CLAIMED | shared::SLOT_LIVE)
                && host.has(pid)
            {
                alive |= process::kill(pid, libc::SIGKILL)
                    && process::state(pid).is_some_and(|state| state != 'Z');
            }
        }
        if !alive {
            return;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Kills the processes that became our children when they lost their parents, including those that
/// have no slot of their own yet.
fn end_children(keep: i32) {
    let own = std::process::id() as i32;
    for _ in 0..200 {
        let alive: Vec<i32> = process::all()
            .into_iter()
            .filter(|&pid| {
                pid != keep && process::parent(pid) == Some(own) && !process::is_gone(pid)
            })
            .collect();
        if alive.is_empty() {
            return;
        }
        for pid in alive {
            process::kill(pid, libc::SIGKILL);
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}
