//! Travelling in time, forwards and backwards along the time line.
//!
//! * `backwards`: back to the last stop, with `scouts`, which go through several stretches at once,
//!   and `passing`, which knows the stretches that can be skipped.
//! * `trail`, `approach`: one instruction back.
//! * `journey`: to an exact place ahead, counting what would stop a user on the way.
//! * `seek`: to places that users name; `bookmarks`: places that they have bookmarked.

mod approach;
mod backwards;
pub(crate) mod bookmarks;
pub(crate) mod journey;
mod passing;
mod scouts;
mod seek;
mod trail;

pub(crate) use approach::start_of_stretch;

use crate::error::Result;
use crate::inferior::{GiveUp, Inferior, Stop, changed_since, watched_memory};
use crate::kept::Kept;
use crate::replay::Runs;
use crate::timeline::Timeline;
use approach::NoTrail;
use bookmarks::Bookmarks;
use retake_snapshot::shares_memory;
use trail::Trail;

/// A time line, and what helps to move along it.
pub(crate) struct Travel {
    /// The user's bookmarks.
    pub bookmarks: Bookmarks,
    /// The last way that was known step by step.
    trail: Option<Trail>,
    /// The number of the move to where a thread begins, if it could not go back by an instruction
    /// there.
    stayed_at: Option<u64>,
    /// The checkpoints that other sessions have left.
    pub kept: Kept,
    pub timeline: Timeline,
}

impl Runs for Travel {
    fn inferior_mut(&mut self) -> &mut Inferior {
        &mut self.timeline.replay.inferior
    }
}

impl Travel {
    pub fn new(timeline: Timeline, kept: Kept) -> Self {
        Self { bookmarks: Bookmarks::default(), trail: None, stayed_at: None, kept, timeline }
    }

    /// Gives up all copies of the process.
    pub fn clear(&mut self) {
        self.bookmarks = Bookmarks::default();
        self.trail = None;
        self.timeline.clear();
    }

    // ---- one instruction ----

    /// Goes one instruction forwards.
    ///
    /// # Errors
    /// The replay diverged, or the process cannot be controlled.
    pub fn forward_step(&mut self, tid: Option<i32>, give_up: GiveUp) -> Result<Stop> {
        self.timeline.begin()?;
        let moves = self.timeline.replay.moves;
        let trail = self.trail.take_if(|trail| trail.ends_at(moves));
        let is_same_thread = tid.is_none_or(|tid| tid == self.timeline.replay.inferior.current);
        let stop = self.timeline.forward_step(tid, give_up)?;
        if let (Stop::Step, true, Some(trail)) = (stop, is_same_thread, trail)
            && let Some(longer) = trail.lengthened(self.timeline.replay.moves)
        {
            self.trail = Some(longer);
        }
        Ok(stop)
    }

    /// Goes one instruction back.
    ///
    /// # Errors
    /// The replay diverged, or the process cannot be controlled.
    pub fn backward_step(&mut self, give_up: GiveUp) -> Result<Stop> {
        let before = watched_memory(&self.timeline.replay.inferior);
        let stop = self.twice_if_taken(give_up, Self::backward_step_once)?;
        if stop != Stop::Step {
            return Ok(stop);
        }
        let replay = &self.timeline.replay;
        if let Some(watchpoint) = changed_since(&replay.inferior, &before) {
            return Ok(Stop::Watch(watchpoint));
        }
        Ok(replay.announced.filter(|stop| replay.inferior.wants(*stop)).unwrap_or(Stop::Step))
    }

    fn backward_step_once(&mut self, give_up: GiveUp) -> Result<Stop> {
        let stays = self.stayed_at == Some(self.timeline.replay.moves);
        if self.back_on_trail()? {
            return Ok(Stop::Step);
        }
        let found = self.quietly(|travel| {
            approach::find_trail(&mut travel.timeline, &mut travel.kept, give_up)
        });
        self.timeline.replay.inferior.told = None;
        match found? {
            Ok(trail) => self.trail = Some(trail),
            Err(NoTrail::Stop(stop)) => return Ok(stop),
            Err(NoTrail::ThreadBegins) => return Ok(self.stay_at_thread(stays)),
        }
        self.back_on_trail()?;
        Ok(Stop::Step)
    }

