//! Checkpoints: execution points at which there is a copy of the process.

use crate::inferior::{Fate, Stop};
use crate::place::Place;
use crate::stretch::Past;
use retake_snapshot::Snapshot;
use retake_snapshot::image::summary::count_of;
use std::rc::Rc;
use std::time::Duration;

/// A place that can be gone back to.
#[derive(Debug, Clone)]
pub(crate) struct Checkpoint {
    pub place: Place,
    pub snapshot: Rc<Snapshot>,
    /// It is where its thread comes from its last event.
    pub is_at_event: bool,
    /// The stop there, if it was for something that the runtime announced.
    pub announced: Option<Stop>,
    /// How the process ends, if that is known there.
    pub fate: Fate,
    /// Of each thread that there is: its number, and how many events it has consumed.
    pub counts: Vec<(u32, u64)>,
    /// What happened since the one before it.
    pub since: Past,
}

impl Checkpoint {
    /// How many events a thread has consumed there; `None`: there is no such thread.
    pub fn count(&self, thread: u32) -> Option<u64> {
        count_of(&self.counts, thread)
    }

    /// Whether a thread consumes an event on the way from here to `end`.
    pub fn has_events_before(&self, end: &Self) -> bool {
        self.place.mark != end.place.mark || self.place.thread != end.place.thread
    }
}

/// How long the ways to these checkpoints took, one after the other.
pub(crate) fn ran_to(ends: &[Checkpoint]) -> Duration {
    ends.iter().map(|one| one.since.ran).sum()
}
