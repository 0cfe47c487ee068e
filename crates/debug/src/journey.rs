//! Getting to an exact place that is ahead, and counting what would stop a user on the way.
//!
//! Breakpoints on the way are counted by probes, so that a million hits cost little; all else stops
//! the process each time.

use crate::debuggee::{GiveUp, Sought, Stop};
use crate::error::Result;
use crate::place::Place;
use crate::session::Session;
use crate::stops::Stops;
use crate::timeline::Checkpoint;
use retake_snapshot::probe::Why;
use std::time::{Duration, Instant};

/// A place for a probe is not far.
const MOST_STEPS_BEYOND: usize = 40;
/// An event that comes later is further than what is to be found.
const LONGEST_TO_EVENT: Duration = Duration::from_secs(2);
/// More hits than there can be.
const UNCOUNTED: u64 = u64::MAX >> 1;

/// The stops on a way.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    /// At breakpoints.
    pub breakpoints: u64,
    /// Others.
    pub others: u64,
    /// How many of those at breakpoints came before the last other one.
    before_last_other: u64,
}

impl Tally {
    /// Without the last of them.
    fn without(mut self, last: &Self) -> Self {
        self.breakpoints = self.breakpoints.saturating_sub(last.breakpoints);
        self.others = self.others.saturating_sub(last.others);
        self
    }

    /// The last stop.
    pub fn last(&self) -> Option<Goal> {
        if self.breakpoints > self.before_last_other {
            return Some(Goal::Breakpoint(self.breakpoints));
        }
        (self.others > 0).then_some(Goal::Other(self.others))
    }
}

/// A stop on a way, by its number among those of its kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Goal {
    Breakpoint(u64),
    Other(u64),
}

/// How a run towards a place ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Arrival {
    /// There, after so many stops.
    There(Tally),
    /// At the goal.
    At(Stop),
    Interrupted,
}

/// A place that a run can be sent to.
pub(crate) struct End {
    /// The place that is meant.
    pub meant: Place,
    /// Where the run goes: there, or a little further.
    place: Place,
    /// The stops from the one to the other, that at the first included.
    beyond: Tally,
    /// It is behind the next event.
    is_far: bool,
}

impl End {
    /// Where the run goes, if no stop can lie between that and the place that is meant.
    pub fn exact(&self) -> Option<&Place> {
        (self.beyond == Tally::default()).then_some(&self.place)
    }

    /// The address of where the run goes.
    pub fn address(&self) -> u64 {
        self.place.address()
    }

    /// At most so many visits of an address lie beyond the place that is meant.
    pub fn visits_beyond(&self) -> u64 {
        match self.is_far {
            true => u64::MAX,
            false if self.place.address() == self.meant.address() => 0,
            false => MOST_STEPS_BEYOND as u64,
        }
    }
}

impl Session {
    /// Where a run goes that is to end at a checkpoint. If no probe fits there, visits of its
    /// address could not be told apart without stopping at each; so the run goes a few instructions
    /// further, or to the next event: in code that can be written no probe fits anywhere.
    pub(crate) fn end_at(&mut self, checkpoint: &Checkpoint) -> Result<End> {
        let meant = checkpoint.place.clone();
        let exact = End {
            place: meant.clone(),
            meant: meant.clone(),
            beyond: Tally::default(),
            is_far: false,
        };
        let others = self.debuggee.breakpoint_places();
        if exact.place.announces.is_some() || checkpoint.is_at_event {
            return Ok(exact);
        }
        // Whether a probe fits depends on what the program looks for there. None finds what is in
        // the midst of an instruction.
        self.revive(checkpoint)?;
        if !self.debuggee.is_at_repeated()?
            && self.debuggee.can_probe(exact.place.address(), &others)
        {
            return Ok(exact);
        }
        let is_stop = self.debuggee.is_at_breakpoint()?;
        let (place, is_far) = match self.quietly(|session| session.step_to_probe(&others))? {
            Some(place) => (place, false),
            None => {
                self.revive(checkpoint)?;
                let Some(place) = self.quietly(Self::run_to_event)? else { return Ok(exact) };
                (place, true)
            }
        };
        self.revive(checkpoint)?;
        match self.run_to(&place, None, &mut || false)? {
            Arrival::There(mut beyond) => {
                beyond.breakpoints += u64::from(is_stop);
                Ok(End { meant, place, beyond, is_far })
            }
            _ => Ok(exact),
        }
    }

    /// The next place where a probe fits, if no event comes before.
    fn step_to_probe(&mut self, others: &[u64]) -> Result<Option<Place>> {
        let mark = self.mark();
        for _ in 0..MOST_STEPS_BEYOND {
            let is_over = self.debuggee.finish_repeated()?.is_some()
                || self.step(None, &mut || false)? == Stop::Step;
            if !is_over || self.mark() != mark {
                return Ok(None);
            }
            let address = self.debuggee.program_counter()?;
            if self.debuggee.can_probe(address, others) {
                return Ok(self.checkpoint()?.map(|checkpoint| checkpoint.place));
            }
        }
        Ok(None)
    }

