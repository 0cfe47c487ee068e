//! Checkpoints: execution points with a copy of the process.

use crate::inferior::{Fate, Stop};
use crate::place::Place;
use crate::stretch::Past;
use retake_snapshot::Snapshot;
use retake_snapshot::image::summary::count_of;
use std::rc::Rc;
use std::time::Duration;

/// A place to which the process can go back.
#[derive(Debug, Clone)]
pub(crate) struct Checkpoint {
    pub place: Place,
    pub snapshot: Rc<Snapshot>,
    /// Whether the place is where the thread returns from its last event.
    pub is_at_event: bool,
    /// The stop at this place, if the runtime announced it.
    pub announced: Option<Stop>,
    /// How the process ends, if that is known at this place.
    pub fate: Fate,
    /// The ID of each thread, and the number of events that it has consumed.
    pub counts: Vec<(u32, u64)>,
    /// What happened since the checkpoint before.
    pub since: Past,
}

impl Checkpoint {
    /// The number of events that a thread has consumed; `None` if there is no such thread.
    pub fn count(&self, thread: u32) -> Option<u64> {
        count_of(&self.counts, thread)
    }

    /// Whether a thread consumes an event between here and `end`.
    pub fn has_events_before(&self, end: &Self) -> bool {
        self.place.mark != end.place.mark || self.place.thread != end.place.thread
    }
}

/// How long the process took to reach these consecutive checkpoints.
pub(crate) fn ran_to(ends: &[Checkpoint]) -> Duration {
    ends.iter().map(|one| one.since.ran).sum()
}
