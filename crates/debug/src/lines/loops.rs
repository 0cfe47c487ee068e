//! Going back through a loop. A debugger that looks for the beginning of a line goes back
//! instruction by instruction.
//!
//! What the debugger does at an instruction depends on its address and the frame. Where it went on
//! once, it goes on again. So once it goes round and round, all rounds can be skipped, to where the
//! thread entered the loop.
//!
//! After a call, the debugger steps back into the called function, continues to its beginning, and
//! steps out of it to the call. A function can also be left without returning. So if calls are
//! among the rounds, everything that could lead into the loop again counts as a way out of it.

use crate::checkpoint::Checkpoint;
use crate::error::Result;
use crate::inferior::{GiveUp, Inferior, Stop};
use crate::replay::Runs;
use crate::stops::Stops;
use crate::timeline::Timeline;
use crate::travel::journey::{Arrival, Goal, end_at, run_to_end};
use crate::travel::{Travel, start_of_stretch};
use retake_patch::range::{calls, instructions, ways_in, ways_out};
use std::collections::BTreeSet;
use std::ops::Range;

/// The fewest steps in a loop. Few loops that are left soon have more instructions than these
/// rounds.
const LEAST_STEPS: usize = 40;
/// The number of rounds after which a loop is recognised.
const ROUNDS: usize = 2;
/// The most code of a line.
const LONGEST: u64 = 64 << 10;
/// The most code of a function, with few exceptions.
const LONGEST_FUNCTION: u64 = 1 << 20;
/// The most steps that a debugger makes in a function into which it stepped back to leave it again.
const MOST_DEEPER: usize = 16;
/// The longest instruction.
const INSTRUCTION_BYTES: u64 = 15;

/// The instructions that a debugger has gone back over, one after the other, doing nothing else.
#[derive(Debug, Default)]
pub(crate) struct GoneOver {
    addresses: BTreeSet<u64>,
    stack: u64,
    /// How many of the last steps came to no new address.
    again: usize,
    /// The addresses to which those steps came.
    rounds: BTreeSet<u64>,
    /// The number of the move of the last step.
    moves: u64,
    /// The number of loops that could not be skipped.
    failures: u32,
    /// How many of the last steps were in functions that the line calls.
    deeper: usize,
    /// The function of the line, if the debugger has named it.
    function: Option<Function>,
}

/// A function, from its symbols.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Function {
    pub entry: u64,
    pub code: Range<u64>,
}

impl GoneOver {
    /// Makes an empty set for this function.
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

    /// Goes one instruction back, or over many that are known not to matter.
    ///
    /// # Errors
    /// As [`Travel::backward_step`].
    pub fn backward_in_line(&mut self, travel: &mut Travel, give_up: GiveUp) -> Result<Stop> {
        let (address, stack) = at(&travel.timeline.replay.inferior)?;
        // The last step of this kind led here.
        let is_next = self.moves == travel.timeline.replay.moves;
        if is_next && stack < self.stack && self.deeper < MOST_DEEPER {
            self.deeper += 1;
            let stop = travel.backward_step(give_up)?;
            self.moves = travel.timeline.replay.moves;
            return Ok(stop);
        }
        self.deeper = 0;
        if !is_next || self.stack != stack {
            self.begin(address, stack);
        } else if self.addresses.insert(address) {
            self.again = 0;
            self.rounds.clear();
        } else {
            self.again += 1;
            self.rounds.insert(address);
        }
        let is_loop = self.is_loop();
        let has_passed =
            is_loop && self.back_to_beginning_of_loop(&mut travel.timeline, give_up)?;
        if is_loop && !has_passed {
            self.failures += 1;
            self.again = 0;
        }
        let stop = if has_passed { Stop::Step } else { travel.backward_step(give_up)? };
        self.moves = travel.timeline.replay.moves;
        Ok(stop)
    }

    /// Goes back to the last stop. That may be the call of a function into which the debugger has
    /// stepped back.
    ///
    /// # Errors
    /// As [`Travel::backward`].
    pub fn backward_over_call(&mut self, travel: &mut Travel, give_up: GiveUp) -> Result<Stop> {
        let is_in_call = self.moves == travel.timeline.replay.moves
            && self.is_deeper(&travel.timeline.replay.inferior)?;
        let stop = travel.backward(give_up)?;
        if is_in_call
            && stop == Stop::Breakpoint
            && self.is_deeper(&travel.timeline.replay.inferior)?
        {
            self.moves = travel.timeline.replay.moves;
        }
        Ok(stop)
    }

