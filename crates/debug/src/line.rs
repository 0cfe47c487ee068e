//! Going through a range of code, such as a line's: at the program's speed as long as it does not
//! leave it.

use crate::debuggee::{GiveUp, Stop};
use crate::error::Result;
use crate::session::Session;
use retake_patch::range::ways_out;
use std::collections::BTreeSet;
use std::ops::Range;

/// Most lines are left after fewer instructions.
const STEPS: usize = 32;
/// No line has more code; with more it is gone through step by step.
const LONGEST: u64 = 64 << 10;

impl Session {
    /// Goes on until a thread leaves a range of addresses, or something else stops it.
    pub(crate) fn forward_range(
        &mut self,
        tid: Option<i32>,
        range: &Range<u64>,
        give_up: GiveUp,
    ) -> Result<Stop> {
        for _ in 0..STEPS {
            if let Some(stop) = self.step_in(tid, range, give_up)? {
                return Ok(stop);
            }
        }
        // Who asked for the range asks again if the program is still in it.
        let Some(ways) = self.ways_out_of(range) else { return Ok(Stop::Step) };
        let before = self.debuggee.private_places.clone();
        self.debuggee.private_places.extend(ways);
        let stop = self.run_in(range, give_up);
        self.debuggee.private_places = before;
        stop
    }

    /// One instruction; `None`: it is still in the range, and nothing stopped it.
    fn step_in(
        &mut self,
        tid: Option<i32>,
        range: &Range<u64>,
        give_up: GiveUp,
    ) -> Result<Option<Stop>> {
        let stop = self.forward_step(tid, give_up)?;
        let address = self.debuggee.program_counter()?;
        let is_over = stop != Stop::Step
            || !range.contains(&address)
            || self.debuggee.breakpoints.contains(&address);
        Ok(is_over.then_some(stop))
    }

    fn run_in(&mut self, range: &Range<u64>, give_up: GiveUp) -> Result<Stop> {
        let tid = self.debuggee.current;
        loop {
            let stop = self.forward(give_up)?;
            let address = self.debuggee.program_counter()?;
            if stop != Stop::Breakpoint || self.debuggee.breakpoints.contains(&address) {
                return Ok(stop);
            }
            if self.debuggee.current != tid {
                continue; // another thread goes the same way
            }
            if !range.contains(&address) {
                return Ok(Stop::Step);
            }
            if let Some(stop) = self.step_in(Some(tid), range, give_up)? {
                return Ok(stop);
            }
        }
    }

    fn ways_out_of(&self, range: &Range<u64>) -> Option<BTreeSet<u64>> {
        let bytes = range.end.checked_sub(range.start).filter(|bytes| *bytes <= LONGEST)?;
        let mut code = vec![0; bytes as usize];
        if self.debuggee.read(range.start, &mut code) != code.len() {
            return None;
        }
        let ways = ways_out(range.start, &code)?;
        Some(ways.into_iter().flat_map(|address| self.debuggee.text.places(address)).collect())
    }
}
