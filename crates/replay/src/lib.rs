//! Replaying a recording: processes made of the runtime alone, fed with their streams.
//!
//! Nothing of the original is executed by the kernel and nothing outside is touched: the recording is the only input, standard output and error the
//! only outputs.

#![forbid(unsafe_code)]

mod forced;
mod report;
mod service;
mod status;
mod windows;

pub use report::Report;
pub use status::Status;

use retake_kernel::process::{self, Guardian, Program};
use retake_kernel::shared::{self, Header, store_bytes};
use retake_kernel::{memory, signals};
use retake_recording::{CheckLevel, Recording, StreamId};
use retake_supervisor::{Options, Session, SessionError, runtime_image};
use service::Service;
use std::ffi::CString;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::time::{Duration, Instant};
use windows::Windows;

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
        "this recording needs the retake that made it ({what} differs: recorded {recorded}, here {here})\n  try       the version named by `retake info`"
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
    /// Something the machine refused.
    #[error("{0}")]
    System(#[from] io::Error),
}

/// Replays the whole recording. `observe` is called now and then, and once at the end.
///
/// # Errors
/// See [`ReplayError`].
pub fn replay(recording: Recording, request: Request, folder: &Path, observe: &mut dyn FnMut(&Status)) -> Result<Outcome, ReplayError> {
    replay_for(recording, request, folder, None, observe)
}

/// Takes the inputs of system calls that a recording has only in part.
pub trait WholeInputs: Send + Sync {
    /// The next such input of a stream, in the order in which its items stand there.
    ///
    /// # Errors
    /// It cannot be kept.
    fn take(&self, stream: StreamId, bytes: &[u8]) -> io::Result<()>;
}

/// As [`replay`], and hands over all inputs that the recording has only in part.
///
/// # Errors
/// See [`ReplayError`].
pub fn replay_for(
    recording: Recording,
    request: Request,
    folder: &Path,
    inputs: Option<Arc<dyn WholeInputs>>,
    observe: &mut dyn FnMut(&Status),
) -> Result<Outcome, ReplayError> {
    if recording.streams().next().is_none() {
        return Err(ReplayError::Empty);
    }
    let metadata = recording.metadata();
    let level = metadata.check_level;
    let options = Options {
        no_fast_path: false,
        quiet: request.quiet,
        check_full: level == CheckLevel::Full,
        check_off: level == CheckLevel::Off || request.check_off,
        whole_inputs: inputs.is_some(),
        ..Options::default()
    };
    let session = Session::create(shared::MODE_REPLAY, options)?;
    let guardian = Guardian::start(|| end_everything(session.header()))?;
    process::adopt_orphans();
    let files = lay_out_files(&recording, folder)?;
    let scratch = folder.join("scratch");
    std::fs::create_dir_all(&scratch)?;
    let header = session.header();
    store_path(&header.store, &files);
    store_path(&header.scratch, &scratch);
    let slots = make_slots(header);
    let host = memory::executable_file(c"retake-replay", runtime_image::EXECUTABLE)?;
    let host = host_descriptor(&host)?;
    header.host_descriptor.store(host.as_raw_fd(), Relaxed);
    let slot = &header.slots[slots.root];
    slot.stream.store(0, Relaxed);
    let arguments = ["retake-replay".to_owned(), session.header_id().to_string(), slots.root.to_string()];
    let arguments: Vec<CString> = arguments.into_iter().map(|a| CString::new(a).expect("no NUL")).collect();
    let program = Program { path: c"", by_descriptor: Some(host.as_raw_fd()), arguments: &arguments, environment: &[] };
    let mut child = process::prepare(&program)?;
    slot.pid.store(child.pid as u32, Relaxed);
    slot.tid.store(child.pid as u32, Relaxed);
    slot.state.store(shared::SLOT_CLAIMED, Release);
    signals::pass_to(child.pid);
    let windows = Arc::new(Windows::new(recording, session, files, scratch, inputs));
    let service = Service::start(&windows);
    child.start()?;
    let watch = process::watch(child.pid)?;
    let outcome = wait(&windows, &service, child.pid, &watch, observe);
    observe(&Status::of(&windows));
    if matches!(outcome, Outcome::Diverged(_)) {
        end_everything(windows.session.header());
        process::reap(child.pid);
        process::reap_adopted(-1);
    }
    service.stop();
    guardian.dismiss();
    Ok(outcome)
}

/// A descriptor that stays open across exec, out of the way of the standard ones.
fn host_descriptor(file: &std::fs::File) -> io::Result<std::fs::File> {
    file.try_clone().and_then(|copy| memory::keep_across_exec(&copy).map(|()| copy))
}

struct Slots {
    root: usize,
}

fn make_slots(header: &Header) -> Slots {
    for index in (1..shared::MAX_SLOTS).rev() {
        shared::push_ready(header, index);
    }
    header.slots_used.store(shared::MAX_SLOTS as u32, Release);
    Slots { root: 0 }
}

fn store_path(target: &[std::sync::atomic::AtomicU8], path: &Path) {
    let mut bytes = path.as_os_str().as_bytes().to_vec();
    bytes.extend(b"/\0");
    store_bytes(target, &bytes);
}

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

/// How often the observer is asked.
const OBSERVED: Duration = Duration::from_millis(100);

fn wait(windows: &Windows, service: &Service, pid: i32, watch: &std::os::fd::OwnedFd, observe: &mut dyn FnMut(&Status)) -> Outcome {
    let mut status = None;
    let mut observed = Instant::now();
    loop {
        if observed.elapsed() > OBSERVED {
            observe(&Status::of(windows));
            observed = Instant::now();
        }
        if let Some(report) = service.diverged() {
            return Outcome::Diverged(Box::new(report));
        }
        if status.is_none() && process::ended(watch, 5) {
            status = process::reap(pid);
        }
        process::reap_adopted(pid);
        windows.unblock_console();
        if let Some(status) = status {
            if live_slots(windows.session.header()) == 0 {
                // A report may have come with the end of the process it is about.
                return service.diverged().map_or(Outcome::Finished(status), |report| Outcome::Diverged(Box::new(report)));
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

fn live_slots(header: &Header) -> usize {
    header
        .slots
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

fn end_everything(header: &Header) {
    for _ in 0..200 {
        let mut alive = false;
        for slot in &header.slots {
            let pid = slot.pid.load(Relaxed) as i32;
            if matches!(slot.state.load(Acquire), shared::SLOT_CLAIMED | shared::SLOT_LIVE) && pid > 0 {
                alive |= process::kill(pid, libc::SIGKILL) && process::state(pid).is_some_and(|state| state != 'Z');
            }
        }
        if !alive {
            return;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}
