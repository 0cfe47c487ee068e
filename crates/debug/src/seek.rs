//! Going to places that the user names.

use crate::debuggee::{Fate, GiveUp, Stop};
use crate::error::Result;
use crate::kept::Summary;
use crate::place::Mark;
use crate::session::Session;
use crate::timeline::Checkpoint;

impl Session {
    /// Goes to where a thread has consumed so many events, and is on its way on.
    pub(crate) fn seek(&mut self, thread: u32, events: u64, give_up: GiveUp) -> Result<Stop> {
        if !self.begin_timeline()? {
            return Ok(Stop::Interrupted);
        }
        let Some(start) = self.checkpoint()? else { return Ok(Stop::Interrupted) };
        let is_before = |count: Option<u64>| count.is_some_and(|count| count < events);
        let checkpoints = &self.timeline.checkpoints;
        let before = checkpoints.iter().rposition(|one| is_before(one.count(thread)));
        let context = self.debuggee.context();
        let is_near = |index: usize| {
            checkpoints[index].count(thread).is_some_and(|count| count <= context.event_count)
        };
        let is_on_the_way =
            context.tid == thread && context.event_count < events && before.is_none_or(is_near);
        let is_behind =
            |one: &Summary| !is_on_the_way || one.count(thread) > Some(context.event_count);
        let kept = self.bring_in(before.unwrap_or(0), |_, _, one| {
            one.count(thread).is_some_and(|count| count < events) && is_behind(one)
        })?;
        if kept.is_none() && !is_on_the_way {
            self.revive_number(before.unwrap_or(0))?;
        }
        self.moved();
        let stop = self.quietly(|session| {
            session.debuggee.pause = Some((thread, events));
            let stop = session.resume_to_pause(give_up);
            session.debuggee.pause = None;
            stop
        })?;
        if stop == Stop::Interrupted {
            self.revive(&start)?;
        }
        self.find_base(self.mark());
        Ok(stop)
    }

    /// Goes to where the process is about to exit or to die.
    pub(crate) fn go_to_end(&mut self, give_up: GiveUp) -> Result<Stop> {
        // The last checkpoint is not behind the end.
        let last = self.timeline.checkpoints.len().saturating_sub(1);
        let here = self.mark();
        let kept = self.bring_in(last, |_, _, one| one.mark() > here)?;
        if kept.is_none() && self.timeline.base < last {
            self.revive_number(last)?;
        }
        self.quietly(|session| {
            loop {
                let stop = session.forward(give_up)?;
                if session.debuggee.fate != Fate::Open || stop.if_announced().is_none() {
                    return Ok(stop);
                }
            }
        })
    }

    // ---- the user's checkpoints ----

    /// Remembers here; the number by which it is known. None: no copy can be made.
    pub(crate) fn keep_checkpoint(&mut self) -> Result<Option<u64>> {
        let Some(checkpoint) = self.checkpoint()? else { return Ok(None) };
        let number = self.timeline.kept.last().map_or(1, |(number, _)| number + 1);
        self.timeline.kept.push((number, checkpoint));
        Ok(Some(number))
    }

    /// A line for each.
    pub(crate) fn kept_checkpoints(&self) -> Vec<String> {
        let line = |(number, one): &(u64, Checkpoint)| {
            let (events, thread) = (one.place.mark.events, one.place.thread);
            format!(
                "{number}  event {events} of thread {thread}, {:#x}",
                self.debuggee.text.shown(one.place.address())
            )
        };
        self.timeline.kept.iter().map(line).collect()
    }

    pub(crate) fn has_checkpoint(&self, number: u64) -> bool {
        self.timeline.kept.iter().any(|(known, _)| *known == number)
    }

    /// Goes back to one.
    pub(crate) fn restart(&mut self, number: u64) -> Result<Stop> {
        let found = self
            .timeline
            .kept
            .iter()
            .find(|(known, _)| *known == number)
            .map(|(_, checkpoint)| checkpoint.clone());
        let Some(checkpoint) = found else { return Ok(Stop::Interrupted) };
        self.revive(&checkpoint)?;
        self.find_base(checkpoint.place.mark);
        Ok(Stop::Step)
    }

    /// The last checkpoint that is certainly before a mark.
    pub(crate) fn find_base(&mut self, mark: Mark) {
        let before = self.timeline.checkpoints.iter().rposition(|one| one.place.mark < mark);
        self.rebase(before.unwrap_or(0));
    }

    /// Whether the debugged program has executed nothing yet, as far as checkpoints tell.
    pub(crate) fn is_at_begin(&self) -> Result<bool> {
        self.timeline
            .checkpoints
            .first()
            .map_or(Ok(true), |first| first.place.is_here(&self.debuggee))
    }

    /// Goes to where the debugged program begins.
    pub(crate) fn go_to_begin(&mut self) -> Result<Stop> {
        if !self.timeline.checkpoints.is_empty() {
            self.revive_number(0)?;
        }
        Ok(Stop::Begin)
    }
}
