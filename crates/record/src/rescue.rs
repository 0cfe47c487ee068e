//! The guardian's work for a recording whose supervisor was killed. It kills the recorded
//! processes, and completes the recording from the rings. The result is the recording of a program
//! that was killed, with nothing missing. A program that ran before it was recorded goes on.

use crate::deadline::{Deadline, end_everything};
use crate::helpers::Helpers;
use crate::job_control;
use crate::rings::{self, Plan, Ring, Shape};
use crate::service;
use crate::shared_state::{Recorder, RingState};
use crate::space::{OnFull, Space};
use retake_kernel::alive::Alive;
use retake_kernel::clock;
use retake_kernel::guardian::{self, Forked, Guardian, Vigil, Word};
use retake_kernel::segment::Segment;
use retake_kernel::shared;
use retake_recording::{Exit, Outcome, RecordingWriter, Store, StreamId};
use retake_supervisor::{FileTable, Session};
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Relaxed};
use std::time::Instant;

/// What the guardian needs to know about a recording.
pub(crate) struct Ward<'a> {
    pub session: Session,
    pub plan: Plan,
    pub store: Store,
    /// The directory of the recording; a trace has none.
    pub directory: Option<&'a Path>,
    pub deadline: Deadline,
    pub started: Instant,
    /// What lets go of a program that ran before it was recorded. All others are killed.
    pub let_go: Option<fn(&Recorder) -> io::Result<()>>,
}

/// The setting in the metadata that tells how the recording was completed.
const SETTING: (&str, &str) = ("recorder", "was killed; its guardian completed the recording");

/// Starts the guardian. It gets what the ward has, and so does the caller.
///
/// # Errors
/// No process can be made.
pub(crate) fn guard(ward: Ward<'_>) -> io::Result<(Guardian, Ward<'_>)> {
    match Guardian::fork()? {
        Forked::Supervisor(guardian) => {
            ward.session.header().guardian_pid.store(guardian.pid(), Relaxed);
            Ok((guardian, ward))
        }
        Forked::Guardian(vigil) => stand_by(vigil, ward),
    }
}

/// Waits for the supervisor's end, does what is needed, and ends this process.
fn stand_by(mut vigil: Vigil, ward: Ward<'_>) -> ! {
    let header = ward.session.header();
    let alive = Alive::begin(&header.guardian_alive);
    let must_go_on = |seen| ward.deadline.is_over() || job_control::must_go_on(header, seen);
    // The files are opened anew where they are needed; this function never returns.
    ward.directory.inspect(|directory| guardian::close_files_in(directory));
    let mut pools = Pools::new();
    loop {
        match vigil.next(must_go_on) {
            // The kernel removes a pool with its last user, so the guardian attaches each one.
            Word::Note(count) => attach_pools(&ward, count as usize, &mut pools),
            Word::Dismissed => guardian::end(),
            Word::Gone => break,
        }
    }
    if let Some(let_go) = ward.let_go {
        // The runtime still needs somebody.
        std::mem::forget(alive);
        if let Some(directory) = ward.directory {
            let _ = release(directory, ward, pools, let_go);
        }
        guardian::end()
    }
    end_everything(header);
    drop(alive);
    if let Some(directory) = ward.directory {
        // Errors cannot be reported to anyone. What was written before stays as it is.
        let _ = complete(directory, ward, pools);
    }
    guardian::end()
}

/// The pools, each with its segment if the guardian could attach it.
type Pools = Vec<(Shape, Option<Arc<Segment>>)>;

fn attach_pools(ward: &Ward<'_>, count: usize, pools: &mut Pools) {
    if ward.directory.is_none() {
        return;
    }
    let known = pools.len();
    let new = ward.plan.shapes().zip(&ward.session.header().pools).take(count).skip(known);
    pools.extend(new.map(|(shape, pool)| {
        let segment = Segment::attach(pool.id.load(Acquire), shape.bytes());
        (shape, segment.ok().map(Arc::new))
    }));
}

/// Takes the supervisor's place, as far as it is needed to let the program go on.
fn release(
    directory: &Path,
    ward: Ward<'_>,
    pools: Pools,
    let_go: fn(&Recorder) -> io::Result<()>,
) -> io::Result<()> {
    let started = ward.started;
    let (writer, recorder) = take_over(directory, ward, pools)?;
    let recorder = Arc::new(recorder);
    service::answer_left_over(&recorder);
    let helpers = Helpers::start(&recorder, None, None);
    let_go(&recorder)?;
    let _ = helpers.stop();
    finish(&writer, &recorder, Exit::Stopped, started)
}

/// Opens the recording again, with the rings that the supervisor had.
fn take_over(
    directory: &Path,
    ward: Ward<'_>,
    pools: Pools,
) -> io::Result<(Arc<RecordingWriter>, Recorder)> {
    let writer = Arc::new(RecordingWriter::resume(directory)?);
    let files = FileTable::new(ward.store, |_, _| Ok(()));
    let (log, space) = (Arc::clone(&writer), Space::new(OnFull::End));
    let recorder =
        Recorder::new(ward.session, ward.plan, clock::monotonic_ns(), files, log, space, None);
    for (shape, pool) in pools {
        // Without its ring, a stream ends where it was last written. The empty replacement keeps
        // later slots at their numbers.
        let pool = pool.map_or_else(|| rings::create(&shape), Ok)?;
        for index in shape.slots() {
            let stream = recorder.header().slots[index].stream.load(Relaxed);
            let end = writer.end_of_stream(StreamId(stream))?;
            let ring = RingState::at(Ring::of(&pool, &shape, index), stream, end);
            recorder.adopt_slot(ring, end.map(|(bytes, _)| bytes));
        }
        recorder.pools.adopt(shape, pool);
    }
    Ok((writer, recorder))
}

fn complete(directory: &Path, ward: Ward<'_>, pools: Pools) -> io::Result<()> {
    let started = ward.started;
    let (writer, recorder) = take_over(directory, ward, pools)?;
    for index in 0..recorder.slot_count() {
        let state = recorder.header().slots[index].state.load(Acquire);
        let was_alive =
            matches!(state, shared::SLOT_CLAIMED | shared::SLOT_LIVE | shared::SLOT_DYING);
        if was_alive || state == shared::SLOT_EXITED {
            recorder.drain_slot(index)?;
        }
        if was_alive {
            recorder.note_death(index, libc::SIGKILL);
        }
    }
    finish(&writer, &recorder, Exit::Killed(libc::SIGKILL), started)
}

fn finish(
    writer: &RecordingWriter,
    recorder: &Recorder,
    exit: Exit,
    started: Instant,
) -> io::Result<()> {
    writer.update_metadata(|metadata| {
        metadata.settings.insert(SETTING.0.to_owned(), SETTING.1.to_owned());
    })?;
    writer.finish(&Outcome {
        duration_ms: started.elapsed().as_millis() as u64,
        changed_files: crate::changed_files(recorder.header()),
        ended: Some(clock::moment()),
        ..Outcome::of_exit(exit)
    })?;
    Ok(())
}
