//! Going backwards: forwards from a checkpoint before, once to count what there is, and once to
//! stop at the last of it.

use crate::debuggee::{GiveUp, Stop};
use crate::error::Result;
use crate::journey::{Arrival, End};
use crate::session::Session;
use crate::stretch::Past;
use crate::text::Text;
use crate::timeline::Checkpoint;
use retake_snapshot::shares_memory;
use std::rc::Rc;

/// Somebody asked to stop, or the place was not come to.
struct Interrupted;

impl Session {
    /// Goes back to the last stop before here: through one stretch between checkpoints after the
    /// other, the last first. A stretch that certainly has none is passed over.
    pub(crate) fn backward(&mut self, give_up: GiveUp) -> Result<Stop> {
        self.twice_if_taken(give_up, Self::backward_once)
    }

    /// Does it again if it failed where more was seen of what the program maps: it may have mapped
    /// something over a stub of ours.
    pub(crate) fn twice_if_taken(
        &mut self,
        give_up: GiveUp,
        act: fn(&mut Self, GiveUp) -> Result<Stop>,
    ) -> Result<Stop> {
        let known = self.debuggee.text.taken().clone();
        let stop = act(self, give_up)?;
        let is_worth =
            stop == Stop::Interrupted && *self.debuggee.text.taken() != known && !give_up();
        if is_worth { act(self, give_up) } else { Ok(stop) }
    }

    fn backward_once(&mut self, give_up: GiveUp) -> Result<Stop> {
        let Some(start) = self.checkpoint()? else { return Ok(Stop::Begin) };
        if self.timeline.checkpoints.is_empty() {
            return Ok(Stop::Begin);
        }
        let linker = self.program.linker_stop(&self.debuggee);
        let (mut index, mut stretch_end) = (self.timeline.base, start.clone());
        let (mut top, mut scouted) = (index, usize::MAX);
        loop {
            let mut can_stop =
                self.can_stop(self.past_of(index, &stretch_end), index, &stretch_end, linker);
            if can_stop
                && let Some(kept) = self
                    .bring_in(index, |session, _, one| session.is_kept_before(one, &stretch_end))?
            {
                (index, top) = (kept, top + 1);
                continue;
            }
            if index < top && index + 1 < scouted && can_stop {
                let brought = self.bring_in_small(index)?;
                (index, top) = (index + brought, top + brought);
                let Some(down_to) = self.scout(index + 1, linker, give_up)? else {
                    return self.interrupted(&start);
                };
                scouted = down_to;
                can_stop =
                    self.can_stop(self.past_of(index, &stretch_end), index, &stretch_end, linker);
            }
            let found = if can_stop {
                let end = self.end_at(&stretch_end)?;
                let found = self.last_stop_since(index, &end, give_up)?;
                self.note_unhit(&found, index, &start, &stretch_end);
                found
            } else {
                Ok(None)
            };
            match found {
                Ok(Some(stop)) => return self.before_watched(stop, give_up),
                Ok(None) if index == 0 => return self.go_to_begin(),
                Ok(None) => {}
                Err(Interrupted) => return self.interrupted(&start),
            }
            stretch_end = self.timeline.checkpoints[index].clone();
            index -= 1;
        }
    }

    /// What is known of the stretch from a checkpoint to `end`: the next one, or where the process
    /// was.
    fn past_of<'a>(&'a self, index: usize, end: &'a Checkpoint) -> &'a Past {
        let next = self
            .timeline
            .checkpoints
            .get(index + 1)
            .filter(|next| Rc::ptr_eq(&next.snapshot, &end.snapshot));
        &next.unwrap_or(end).since
    }

    /// Nothing may stay where it is without a word: says why the program did not go back, if it did
    /// not.
    pub(crate) fn remark_no_way_back(&mut self, stop: Stop) -> Result<()> {
        let why = match stop {
            Stop::Begin if shares_memory(&self.debuggee.process)? => {
                "it shares writable memory with other processes, so that no copies of it can be \
                made: it is debugged forwards only"
            }
            Stop::Begin if !self.is_at_begin()? => {
                "one of its threads has not come to rest within a second: try again"
            }
            Stop::Interrupted => "the way that it took to here was not found again",
            _ => return Ok(()),
        };
        self.remarks += &format!("retake: the program has not gone back: {why}\n");
        Ok(())
    }

    fn interrupted(&mut self, start: &Checkpoint) -> Result<Stop> {
        let base = self.timeline.base_of(&start.place);
        self.revive(start)?;
        self.rebase(base);
        Ok(Stop::Interrupted)
    }

