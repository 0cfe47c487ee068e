//! Back through a loop that a debugger goes through instruction by instruction, because it looks
//! for the beginning of a line.
//!
//! What it makes of an instruction depends on its address and the frame: where it has gone on from
//! once, it goes on from again. So once it goes round and round, all the rounds can be passed over,
//! to where the thread came into the loop.
//!
//! From behind a call it steps back into the function that was called, continues to the beginning
//! of that, and steps out of it to the call. A function may also be left without returning; so
//! where calls are among the rounds, all that could lead into the loop again counts as a way out of
//! it.

use crate::debuggee::{GiveUp, Stop};
use crate::error::Result;
use crate::journey::{Arrival, End, Goal};
use crate::session::Session;
use crate::stops::Stops;
use crate::timeline::Checkpoint;
use retake_patch::range::{calls, instructions, ways_in, ways_out};
use std::collections::BTreeSet;
use std::ops::Range;

/// Few loops that are left soon have more instructions than these rounds.
const LEAST_STEPS: usize = 40;
/// So often a loop is gone round before it is taken for one.
const ROUNDS: usize = 2;
/// Code of a line is not longer.
const LONGEST: u64 = 64 << 10;
/// Nor is that of a function, as a rule.
const LONGEST_FUNCTION: u64 = 1 << 20;
/// A debugger that steps back into a function to leave it again makes no more steps there.
const MOST_DEEPER: usize = 16;
/// An instruction has no more bytes.
const INSTRUCTION_BYTES: u64 = 15;

/// Instructions that a debugger has gone back over, one after the other, without doing anything
/// else.
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
    /// The last steps, so many, were in functions that the line calls.
    deeper: usize,
    /// What the line belongs to, if the debugger has said so.
    function: Option<Function>,
}

/// A function, as symbols describe it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Function {
    pub entry: u64,
    pub code: Range<u64>,
}

impl GoneOver {
    /// Nothing yet.
    pub fn of(function: Option<Function>) -> Self {
        Self { function, ..Self::default() }
    }

    fn begin(&mut self, address: u64, stack: u64) {
        let function = self.function.take();
        *self = Self { addresses: BTreeSet::from([address]), stack, function, ..Self::default() };
    }

    fn is_loop(&self) -> bool {
        self.again
            >= LEAST_STEPS.max(ROUNDS * self.rounds.len()) << self.failures.min(usize::BITS / 2)
    }
}

impl Session {
    /// One instruction back, or many that are known not to matter.
    pub(crate) fn backward_in_line(&mut self, give_up: GiveUp) -> Result<Stop> {
        let (address, stack) = self.at()?;
        let moves = self.timeline.moves;
        let gone = &mut self.gone_over;
        let is_next = gone.moves == moves; // the debugger was here by such a step
        if is_next && stack < gone.stack && gone.deeper < MOST_DEEPER {
            gone.deeper += 1;
            let stop = self.backward_step(give_up)?;
            self.gone_over.moves = self.timeline.moves;
            return Ok(stop);
        }
        gone.deeper = 0;
        if !is_next || gone.stack != stack {
            gone.begin(address, stack);
        } else if gone.addresses.insert(address) {
            gone.again = 0;
            gone.rounds.clear();
        } else {
            gone.again += 1;
            gone.rounds.insert(address);
        }
        let is_loop = gone.is_loop();
        let has_passed = is_loop && self.back_to_beginning_of_loop(give_up)?;
        if is_loop && !has_passed {
            self.gone_over.failures += 1;
            self.gone_over.again = 0;
        }
        let stop = if has_passed { Stop::Step } else { self.backward_step(give_up)? };
        self.gone_over.moves = self.timeline.moves;
        Ok(stop)
    }

    /// Back to the last stop, which may be where a function was called that the debugger has
    /// stepped back into.
    pub(crate) fn backward_over_call(&mut self, give_up: GiveUp) -> Result<Stop> {
        let is_in_call = self.gone_over.moves == self.timeline.moves && self.is_deeper()?;
        let stop = self.backward(give_up)?;
        if is_in_call && stop == Stop::Breakpoint && self.is_deeper()? {
            self.gone_over.moves = self.timeline.moves;
        }
        Ok(stop)
    }

