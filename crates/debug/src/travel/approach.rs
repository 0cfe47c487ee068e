//! One instruction back. This finds a copy so near to a place that the rest can be stepped, without
//! stepping through what ran for long.
//!
//! The program is inside some loop. A probe counts the visits of an address on the way to the
//! place. Then the program is stopped at one of the last visits. On the way, copies are left at
//! distances that shrink by a factor, so that the next search begins near.

use crate::checkpoint::Checkpoint;
use crate::error::Result;
use crate::inferior::{Fate, GiveUp, Stop};
use crate::kept::{self, Kept};
use crate::place::Place;
use crate::replay::Replay;
use crate::timeline::Timeline;
use crate::travel::journey::{Arrival, End, Goal, end_at, run_to_end};
use crate::travel::trail::Trail;
use std::collections::{BTreeSet, HashMap};

/// The most events to go back to find one after which the program ran.
const MOST_EVENTS_BACK: u64 = 64;
/// The number of steps to see whether the place is near.
const STEPS: u64 = 1000;
/// The part of the visits of an address in these steps that is left to step through. It gives a way
/// that serves for a while.
const KEPT: (u64, u64) = (3, 4);
/// Each copy is nearer to the place by this factor.
const FACTOR: u64 = 8;
/// The most rounds, for nested loops and what lies between them.
const MOST_ROUNDS: usize = 200;
/// The number of addresses that are tried in a round.
const MOST_ADDRESSES: usize = 4;

/// The result of stepping for a while.
enum Stepped {
    There(u64),
    /// The place has not been reached. The map has the number of visits of each address.
    NotYet(HashMap<u64, u64>),
    /// The thread went past the place, or the user asked to stop.
    Lost,
}

/// Why no way to here is known.
pub(super) enum NoTrail {
    /// No way is known. This is the stop to report.
    Stop(Stop),
    /// The thread begins here; other threads ran before.
    ThreadBegins,
}

/// Finds a way to here that ends in a few steps.
///
/// # Errors
/// The replay diverged, or the process cannot be controlled.
pub(super) fn find_trail(
    timeline: &mut Timeline,
    kept: &mut Kept,
    give_up: GiveUp,
) -> Result<std::result::Result<Trail, NoTrail>> {
    let nothing = |stop| Ok(Err(NoTrail::Stop(stop)));
    let Some(here) = timeline.replay.checkpoint()? else { return nothing(Stop::Begin) };
    let place = &here.place;
    timeline.replay.inferior.told = place.told();
    let Some(index) = timeline.index_before(place)? else {
        timeline.replay.revive(&here)?;
        return nothing(Stop::Begin);
    };
    let mark = place.mark;
    let index =
        kept.bring_in(timeline, index, |_, _, one| kept::mark(one) < mark)?.unwrap_or(index);
    timeline.rebase(index);
    let base = timeline.checkpoints[index].clone();
    if is_first_of_thread(&mut timeline.replay, &base, place, give_up)? {
        timeline.replay.revive(&here)?;
        return Ok(Err(NoTrail::ThreadBegins));
    }
    let near = start_of_stretch(&mut timeline.replay, base, place, give_up)?;
    let end = end_at(&mut timeline.replay, &here)?;
    match (Approach { timeline, end: &end, give_up }).steps_from(near)? {
        Some((from, steps)) => Ok(Ok(Trail::new(timeline, from, steps))),
        None => {
            timeline.replay.revive(&here)?;
            nothing(Stop::Interrupted)
        }
    }
}

/// Whether a place after `base` is where its thread begins, so that no instruction of the thread
/// comes before it.
fn is_first_of_thread(
    replay: &mut Replay,
    base: &Checkpoint,
    end: &Place,
    give_up: GiveUp,
) -> Result<bool> {
    if base.count(end.thread).is_some() {
        return Ok(false);
    }
    replay.revive(base)?;
    replay.inferior.pause = Some((end.thread, 0));
    let stop = pause_before(replay, end, give_up);
    replay.inferior.pause = None;
    Ok(stop?.is_none())
}

/// Finds the latest moment before `end`, and after `base`, at which its thread left the runtime.
///
/// # Errors
/// The replay diverged, or the process cannot be controlled.
pub(crate) fn start_of_stretch(
    replay: &mut Replay,
    base: Checkpoint,
    end: &Place,
    give_up: GiveUp,
) -> Result<Checkpoint> {
    for back in 0..MOST_EVENTS_BACK {
        let Some(events) = end.mark.events.checked_sub(back) else { break };
        if base.place.mark.events >= events && base.place.thread == end.thread {
            break;
        }
        replay.revive(&base)?;
        replay.inferior.pause = Some((end.thread, events));
        let found = pause_before(replay, end, give_up);
        replay.inferior.pause = None;
        match found? {
            Some(Stop::Step) if replay.mark().events <= end.mark.events => {
                if let Some(checkpoint) = replay.checkpoint()? {
                    return Ok(checkpoint);
                }
            }
            Some(Stop::Interrupted) => break,
            _ => {}
        }
    }
    Ok(base)
}

