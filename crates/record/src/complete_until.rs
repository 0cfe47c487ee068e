//! Notes up to when a recording is complete. If the recorder and its guardian are killed, the
//! streams stop at different moments. Then these notes tell replay what threads did after their
//! last events (`crates/replay/src/cut_ends.rs`).

use crate::shared_state::Recorder;
use retake_kernel::clock;
use retake_kernel::shared::{self, Slot};
use retake_model::{Reached, StreamId, TimePoint};
use std::collections::HashMap;
use std::sync::atomic::Ordering::{Acquire, Relaxed};
use std::time::{Duration, Instant};

/// The time between two notes.
const PERIOD: Duration = Duration::from_millis(200);
/// How often threads that have done nothing are noted again: older notes may be dropped.
const WHOLE_PERIOD: Duration = Duration::from_secs(5);

/// What is noted next.
pub(crate) struct Note {
    moment: TimePoint,
    reached: Vec<(StreamId, Reached)>,
}

#[derive(Debug)]
pub(crate) struct CompleteUntil {
    noted: Instant,
    /// The size of the log at the last note.
    bytes: u64,
    noted_all: Instant,
    /// How far threads had come when they were noted last.
    reached: HashMap<StreamId, Reached>,
}

impl CompleteUntil {
    pub fn new() -> Self {
        let now = Instant::now();
        Self { noted: now, bytes: 0, noted_all: now, reached: HashMap::new() }
    }

    /// Looks how far threads have come, if it is time for a note. Then all rings must be emptied,
    /// and [`CompleteUntil::write`] must be called.
    pub fn next(&mut self, recorder: &Recorder) -> Option<Note> {
        let header = recorder.header();
        let is_due = self.noted.elapsed() >= PERIOD
            && header.mode.load(Relaxed) == shared::MODE_RECORD
            && header.ticks_per_second.load(Relaxed) != 0
            && self.bytes != recorder.log.kept_bytes();
        let slots = &header.slots[..recorder.slot_count()];
        if !is_due || !slots.iter().any(takes_turns) {
            return None;
        }
        let mut reached = Vec::new();
        if recorder.is_parallel() {
            if self.noted_all.elapsed() >= WHOLE_PERIOD {
                self.noted_all = Instant::now();
                self.reached.clear();
            }
            let all = slots.iter().filter(|slot| takes_turns(slot)).filter_map(how_far);
            reached.extend(all.filter(|(stream, how_far)| {
                self.reached.insert(*stream, *how_far) != Some(*how_far)
            }));
        }
        Some(Note { moment: clock::moment().into(), reached })
    }

    /// Writes a note: all events before it are in the recording.
    pub fn write(&mut self, recorder: &Recorder, note: Option<Note>) {
        let Some(note) = note.filter(|_| !recorder.space.has_given_up()) else { return };
        // If this fails, draining rings fails too, and reports it.
        let _ = recorder.accounts.note_complete(note.moment, &note.reached);
        self.noted = Instant::now();
        self.bytes = recorder.log.kept_bytes();
    }
}

/// Whether a thread takes turns with others.
fn takes_turns(slot: &Slot) -> bool {
    slot.state.load(Acquire) == shared::SLOT_LIVE && slot.baton.turn_logged.load(Relaxed) != 0
}

/// How far a thread has come; `None` if it takes a turn at this moment.
fn how_far(slot: &Slot) -> Option<(StreamId, Reached)> {
    let baton = &slot.baton;
    let turn = baton.turn_logged.load(Acquire);
    let sections = baton.turn_sections.load(Acquire);
    let operations = baton.operations.load(Acquire);
    let stream = StreamId(slot.stream.load(Relaxed));
    (baton.turn_logged.load(Relaxed) == turn)
        .then_some((stream, Reached { turn, sections, operations }))
}
