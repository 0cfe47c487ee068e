//! Recording a program that runs already.
//!
//! All its threads are stopped for a moment, and those of all processes that share memory with it,
//! and of its descendants if that is wanted.
//! The runtime comes into each process, and each thread prepares itself (runtime/entry/attach.c).
//! The first thread then makes an image, from which replay begins, and all go on.

mod begin;
mod check;
mod detach;
mod freeze;
mod inject;

use crate::helpers::Helpers;
use crate::images::{self, Images, When};
use crate::rescue::{self, Ward};
use crate::rings::Plan;
use crate::shared_state::Recorder;
use crate::{Deadline, Ended, RecordError, Request, Space, file_table, finish};
use detach::Before;
use retake_kernel::alive::Alive;
use retake_kernel::{process, shared, signals};
use retake_recording::{Checkpoints, Exit, RecordingWriter, Store};
use retake_supervisor::Session;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Relaxed};
use std::time::{Duration, Instant};

/// How often the recorder looks whether it is to end.
const LOOK_MS: i32 = 20;

/// A program that runs already.
#[derive(Debug, Clone, Copy)]
pub struct Target {
    pub pid: i32,
    /// Whether to record its descendants, too.
    pub descendants: bool,
    /// How long to record it; `None`: until it ends or this process is asked to end.
    pub time: Option<Duration>,
}

/// Records a running program until it ends, the time is up, or this process is asked to end.
///
/// # Errors
/// See [`RecordError`]. After an error the program goes on as before, unrecorded.
pub fn attach(
    request: &Request,
    target: Target,
    writer: RecordingWriter,
    store: Store,
) -> Result<Ended, RecordError> {
    let started = Instant::now();
    check::process(target.pid)?;
    let writer = Arc::new(writer);
    let places = Checkpoints::of_writer(&writer)?;
    let directory = writer.directory().to_path_buf();
    let session =
        Session::create(shared::MODE_RECORD, request.options, &request.processor, Some(&store))?;
    session.header().options.fetch_or(shared::OPTION_ATTACHED, Relaxed);
    let ward = Ward {
        session,
        plan: Plan::Ample,
        store,
        directory: Some(&directory),
        deadline: Deadline::new(None),
        started,
        let_go: Some(let_go),
    };
    let (guardian, Ward { session, plan, store, .. }) = rescue::guard(ward)?;
    let log: Arc<dyn crate::EventLog> = writer;
    let (files, space) = (file_table(store, &log), Space::new(request.on_full));
    let mut recorder = Recorder::new(session, plan, request.began_ns, files, log, space, None);
    recorder.guardian = Some(guardian.line());
    let when = request.images.unwrap_or(When::Never);
    let images = images::Plan { when, places, began_ns: request.began_ns };
    let outbox = recorder.take_copies();
    let recorder = Arc::new(recorder);
    let _alive = Alive::begin(&recorder.header().supervisor_alive);
    let images = Images::start(&recorder, images, outbox);
    let helpers = Helpers::start(&recorder, None, Some(images));
    let followed = begin::begin(&recorder, target)
        .and_then(|before| follow(&recorder, target, &before))
        .map_err(RecordError::System);
    let drained = if followed.is_ok() { helpers.stop() } else { Ok(()) };
    let guardian = guardian.dismiss();
    let finished = followed.and_then(|status| {
        drained?;
        let exit = status.map_or(Exit::Stopped, crate::exit);
        finish(&recorder, exit, started).map(|()| status.unwrap_or(0))
    });
    guardian.wait();
    Ok(Ended { status: finished?, timed_out: false })
}

/// Waits until all processes have ended, or lets them go. Returns the program's wait status if it
/// has ended.
fn follow(recorder: &Recorder, target: Target, before: &Before) -> io::Result<Option<i32>> {
    signals::pass_to(0);
    let (watch, since) = (process::watch(target.pid)?, Instant::now());
    let mut status = None;
    loop {
        if status.is_some() {
            let seen = recorder.progress();
            let is_over =
                || recorder.live_slots() == 0 || recorder.header().stopping.load(Acquire) != 0;
            if is_over() {
                return Ok(status);
            }
            recorder.wait_for_progress(seen, Duration::from_millis(LOOK_MS as u64));
        } else if process::ended(&watch, LOOK_MS) {
            let ended = process::status_of_ended(target.pid, &watch).unwrap_or(0);
            recorder.note_root_ended(ended);
            status = Some(ended);
        }
        let is_time_up = target.time.is_some_and(|time| since.elapsed() >= time);
        let is_in_vain =
            recorder.lacks_first_images() && recorder.counters.images_refused.load(Relaxed) > 0;
        if is_time_up || is_in_vain || signals::asked_to_end().is_some() {
            let staying = detach::detach(recorder, before)?;
            if is_in_vain {
                return Err(io::Error::other("without that image, nothing can be replayed"));
            }
            wait_for_staying(recorder, &staying);
            return Ok(status);
        }
    }
}

/// For the guardian, which has taken the supervisor's place: lets the program go on, and serves
/// those processes that cannot do without the runtime.
///
/// # Errors
/// The recording cannot be written, or a process cannot be let go.
fn let_go(recorder: &Recorder) -> io::Result<()> {
    let staying = detach::detach(recorder, &Before::new())?;
    wait_for_staying(recorder, &staying);
    Ok(())
}

/// Waits for processes that cannot do without the runtime.
fn wait_for_staying(recorder: &Recorder, names: &[String]) {
    if names.is_empty() {
        return;
    }
    retake_kernel::tell!(
        "retake: the recording has ended; retake stays until these have ended: {}",
        names.join(", ")
    );
    // Those that they make meanwhile cannot do without it either.
    let stays = |pid: &i32| !recorder.lets_go(*pid) && !process::is_gone(*pid);
    while crate::deadline::live_processes(recorder.header()).iter().any(stays) {
        let seen = recorder.progress();
        recorder.wait_for_progress(seen, Duration::from_millis(LOOK_MS as u64));
    }
}
