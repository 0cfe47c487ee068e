//! Going backwards: forwards from a checkpoint before, once to count what there is, and once to stop at the last of it.

use crate::debuggee::{Fate, GiveUp, Stop};
use crate::error::Result;
use crate::place::Place;
use crate::session::Session;
use crate::timeline::{Arrival, Checkpoint, Trail};
use std::time::{Duration, Instant};

/// A stretch that takes less time is stepped.
const SHORT: Duration = Duration::from_micros(3);
/// Steps between two copies, when a long way is stepped.
const STRIDE: u64 = 512;
/// Events looked back for one after which the program ran.
const MOST_EVENTS_BACK: u64 = 64;
const MOST_HALVINGS: usize = 64;

/// Somebody asked to stop, or the place was not come to.
struct Interrupted;

impl Session {
    /// Goes back to the last stop before here. Each try runs up to here, from twice as far back as the one before: so the places where checkpoints
    /// were made, which may be in the midst of a busy loop, need not be found again.
    pub(crate) fn backward(&mut self, give_up: GiveUp) -> Result<Stop> {
        let Some(start) = self.checkpoint()? else { return Ok(Stop::Begin) };
        if self.timeline.checkpoints.is_empty() {
            return Ok(Stop::Begin);
        }
        let (mut index, mut stride) = (self.timeline.base, 1);
        loop {
            match self.last_stop_since(index, &start.place, give_up)? {
                Ok(Some(stop)) => return self.before_watched(stop, give_up),
                Ok(None) if index == 0 => return self.go_to_begin(),
                Ok(None) => {}
                Err(Interrupted) => {
                    self.revive(&start)?;
                    return Ok(Stop::Interrupted);
                }
            }
            index = index.saturating_sub(stride);
            stride *= 2;
        }
    }

    /// Goes to the last stop between a checkpoint and `end`, if there is one.
    fn last_stop_since(&mut self, index: usize, end: &Place, give_up: GiveUp) -> Result<std::result::Result<Option<Stop>, Interrupted>> {
        self.revive_number(index)?;
        let first = if end.is_here(&self.debuggee)? { None } else { self.stop_at_checkpoint()? };
        let stops = match self.run_to(end, None, give_up)? {
            Arrival::There(0) => {
                if first.is_some() {
                    self.revive_number(index)?;
                }
                return Ok(Ok(first));
            }
            Arrival::There(stops) => stops,
            _ => return Ok(Err(Interrupted)),
        };
        self.revive_number(index)?;
        match self.run_to(end, Some(stops), give_up)? {
            Arrival::At(stop) => Ok(Ok(Some(stop))),
            _ => Ok(Err(Interrupted)),
        }
    }

    /// What a user would be told about where a checkpoint is.
    fn stop_at_checkpoint(&self) -> Result<Option<Stop>> {
        if let Some(number) = self.timeline.last_signal {
            return Ok(Some(Stop::Signal(number)));
        }
        let is_breakpoint = self.debuggee.breakpoints.contains(&self.debuggee.program_counter()?);
        Ok(is_breakpoint.then_some(Stop::Breakpoint))
    }

    /// Seen backwards, watched memory changes when the instruction that wrote it is undone.
    fn before_watched(&mut self, stop: Stop, give_up: GiveUp) -> Result<Stop> {
        match stop {
            Stop::Watch(_) => {
                let undone = self.backward_step(give_up)?;
                Ok(if undone == Stop::Step { stop } else { undone })
            }
            Stop::Signal(number) => {
                self.timeline.last_signal = Some(number);
                Ok(stop)
            }
            stop => Ok(stop),
        }
    }

    /// One instruction back.
    pub(crate) fn backward_step(&mut self, give_up: GiveUp) -> Result<Stop> {
        let trail = match self.timeline.trail.take().filter(|trail| trail.moves == self.timeline.moves && trail.steps > 0) {
            Some(trail) => trail,
            None => match self.quietly(|session| session.find_trail(give_up))? {
                Ok(trail) => trail,
                Err(stop) => return Ok(stop),
            },
        };
        self.quietly(|session| session.follow(&trail, trail.steps - 1))?;
        let steps = trail.steps - 1;
        self.timeline.trail = Some(Trail { steps, moves: self.timeline.moves, ..trail });
        Ok(Stop::Step)
    }

    fn follow(&mut self, trail: &Trail, steps: u64) -> Result<()> {
        self.revive(&trail.from)?;
        for _ in 0..steps {
            self.step(None, &mut || false)?;
        }
        self.moved();
        Ok(())
    }

