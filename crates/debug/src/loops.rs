//! Back through a loop that a debugger goes through instruction by instruction, because it looks for the beginning of a line.
//!
//! What it makes of an instruction depends on its address and the frame: where it has gone on from once, it goes on from again. So once it goes round
//! and round, all the rounds can be passed over, to where the thread came into the loop.

use crate::debuggee::{GiveUp, Stop};
use crate::error::Result;
use crate::journey::{Arrival, End, Goal};
use crate::session::Session;
use crate::timeline::Checkpoint;
use retake_patch::range::{instructions, ways_out};
use std::collections::BTreeSet;

/// Few loops that are left soon have more instructions than these rounds.
const LEAST_STEPS: usize = 40;
/// So often a loop is gone round before it is taken for one.
const ROUNDS: usize = 2;
/// Code of a line is not longer.
const LONGEST: u64 = 64 << 10;
/// An instruction has no more bytes.
const INSTRUCTION_BYTES: u64 = 15;

/// Instructions that a debugger has gone back over, one after the other, without doing anything else.
#[derive(Debug, Default)]
pub(crate) struct GoneOver {
    addresses: BTreeSet<u64>,
    stack: u64,
    /// How many of the last steps came to no new address,
    again: usize,
    /// and to which they came.
    rounds: BTreeSet<u64>,
    /// The number of the move that made the last step.
    moves: u64,
    /// Loops that could not be passed over.
    failures: u32,
}

impl GoneOver {
    fn is_loop(&self) -> bool {
        self.again >= LEAST_STEPS.max(ROUNDS * self.rounds.len()) << self.failures.min(usize::BITS / 2)
    }
}

impl Session {
    /// One instruction back, or many that are known not to matter.
    pub(crate) fn backward_in_line(&mut self, give_up: GiveUp) -> Result<Stop> {
        let (address, stack) = self.at()?;
        let moves = self.timeline.moves;
        let gone = &mut self.gone_over;
        if gone.moves != moves {
            *gone = GoneOver::default(); // the debugger was not here by such a step
        } else if gone.stack != stack {
            *gone = GoneOver { stack, addresses: BTreeSet::from([address]), ..GoneOver::default() };
        } else if gone.addresses.insert(address) {
            gone.again = 0;
            gone.rounds.clear();
        } else {
            gone.again += 1;
            gone.rounds.insert(address);
        }
        let is_loop = gone.is_loop();
        let has_passed = is_loop && self.quietly(|session| session.back_to_beginning_of_loop(give_up))?;
        if is_loop && !has_passed {
            self.gone_over.failures += 1;
            self.gone_over.again = 0;
        }
        let stop = if has_passed { Stop::Step } else { self.backward_step(give_up)? };
        self.gone_over.moves = self.timeline.moves;
        Ok(stop)
    }

    fn at(&self) -> Result<(u64, u64)> {
        let registers = self.debuggee.registers(self.debuggee.current)?;
        Ok((registers.rip, registers.rsp))
    }

    /// To the first instruction since which the thread was always at some of the loop. False: there is none before here.
    fn back_to_beginning_of_loop(&mut self, give_up: GiveUp) -> Result<bool> {
        let Some(ways) = self.ways_out_of_loop() else { return Ok(false) };
        let Some(here) = self.checkpoint()? else { return Ok(false) };
        let Some(index) = self.index_before(&here.place)? else {
            self.revive(&here)?;
            return Ok(false);
        };
        self.rebase(index);
        let base = self.timeline.checkpoints[index].clone();
        let near = self.start_of_stretch(base, &here.place, give_up)?;
        let is_there =
            near.place.mark == here.place.mark && near.place.thread == here.place.thread && self.enter_loop(&near, &here, ways, give_up)?;
        self.debuggee.breakpoints.clear();
        if !is_there {
            self.revive(&here)?;
        }
        self.rebase(index);
        Ok(is_there)
    }

    /// Goes to where the thread came into the loop, and stayed in it until `here`. False: nowhere before that, in the stretch from `near` on.
    fn enter_loop(&mut self, near: &Checkpoint, here: &Checkpoint, ways: BTreeSet<u64>, give_up: GiveUp) -> Result<bool> {
        self.debuggee.breakpoints = ways;
        let end = self.end_at(here)?;
        self.revive(near)?;
        let Arrival::There(tally) = self.run_to_end(&end, None, give_up)? else { return Ok(false) };
        self.revive(near)?;
        if tally.breakpoints > 0 && !self.comes_to(&end, tally.breakpoints, give_up)? {
            return Ok(false);
        }
        // Where the stretch begins the thread may be in the loop already.
        let is_in_loop = tally.breakpoints == 0 && self.gone_over.rounds.contains(&self.at()?.0);
        self.debuggee.breakpoints.clone_from(&self.gone_over.rounds);
        if !is_in_loop && !self.comes_to(&end, 1, give_up)? {
            return Ok(false);
        }
        Ok(self.at()?.1 == self.gone_over.stack && self.mark() == here.place.mark && !here.place.is_here(&self.debuggee)?)
    }

    /// Goes to a breakpoint, by its number on the way.
    fn comes_to(&mut self, end: &End, number: u64, give_up: GiveUp) -> Result<bool> {
        Ok(matches!(self.run_to_end(end, Some(Goal::Breakpoint(number)), give_up)?, Arrival::At(_)))
    }

    /// The addresses that the thread comes to when it leaves what was gone over.
    fn ways_out_of_loop(&self) -> Option<BTreeSet<u64>> {
        let gone = &self.gone_over.rounds;
        let (first, last) = (*gone.first()?, *gone.last()?);
        let mut code = vec![0; (last - first + INSTRUCTION_BYTES).min(LONGEST) as usize];
        let count = self.debuggee.read(first, &mut code);
        let all = instructions(first, &code[..count], last)?;
        let end = all.last()?.1;
        if !gone.iter().all(|address| all.iter().any(|(start, _)| start == address)) {
            return None;
        }
        let mut ways = ways_out(first, &code[..(end - first) as usize])?;
        ways.extend(all.iter().map(|(start, _)| *start).filter(|start| !gone.contains(start)));
        // A call, or a jump to who knows where, among what was gone over leads out without a place that could be told.
        (ways.is_disjoint(gone)).then_some(ways)
    }
}
