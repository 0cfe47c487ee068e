//! Replaying a recording: processes made of the runtime alone, fed with their streams.
//!
//! The kernel executes nothing but the runtime. The recording is the only input, standard output
//! and error are the only outputs. That holds also for what somebody has put into a recording: its
//! code runs natively, but the kernel lets it make no other calls than the runtime needs
//! (`confined`, `warden`; docs/SECURITY.md). The shared header can be written to by that code: no
//! process number or path in there is believed.

#![forbid(unsafe_code)]
// They panic where the stream cannot be written.
#![cfg_attr(not(test), deny(clippy::print_stderr, clippy::print_stdout))]

mod begin;
mod confined;
mod copies;
mod forced;
mod host;
mod report;
mod running;
mod service;
mod standstill;
mod status;
mod wanted;
mod warden;
mod windows;

pub use begin::replay_from;
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
    /// As the recording did, with the wait status of the first process.
    Finished(i32),
    /// It was ended where a recording that was cut off could not be followed any further.
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
    /// It was made by another build, whose runtime or table differs.
    #[error(
        "this recording needs the retake that made it ({what} differs: recorded {recorded}, here \
        {here})\n  try       the version named by `retake info`"
    )]
    OtherBuild {
        /// What differs.
        what: &'static str,
        /// In the recording.
        recorded: String,
        /// In this program.
        here: String,
    },
    /// It holds no event.
    #[error("the recording is empty: its program never ran, or the recorder was killed at once")]
    Empty,
    /// No process can be made of an image.
    #[error("replay cannot begin there: {0}")]
    Image(String),
    /// Nothing is replayed that could reach beyond the replay.
    #[error(
        "the kernel does not confine replayed processes: {0}\n  try       `retake doctor`, which \
        says what is missing"
    )]
    Confinement(io::Error),
    /// Something the machine refused.
    #[error("{0}")]
    System(#[from] io::Error),
}

/// Replays the whole recording. `observe` is called now and then, and once at the end.
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
    /// A file was mapped that the process may write to.
    Mapped,
    /// Before something after which mapped memory is gone, or no longer to be told from what others
    /// write.
    BeforeUnmap,
    /// Before a call that read or wrote a file that somebody has mapped.
    UsesMappedFile,
}

/// A replayed process that stands still, on behalf of one of its threads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Standing {
    /// The process that replays it.
    pub pid: i32,
    /// The thread's stream.
    pub stream: StreamId,
    /// So many of its events lie behind the thread.
    pub events: u64,
    /// Why.
    pub stage: Stage,
}

/// Takes what a recording has only in part, or not at all, but replay brings to light.
pub trait Onlooker: Send + Sync {
    /// The next input of a stream that the recording has only in part, in the order in which its
    /// items stand there.
    ///
    /// # Errors
    /// It cannot be kept.
    fn take_input(&self, stream: StreamId, bytes: &[u8]) -> io::Result<()>;

    /// A process may have stored something in the files that it has mapped.
    ///
    /// # Errors
    /// It cannot be looked at, or what is found not be kept.
    fn look(&self, at: &Standing) -> io::Result<()>;
}

/// As [`replay`], with somebody who looks on.
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

/// A descriptor that stays open across exec, out of the way of the standard ones.
fn host_descriptor(file: &std::fs::File) -> io::Result<std::fs::File> {
    file.try_clone().and_then(|copy| memory::keep_across_exec(&copy).map(|()| copy))
}

/// The slot of the first process.
const ROOT_SLOT: usize = 0;

/// The folder where every content lies under its number.
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

/// Kills what has become our child by losing its parent: also those that had no slot of their own
/// yet.
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
