//! One instruction back: coming so near to a place that the rest can be stepped, without stepping
//! through what ran for long.
//!
//! The program is inside some loop. Visits of an address are counted by a probe on the way to the
//! place; then the program is stopped at one of the last of them. On the way copies are left at
//! distances that shrink by a factor, so that the next search begins near.

use crate::debuggee::{Fate, GiveUp, Stop};
use crate::error::Result;
use crate::journey::{Arrival, End, Goal};
use crate::place::Place;
use crate::session::Session;
use crate::timeline::Checkpoint;
use crate::trail::Trail;
use std::collections::{BTreeSet, HashMap};

/// Events looked back for one after which the program ran.
const MOST_EVENTS_BACK: u64 = 64;
/// So many steps are made to look whether the place is near.
const STEPS: u64 = 1000;
/// Of the visits of an address in so many steps, this part is left to step through: a way that is
/// known for a while.
const KEPT: (u64, u64) = (3, 4);
/// Each copy is nearer to the place by this factor.
const FACTOR: u64 = 8;
/// Loops within each other, and what lies between them.
const MOST_ROUNDS: usize = 200;
/// Addresses that are tried in a round.
const MOST_ADDRESSES: usize = 4;

/// What stepping for a while led to.
enum Stepped {
    There(u64),
    /// So often were these addresses visited.
    NotYet(HashMap<u64, u64>),
    /// It went past the place, or somebody asked to stop.
    Lost,
}

impl Session {
    /// One instruction back.
    pub(crate) fn backward_step(&mut self, give_up: GiveUp) -> Result<Stop> {
        self.twice_if_taken(give_up, Self::backward_step_once)
    }

    fn backward_step_once(&mut self, give_up: GiveUp) -> Result<Stop> {
        if self.back_on_trail()? {
            return Ok(Stop::Step);
        }
        let found = self.quietly(|session| session.find_trail(give_up));
        self.debuggee.told = None;
        match found? {
            Ok(trail) => self.timeline.trail = Some(trail),
            Err(stop) => return Ok(stop),
        }
        self.back_on_trail()?;
        Ok(Stop::Step)
    }

    /// Finds a way to here that ends in a few steps. Err: there is none, and what to say.
    fn find_trail(&mut self, give_up: GiveUp) -> Result<std::result::Result<Trail, Stop>> {
        let Some(here) = self.checkpoint()? else { return Ok(Err(Stop::Begin)) };
        let end = &here.place;
        self.debuggee.told = end.told();
        let Some(index) = self.index_before(end)? else {
            self.revive(&here)?;
            return Ok(Err(Stop::Begin));
        };
        let mark = end.mark;
        let index = self.bring_in(index, |_, _, one| one.mark() < mark)?.unwrap_or(index);
        self.rebase(index);
        let base = self.timeline.checkpoints[index].clone();
        let near = self.start_of_stretch(base, end, give_up)?;
        let end = self.end_at(&here)?;
        match self.approach(near, &end, give_up)? {
            Some((from, steps)) => Ok(Ok(self.trail_from(from, steps))),
            None => {
                self.revive(&here)?;
                Ok(Err(Stop::Interrupted))
            }
        }
    }

    /// The last checkpoint that is not `end` itself.
    pub(crate) fn index_before(&mut self, end: &Place) -> Result<Option<usize>> {
        for index in (0..=self.timeline.base).rev() {
            let Some(checkpoint) = self.timeline.checkpoints.get(index).cloned() else { continue };
            if checkpoint.place.mark != end.mark {
                return Ok(Some(index));
            }
            self.revive(&checkpoint)?;
            if !end.is_here(&self.debuggee)? {
                return Ok(Some(index));
            }
        }
        Ok(None)
    }

    /// The latest moment before `end` at which its thread came out of the runtime.
    pub(crate) fn start_of_stretch(
        &mut self,
        base: Checkpoint,
        end: &Place,
        give_up: GiveUp,
    ) -> Result<Checkpoint> {
        for back in 0..MOST_EVENTS_BACK {
            let Some(events) = end.mark.events.checked_sub(back) else { break };
            if base.place.mark.events >= events && base.place.thread == end.thread {
                break;
            }
            self.revive(&base)?;
            self.debuggee.pause = Some((end.thread, events));
            let found = self.pause_before(end, give_up);
            self.debuggee.pause = None;
            match found? {
                Some(Stop::Step) if self.mark().events <= end.mark.events => {
                    if let Some(checkpoint) = self.checkpoint()? {
                        return Ok(checkpoint);
                    }
                }
                Some(Stop::Interrupted) => break,
                _ => {}
            }
        }
        Ok(base)
    }

