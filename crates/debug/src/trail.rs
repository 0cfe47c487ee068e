//! A way to where the process is that is known instruction by instruction: whoever goes back along
//! it needs no search.
//!
//! Steps are counted from copies on the way. Going back by a step is going forwards by one less
//! from the last copy. So copies are left halfway to where the process is, and halfway from there,
//! until few steps remain; those before are there for when it has gone back to them.

use crate::catches::Told;
use crate::debuggee::Stop;
use crate::error::Result;
use crate::session::Session;
use crate::timeline::Checkpoint;
use retake_snapshot::Snapshot;
use std::rc::Rc;

/// So many steps cost less than one more copy.
const FEW: u64 = 16;
/// A way with more steps from its last copy is not worth keeping.
const LONG: u64 = 2048;

/// Such a way.
#[derive(Debug)]
pub(crate) struct Trail {
    /// Each with the number of steps to it from the one before.
    copies: Vec<(Checkpoint, u64)>,
    /// From the last copy to here.
    steps: u64,
    /// The number of the move that led here.
    moves: u64,
    /// The announcement at which it ended when it was found.
    told: Option<Told>,
    /// The time line's checkpoint before the first copy.
    base: Option<Rc<Snapshot>>,
}

impl Trail {
    /// One instruction less. False: that lies before it.
    fn shorten(&mut self) -> bool {
        while self.steps == 0 {
            let Some((_, steps)) = (self.copies.len() > 1).then(|| self.copies.pop()).flatten()
            else {
                return false;
            };
            self.steps = steps;
        }
        self.steps -= 1;
        true
    }
}

impl Session {
    /// A way of so many steps from a copy to here. The time line's base is not behind the copy.
    pub(crate) fn trail_from(&self, from: Checkpoint, steps: u64) -> Trail {
        let base = self
            .timeline
            .checkpoints
            .get(self.timeline.base)
            .and_then(|base| base.place.snapshot.clone());
        Trail {
            copies: vec![(from, 0)],
            steps,
            moves: self.timeline.moves,
            told: self.debuggee.told,
            base,
        }
    }

    /// Goes back by one instruction if it is known how.
    pub(crate) fn back_on_trail(&mut self) -> Result<bool> {
        let Some(mut trail) = self.timeline.trail.take() else { return Ok(false) };
        self.debuggee.told = trail.told;
        let is_back = self.back_on(&mut trail);
        self.debuggee.told = None;
        if is_back? {
            self.timeline.trail = Some(trail);
            return Ok(true);
        }
        Ok(false)
    }

    fn back_on(&mut self, trail: &mut Trail) -> Result<bool> {
        let is_known =
            trail.moves == self.timeline.moves || self.quietly(|session| session.rejoin(trail))?;
        if !is_known || !trail.shorten() {
            return Ok(false);
        }
        self.quietly(|session| session.follow(trail))?;
        Ok(true)
    }

    /// The process made a step.
    pub(crate) fn lengthen(&mut self, trail: Trail) {
        if trail.steps < LONG {
            self.timeline.trail =
                Some(Trail { steps: trail.steps + 1, moves: self.timeline.moves, ..trail });
        }
    }

    /// The way to here, if it is one.
    pub(crate) fn take_trail(&mut self) -> Option<Trail> {
        let moves = self.timeline.moves;
        self.timeline.trail.take_if(|trail| trail.moves == moves)
    }

    /// Whether here is somewhere on a way; then it ends here.
    fn rejoin(&mut self, trail: &mut Trail) -> Result<bool> {
        let mark = self.mark();
        if trail.copies.first().is_none_or(|(first, _)| first.place.mark != mark) {
            return Ok(false);
        }
        let Some(here) = self.checkpoint()? else { return Ok(false) };
        let mut span = trail.steps;
        for index in (0..trail.copies.len()).rev() {
            let (copy, before) = trail.copies[index].clone();
            if let Some(steps) = self.steps_to(&copy, &here, span)? {
                trail.copies.truncate(index + 1);
                trail.steps = steps;
                return Ok(true);
            }
            span = before;
        }
        let base = self.timeline.base;
        self.revive(&here)?;
        self.rebase(base);
        Ok(false)
    }

    /// How many steps, at most so many, lead from a copy to another place.
    fn steps_to(&mut self, from: &Checkpoint, to: &Checkpoint, most: u64) -> Result<Option<u64>> {
        self.revive(from)?;
        for steps in 0..=most {
            if to.place.is_here(&self.debuggee)? {
                return Ok(Some(steps));
            }
            if steps < most
                && !matches!(self.step(None, &mut || false)?, Stop::Step | Stop::Caught(_))
            {
                break;
            }
        }
        Ok(None)
    }

    /// Goes to the end of a way.
    pub(crate) fn follow(&mut self, trail: &mut Trail) -> Result<()> {
        let Some((last, _)) = trail.copies.last().cloned() else { return Ok(()) };
        self.revive(&last)?;
        let mut left = trail.steps;
        while left > FEW {
            let half = left / 2;
            self.make_steps(half)?;
            left -= half;
            let Some(copy) = self.checkpoint()? else { break };
            trail.copies.push((copy, trail.steps - left));
            trail.steps = left;
        }
        self.make_steps(left)?;
        self.moved();
        trail.moves = self.timeline.moves;
        let checkpoints = &self.timeline.checkpoints;
        let is_base = |one: &Checkpoint| {
            one.place
                .snapshot
                .as_ref()
                .zip(trail.base.as_ref())
                .is_some_and(|(one, base)| Rc::ptr_eq(one, base))
        };
        match (checkpoints.iter().position(is_base), trail.copies.first()) {
            (Some(base), _) => self.rebase(base),
            (None, Some((first, _))) => self.find_base(first.place.mark),
            (None, None) => {}
        }
        Ok(())
    }

    fn make_steps(&mut self, count: u64) -> Result<()> {
        for _ in 0..count {
            self.step(None, &mut || false)?;
        }
        Ok(())
    }
}