    fn is_deeper(&self, inferior: &Inferior) -> Result<bool> {
        Ok(at(inferior)?.1 < self.stack)
    }

    /// Goes to the first instruction since which the thread was always in the loop or its calls,
    /// and no stop of the user occurred. Returns false if there is none before here.
    fn back_to_beginning_of_loop(&self, timeline: &mut Timeline, give_up: GiveUp) -> Result<bool> {
        let Some(ways) = self.ways_out_of_loop(&timeline.replay.inferior) else {
            return Ok(false);
        };
        let users = timeline.replay.inferior.stops.clone();
        timeline.quietly(|timeline| self.back_past(timeline, users.and(ways), give_up))
    }

    fn back_past(&self, timeline: &mut Timeline, stops: Stops, give_up: GiveUp) -> Result<bool> {
        let Some(here) = timeline.replay.checkpoint()? else { return Ok(false) };
        let Some(index) = timeline.index_before(&here.place)? else {
            timeline.replay.revive(&here)?;
            return Ok(false);
        };
        timeline.rebase(index);
        let base = timeline.checkpoints[index].clone();
        let near = start_of_stretch(&mut timeline.replay, base, &here.place, give_up)?;
        let is_there = !near.has_events_before(&here)
            && self.enter_loop(timeline, &near, &here, stops, give_up)?;
        timeline.replay.inferior.stops = Stops::default();
        if !is_there {
            timeline.replay.revive(&here)?;
        }
        timeline.rebase(index);
        Ok(is_there)
    }

    /// Goes to where the thread entered the loop in which it stayed until `here`. Returns false if
    /// that is not in the stretch from `near` on, or is here.
    fn enter_loop(
        &self,
        timeline: &mut Timeline,
        near: &Checkpoint,
        here: &Checkpoint,
        stops: Stops,
        give_up: GiveUp,
    ) -> Result<bool> {
        let replay = &mut timeline.replay;
        replay.inferior.stops = stops;
        let end = end_at(replay, here)?;
        replay.revive(near)?;
        let Arrival::There(tally) = run_to_end(replay, &end, None, give_up)? else {
            return Ok(false);
        };
        replay.revive(near)?;
        let last = tally.last();
        if last.is_some() && !matches!(run_to_end(replay, &end, last, give_up)?, Arrival::At(_)) {
            return Ok(false);
        }
        // At the beginning of the stretch, the thread may be in the loop already.
        let is_in_loop = last.is_none() && self.rounds.contains(&at(&replay.inferior)?.0);
        replay.inferior.stops = Stops::at(&self.rounds);
        let first = Some(Goal::Breakpoint(1));
        if !is_in_loop && !matches!(run_to_end(replay, &end, first, give_up)?, Arrival::At(_)) {
            return Ok(false);
        }
        Ok(at(&replay.inferior)?.1 == self.stack
            && replay.mark() == here.place.mark
            && !here.place.is_here(&replay.inferior)?)
    }

    /// The addresses to which the thread comes when it leaves the loop.
    fn ways_out_of_loop(&self, inferior: &Inferior) -> Option<BTreeSet<u64>> {
        let gone = &self.rounds;
        let (first, last) = (*gone.first()?, *gone.last()?);
        let mut code = vec![0; (last - first + INSTRUCTION_BYTES).min(LONGEST) as usize];
        let count = inferior.read(first, &mut code);
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
            ways.extend(self.ways_into_loop(inferior, &(first..end))?);
        }
        // An indirect jump among these instructions leads out to unknown addresses.
        (ways.is_disjoint(gone)).then_some(ways)
    }

    /// The addresses at which the function enters the loop. `None` if the function is unknown or
    /// too long.
    fn ways_into_loop(&self, inferior: &Inferior, range: &Range<u64>) -> Option<BTreeSet<u64>> {
        let function = self.function.as_ref().filter(|function| {
            function.code.start <= range.start && range.end <= function.code.end
        })?;
        let bytes = function.code.end - function.code.start;
        let mut code = vec![0; bytes.min(LONGEST_FUNCTION) as usize];
        if bytes > LONGEST_FUNCTION || inferior.read(function.code.start, &mut code) != code.len() {
            return None;
        }
        let mut ways = ways_in(function.code.start, &code, range)?;
        ways.insert(function.entry);
        Some(ways)
    }
}

/// The current thread's program counter and stack pointer.
fn at(inferior: &Inferior) -> Result<(u64, u64)> {
    let registers = inferior.registers(inferior.current)?;
    Ok((registers.rip, registers.rsp))
}
