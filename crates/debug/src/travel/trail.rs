//! A way to where the process is that is known instruction by instruction. Going back along it
//! needs no search.
//!
//! Steps are counted from copies on the way. To go back by a step, the process goes forwards from
//! the last copy by one step less. So copies are left halfway to where the process is, halfway from
//! there, and so on until few steps remain. The earlier copies serve once the process has gone back
//! to them.

use crate::catches::Told;
use crate::checkpoint::Checkpoint;
use crate::error::Result;
use crate::inferior::Stop;
use crate::replay::{Replay, Runs};
use crate::timeline::Timeline;
use retake_snapshot::Snapshot;
use std::rc::Rc;

/// This many steps cost less than one more copy.
const FEW: u64 = 16;
/// A way with more steps from its last copy is not worth keeping.
const LONG: u64 = 2048;

/// A known way.
#[derive(Debug)]
pub(super) struct Trail {
    /// The copies, each with the number of steps from the one before.
    copies: Vec<(Checkpoint, u64)>,
    /// The number of steps from the last copy to here.
    steps: u64,
    /// The number of the move that led here.
    moves: u64,
    /// The announcement at which the way ended when it was found.
    told: Option<Told>,
    /// The time line's checkpoint before the first copy.
    base: Option<Rc<Snapshot>>,
}

impl Trail {
    /// Makes a way of this many steps from a copy to here. The time line's base is not after the
    /// copy.
    pub fn new(timeline: &Timeline, from: Checkpoint, steps: u64) -> Self {
        let base = timeline.checkpoints.get(timeline.base);
        Self {
            copies: vec![(from, 0)],
            steps,
            moves: timeline.replay.moves,
            told: timeline.replay.inferior.told,
            base: base.and_then(|base| base.place.snapshot.clone()),
        }
    }

    /// Whether the way ends where the move with this number led.
    pub fn ends_at(&self, moves: u64) -> bool {
        self.moves == moves
    }

    /// Adds a step that the process made by the move with this number. Returns `None` if the way is
    /// too long now.
    pub fn lengthened(self, moves: u64) -> Option<Self> {
        (self.steps < LONG).then(|| Self { steps: self.steps + 1, moves, ..self })
    }

    /// Removes the last instruction. Returns false if the way is empty.
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

    /// Goes back by one instruction. Returns false if the process is not on the way, or at its
    /// beginning.
    ///
    /// # Errors
    /// The replay diverged, or the process cannot be controlled.
    pub fn back(&mut self, timeline: &mut Timeline) -> Result<bool> {
        timeline.replay.inferior.told = self.told;
        let is_back = self.back_quietly(timeline);
        timeline.replay.inferior.told = None;
        is_back
    }

    fn back_quietly(&mut self, timeline: &mut Timeline) -> Result<bool> {
        let is_known = self.ends_at(timeline.replay.moves)
            || timeline.quietly(|timeline| self.rejoin(timeline))?;
        if !is_known || !self.shorten() {
            return Ok(false);
        }
        timeline.quietly(|timeline| self.follow(timeline))?;
        Ok(true)
    }

    /// Whether the process is somewhere on the way. If it is, the way is cut off here.
    fn rejoin(&mut self, timeline: &mut Timeline) -> Result<bool> {
        let mark = timeline.replay.mark();
        if self.copies.first().is_none_or(|(first, _)| first.place.mark != mark) {
            return Ok(false);
        }
        let Some(here) = timeline.replay.checkpoint()? else { return Ok(false) };
        let mut span = self.steps;
        for index in (0..self.copies.len()).rev() {
            let (copy, before) = &self.copies[index];
            if let Some(steps) = steps_to(&mut timeline.replay, copy, &here, span)? {
                self.copies.truncate(index + 1);
                self.steps = steps;
                return Ok(true);
            }
            span = *before;
        }
        let base = timeline.base;
        timeline.replay.revive(&here)?;
        timeline.rebase(base);
        Ok(false)
    }

    /// Goes to the end of the way.
    fn follow(&mut self, timeline: &mut Timeline) -> Result<()> {
        let Some((last, _)) = self.copies.last() else { return Ok(()) };
        let replay = &mut timeline.replay;
        replay.revive(last)?;
        let mut left = self.steps;
        while left > FEW {
            let half = left / 2;
            make_steps(replay, half)?;
            left -= half;
            let Some(copy) = replay.checkpoint()? else { break };
            self.copies.push((copy, self.steps - left));
            self.steps = left;
        }
        make_steps(replay, left)?;
        replay.moved();
        self.moves = replay.moves;
        let is_base = |one: &Checkpoint| {
            let snapshots = one.place.snapshot.as_ref().zip(self.base.as_ref());
            snapshots.is_some_and(|(one, base)| Rc::ptr_eq(one, base))
        };
        match (timeline.checkpoints.iter().position(is_base), self.copies.first()) {
            (Some(base), _) => timeline.rebase(base),
            (None, Some((first, _))) => timeline.rebase_before(first.place.mark),
            (None, None) => {}
        }
        Ok(())
    }
}

/// The number of steps from a copy to another place; `None` if there are more than `most`.
fn steps_to(
    replay: &mut Replay,
    from: &Checkpoint,
    to: &Checkpoint,
    most: u64,
) -> Result<Option<u64>> {
    replay.revive(from)?;
    for steps in 0..=most {
        if to.place.is_here(&replay.inferior)? {
            return Ok(Some(steps));
        }
        if steps < most
            && !matches!(replay.step(None, &mut || false)?, Stop::Step | Stop::Caught(_))
        {
            break;
        }
    }
    Ok(None)
}

fn make_steps(replay: &mut Replay, count: u64) -> Result<()> {
    for _ in 0..count {
        replay.announced = replay.step(None, &mut || false)?.if_announced();
    }
    Ok(())
}
