//! Going backwards: the process runs forwards from an earlier checkpoint twice, once to count the
//! stops, and once to stop at the last of them.

use crate::checkpoint::Checkpoint;
use crate::error::Result;
use crate::inferior::{GiveUp, Stop};
use crate::kept::Kept;
use crate::stretch::Past;
use crate::timeline::Timeline;
use crate::travel::journey::{Arrival, End, end_at, run_to_end};
use crate::travel::passing::{LinkerStop, can_stop};
use crate::travel::scouts::scout;
use std::rc::Rc;

/// The user asked to stop, or the place was not reached.
struct Interrupted;

/// The last stop of a stretch; `None` if it has none.
type Found = std::result::Result<Option<Stop>, Interrupted>;

/// Goes back to the last stop before here. Searches the stretches between checkpoints, the last
/// first, and skips those that certainly have no stop. A change of watched memory is found after
/// the instruction that wrote it.
///
/// # Errors
/// The replay diverged, or the process cannot be controlled.
pub(super) fn to_last_stop(
    timeline: &mut Timeline,
    kept: &mut Kept,
    give_up: GiveUp,
) -> Result<Stop> {
    let Some(start) = timeline.replay.checkpoint()? else { return Ok(Stop::Begin) };
    if timeline.checkpoints.is_empty() {
        return Ok(Stop::Begin);
    }
    let linker = timeline.replay.program.linker_stop(&timeline.replay.inferior);
    let index = timeline.base;
    let stretch_end = start.clone();
    Search { timeline, kept, start, linker, index, stretch_end, top: index, scouted: usize::MAX }
        .go(give_up)
}

/// A search for the last stop.
struct Search<'a> {
    timeline: &'a mut Timeline,
    kept: &'a mut Kept,
    /// Where the process was at first.
    start: Checkpoint,
    linker: LinkerStop,
    /// The number of the checkpoint at which the stretch begins.
    index: usize,
    /// The end of the stretch: the next checkpoint, or where the process was.
    stretch_end: Checkpoint,
    /// The number of the last checkpoint before where the process was.
    top: usize,
    /// The number of the checkpoint from which on copies can find out nothing more.
    scouted: usize,
}

impl Search<'_> {
    fn go(mut self, give_up: GiveUp) -> Result<Stop> {
        loop {
            let mut can_stop = self.can_stop();
            if can_stop && self.bring_in_kept()? {
                continue;
            }
            if self.index < self.top && self.index + 1 < self.scouted && can_stop {
                let brought = self.kept.bring_in_small(self.timeline, self.index)?;
                (self.index, self.top) = (self.index + brought, self.top + brought);
                let Some(down_to) = scout(self.timeline, self.index + 1, self.linker, give_up)?
                else {
                    return self.interrupted();
                };
                self.scouted = down_to;
                can_stop = self.can_stop();
            }
            let found = if can_stop { self.in_stretch(give_up)? } else { Ok(None) };
            match found {
                Ok(Some(stop @ Stop::Watch(_))) => return Ok(stop),
                Ok(Some(stop)) => {
                    self.timeline.replay.announced = stop.if_announced();
                    return Ok(stop);
                }
                Ok(None) if self.index == 0 => return self.timeline.go_to_begin(),
                Ok(None) => {}
                Err(Interrupted) => return self.interrupted(),
            }
            self.stretch_end = self.timeline.checkpoints[self.index].clone();
            self.index -= 1;
        }
    }

    fn can_stop(&self) -> bool {
        let start = &self.timeline.checkpoints[self.index];
        let inferior = &self.timeline.replay.inferior;
        can_stop(inferior, start, &self.stretch_end, self.past(), self.linker)
    }

    /// What is known about the stretch.
    fn past(&self) -> &Past {
        let end = &self.stretch_end;
        let next = self.timeline.checkpoints.get(self.index + 1);
        let next = next.filter(|next| Rc::ptr_eq(&next.snapshot, &end.snapshot));
        &next.unwrap_or(end).since
    }

    /// Divides the stretch by a checkpoint that another session has left in it, if there is one.
    fn bring_in_kept(&mut self) -> Result<bool> {
        let end = &self.stretch_end;
        let brought = self
            .kept
            .bring_in(self.timeline, self.index, |kept, _, one| kept.is_before(one, end))?;
        if let Some(index) = brought {
            (self.index, self.top) = (index, self.top + 1);
        }
        Ok(brought.is_some())
    }

    /// Goes to the last stop in the stretch. If there is none, remembers that.
    fn in_stretch(&mut self, give_up: GiveUp) -> Result<Found> {
        let end = end_at(&mut self.timeline.replay, &self.stretch_end)?;
        let found = self.last_stop_before(&end, give_up)?;
        let is_between = !Rc::ptr_eq(&self.start.snapshot, &self.stretch_end.snapshot);
        if let (Ok(None), true, Some(next)) =
            (&found, is_between, self.timeline.checkpoints.get_mut(self.index + 1))
        {
            next.since.unhit.add(&self.timeline.replay.inferior);
        }
        Ok(found)
    }

    /// Goes to the last stop between the beginning of the stretch and `end`, if there is one.
    fn last_stop_before(&mut self, end: &End, give_up: GiveUp) -> Result<Found> {
        self.timeline.revive_number(self.index)?;
        let is_at_end = end.meant.is_here(&self.timeline.replay.inferior)?;
        let first = if is_at_end { None } else { self.stop_here()? };
        let Arrival::There(tally) = run_to_end(&mut self.timeline.replay, end, None, give_up)?
        else {
            return Ok(Err(Interrupted));
        };
        let mut last = tally.last();
        loop {
            let Some(goal) = last else {
                if first.is_some() {
                    self.timeline.revive_number(self.index)?;
                }
                return Ok(Ok(first));
            };
            self.timeline.revive_number(self.index)?;
            match run_to_end(&mut self.timeline.replay, end, Some(goal), give_up)? {
                // In the middle of a repeated instruction, only the memory tells that this is its
                // beginning.
                Arrival::At(Stop::Breakpoint)
                    if self.is_where_it_was()? && last == tally.last() =>
                {
                    last = tally.without_breakpoint().last();
                }
                Arrival::At(stop) => return Ok(Ok(Some(stop))),
                _ => return Ok(Err(Interrupted)),
            }
        }
    }

    fn is_where_it_was(&self) -> Result<bool> {
        self.start.place.is_here(&self.timeline.replay.inferior)
    }

    /// The stop to report at the checkpoint where the process is, if there is one.
    fn stop_here(&self) -> Result<Option<Stop>> {
        let replay = &self.timeline.replay;
        if let Some(stop) = replay.announced.filter(|stop| replay.inferior.wants(*stop)) {
            return Ok(Some(stop));
        }
        Ok(replay.inferior.is_at_breakpoint()?.then_some(Stop::Breakpoint))
    }

    /// Goes back to where the process was.
    fn interrupted(self) -> Result<Stop> {
        let base = self.timeline.last_before(self.start.place.mark);
        self.timeline.replay.revive(&self.start)?;
        self.timeline.rebase(base);
        Ok(Stop::Interrupted)
    }
}
