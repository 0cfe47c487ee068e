//! Places that the user has bookmarked, by number.

use crate::checkpoint::Checkpoint;
use crate::destination::Destination;
use crate::error::{DebugError, Result};
use crate::inferior::Stop;
use crate::text::Text;
use crate::timeline::Timeline;

/// All bookmarks.
#[derive(Debug, Default)]
pub(crate) struct Bookmarks(Vec<(u64, Checkpoint)>);

impl Bookmarks {
    /// Adds a bookmark here. Returns its number, or `None` if no copy can be made.
    ///
    /// # Errors
    /// The process cannot be controlled.
    pub fn add(&mut self, timeline: &mut Timeline) -> Result<Option<u64>> {
        let Some(checkpoint) = timeline.replay.checkpoint()? else { return Ok(None) };
        let number = self.0.last().map_or(1, |(number, _)| number + 1);
        self.0.push((number, checkpoint));
        Ok(Some(number))
    }

    /// Describes each bookmark in a line.
    pub fn list(&self, text: &Text) -> Vec<String> {
        let line = |(number, one): &(u64, Checkpoint)| {
            let (events, thread) = (one.place.mark.events, one.place.thread);
            let address = text.shown(one.place.address());
            format!("{number}  event {events} of thread {thread}, {address:#x}")
        };
        self.0.iter().map(line).collect()
    }

    /// Checks that a destination that names a bookmark exists.
    ///
    /// # Errors
    /// There is no such bookmark.
    pub fn check(&self, destination: Destination) -> Result<()> {
        match destination {
            Destination::Checkpoint(number) if !self.has(number) => {
                Err(DebugError::NoPlace(format!("there is no checkpoint {number}")))
            }
            _ => Ok(()),
        }
    }

    /// Whether a bookmark with this number exists.
    pub fn has(&self, number: u64) -> bool {
        self.get(number).is_some()
    }

    fn get(&self, number: u64) -> Option<&Checkpoint> {
        self.0.iter().find(|(known, _)| *known == number).map(|(_, checkpoint)| checkpoint)
    }

    /// Removes a bookmark.
    pub fn forget(&mut self, number: u64) {
        self.0.retain(|(known, _)| *known != number);
    }

    /// Goes back to a bookmark.
    ///
    /// # Errors
    /// The process cannot be made.
    pub fn go_to(&self, number: u64, timeline: &mut Timeline) -> Result<Stop> {
        let Some(checkpoint) = self.get(number) else { return Ok(Stop::Interrupted) };
        timeline.replay.revive(checkpoint)?;
        timeline.rebase_before(checkpoint.place.mark);
        Ok(Stop::Step)
    }
}
