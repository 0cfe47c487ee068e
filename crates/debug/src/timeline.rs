//! Checkpoints along the way, and how to get from one of them to an exact place.

use crate::checkpoint::Snapshot;
use crate::debuggee::{Fate, GiveUp, Stop};
use crate::error::Result;
use crate::place::{Mark, Place};
use crate::session::Session;
use crate::watchpoints::Watchpoints;
use std::collections::BTreeSet;
use std::rc::Rc;
use std::time::{Duration, Instant};

/// Between two checkpoints, at first: as much is executed again at most to go back a little.
const INTERVAL: Duration = Duration::from_millis(100);
/// A way of more steps is not worth keeping.
const LONG_TRAIL: u64 = 2048;
/// With more, every second of the older ones is given up.
const MOST_CHECKPOINTS: usize = 48;

/// A place that can be gone back to.
#[derive(Debug, Clone)]
pub(crate) struct Checkpoint {
    pub place: Place,
    snapshot: Rc<Snapshot>,
    /// Whether the stop there was for a signal.
    signal: Option<i32>,
    fate: Fate,
}

/// How to get to where the process is: a number of steps from a checkpoint.
#[derive(Debug)]
pub(crate) struct Trail {
    pub from: Checkpoint,
    pub steps: u64,
    /// The number of the move that led here.
    pub moves: u64,
}

/// The checkpoints, in order, and where among them the process is.
#[derive(Debug, Default)]
pub(crate) struct Timeline {
    pub checkpoints: Vec<Checkpoint>,
    /// The last that is certainly not behind us.
    pub base: usize,
    /// Counts every change of where the process is.
    pub moves: u64,
    pub trail: Option<Trail>,
    /// The user's, by number.
    pub kept: Vec<(u64, Checkpoint)>,
    pub last_signal: Option<i32>,
}

/// How a run towards a place ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Arrival {
    /// There, after so many stops.
    There(u64),
    /// At the stop with the wanted number.
    At(Stop),
    Interrupted,
}

impl Session {
    // ---- forwards ----

    /// Goes on until something stops the program, leaving checkpoints behind.
    pub(crate) fn forward(&mut self, give_up: GiveUp) -> Result<Stop> {
        self.moved();
        if self.timeline.checkpoints.is_empty() {
            self.add_checkpoint()?;
        }
        loop {
            let since = Instant::now();
            let mut is_asked = false;
            let stop = self.resume(&mut || {
                is_asked |= give_up();
                is_asked || since.elapsed() > INTERVAL
            })?;
            self.console.collect()?;
            self.timeline.last_signal = None;
            self.advance_base()?;
            match stop {
                Stop::Interrupted if !is_asked => self.add_checkpoint()?,
                Stop::Signal(number) => {
                    self.timeline.last_signal = Some(number);
                    return Ok(stop);
                }
                stop => return Ok(stop),
            }
        }
    }

    /// One instruction forwards.
    pub(crate) fn forward_step(&mut self, tid: Option<i32>, give_up: GiveUp) -> Result<Stop> {
        if self.timeline.checkpoints.is_empty() {
            self.add_checkpoint()?;
        }
        let trail = self.timeline.trail.take().filter(|trail| trail.moves == self.timeline.moves);
        let is_same_thread = tid.is_none_or(|tid| tid == self.debuggee.current);
        let stop = self.step(tid, give_up)?;
        self.moved();
        self.timeline.last_signal = match stop {
            Stop::Signal(number) => Some(number),
            _ => None,
        };
        if let (Stop::Step, true, Some(trail)) = (stop, is_same_thread, trail)
            && trail.steps < LONG_TRAIL
        {
            self.timeline.trail = Some(Trail { steps: trail.steps + 1, moves: self.timeline.moves, ..trail });
        }
        self.advance_base()?;
        Ok(stop)
    }

    pub(crate) fn moved(&mut self) {
        self.timeline.moves += 1;
    }

    /// Where the process is, in the order of events.
    pub(crate) fn mark(&self) -> Mark {
        let context = self.debuggee.context();
        Mark { turn: context.turn, events: context.event_count }
    }

    fn advance_base(&mut self) -> Result<()> {
        let mark = self.mark();
        let timeline = &mut self.timeline;
        while timeline.checkpoints.get(timeline.base + 1).is_some_and(|next| next.place.mark < mark) {
            timeline.base += 1;
        }
        Ok(())
    }

    /// A copy of here, if one can be made.
    pub(crate) fn checkpoint(&mut self) -> Result<Option<Checkpoint>> {
        let Some(running) = &self.running else { return Ok(None) };
        let current = self.debuggee.current;
        let Some(snapshot) = Snapshot::take(&mut self.debuggee.process, running.header(), current)? else { return Ok(None) };
        let snapshot = Rc::new(snapshot);
        let place = Place::here(&self.debuggee, Some(Rc::clone(&snapshot)))?;
        Ok(Some(Checkpoint { place, snapshot, signal: self.timeline.last_signal, fate: self.debuggee.fate }))
    }

