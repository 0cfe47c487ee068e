//! Going backwards: the process runs forwards from an earlier checkpoint twice, once to count the
//! stops, and once to stop at the last of them. A stretch with very many stops is divided by a
//! checkpoint near its end, and the part behind that is searched first.

use crate::checkpoint::Checkpoint;
use crate::error::Result;
use crate::inferior::{GiveUp, Stop};
use crate::kept::Kept;
use crate::replay::Runs;
use crate::stretch::Past;
use crate::timeline::Timeline;
use crate::travel::journey::{Arrival, End, count_to_end, end_at, run_to_end};
use crate::travel::passing::{LinkerStop, can_stop};
use crate::travel::scouts::scout;
use crate::travel::seek::run_to_pause;
use std::rc::Rc;

/// How often the process may stop in a stretch before the stretch is divided. Each stop takes some
/// tens of microseconds.
const MANY: u64 = 500;
/// The part of a divided stretch that is searched first.
const LAST_PART: u64 = 8;

/// Why a stretch was not searched.
enum Failed {
    /// The user asked to stop, or the place was not reached.
    Interrupted,
    /// It has many stops, and was divided.
    Divided,
}

/// The last stop of a stretch; `None` if it has none.
type Found = std::result::Result<Option<Stop>, Failed>;

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
    Search {
        timeline,
        kept,
        start,
        linker,
        index,
        stretch_end,
        top: index,
        scouted: usize::MAX,
        is_whole: false,
    }
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
    /// Whether the stretch cannot be divided.
    is_whole: bool,
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
                Err(Failed::Divided) => continue,
                Err(Failed::Interrupted) => return self.interrupted(),
            }
            self.stretch_end = self.timeline.checkpoints[self.index].clone();
            self.index -= 1;
            self.is_whole = false;
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
        let middle = self.middle();
        let most = if middle.is_some() { MANY } else { u64::MAX };
        let arrival = count_to_end(&mut self.timeline.replay, end, most, give_up)?;
        let tally = match (arrival, middle) {
            (Arrival::There(tally), _) => tally,
            (Arrival::Many, Some(middle)) => {
                self.divide(middle, give_up)?;
                return Ok(Err(Failed::Divided));
            }
            _ => return Ok(Err(Failed::Interrupted)),
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
                _ => return Ok(Err(Failed::Interrupted)),
            }
        }
    }

    /// The place at which to divide the stretch: where a thread has consumed a number of events.
    /// `None` if no thread consumes enough events.
    fn middle(&self) -> Option<(u32, u64)> {
        if self.is_whole {
            return None;
        }
        let start = &self.timeline.checkpoints[self.index];
        let consumed = |&(thread, count): &(u32, u64)| {
            let events = count.saturating_sub(start.count(thread)?);
            (events > LAST_PART).then_some((events, thread, count))
        };
        let (events, thread, count) = self.stretch_end.counts.iter().filter_map(consumed).max()?;
        Some((thread, count - events / LAST_PART))
    }

    /// Divides the stretch by a checkpoint at a place in it, if that can be reached.
    fn divide(&mut self, middle: (u32, u64), give_up: GiveUp) -> Result<()> {
        self.timeline.revive_number(self.index)?;
        let replay = &mut self.timeline.replay;
        let stop = replay.quietly(|replay| run_to_pause(replay, middle, give_up))?;
        replay.announced = None;
        let fresh = if stop == Stop::Step { replay.checkpoint()? } else { None };
        // A thread may consume several events before it can pause.
        let end = self.stretch_end.count(middle.0);
        let Some(fresh) = fresh.filter(|fresh| fresh.count(middle.0) < end) else {
            self.is_whole = true;
            return Ok(());
        };
        // What happened on the way was not looked at.
        let fresh = Checkpoint { is_at_event: true, since: Past::default(), ..fresh };
        self.timeline.insert_checkpoint(&fresh);
        (self.index, self.top) = (self.timeline.base, self.top + 1);
        Ok(())
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
