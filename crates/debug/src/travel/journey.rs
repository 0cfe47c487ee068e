//! Runs to an exact place ahead, and counts what would stop a user on the way.
//!
//! Probes count breakpoints, so that a million hits cost little. Everything else stops the process
//! each time.

use crate::checkpoint::Checkpoint;
use crate::error::Result;
use crate::inferior::{GiveUp, Sought, Stop};
use crate::place::Place;
use crate::replay::{Replay, Runs};
use retake_snapshot::probe::Why;
use std::time::{Duration, Instant};

/// The most steps to a place where a probe fits.
const MOST_STEPS_BEYOND: usize = 40;
/// The longest run to the next event. A later event is farther away than what is searched for.
const LONGEST_TO_EVENT: Duration = Duration::from_secs(2);
/// More hits than can happen.
const UNCOUNTED: u64 = u64::MAX >> 1;

/// The number of stops on a way.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    /// Stops at breakpoints.
    pub breakpoints: u64,
    /// Other stops.
    pub others: u64,
    /// The number of stops at breakpoints before the last other stop.
    before_last_other: u64,
}

impl Tally {
    /// Subtracts the last breakpoint.
    pub fn without_breakpoint(mut self) -> Self {
        self.breakpoints = self.breakpoints.saturating_sub(1);
        self
    }

    /// Subtracts the last stops.
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

/// A stop on a way, by its number among the stops of its kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Goal {
    Breakpoint(u64),
    Other(u64),
}

/// How a run towards a place ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Arrival {
    /// At the place, after these stops.
    There(Tally),
    /// At the goal.
    At(Stop),
    /// Nowhere: there are too many stops on the way.
    Many,
    Interrupted,
}

/// A place that a run can reach.
pub(crate) struct End {
    /// The wanted place.
    pub meant: Place,
    /// The end of the run: the wanted place, or a place a little further.
    place: Place,
    /// The stops from the wanted place to the end of the run, including a stop at the wanted place.
    beyond: Tally,
    /// Whether the end is after the next event.
    is_far: bool,
}

impl End {
    /// The end of the run, if no stop can lie between the wanted place and the end.
    pub fn exact(&self) -> Option<&Place> {
        (self.beyond == Tally::default()).then_some(&self.place)
    }

    /// Leaves out the stops beyond the wanted place.
    fn of_meant(&self, arrival: Arrival) -> Arrival {
        match arrival {
            Arrival::There(tally) => Arrival::There(tally.without(&self.beyond)),
            arrival => arrival,
        }
    }

    /// The address of the end of the run.
    pub fn address(&self) -> u64 {
        self.place.address()
    }

    /// The most visits of an address between the wanted place and the end.
    pub fn visits_beyond(&self) -> u64 {
        match self.is_far {
            true => u64::MAX,
            false if self.place.address() == self.meant.address() => 0,
            false => MOST_STEPS_BEYOND as u64,
        }
    }
}

/// Returns the end for a run to a checkpoint. If no probe fits there, visits of its address could
/// not be told apart without stopping at each. Then the run goes a few instructions further, or,
/// since no probe fits anywhere in writable code, to the next event.
pub(crate) fn end_at(replay: &mut Replay, checkpoint: &Checkpoint) -> Result<End> {
    let meant = checkpoint.place.clone();
    let exact =
        End { place: meant.clone(), meant: meant.clone(), beyond: Tally::default(), is_far: false };
    let others = replay.inferior.stops.places(&replay.inferior.text);
    if exact.place.announces.is_some() || checkpoint.is_at_event {
        return Ok(exact);
    }
    // Whether a probe fits depends on the code there. No probe can stop in the middle of an
    // instruction.
    replay.revive(checkpoint)?;
    if !replay.inferior.is_at_repeated()?
        && replay.inferior.probing(exact.place.address(), &others).is_some()
    {
        return Ok(exact);
    }
    // In the middle of a repeated instruction, the stop at its beginning has passed.
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
    match run_to(replay, &place, None, u64::MAX, &mut || false)? {
        Arrival::There(mut beyond) => {
            beyond.breakpoints += u64::from(is_stop);
            Ok(End { meant, place, beyond, is_far })
        }
        _ => Ok(exact),
    }
}