    /// Finds a way to here that ends in a few steps. Err: there is none, and what to say.
    fn find_trail(&mut self, give_up: GiveUp) -> Result<std::result::Result<Trail, Stop>> {
        let Some(here) = self.checkpoint()? else { return Ok(Err(Stop::Begin)) };
        let end = &here.place;
        let Some(base) = self.checkpoint_before(end)? else {
            self.revive(&here)?;
            return Ok(Err(Stop::Begin));
        };
        let near = self.start_of_stretch(base, end, give_up)?;
        let near = self.halve(near, end, give_up)?;
        match self.step_to(near, end)? {
            Some(trail) => Ok(Ok(trail)),
            None => {
                self.revive(&here)?;
                Ok(Err(Stop::Interrupted))
            }
        }
    }

    /// The last checkpoint that is not `end` itself.
    fn checkpoint_before(&mut self, end: &Place) -> Result<Option<Checkpoint>> {
        for index in (0..=self.timeline.base).rev() {
            let Some(checkpoint) = self.timeline.checkpoints.get(index).cloned() else { continue };
            if checkpoint.place.mark != end.mark {
                return Ok(Some(checkpoint));
            }
            self.revive(&checkpoint)?;
            if !end.is_here(&self.debuggee)? {
                return Ok(Some(checkpoint));
            }
        }
        Ok(None)
    }

    /// The latest moment before `end` at which its thread came out of the runtime.
    fn start_of_stretch(&mut self, base: Checkpoint, end: &Place, give_up: GiveUp) -> Result<Checkpoint> {
        let first = u64::from(end.in_runtime);
        for back in first..MOST_EVENTS_BACK {
            let Some(events) = end.mark.events.checked_sub(back) else { break };
            if base.place.mark.events >= events && base.place.thread == end.thread {
                break;
            }
            self.revive(&base)?;
            self.debuggee.pause = Some((end.thread, events));
            let stop = self.resume_to_pause(give_up)?;
            self.debuggee.pause = None;
            let is_before = stop == Stop::Step && self.mark().events <= end.mark.events && !end.is_here(&self.debuggee)?;
            if is_before && let Some(checkpoint) = self.checkpoint()? {
                return Ok(checkpoint);
            }
        }
        Ok(base)
    }

    /// Signals on the way do not stop it.
    pub(crate) fn resume_to_pause(&mut self, give_up: GiveUp) -> Result<Stop> {
        loop {
            match self.resume(give_up)? {
                Stop::Signal(_) if self.debuggee.fate == Fate::Open => {}
                stop => return Ok(stop),
            }
        }
    }

    /// A copy so near to `end` that the rest can be stepped.
    fn halve(&mut self, mut near: Checkpoint, end: &Place, give_up: GiveUp) -> Result<Checkpoint> {
        self.revive(&near)?;
        let since = Instant::now();
        if !matches!(self.run_to(end, None, give_up)?, Arrival::There(_)) {
            return Ok(near);
        }
        let mut slice = since.elapsed() / 2;
        for _ in 0..MOST_HALVINGS {
            if slice < SHORT {
                break;
            }
            self.revive(&near)?;
            let since = Instant::now();
            let arrival = self.run_to(end, None, &mut || since.elapsed() > slice)?;
            if arrival == Arrival::Interrupted && self.mark().events <= end.mark.events && !end.is_here(&self.debuggee)? {
                match self.checkpoint()? {
                    Some(nearer) => near = nearer,
                    None => break,
                }
            }
            slice /= 2;
        }
        Ok(near)
    }

    /// Steps from `near` to `end`; the way from the last copy made meanwhile. None: it is not there.
    fn step_to(&mut self, near: Checkpoint, end: &Place) -> Result<Option<Trail>> {
        self.revive(&near)?;
        let (mut from, mut before, mut steps) = (near, None, 0);
        loop {
            let stop = self.step(None, &mut || false)?;
            steps += 1;
            if end.is_here(&self.debuggee)? {
                break;
            }
            let is_past = self.mark().events > end.mark.events && self.debuggee.context().tid == end.thread;
            if is_past || !matches!(stop, Stop::Step | Stop::Signal(_)) {
                return Ok(None);
            }
            if steps == STRIDE
                && let Some(checkpoint) = self.checkpoint()?
            {
                before = Some(std::mem::replace(&mut from, checkpoint));
                steps = 0;
            }
        }
        // Most go back more than once.
        if let (true, Some(before)) = (steps < STRIDE / 4, before) {
            (from, steps) = (before, steps + STRIDE);
        }
        Ok(Some(Trail { from, steps, moves: self.timeline.moves }))
    }
}