    fn add_checkpoint(&mut self) -> Result<()> {
        let Some(fresh) = self.checkpoint()? else { return Ok(()) };
        let timeline = &mut self.timeline;
        let at = (timeline.base + 1).min(timeline.checkpoints.len());
        // Whether those of the same mark come before or after it, nobody knows.
        let same = timeline.checkpoints[at..].iter().take_while(|other| other.place.mark <= fresh.place.mark).count();
        timeline.checkpoints.splice(at..at + same, [fresh]);
        timeline.base = at;
        if timeline.checkpoints.len() > MOST_CHECKPOINTS {
            self.thin_out();
        }
        Ok(())
    }

    /// The first one stays, and so do the latest.
    fn thin_out(&mut self) {
        let timeline = &mut self.timeline;
        let half = timeline.checkpoints.len() / 2;
        let is_kept = |index: usize| index >= half || index.is_multiple_of(2);
        let base = (0..timeline.base).filter(|index| is_kept(*index)).count();
        let base = if is_kept(timeline.base) { base } else { base.saturating_sub(1) };
        let mut index = 0;
        timeline.checkpoints.retain(|_| {
            index += 1;
            is_kept(index - 1)
        });
        timeline.base = base;
    }

    // ---- going to a checkpoint ----

    /// Puts the process where a checkpoint was made.
    pub(crate) fn revive(&mut self, checkpoint: &Checkpoint) -> Result<()> {
        let Some(running) = &self.running else { return Ok(()) };
        let (process, current) = checkpoint.snapshot.revive(running.header(), &mut self.debuggee.process)?;
        self.debuggee.process = process;
        self.debuggee.current = current;
        self.debuggee.fate = checkpoint.fate;
        self.debuggee.end_told = true;
        self.debuggee.text.refresh(self.debuggee.process.pid);
        self.timeline.last_signal = checkpoint.signal;
        self.moved();
        Ok(())
    }

    pub(crate) fn revive_number(&mut self, index: usize) -> Result<Place> {
        let checkpoint = self.timeline.checkpoints[index].clone();
        self.revive(&checkpoint)?;
        self.timeline.base = index;
        Ok(checkpoint.place)
    }

    // ---- to an exact place ----

    /// Runs on to `place`, which is not behind us. Counts the stops on the way that a user would be told of, and ends at number `wanted`.
    pub(crate) fn run_to(&mut self, place: &Place, wanted: Option<u64>, give_up: GiveUp) -> Result<Arrival> {
        let mut stops = 0;
        loop {
            if place.is_here(&self.debuggee)? {
                return Ok(Arrival::There(stops));
            }
            let stop = self.towards(place, give_up)?;
            let is_told = match stop {
                Stop::Interrupted | Stop::Exited(_) | Stop::Killed(_) => return Ok(Arrival::Interrupted),
                Stop::Breakpoint => self.debuggee.breakpoints.contains(&self.debuggee.program_counter()?),
                Stop::Watch(_) | Stop::Signal(_) => true,
                Stop::Step | Stop::Begin | Stop::End => false,
            };
            // What a watchpoint tells of comes before where it stops.
            let is_arrival = place.is_here(&self.debuggee)?;
            if is_told && (!is_arrival || matches!(stop, Stop::Watch(_))) {
                stops += 1;
                if Some(stops) == wanted {
                    return Ok(Arrival::At(stop));
                }
            }
            if is_arrival {
                return Ok(Arrival::There(stops));
            }
            if stop == Stop::End {
                return Ok(Arrival::Interrupted);
            }
        }
    }

    /// Goes on to the next stop. In the stretch between events in which `place` is, its address is one.
    fn towards(&mut self, place: &Place, give_up: GiveUp) -> Result<Stop> {
        let context = self.debuggee.context();
        let is_near = context.tid == place.thread && context.event_count >= place.mark.events;
        if is_near && !place.in_runtime {
            let address = place.address();
            let is_new = self.debuggee.private_places.insert(address);
            let stop = self.resume(give_up);
            if is_new {
                self.debuggee.private_places.remove(&address);
            }
            return stop;
        }
        // To the moment when that stretch begins.
        let goal = if place.in_runtime { None } else { Some((place.thread, place.mark.events)) };
        self.debuggee.pause = goal;
        let stop = self.resume(give_up);
        self.debuggee.pause = None;
        stop
    }

    /// Without the user's breakpoints and watchpoints.
    pub(crate) fn quietly<T>(&mut self, act: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        let breakpoints: BTreeSet<u64> = std::mem::take(&mut self.debuggee.breakpoints);
        let watchpoints: Watchpoints = std::mem::take(&mut self.debuggee.watchpoints);
        let result = act(self);
        self.debuggee.breakpoints = breakpoints;
        self.debuggee.watchpoints = watchpoints;
        result
    }
}
