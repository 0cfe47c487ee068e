//! What the guardian does for a recording whose supervisor was killed: it ends what was recorded,
//! and completes the recording with what the rings still hold. So it is one of a program that was
//! killed, and nothing of it is missing.

use crate::shared_state::{Recorder, RingState};
use crate::space::{OnFull, Space};
use crate::{deadline::Deadline, end_everything, job_control};
use retake_kernel::guardian::{self, Vigil, Word};
use retake_kernel::segment::Segment;
use retake_kernel::shared::{self, RING_BYTES};
use retake_recording::{Exit, Outcome, RecordingWriter, Store, StreamId};
use retake_supervisor::{FileTable, Session};
use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Relaxed};
use std::time::Instant;

/// What the guardian needs to know of a recording.
pub(crate) struct Ward<'a> {
    pub session: Session,
    pub store: Store,
    /// Where the recording is; a trace has none.
    pub directory: Option<&'a Path>,
    pub deadline: Deadline,
    pub started: Instant,
}

/// The setting that says of a recording how it was completed.
const SETTING: (&str, &str) = ("recorder", "was killed; its guardian completed the recording");

/// Keeps vigil until the supervisor has ended, and ends this process.
pub(crate) fn stand_by(mut vigil: Vigil, ward: Ward<'_>) -> ! {
    let header = ward.session.header();
    let must_go_on = |seen| ward.deadline.is_over() || job_control::must_go_on(header, seen);
    let mut rings = Vec::new();
    loop {
        match vigil.next(must_go_on) {
            // The kernel removes a ring with its last user, so this is one.
            Word::Note(count) => attach_rings(&ward, count as usize, &mut rings),
            Word::Dismissed => guardian::end(),
            Word::Gone => break,
        }
    }
    end_everything(header);
    if let Some(directory) = ward.directory {
        // Nobody is left who could be told: what was written before stays as it is.
        let _ = complete(directory, ward.session, ward.store, rings, ward.started);
    }
    guardian::end()
}

fn attach_rings(ward: &Ward<'_>, count: usize, rings: &mut Vec<Option<Segment>>) {
    if ward.directory.is_none() {
        return;
    }
    let known = rings.len();
    let slots = ward.session.header().slots.iter().take(count).skip(known);
    rings.extend(slots.map(|slot| Segment::attach(slot.ring_id.load(Acquire), RING_BYTES).ok()));
}

fn complete(
    directory: &Path,
    session: Session,
    store: Store,
    rings: Vec<Option<Segment>>,
    started: Instant,
) -> io::Result<()> {
    let writer = Arc::new(RecordingWriter::resume(directory)?);
    let files = FileTable::new(store, |_, _| Ok(()));
    let log = Arc::clone(&writer);
    let recorder = Recorder::new(session, files, log, Space::new(OnFull::End), None);
    for (index, ring) in rings.into_iter().enumerate() {
        let stream = recorder.header().slots[index].stream.load(Relaxed);
        // Without its ring a stream ends where it was written to; those behind it in the order of
        // the slots are as they were.
        let ring = ring.map_or_else(|| Segment::create(RING_BYTES), Ok)?;
        let end = writer.end_of_stream(StreamId(stream))?;
        recorder.adopt_slot(RingState::at(ring, stream, end), end.map(|(bytes, _)| bytes));
    }
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
    writer.update_metadata(|metadata| {
        metadata.settings.insert(SETTING.0.to_owned(), SETTING.1.to_owned());
    })?;
    writer.finish(&Outcome {
        exit: Exit::Killed(libc::SIGKILL),
        duration_ms: started.elapsed().as_millis() as u64,
        changed_files: crate::changed_files(recorder.header()),
        counters: BTreeMap::new(),
    })?;
    Ok(())
}