/// Runs until the thread that is to pause does. Returns `None` if `end` comes first. Announcements
/// may come before or after that with the same number of events.
fn pause_before(replay: &mut Replay, end: &Place, give_up: GiveUp) -> Result<Option<Stop>> {
    loop {
        let stop = replay.resume(give_up)?;
        if end.is_here(&replay.inferior)? {
            return Ok(None);
        }
        if !matches!(stop, Stop::Signal(_) | Stop::Caught(_))
            || replay.inferior.ending.fate != Fate::Open
        {
            return Ok(Some(stop));
        }
    }
}

/// A search that comes ever nearer to an end.
struct Approach<'a> {
    timeline: &'a mut Timeline,
    end: &'a End,
    give_up: GiveUp<'a>,
}

impl Approach<'_> {
    /// Returns a copy from which the end can be reached by steps, and the number of steps.
    fn steps_from(&mut self, mut near: Checkpoint) -> Result<Option<(Checkpoint, u64)>> {
        for _ in 0..MOST_ROUNDS {
            self.timeline.replay.revive(&near)?;
            let visits = match self.step_towards()? {
                Stepped::There(steps) => return Ok(Some((near, steps))),
                Stepped::Lost => return Ok(None),
                Stepped::NotYet(visits) => visits,
            };
            // If no address is visited again, go on from where the steps led.
            let Some(stepped) = self.timeline.replay.checkpoint()? else { return Ok(None) };
            let mut nearer = None;
            for address in self.addresses(&visits) {
                let kept = (visits.get(&address).copied().unwrap_or(0) * KEPT.0 / KEPT.1).max(1);
                match self.go_to_last_visits(&stepped, address, kept)? {
                    Ok(Some(checkpoint)) => {
                        nearer = Some(checkpoint);
                        break;
                    }
                    Ok(None) => {}
                    Err(Stop::Interrupted) => return Ok(None),
                    Err(_) => {}
                }
            }
            near = nearer.unwrap_or(stepped);
        }
        Ok(None)
    }

    /// The addresses whose visits are worth counting: the end's own first, then the ones visited
    /// most.
    fn addresses(&mut self, visits: &HashMap<u64, u64>) -> Vec<u64> {
        let own = self.end.meant.address();
        let mut hot: Vec<(u64, u64)> = visits
            .iter()
            .map(|(address, count)| (*count, *address))
            .filter(|(_, address)| *address != own)
            .collect();
        hot.sort_unstable();
        let others = hot.into_iter().rev().map(|(_, address)| address);
        let inferior = &mut self.timeline.replay.inferior;
        std::iter::once(own)
            .chain(others)
            .filter(|address| inferior.probing(*address, &[self.end.address()]).is_some())
            .take(MOST_ADDRESSES)
            .collect()
    }

    fn step_towards(&mut self) -> Result<Stepped> {
        let (replay, end) = (&mut self.timeline.replay, &self.end.meant);
        let mut visits: HashMap<u64, u64> = HashMap::new();
        for steps in 1..=STEPS {
            let stop = replay.step(None, &mut || false)?;
            if end.is_here(&replay.inferior)? {
                return Ok(Stepped::There(steps));
            }
            let is_past = replay.mark().events > end.mark.events
                && replay.inferior.context().tid == end.thread;
            if is_past
                || !matches!(stop, Stop::Step | Stop::Signal(_) | Stop::Caught(_))
                || (self.give_up)()
            {
                return Ok(Stepped::Lost);
            }
            *visits.entry(replay.inferior.program_counter()?).or_default() += 1;
        }
        Ok(Stepped::NotYet(visits))
    }

    /// Goes to one of the last visits of an address on the way from a copy to the end, so that
    /// `kept` visits are left. Returns `None` if there are none, and an error if it was
    /// interrupted.
    fn go_to_last_visits(
        &mut self,
        from: &Checkpoint,
        address: u64,
        kept: u64,
    ) -> Result<std::result::Result<Option<Checkpoint>, Stop>> {
        self.timeline.replay.inferior.stops.breakpoints = BTreeSet::from([address]);
        let result = self.count_and_go(from, kept);
        self.timeline.replay.inferior.stops.breakpoints.clear();
        result
    }

    fn count_and_go(
        &mut self,
        from: &Checkpoint,
        kept: u64,
    ) -> Result<std::result::Result<Option<Checkpoint>, Stop>> {
        let replay = &mut self.timeline.replay;
        replay.revive(from)?;
        let Arrival::There(tally) = run_to_end(replay, self.end, None, self.give_up)? else {
            return Ok(Err(Stop::Interrupted));
        };
        let mut left = tally.breakpoints.saturating_sub(self.end.visits_beyond());
        if left == 0 {
            return Ok(Ok(None));
        }
        replay.revive(from)?;
        loop {
            // The first visit may be here, but leaving out one visit does no harm.
            let ahead = if left > kept * FACTOR {
                left - left / FACTOR
            } else {
                left.saturating_sub(kept).max(1)
            };
            let last = if left <= kept { left } else { ahead };
            let (replay, goal) = (&mut self.timeline.replay, Some(Goal::Breakpoint(last)));
            if !matches!(run_to_end(replay, self.end, goal, self.give_up)?, Arrival::At(_)) {
                return Ok(Err(Stop::Interrupted));
            }
            left -= last;
            let Some(checkpoint) = replay.checkpoint()? else {
                return Ok(Err(Stop::Interrupted));
            };
            self.timeline.insert_checkpoint(&checkpoint);
            if left <= kept {
                return Ok(Ok(Some(checkpoint)));
            }
        }
    }
}