    /// Handles the beginning of a thread. A debugger goes back by one instruction to get off a
    /// breakpoint before it goes on, so the first request counts as done. A debugger that asks
    /// again would go on for ever, so it gets a remark.
    fn stay_at_thread(&mut self, stays: bool) -> Stop {
        const WORD: &str = "retake: the thread begins here: reverse-continue goes further back\n";
        let replay = &mut self.timeline.replay;
        self.stayed_at = Some(replay.moves);
        if !stays {
            return Stop::Step;
        }
        replay.remarks += WORD;
        Stop::Begin
    }

    /// Goes back by one instruction if the way is known.
    fn back_on_trail(&mut self) -> Result<bool> {
        let Some(mut trail) = self.trail.take() else { return Ok(false) };
        let is_back = trail.back(&mut self.timeline)?;
        if is_back {
            self.trail = Some(trail);
        }
        Ok(is_back)
    }

    // ---- to the last stop ----

    /// Goes back to the last stop before here.
    ///
    /// # Errors
    /// The replay diverged, or the process cannot be controlled.
    pub fn backward(&mut self, give_up: GiveUp) -> Result<Stop> {
        self.twice_if_taken(give_up, Self::backward_once)
    }

    fn backward_once(&mut self, give_up: GiveUp) -> Result<Stop> {
        let stop = backwards::to_last_stop(&mut self.timeline, &mut self.kept, give_up)?;
        // Backwards, watched memory changes when the instruction that wrote it is undone.
        if !matches!(stop, Stop::Watch(_)) {
            return Ok(stop);
        }
        let undone = self.twice_if_taken(give_up, Self::backward_step_once)?;
        Ok(if undone == Stop::Step { stop } else { undone })
    }

    /// Tries again if the first try failed and discovered more mappings of the program: it may have
    /// mapped something over one of our stubs.
    fn twice_if_taken(
        &mut self,
        give_up: GiveUp,
        act: fn(&mut Self, GiveUp) -> Result<Stop>,
    ) -> Result<Stop> {
        let known = self.timeline.replay.inferior.text.taken().clone();
        let stop = act(self, give_up)?;
        let is_worth = stop == Stop::Interrupted
            && *self.timeline.replay.inferior.text.taken() != known
            && !give_up();
        if is_worth { act(self, give_up) } else { Ok(stop) }
    }

    /// Adds a remark that says why the program did not go back, if it did not.
    ///
    /// # Errors
    /// The process cannot be examined.
    pub fn remark_no_way_back(&mut self, stop: Stop) -> Result<()> {
        let why = match stop {
            Stop::Begin if !self.timeline.replay.remarks.is_empty() => return Ok(()),
            Stop::Begin if shares_memory(&self.timeline.replay.inferior.process)? => {
                "it shares writable memory with other processes, so it cannot be copied: it can \
                only be debugged forwards"
            }
            Stop::Begin if !self.timeline.is_at_begin()? => {
                "one of its threads has not come to rest within a second: try again"
            }
            Stop::Interrupted => "the way that led here was not found again",
            _ => return Ok(()),
        };
        self.timeline.replay.remarks += &format!("retake: the program has not gone back: {why}\n");
        Ok(())
    }

    // ---- to places ----

    /// Goes to where a thread has consumed this many events and is about to go on.
    ///
    /// # Errors
    /// The replay diverged, or the process cannot be controlled.
    pub fn seek(&mut self, thread: u32, events: u64, give_up: GiveUp) -> Result<Stop> {
        seek::to_event(&mut self.timeline, &mut self.kept, (thread, events), give_up)
    }

    /// Goes to where the process is about to exit or to die.
    ///
    /// # Errors
    /// The replay diverged, or the process cannot be controlled.
    pub fn go_to_end(&mut self, give_up: GiveUp) -> Result<Stop> {
        seek::to_end(&mut self.timeline, &mut self.kept, give_up)
    }
}
