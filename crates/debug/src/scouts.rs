//! Going backwards on all cores: copies of the process go through stretches of its way, the last
//! first, to see whether anything stops them there at all.
//!
//! Where a copy finds something, or does not know, the stretch is gone through again as any other.

use crate::debuggee::GiveUp;
use crate::error::Result;
use crate::gauge::Gauge;
use crate::scout::{BLIND, LESS_BLIND, Scout, Way, Word};
use crate::session::Session;
use crate::timeline::Checkpoint;
use std::time::Duration;

/// A shorter stretch is gone through sooner than a copy is sent.
const SHORTEST: Duration = Duration::from_millis(30);
/// More copies would need more memory than they save time.
const MOST_SCOUTS: usize = 8;
const NAP: Duration = Duration::from_micros(500);

impl Session {
    /// Sends copies through the stretches before a checkpoint that may have a stop, until one has,
    /// and remembers which have none. The process is elsewhere then. Gives the number of the
    /// checkpoint down to which there is nothing more to find out in this way; `None`: somebody
    /// asked to stop.
    pub(crate) fn scout(
        &mut self,
        before: usize,
        linker: Option<(u64, u64)>,
        give_up: GiveUp,
    ) -> Result<Option<usize>> {
        let cores =
            std::thread::available_parallelism().map_or(1, std::num::NonZero::get).min(MOST_SCOUTS);
        let mut away: Vec<(usize, Scout)> = Vec::new();
        let (mut next, mut is_over) = (before, false);
        loop {
            while !is_over && next > 0 && away.len() < cores {
                let stretch_end = self.timeline.checkpoints[next].clone();
                if self.can_stop(&stretch_end.since, next - 1, &stretch_end, linker) {
                    match self.send_scout(next, BLIND)? {
                        Some(scout) => away.push((next, scout)),
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
    fn listen_to(&mut self, away: &mut Vec<(usize, Scout)>) -> Result<bool> {
        let mut index = 0;
        while let Some((end, scout)) = away.get_mut(index) {
            // What fails is found out where it is needed.
            match scout.listen().unwrap_or(Word::Stopped) {
                Word::NotYet => index += 1,
                Word::Through => {
                    self.timeline.checkpoints[*end].since.unhit.add(&self.debuggee);
                    away.remove(index);
                }
                Word::Lost if scout.blind() > LESS_BLIND => {
                    let Some(other) = self.send_scout(*end, LESS_BLIND)? else { break };
                    *scout = other;
                }
                Word::Stopped | Word::Lost => {
                    away.truncate(index);
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }

    /// A copy that goes through the stretch that ends at a checkpoint, if that is worth it and one
    /// can.
    fn send_scout(&mut self, end: usize, blind: u32) -> Result<Option<Scout>> {
        let checkpoint = self.timeline.checkpoints[end].clone();
        if checkpoint.since.ran < SHORTEST {
            return Ok(None);
        }
        let Some(place) = self.end_at(&checkpoint)?.exact().cloned() else { return Ok(None) };
        let gauge = Gauge::to(&self.timeline.checkpoints, end);
        let way = Way {
            place,
            is_at_event: checkpoint.is_at_event,
            ran: checkpoint.since.ran,
            blind,
            gauge,
        };
        let Some(mut scout) = self.scout_between(end - 1, end, way)? else { return Ok(None) };
        scout.debuggee().remaining = Some(1);
        scout.set_off()?;
        Ok(Some(scout))
    }

    /// A copy that is to go from one checkpoint to another, if one can do that beside the process,
    /// and the end of its way can be found.
    pub(crate) fn scout_between(
        &mut self,
        start: usize,
        end: usize,
        way: Way,
    ) -> Result<Option<Scout>> {
        let (start, end) =
            (self.timeline.checkpoints[start].clone(), self.timeline.checkpoints[end].clone());
        let others = self.debuggee.breakpoint_places();
        let is_found = way.is_at_event || self.debuggee.can_probe(way.place.address(), &others);
        if !self.is_for_scouts(&start, &end) || !is_found {
            return Ok(None);
        }
        let Some(running) = &self.running else { return Ok(None) };
        let Some(slots) = running.slots_for_copy(start.snapshot.threads.count()) else {
            return Ok(None);
        };
        let debuggee =
            self.debuggee.beside(start.snapshot.revive_beside(running.header(), slots.indices())?);
        Ok(Some(Scout::new(debuggee, slots, (&start, &end), way)))
    }

    fn is_for_scouts(&self, start: &Checkpoint, end: &Checkpoint) -> bool {
        let is_in_program = start.place.announces.is_none() && end.place.announces.is_none();
        let stands_at = self.debuggee.text.shown(start.place.address());
        let has_events =
            start.place.mark != end.place.mark || start.place.thread != end.place.thread;
        let is_watched = self.debuggee.watchpoints.iter().next().is_some()
            || has_events && !self.debuggee.catches.is_empty();
        start.snapshot.threads.can_run_beside()
            && is_in_program
            && !is_watched
            && !self.debuggee.breakpoints.contains(&stands_at)
    }
}