    /// Runs until the thread that is to pause does. `None`: `end` is not behind that. What is
    /// announced may come before the program goes on or after, with as many events.
    fn pause_before(&mut self, end: &Place, give_up: GiveUp) -> Result<Option<Stop>> {
        loop {
            let stop = self.resume(give_up)?;
            if end.is_here(&self.debuggee)? {
                return Ok(None);
            }
            if !matches!(stop, Stop::Signal(_) | Stop::Caught(_))
                || self.debuggee.fate != Fate::Open
            {
                return Ok(Some(stop));
            }
        }
    }

    /// Signals on the way do not stop it.
    pub(crate) fn resume_to_pause(&mut self, give_up: GiveUp) -> Result<Stop> {
        loop {
            match self.resume(give_up)? {
                Stop::Signal(_) | Stop::Caught(_) if self.debuggee.fate == Fate::Open => {}
                stop => return Ok(stop),
            }
        }
    }

    /// A copy from which `end` can be stepped to, and the number of steps.
    fn approach(
        &mut self,
        mut near: Checkpoint,
        end: &End,
        give_up: GiveUp,
    ) -> Result<Option<(Checkpoint, u64)>> {
        for _ in 0..MOST_ROUNDS {
            self.revive(&near)?;
            let visits = match self.step_towards(&end.meant, give_up)? {
                Stepped::There(steps) => return Ok(Some((near, steps))),
                Stepped::Lost => return Ok(None),
                Stepped::NotYet(visits) => visits,
            };
            // If no address is visited again, what was stepped is behind us.
            let Some(stepped) = self.checkpoint()? else { return Ok(None) };
            let own = end.meant.address();
            let mut hot: Vec<(u64, u64)> = visits
                .iter()
                .map(|(address, count)| (*count, *address))
                .filter(|(_, address)| *address != own)
                .collect();
            hot.sort_unstable();
            let others = hot.into_iter().rev().map(|(_, address)| address);
            let addresses = std::iter::once(own)
                .chain(others)
                .filter(|address| self.debuggee.can_probe(*address, &[end.address()]))
                .take(MOST_ADDRESSES);
            let addresses: Vec<u64> = addresses.collect();
            let mut nearer = None;
            for address in addresses {
                let kept = (visits.get(&address).copied().unwrap_or(0) * KEPT.0 / KEPT.1).max(1);
                match self.go_to_last_visits(&stepped, (address, kept), end, give_up)? {
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

    fn step_towards(&mut self, end: &Place, give_up: GiveUp) -> Result<Stepped> {
        let mut visits: HashMap<u64, u64> = HashMap::new();
        for steps in 1..=STEPS {
            let stop = self.step(None, &mut || false)?;
            if end.is_here(&self.debuggee)? {
                return Ok(Stepped::There(steps));
            }
            let is_past =
                self.mark().events > end.mark.events && self.debuggee.context().tid == end.thread;
            if is_past
                || !matches!(stop, Stop::Step | Stop::Signal(_) | Stop::Caught(_))
                || give_up()
            {
                return Ok(Stepped::Lost);
            }
            *visits.entry(self.debuggee.program_counter()?).or_default() += 1;
        }
        Ok(Stepped::NotYet(visits))
    }

    /// Goes to one of the last visits of an address on the way from a copy to `end`, so that so
    /// many are left; `None` if there are none. Err: it was interrupted.
    fn go_to_last_visits(
        &mut self,
        from: &Checkpoint,
        (address, kept): (u64, u64),
        end: &End,
        give_up: GiveUp,
    ) -> Result<std::result::Result<Option<Checkpoint>, Stop>> {
        self.debuggee.breakpoints = BTreeSet::from([address]);
        let result = self.count_and_go(from, kept, end, give_up);
        self.debuggee.breakpoints.clear();
        result
    }

    fn count_and_go(
        &mut self,
        from: &Checkpoint,
        kept: u64,
        end: &End,
        give_up: GiveUp,
    ) -> Result<std::result::Result<Option<Checkpoint>, Stop>> {
        self.revive(from)?;
        let Arrival::There(tally) = self.run_to_end(end, None, give_up)? else {
            return Ok(Err(Stop::Interrupted));
        };
        let mut left = tally.breakpoints.saturating_sub(end.visits_beyond());
        if left == 0 {
            return Ok(Ok(None));
        }
        self.revive(from)?;
        loop {
            // The first visit may be where we are: one that is left out is no loss.
            let ahead = if left > kept * FACTOR {
                left - left / FACTOR
            } else {
                left.saturating_sub(kept).max(1)
            };
            let last = if left <= kept { left } else { ahead };
            if !matches!(
                self.run_to_end(end, Some(Goal::Breakpoint(last)), give_up)?,
                Arrival::At(_)
            ) {
                return Ok(Err(Stop::Interrupted));
            }
            left -= last;
            let Some(checkpoint) = self.checkpoint()? else { return Ok(Err(Stop::Interrupted)) };
            self.insert_checkpoint(&checkpoint);
            if left <= kept {
                return Ok(Ok(Some(checkpoint)));
            }
        }
    }
}
