//! Going backwards on all cores: copies of the process go through stretches of its way, the last first, to see whether anything stops them there at all.
//!
//! Only stretches without events, which one thread goes through without the help of anybody. Where a copy finds something, or does not know, the stretch
//! is gone through again as any other.
//!
//! To look for the end of a stretch slows a loop down in which it lies. So a copy looks only when it has computed nearly as long as the stretch took;
//! one that has missed the end is found out by its time, and another one is sent that looks earlier.

use crate::debuggee::{Debuggee, GiveUp, Sought, Stop};
use crate::error::Result;
use crate::place::Place;
use crate::probe::Why;
use crate::session::Session;
use crate::timeline::Checkpoint;
use retake_kernel::process::computed;
use retake_kernel::ptrace::{self, Registers};
use std::time::Duration;

/// A shorter stretch is gone through sooner than a copy is sent.
const SHORTEST: Duration = Duration::from_millis(30);
/// More copies would need more memory than they save time.
const MOST_SCOUTS: usize = 8;
const NAP: Duration = Duration::from_micros(500);
/// In hundredths: this part of a stretch is gone through without looking for its end. The processor may be faster now than it was.
const BLIND: u32 = 85;
/// And this by one that is sent after one that was too fast.
const LESS_BLIND: u32 = 30;
/// One that looks for longer than the stretch took, by this factor, has missed the end: to look takes some times as long as not to.
const LOST: u32 = 4;

/// A copy on its way through a stretch.
struct Scout {
    debuggee: Debuggee,
    /// Where the stretch ends.
    place: Place,
    /// The number of the checkpoint at which it ends.
    end: usize,
    /// How long the stretch took.
    ran: Duration,
    /// In hundredths of that: when it begins to look for the end.
    blind: u32,
    is_looking: bool,
}

/// What a scout says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Word {
    NotYet,
    /// Nothing stopped it.
    Through,
    Stopped,
    /// It has missed the end.
    Lost,
}

impl Drop for Scout {
    fn drop(&mut self) {
        self.debuggee.process.end();
    }
}

impl Scout {
    fn set_off(&mut self) -> Result<()> {
        let (address, tests, stack) = (self.place.address(), self.place.tests(), Some(self.place.stack()));
        self.debuggee.sought = self.is_looking.then_some(Sought { address, tests, stack });
        self.debuggee.set_off()
    }

    fn listen(&mut self) -> Result<Word> {
        while let Some(stop) = self.debuggee.look()? {
            match self.judge(stop)? {
                Word::NotYet => self.set_off()?,
                word => return Ok(word),
            }
        }
        let computed = computed(self.debuggee.process.pid);
        if self.is_looking {
            return Ok(if computed > self.ran * LOST { Word::Lost } else { Word::NotYet });
        }
        if computed > self.ran * self.blind / 100 {
            self.is_looking = true;
            self.debuggee.settle()?;
            if self.debuggee.breakpoints.contains(&self.debuggee.program_counter()?) {
                return Ok(Word::Stopped);
            }
            self.set_off()?;
        }
        Ok(Word::NotYet)
    }

    fn judge(&mut self, stop: Stop) -> Result<Word> {
        let debuggee = &mut self.debuggee;
        if stop != Stop::Breakpoint || debuggee.process.stopped_at_probe != Some(Why::Place) {
            return Ok(Word::Stopped);
        }
        // The comparison has changed the flags, which nobody looks at.
        let registers = debuggee.process.registers(debuggee.current)?;
        ptrace::set_registers(debuggee.current, &Registers { eflags: self.place.flags(), ..registers })?;
        if self.place.is_here(debuggee)? {
            return Ok(Word::Through);
        }
        debuggee.passes_place = true;
        Ok(Word::NotYet)
    }
}

impl Session {
    /// Sends copies through the stretches before a checkpoint that may have a stop, until one has, and remembers which have none. The process is elsewhere
    /// then. Gives the number of the checkpoint down to which there is nothing more to find out in this way; `None`: somebody asked to stop.
    pub(crate) fn scout(&mut self, before: usize, linker: Option<(u64, u64)>, give_up: GiveUp) -> Result<Option<usize>> {
        let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get).min(MOST_SCOUTS);
        let mut away: Vec<Scout> = Vec::new();
        let (mut next, mut is_over) = (before, false);
        loop {
            while !is_over && next > 0 && away.len() < cores {
                let stretch_end = self.timeline.checkpoints[next].clone();
                if self.can_stop(&stretch_end.since, next - 1, &stretch_end, linker) {
                    match self.send_scout(next, &stretch_end, BLIND)? {
                        Some(scout) => away.push(scout),
                        None => {
                            is_over = true;
                            break;
                        }
                    }
                }
                next -= 1;
            }
            if away.is_empty() {
                return Ok(Some(next));
            }
            if give_up() {
                return Ok(None);
            }
            is_over |= self.listen_to(&mut away)?;
            std::thread::sleep(NAP);
        }
    }

    /// Hears what scouts say. Whether one was stopped: those before it are not needed any more.
    fn listen_to(&mut self, away: &mut Vec<Scout>) -> Result<bool> {
        let mut index = 0;
        while let Some(scout) = away.get_mut(index) {
            // What fails is found out where it is needed.
            match scout.listen().unwrap_or(Word::Stopped) {
                Word::NotYet => index += 1,
                Word::Through => {
                    let end = scout.end;
                    self.timeline.checkpoints[end].since.unhit.add(&self.debuggee);
                    away.remove(index);
                }
                Word::Lost if scout.blind > LESS_BLIND => {
                    let (end, stretch_end) = (scout.end, self.timeline.checkpoints[scout.end].clone());
                    let Some(other) = self.send_scout(end, &stretch_end, LESS_BLIND)? else { break };
                    away[index] = other;
                }
                Word::Stopped | Word::Lost => {
                    away.truncate(index);
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }

    /// A copy that goes through the stretch that ends at a checkpoint, if one can.
    fn send_scout(&mut self, end: usize, stretch_end: &Checkpoint, blind: u32) -> Result<Option<Scout>> {
        let start = self.timeline.checkpoints[end - 1].clone();
        if !self.is_for_scouts(&start, stretch_end) {
            return Ok(None);
        }
        let Some(place) = self.end_at(stretch_end)?.exact().cloned() else { return Ok(None) };
        let others = self.debuggee.breakpoint_places();
        if !self.debuggee.can_probe(place.address(), &others) {
            return Ok(None);
        }
        let mut debuggee = self.debuggee.beside(start.snapshot.revive_apart()?);
        debuggee.remaining = Some(1);
        let mut scout = Scout { debuggee, place, end, ran: stretch_end.since.ran, blind, is_looking: false };
        scout.set_off()?;
        Ok(Some(scout))
    }

    fn is_for_scouts(&self, start: &Checkpoint, end: &Checkpoint) -> bool {
        let is_without_events = start.place.mark == end.place.mark && start.place.thread == end.place.thread;
        let is_in_program = start.place.announces.is_none() && end.place.announces.is_none();
        let stands_at = self.debuggee.text.shown(start.place.address());
        let is_watched = self.debuggee.watchpoints.iter().next().is_some();
        is_without_events && is_in_program && !is_watched && !self.debuggee.breakpoints.contains(&stands_at) && end.since.ran >= SHORTEST
    }
}
