//! Going backwards on all cores: copies of the process go through stretches of its way, the last
//! first, to see whether anything stops them at all.
//!
//! If a copy stops, or cannot tell, the stretch is run through again like any other.

use crate::checkpoint::Checkpoint;
use crate::error::Result;
use crate::inferior::GiveUp;
use crate::progress::Progress;
use crate::scout::{self, BLIND, LESS_BLIND, Scout, Way, Word};
use crate::timeline::Timeline;
use crate::travel::journey::end_at;
use crate::travel::passing::{LinkerStop, can_stop};
use std::time::Duration;

/// A shorter stretch takes less time than sending a copy.
const SHORTEST: Duration = Duration::from_millis(30);
/// The most copies. More would need more memory than they are worth.
const MOST_SCOUTS: usize = 8;
const NAP: Duration = Duration::from_micros(500);

/// Sends copies through the stretches before a checkpoint that may have a stop, until one does, and
/// remembers which have none. The process is elsewhere afterwards. Returns the number of the
/// checkpoint down to which copies can find out nothing more; `None` if the user asked to stop.
///
/// # Errors
/// The process cannot be controlled.
pub(super) fn scout(
    timeline: &mut Timeline,
    before: usize,
    linker: LinkerStop,
    give_up: GiveUp,
) -> Result<Option<usize>> {
    let mut scouts = Scouts { timeline, linker, away: Vec::new(), next: before, is_over: false };
    loop {
        scouts.send_all()?;
        if scouts.away.is_empty() {
            return Ok(Some(scouts.next));
        }
        if give_up() {
            return Ok(None);
        }
        scouts.listen()?;
        std::thread::sleep(NAP);
    }
}

/// The copies under way, each with the number of the checkpoint to which it goes.
struct Scouts<'a> {
    timeline: &'a mut Timeline,
    linker: LinkerStop,
    away: Vec<(usize, Scout)>,
    /// The end of the stretch for the next copy.
    next: usize,
    /// Whether no more copies are sent.
    is_over: bool,
}

impl Scouts<'_> {
    /// Sends as many copies as there are cores.
    fn send_all(&mut self) -> Result<()> {
        let cores =
            std::thread::available_parallelism().map_or(1, std::num::NonZero::get).min(MOST_SCOUTS);
        while !self.is_over && self.next > 0 && self.away.len() < cores {
            let [start, end] = [self.next - 1, self.next].map(|at| &self.timeline.checkpoints[at]);
            let inferior = &self.timeline.replay.inferior;
            if can_stop(inferior, start, end, &end.since, self.linker) {
                match self.send(self.next, BLIND)? {
                    Some(scout) => self.away.push((self.next, scout)),
                    None => {
                        self.is_over = true;
                        break;
                    }
                }
            }
            self.next -= 1;
        }
        Ok(())
    }

    /// Reads the copies' reports. Once a copy was stopped, the ones for earlier stretches are not
    /// needed.
    fn listen(&mut self) -> Result<()> {
        let mut index = 0;
        while let Some((end, scout)) = self.away.get_mut(index) {
            let end = *end;
            // If a copy fails, its stretch is run through when that is needed.
            match scout.listen().unwrap_or(Word::Stopped) {
                Word::NotYet => index += 1,
                Word::Through => {
                    let unhit = &mut self.timeline.checkpoints[end].since.unhit;
                    unhit.add(&self.timeline.replay.inferior);
                    self.away.remove(index);
                }
                Word::Lost if scout.blind() > LESS_BLIND => {
                    let Some(other) = self.send(end, LESS_BLIND)? else { break };
                    self.away[index].1 = other;
                }
                Word::Stopped | Word::Lost => {
                    self.away.truncate(index);
                    self.is_over = true;
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    /// Makes a copy that goes through the stretch that ends at a checkpoint, if that is possible
    /// and worth it.
    fn send(&mut self, end: usize, blind: u32) -> Result<Option<Scout>> {
        let Timeline { checkpoints, replay, .. } = &mut *self.timeline;
        let checkpoint: &Checkpoint = &checkpoints[end];
        let ran = checkpoint.since.ran;
        if ran < SHORTEST {
            return Ok(None);
        }
        let Some(place) = end_at(replay, checkpoint)?.exact().cloned() else { return Ok(None) };
        let progress = Progress::to(checkpoints, end);
        let way = Way { place, is_at_event: checkpoint.is_at_event, ran, blind, progress };
        let Some(mut scout) = scout::between(replay, &checkpoints[end - 1], checkpoint, way)?
        else {
            return Ok(None);
        };
        scout.inferior().planting.remaining = Some(1);
        scout.set_off()?;
        Ok(Some(scout))
    }
}