    /// Whether something may stop the program in a stretch, or where it begins. Debuggers always
    /// have a breakpoint where the dynamic linker stops for them, which it does not do without
    /// having written what it did; where, is known.
    pub(crate) fn can_stop(
        &self,
        past: &Past,
        index: usize,
        end: &Checkpoint,
        linker: Option<(u64, u64)>,
    ) -> bool {
        const STATE_BYTES: u64 = 32;
        let debuggee = &self.debuggee;
        let start = &self.timeline.checkpoints[index];
        let Some(writes) = past.writes.as_ref().filter(|_| past.signals.are_in(debuggee.passed))
        else {
            return true;
        };
        if start.announced().is_some_and(|stop| debuggee.wants(stop)) {
            return true;
        }
        let has_events =
            start.place.mark != end.place.mark || start.place.thread != end.place.thread;
        if has_events && !debuggee.catches.is_empty() {
            return true;
        }
        let stands_at = debuggee.text.shown(start.place.address());
        let conditions =
            |address: u64| debuggee.conditions.get(&address).map_or(&[][..], Vec::as_slice);
        let is_unhit = |address: u64| {
            address != stands_at
                && (past.unhit.has(address, conditions(address))
                    || is_unexecuted(&debuggee.text, address, past))
        };
        let is_passed = |address: u64| {
            linker.is_some_and(|(stop, state)| address == stop && !writes.touch(state, STATE_BYTES))
                || is_unhit(address)
        };
        debuggee.breakpoints.iter().any(|&address| !is_passed(address))
            || debuggee.watchpoints.iter().any(|watchpoint| {
                !watchpoint.is_for_writing() || writes.touch(watchpoint.address, watchpoint.bytes)
            })
    }

    /// Remembers that nothing was found in the stretch behind a checkpoint.
    fn note_unhit(
        &mut self,
        found: &std::result::Result<Option<Stop>, Interrupted>,
        index: usize,
        start: &Checkpoint,
        end: &Checkpoint,
    ) {
        let is_between = !Rc::ptr_eq(&start.snapshot, &end.snapshot);
        if let (Ok(None), true, Some(next)) =
            (found, is_between, self.timeline.checkpoints.get_mut(index + 1))
        {
            next.since.unhit.add(&self.debuggee);
        }
    }

    /// Goes to the last stop between a checkpoint and `end`, if there is one.
    fn last_stop_since(
        &mut self,
        index: usize,
        end: &End,
        give_up: GiveUp,
    ) -> Result<std::result::Result<Option<Stop>, Interrupted>> {
        self.revive_number(index)?;
        let first =
            if end.meant.is_here(&self.debuggee)? { None } else { self.stop_at_checkpoint()? };
        let Arrival::There(tally) = self.run_to_end(end, None, give_up)? else {
            return Ok(Err(Interrupted));
        };
        let Some(last) = tally.last() else {
            if first.is_some() {
                self.revive_number(index)?;
            }
            return Ok(Ok(first));
        };
        self.revive_number(index)?;
        match self.run_to_end(end, Some(last), give_up)? {
            Arrival::At(stop) => Ok(Ok(Some(stop))),
            _ => Ok(Err(Interrupted)),
        }
    }

    /// What a user would be told about where a checkpoint is.
    fn stop_at_checkpoint(&self) -> Result<Option<Stop>> {
        if let Some(stop) = self.timeline.announced.filter(|stop| self.debuggee.wants(*stop)) {
            return Ok(Some(stop));
        }
        Ok(self.debuggee.is_at_breakpoint()?.then_some(Stop::Breakpoint))
    }

    /// Seen backwards, watched memory changes when the instruction that wrote it is undone.
    fn before_watched(&mut self, stop: Stop, give_up: GiveUp) -> Result<Stop> {
        match stop {
            Stop::Watch(_) => {
                let undone = self.backward_step(give_up)?;
                Ok(if undone == Stop::Step { stop } else { undone })
            }
            stop => {
                self.timeline.announced = stop.if_announced();
                Ok(stop)
            }
        }
    }
}

/// Whether a stretch certainly did not come to an address.
fn is_unexecuted(text: &Text, address: u64, past: &Past) -> bool {
    let places = text.places(address);
    let is_excluded = |place: &u64| {
        text.mapping(*place).is_some_and(|mapping| past.executed.excludes(*place, mapping))
    };
    !places.is_empty() && places.iter().all(is_excluded)
}
