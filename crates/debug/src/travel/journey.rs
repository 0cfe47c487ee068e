//! Getting to an exact place that is ahead, and counting what would stop a user on the way.
//!
//! Breakpoints on the way are counted by probes, so that a million hits cost little; all else stops
//! the process each time.

use crate::checkpoint::Checkpoint;
use crate::error::Result;
use crate::inferior::{GiveUp, Sought, Stop};
use crate::place::Place;
use crate::replay::{Replay, Runs};
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
    /// Without the last breakpoint.
    pub fn without_breakpoint(mut self) -> Self {
        self.breakpoints = self.breakpoints.saturating_sub(1);
        self
    }

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

/// Where a run goes that is to end at a checkpoint. If no probe fits there, visits of its
/// address could not be told apart without stopping at each; so the run goes a few instructions
/// further, or to the next event: in code that can be written no probe fits anywhere.
pub(crate) fn end_at(replay: &mut Replay, checkpoint: &Checkpoint) -> Result<End> {
    let meant = checkpoint.place.clone();
    let exact =
        End { place: meant.clone(), meant: meant.clone(), beyond: Tally::default(), is_far: false };
    let others = replay.inferior.stops.places(&replay.inferior.text);
    if exact.place.announces.is_some() || checkpoint.is_at_event {
        return Ok(exact);
    }
    // Whether a probe fits depends on what the program looks for there. None finds what is in
    // the midst of an instruction.
    replay.revive(checkpoint)?;
    if !replay.inferior.is_at_repeated()?
        && replay.inferior.probing(exact.place.address(), &others).is_some()
    {
        return Ok(exact);
    }
    // In the midst of a repeated instruction the stop where that begins is behind us.
    let is_stop = replay.inferior.is_at_breakpoint()? && !replay.inferior.is_at_repeated()?;
    let (place, is_far) = match replay.quietly(|replay| step_to_probe(replay, &others))? {
        Some(place) => (place, false),
        None => {
            replay.revive(checkpoint)?;
            let Some(place) = replay.quietly(run_to_event)? else { return Ok(exact) };
            (place, true)
        }
    };
    replay.revive(checkpoint)?;
    match run_to(replay, &place, None, &mut || false)? {
        Arrival::There(mut beyond) => {
            beyond.breakpoints += u64::from(is_stop);
            Ok(End { meant, place, beyond, is_far })
        }
        _ => Ok(exact),
    }
}

/// The next place where a probe fits, if no event comes before.
fn step_to_probe(replay: &mut Replay, others: &[u64]) -> Result<Option<Place>> {
    let mark = replay.mark();
    for _ in 0..MOST_STEPS_BEYOND {
        let is_over = replay.inferior.finish_repeated()?.is_some()
            || replay.step(None, &mut || false)? == Stop::Step;
        if !is_over || replay.mark() != mark {
            return Ok(None);
        }
        let address = replay.inferior.program_counter()?;
        if replay.inferior.probing(address, others).is_some() {
            return Ok(replay.checkpoint()?.map(|checkpoint| checkpoint.place));
        }
    }
    Ok(None)
}

/// The place behind the next event of this thread, if it comes to one soon.
fn run_to_event(replay: &mut Replay) -> Result<Option<Place>> {
    let context = replay.inferior.context();
    let (since, events) = (Instant::now(), context.event_count + 1);
    replay.inferior.pause = Some((context.tid, events));
    let stop = replay.resume(&mut || since.elapsed() > LONGEST_TO_EVENT);
    replay.inferior.pause = None;
    let here = replay.inferior.context();
    if stop? != Stop::Step || here.tid != context.tid || here.event_count < events {
        return Ok(None);
    }
    Ok(replay.checkpoint()?.map(|checkpoint| checkpoint.place))
}