/// Finds the next place where a probe fits, if no event comes before.
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

/// Finds the place after the next event of this thread, if it soon comes to one.
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

/// Runs to an end, or to a stop on the way. Counts only the stops before the wanted place.
pub(crate) fn run_to_end(
    replay: &mut Replay,
    end: &End,
    goal: Option<Goal>,
    give_up: GiveUp,
) -> Result<Arrival> {
    run_to(replay, &end.place, goal, u64::MAX, give_up).map(|arrival| end.of_meant(arrival))
}

/// Runs to an end and counts the stops before the wanted place, unless there are more than `most`
/// that each stop the process.
pub(crate) fn count_to_end(
    replay: &mut Replay,
    end: &End,
    most: u64,
    give_up: GiveUp,
) -> Result<Arrival> {
    run_to(replay, &end.place, None, most, give_up).map(|arrival| end.of_meant(arrival))
}

/// Runs to `place`, which lies ahead or is here, or to a stop on the way.
fn run_to(
    replay: &mut Replay,
    place: &Place,
    goal: Option<Goal>,
    most: u64,
    give_up: GiveUp,
) -> Result<Arrival> {
    let first = match goal {
        Some(Goal::Breakpoint(number)) => number,
        _ => UNCOUNTED,
    };
    replay.inferior.planting.remaining = Some(first);
    let told = std::mem::replace(&mut replay.inferior.told, place.told());
    let arrival = Run { replay, place, goal, first, most }.count(give_up);
    replay.inferior.told = told;
    let planting = &mut replay.inferior.planting;
    (planting.remaining, planting.passes_place) = (None, false);
    arrival
}

/// A run to a place that counts the stops.
struct Run<'a> {
    replay: &'a mut Replay,
    place: &'a Place,
    goal: Option<Goal>,
    /// The number of breakpoints that were left at first.
    first: u64,
    /// How often the process may stop for what probes do not count.
    most: u64,
}

impl Run<'_> {
    /// The number of breakpoints that were hit.
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
            // A watchpoint reports an access before the place where it stops.
            let is_arrival = !matches!(stop, Stop::Watch(_)) && self.is_there()?;
            match stop {
                _ if is_arrival => {}
                Stop::Interrupted
                | Stop::Exited(_)
                | Stop::Killed(_)
                | Stop::Executing
                | Stop::End => return Ok(Arrival::Interrupted),
                Stop::Breakpoint if self.is_goal_reached()? => return Ok(Arrival::At(stop)),
                // The thread paused after a call, at an instruction with a breakpoint. When it runs
                // on, it would only step over that breakpoint.
                Stop::Step if self.is_goal_reached()? => return Ok(Arrival::At(Stop::Breakpoint)),
                Stop::Watch(_) | Stop::Signal(_) | Stop::Caught(_)
                    if self.replay.inferior.wants(stop) =>
                {
                    tally.others += 1;
                    tally.before_last_other = self.hits();
                    if self.goal == Some(Goal::Other(tally.others)) {
                        return Ok(Arrival::At(stop));
                    }
                    if tally.others > self.most {
                        return Ok(Arrival::Many);
                    }
                }
                _ => {}
            }
        }
    }

    /// Whether a stop is the goal. The stop is at a breakpoint, or at a visit that was not the
    /// place.
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

    /// Goes on to the next stop. In the stretch between events that contains the place, the run
    /// also stops at its address.
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
        // Run to the beginning of that stretch.
        let goal = place.announces.is_none().then_some((place.thread, place.mark.events));
        self.replay.inferior.pause = goal;
        let stop = self.replay.resume(give_up);
        self.replay.inferior.pause = None;
        stop
    }
}