    fn is_deeper(&self) -> Result<bool> {
        Ok(self.at()?.1 < self.gone_over.stack)
    }

    fn at(&self) -> Result<(u64, u64)> {
        let registers = self.debuggee.registers(self.debuggee.current)?;
        Ok((registers.rip, registers.rsp))
    }

    /// To the first instruction since which the thread was always at some of the loop, or in what
    /// that calls, and nothing of the user's stopped it. False: there is none before here.
    fn back_to_beginning_of_loop(&mut self, give_up: GiveUp) -> Result<bool> {
        let Some(ways) = self.ways_out_of_loop() else { return Ok(false) };
        let users = Stops::of(&self.debuggee);
        self.quietly(|session| session.back_past(ways, users, give_up))
    }

    fn back_past(&mut self, ways: BTreeSet<u64>, users: Stops, give_up: GiveUp) -> Result<bool> {
        let Some(here) = self.checkpoint()? else { return Ok(false) };
        let Some(index) = self.index_before(&here.place)? else {
            self.revive(&here)?;
            return Ok(false);
        };
        self.rebase(index);
        let base = self.timeline.checkpoints[index].clone();
        let near = self.start_of_stretch(base, &here.place, give_up)?;
        let is_there = near.place.mark == here.place.mark
            && near.place.thread == here.place.thread
            && self.enter_loop(&near, &here, users.and(ways), give_up)?;
        Stops::default().put(&mut self.debuggee);
        if !is_there {
            self.revive(&here)?;
        }
        self.rebase(index);
        Ok(is_there)
    }

    /// Goes to where the thread came into the loop, and stayed in it until `here`. False: nowhere
    /// before that, in the stretch from `near` on.
    fn enter_loop(
        &mut self,
        near: &Checkpoint,
        here: &Checkpoint,
        stops: Stops,
        give_up: GiveUp,
    ) -> Result<bool> {
        stops.put(&mut self.debuggee);
        let end = self.end_at(here)?;
        self.revive(near)?;
        let Arrival::There(tally) = self.run_to_end(&end, None, give_up)? else { return Ok(false) };
        self.revive(near)?;
        let last = tally.last();
        if last.is_some() && !matches!(self.run_to_end(&end, last, give_up)?, Arrival::At(_)) {
            return Ok(false);
        }
        // Where the stretch begins the thread may be in the loop already.
        let is_in_loop = last.is_none() && self.gone_over.rounds.contains(&self.at()?.0);
        Stops::at(&self.gone_over.rounds).put(&mut self.debuggee);
        if !is_in_loop && !self.comes_to(&end, 1, give_up)? {
            return Ok(false);
        }
        Ok(self.at()?.1 == self.gone_over.stack
            && self.mark() == here.place.mark
            && !here.place.is_here(&self.debuggee)?)
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
        let code = &code[..(end - first) as usize];
        let mut ways = ways_out(first, code)?;
        ways.extend(all.iter().map(|(start, _)| *start).filter(|start| !gone.contains(start)));
        let calls: BTreeSet<u64> = calls(first, code).intersection(gone).copied().collect();
        if !calls.is_empty() {
            ways.retain(|way| !calls.contains(way));
            ways.extend(self.ways_into_loop(&(first..end))?);
        }
        // A jump to who knows where among what was gone over leads out without a place that could
        // be told.
        (ways.is_disjoint(gone)).then_some(ways)
    }

    /// Where the function that the loop is in comes into it. `None`: it is not known, or too long.
    fn ways_into_loop(&self, range: &Range<u64>) -> Option<BTreeSet<u64>> {
        let function = self.gone_over.function.as_ref().filter(|function| {
            function.code.start <= range.start && range.end <= function.code.end
        })?;
        let bytes = function.code.end - function.code.start;
        let mut code = vec![0; bytes.min(LONGEST_FUNCTION) as usize];
        if bytes > LONGEST_FUNCTION
            || self.debuggee.read(function.code.start, &mut code) != code.len()
        {
            return None;
        }
        let mut ways = ways_in(function.code.start, &code, range)?;
        ways.insert(function.entry);
        Some(ways)
    }
}