    /// The place behind the next event of this thread, if it comes to one soon.
    fn run_to_event(&mut self) -> Result<Option<Place>> {
        let context = self.debuggee.context();
        let (since, events) = (Instant::now(), context.event_count + 1);
        self.debuggee.pause = Some((context.tid, events));
        let stop = self.resume(&mut || since.elapsed() > LONGEST_TO_EVENT);
        self.debuggee.pause = None;
        let here = self.debuggee.context();
        if stop? != Stop::Step || here.tid != context.tid || here.event_count < events {
            return Ok(None);
        }
        Ok(self.checkpoint()?.map(|checkpoint| checkpoint.place))
    }

    /// Runs on to an end, or to a stop on the way. The stops are those before the place that is
    /// meant.
    pub(crate) fn run_to_end(
        &mut self,
        end: &End,
        goal: Option<Goal>,
        give_up: GiveUp,
    ) -> Result<Arrival> {
        Ok(match self.run_to(&end.place, goal, give_up)? {
            Arrival::There(tally) => Arrival::There(tally.without(&end.beyond)),
            arrival => arrival,
        })
    }

    /// Runs on to `place`, which is not behind us, or to a stop on the way.
    pub(crate) fn run_to(
        &mut self,
        place: &Place,
        goal: Option<Goal>,
        give_up: GiveUp,
    ) -> Result<Arrival> {
        let first = match goal {
            Some(Goal::Breakpoint(number)) => number,
            _ => UNCOUNTED,
        };
        self.debuggee.remaining = Some(first);
        let told = std::mem::replace(&mut self.debuggee.told, place.told());
        let arrival = self.count_to(place, goal, first, give_up);
        self.debuggee.told = told;
        (self.debuggee.remaining, self.debuggee.passes_place) = (None, false);
        arrival
    }

    fn count_to(
        &mut self,
        place: &Place,
        goal: Option<Goal>,
        first: u64,
        give_up: GiveUp,
    ) -> Result<Arrival> {
        let mut tally = Tally::default();
        loop {
            tally.breakpoints = first - self.debuggee.remaining.unwrap_or(first);
            if place.is_here(&self.debuggee)? {
                return Ok(Arrival::There(tally));
            }
            let stop = self.towards(place, give_up)?;
            // What a watchpoint tells of comes before where it stops.
            let is_arrival = !matches!(stop, Stop::Watch(_)) && place.is_here(&self.debuggee)?;
            match stop {
                _ if is_arrival => {}
                Stop::Interrupted
                | Stop::Exited(_)
                | Stop::Killed(_)
                | Stop::Executing
                | Stop::End => return Ok(Arrival::Interrupted),
                Stop::Breakpoint if self.is_goal_reached()? => return Ok(Arrival::At(stop)),
                // It paused behind a call, where the instruction to come has a breakpoint: it would
                // only step off that.
                Stop::Step if self.is_goal_reached()? => return Ok(Arrival::At(Stop::Breakpoint)),
                Stop::Watch(_) | Stop::Signal(_) | Stop::Caught(_) if self.debuggee.wants(stop) => {
                    tally.others += 1;
                    tally.before_last_other = first - self.debuggee.remaining.unwrap_or(first);
                    if goal == Some(Goal::Other(tally.others)) {
                        return Ok(Arrival::At(stop));
                    }
                }
                _ => {}
            }
        }
    }

    /// At a stop for a breakpoint, or for a place that it was not.
    fn is_goal_reached(&mut self) -> Result<bool> {
        match self.debuggee.process.stopped_at_probe {
            Some(Why::Counted) => Ok(true),
            Some(Why::Place) => {
                self.debuggee.passes_place = true;
                Ok(false)
            }
            None if self.debuggee.is_at_breakpoint()? => {
                let remaining = self.debuggee.remaining.map(|remaining| remaining - 1);
                self.debuggee.remaining = remaining;
                Ok(remaining == Some(0))
            }
            None => Ok(false),
        }
    }

    /// Goes on to the next stop. In the stretch between events in which `place` is, its address is
    /// one.
    fn towards(&mut self, place: &Place, give_up: GiveUp) -> Result<Stop> {
        let context = self.debuggee.context();
        let is_near = context.tid == place.thread && context.event_count >= place.mark.events;
        if is_near && place.announces.is_none() {
            self.debuggee.sought =
                Some(Sought { address: place.address(), tests: place.tests(), stack: None });
            let stop = self.resume(give_up);
            self.debuggee.sought = None;
            return stop;
        }
        // To the moment when that stretch begins.
        let goal = place.announces.is_none().then_some((place.thread, place.mark.events));
        self.debuggee.pause = goal;
        let stop = self.resume(give_up);
        self.debuggee.pause = None;
        stop
    }

    /// Without the user's breakpoints, watchpoints and catchpoints.
    pub(crate) fn quietly<T>(&mut self, act: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        let users = Stops::of(&self.debuggee);
        Stops::default().put(&mut self.debuggee);
        let result = act(self);
        users.put(&mut self.debuggee);
        result
    }
}