/// Runs on to an end, or to a stop on the way. The stops are those before the place that is
/// meant.
pub(crate) fn run_to_end(
    replay: &mut Replay,
    end: &End,
    goal: Option<Goal>,
    give_up: GiveUp,
) -> Result<Arrival> {
    Ok(match run_to(replay, &end.place, goal, give_up)? {
        Arrival::There(tally) => Arrival::There(tally.without(&end.beyond)),
        arrival => arrival,
    })
}

/// Runs on to `place`, which is not behind us, or to a stop on the way.
fn run_to(
    replay: &mut Replay,
    place: &Place,
    goal: Option<Goal>,
    give_up: GiveUp,
) -> Result<Arrival> {
    let first = match goal {
        Some(Goal::Breakpoint(number)) => number,
        _ => UNCOUNTED,
    };
    replay.inferior.planting.remaining = Some(first);
    let told = std::mem::replace(&mut replay.inferior.told, place.told());
    let arrival = Run { replay, place, goal, first }.count(give_up);
    replay.inferior.told = told;
    let planting = &mut replay.inferior.planting;
    (planting.remaining, planting.passes_place) = (None, false);
    arrival
}

/// A run to a place, on which the stops are counted.
struct Run<'a> {
    replay: &'a mut Replay,
    place: &'a Place,
    goal: Option<Goal>,
    /// So many breakpoints were left to count at first.
    first: u64,
}

impl Run<'_> {
    /// How many breakpoints were hit.
    fn hits(&self) -> u64 {
        self.first - self.replay.inferior.planting.remaining.unwrap_or(self.first)
    }

    fn is_there(&self) -> Result<bool> {
        self.place.is_here(&self.replay.inferior)
    }

    fn count(&mut self, give_up: GiveUp) -> Result<Arrival> {
        let mut tally = Tally::default();
        loop {
            tally.breakpoints = self.hits();
            if self.is_there()? {
                return Ok(Arrival::There(tally));
            }
            let stop = self.go_on(give_up)?;
            // What a watchpoint tells of comes before where it stops.
            let is_arrival = !matches!(stop, Stop::Watch(_)) && self.is_there()?;
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
                Stop::Watch(_) | Stop::Signal(_) | Stop::Caught(_)
                    if self.replay.inferior.wants(stop) =>
                {
                    tally.others += 1;
                    tally.before_last_other = self.hits();
                    if self.goal == Some(Goal::Other(tally.others)) {
                        return Ok(Arrival::At(stop));
                    }
                }
                _ => {}
            }
        }
    }

    /// At a stop for a breakpoint, or for a place that it was not.
    fn is_goal_reached(&mut self) -> Result<bool> {
        let inferior = &mut self.replay.inferior;
        match inferior.process.stopped_at_probe {
            Some(Why::Counted) => Ok(true),
            Some(Why::Place) => {
                inferior.planting.passes_place = true;
                Ok(false)
            }
            None if inferior.is_at_breakpoint()? => {
                let remaining = inferior.planting.remaining.map(|remaining| remaining - 1);
                inferior.planting.remaining = remaining;
                Ok(remaining == Some(0))
            }
            None => Ok(false),
        }
    }

    /// Goes on to the next stop. In the stretch between events in which the place is, its address
    /// is one.
    fn go_on(&mut self, give_up: GiveUp) -> Result<Stop> {
        let place = self.place;
        let context = self.replay.inferior.context();
        let is_near = context.tid == place.thread && context.event_count >= place.mark.events;
        if is_near && place.announces.is_none() {
            self.replay.inferior.planting.sought =
                Some(Sought { address: place.address(), tests: place.tests(), stack: None });
            let stop = self.replay.resume(give_up);
            self.replay.inferior.planting.sought = None;
            return stop;
        }
        // To the moment when that stretch begins.
        let goal = place.announces.is_none().then_some((place.thread, place.mark.events));
        self.replay.inferior.pause = goal;
        let stop = self.replay.resume(give_up);
        self.replay.inferior.pause = None;
        stop
    }
}
