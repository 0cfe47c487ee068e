//! A copy of the process that goes from one checkpoint to the next beside the process, to see what
//! stops it on the way.
//!
//! Looking for the end of a stretch slows down a loop in which the end lies. So a copy looks only
//! near the end: when a counter of the program says so, or otherwise when it has computed for a
//! good part of the stretch's time. A copy that has missed the end is noticed by its counter or its
//! time. Then another copy can be sent that looks earlier.

use crate::checkpoint::Checkpoint;
use crate::error::Result;
use crate::inferior::{Inferior, Sought, Stop};
use crate::place::Place;
use crate::progress::Progress;
use crate::replay::Replay;
use retake_kernel::process::computed;
use retake_kernel::ptrace::{self, Registers};
use retake_replay::CopySlots;
use retake_snapshot::probe::Why;
use retake_snapshot::{ClosedText, Ranges, Snapshot};
use std::rc::Rc;
use std::time::{Duration, Instant};

/// The hundredths of a stretch that a copy goes through before it looks for the end, or where it
/// is. The processor may be faster now than it was.
pub(crate) const BLIND: u32 = 40;
/// The same for a copy that is sent after one that missed the end.
pub(crate) const LESS_BLIND: u32 = 5;
/// A copy has missed the end if it has looked for this many times as long as the rest of the
/// stretch should take. Looking takes some times as long as running.
const LOST: u32 = 4;
/// The shortest time after which a copy counts as lost. The duration of a short stretch is hardly
/// known.
const LEAST_LOST: Duration = Duration::from_millis(20);
/// With a counter, the part of the way after which the copy looks for the end, and the part that it
/// aims at: naps and other programs make it later.
const NEAR: f64 = 0.85;
const AIM: f64 = 0.92;
/// A counter that says less than this, or more than `MOST_PART`, is none.
const LEAST_PART: f64 = 0.05;
const MOST_PART: f64 = 4.0;
/// A counter is none either if it is not at the end after this many times the stretch's duration.
const SLOWEST: u32 = 2;
/// A copy that makes no progress for this long waits for something that does not come.
const LONGEST_WAIT: Duration = Duration::from_secs(10);
/// The cost of putting instructions back when they are executed for the first time.
const OPENING: Duration = Duration::from_micros(4);

/// The stage of a copy's way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Leg {
    /// Before the last events of the stretch.
    ToEvents,
    /// After those events, but too far from the end to look for it.
    Blind,
    Looking,
}

/// The way of a copy.
#[derive(Debug, Clone)]
pub(crate) struct Way {
    /// The end: a checkpoint, or a place a little further.
    pub place: Place,
    /// Whether the end is where the thread returns from its last event.
    pub is_at_event: bool,
    /// How long the process took.
    pub ran: Duration,
    /// When the copy looks where it is, in hundredths of the time that the process took after the
    /// events.
    pub blind: u32,
    pub progress: Progress,
}

/// A copy on its way.
pub(crate) struct Scout {
    inferior: Inferior,
    way: Way,
    leg: Leg,
    /// How long it had computed when it came past the events.
    behind_events: Duration,
    /// The CPU time at which it looks where it is.
    look_at: Duration,
    /// The CPU time that was seen last, and since when it is the same.
    seen: (Duration, Instant),
    /// The checkpoints at the ends of the way.
    ends: [Rc<Snapshot>; 2],
    _slots: CopySlots,
}

/// The state that a scout reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Word {
    NotYet,
    /// The copy is at the end, and nothing stopped it.
    Through,
    Stopped,
    /// The copy has missed the end.
    Lost,
}

impl Drop for Scout {
    fn drop(&mut self) {
        self.inferior.process.end();
    }
}

impl Scout {
    /// Makes a scout from `inferior`, a copy of the first of two checkpoints, which is to go to the
    /// end of the way.
    pub fn new(
        inferior: Inferior,
        slots: CopySlots,
        (start, end): (&Checkpoint, &Checkpoint),
        way: Way,
    ) -> Self {
        let ends = [start, end].map(|one| Rc::clone(&one.snapshot));
        let (behind_events, look_at, seen) =
            (Duration::ZERO, Duration::ZERO, (Duration::ZERO, Instant::now()));
        Self {
            inferior,
            way,
            leg: Leg::ToEvents,
            behind_events,
            look_at,
            seen,
            ends,
            _slots: slots,
        }
    }

    /// The hundredths of the way that the copy goes before it looks where it is.
    pub fn blind(&self) -> u32 {
        self.way.blind
    }

    /// The numbers of the checkpoints at the ends of its way, if they still exist.
    pub fn ends(&self, all: &[Checkpoint]) -> Option<(usize, usize)> {
        let [start, end] = self
            .ends
            .each_ref()
            .map(|own| all.iter().position(|one| Rc::ptr_eq(own, &one.snapshot)));
        start.zip(end)
    }

    /// Whether its way begins or ends at a checkpoint.
    pub fn needs(&self, checkpoint: &Checkpoint) -> bool {
        self.ends.iter().any(|own| Rc::ptr_eq(own, &checkpoint.snapshot))
    }

    /// How often the copy came to text that it had not executed before.
    pub fn traps(&self) -> u64 {
        self.inferior.process.closed.as_ref().map_or(0, ClosedText::traps)
    }

    /// The parts of its closed text that the copy has executed; `None` if that is uncertain.
    pub fn opened(&self) -> Option<Ranges> {
        let process = &self.inferior.process;
        let closed = process.closed.as_ref();
        closed.filter(|one| one.is_still_closed(&process.memory)).map(|one| one.opened().clone())
    }

    /// The copy.
    pub fn inferior(&mut self) -> &mut Inferior {
        &mut self.inferior
    }

    /// Sends the copy on.
    ///
    /// # Errors
    /// The copy is gone.
    pub fn set_off(&mut self) -> Result<()> {
        if self.leg == Leg::ToEvents && self.is_behind_events() {
            self.begin_last_leg()?;
        }
        let (address, tests, stack) =
            (self.way.place.address(), self.way.place.tests(), Some(self.way.place.stack()));
        self.inferior.pause = (self.leg == Leg::ToEvents)
            .then_some((self.way.place.thread, self.way.place.mark.events));
        self.inferior.planting.sought =
            (self.leg == Leg::Looking).then_some(Sought { address, tests, stack });
        self.inferior.set_off()
    }

    fn begin_last_leg(&mut self) -> Result<()> {
        self.behind_events = self.computed();
        self.look_at = self.behind_events
            + self.way.ran.saturating_sub(self.behind_events) * self.way.blind / 100;
        self.leg = Leg::Blind;
        self.way.progress.begin(&self.inferior, &Place::here(&self.inferior, None)?);
        if self.behind_events >= self.look_at { self.look() } else { Ok(()) }
    }

    /// Looks for the end from here on. The instructions that a probe at the end displaces count as
    /// executed.
    fn look(&mut self) -> Result<()> {
        self.leg = Leg::Looking;
        let address = self.way.place.address();
        let bytes = self.inferior.jump_bytes(address);
        let process = &mut self.inferior.process;
        match &mut process.closed {
            Some(closed) => Ok(closed.open(&process.memory, address, bytes)?),
            None => Ok(()),
        }
    }

    fn is_behind_events(&self) -> bool {
        let context = self.inferior.context();
        context.tid == self.way.place.thread && context.event_count >= self.way.place.mark.events
    }

    /// The CPU time that the copy used for the program itself.
    fn computed(&self) -> Duration {
        computed(self.inferior.process.pid).saturating_sub(OPENING * self.openings())
    }

    fn openings(&self) -> u32 {
        u32::try_from(self.traps()).unwrap_or(u32::MAX)
    }

    /// Handles what the copy did, and reports its state.
    ///
    /// # Errors
    /// The copy is gone.
    pub fn listen(&mut self) -> Result<Word> {
        while let Some(stop) = self.inferior.look()? {
            match self.judge(stop)? {
                Word::NotYet => self.set_off()?,
                word => return Ok(word),
            }
        }
        let computed = self.computed();
        if computed != self.seen.0 {
            self.seen = (computed, Instant::now());
        }
        let longest_look = (self.way.ran * (100 - self.way.blind) / 100 * LOST)
            .max(LEAST_LOST + OPENING * self.openings());
        if self.seen.1.elapsed() > LONGEST_WAIT
            || self.leg == Leg::Looking && computed > self.way.ran + longest_look
        {
            return Ok(Word::Lost);
        }
        if self.leg == Leg::Blind && computed >= self.look_at {
            self.look_around()
        } else {
            Ok(Word::NotYet)
        }
    }

    /// Stops the copy to see how far it has come, and sends it on. It then looks for the end or
    /// not, depending on that.
    fn look_around(&mut self) -> Result<Word> {
        if self.inferior.settle()?.is_some() {
            return Ok(Word::Stopped);
        }
        if self.way.place.is_here(&self.inferior)? {
            return Ok(Word::Through);
        }
        if self.inferior.is_at_breakpoint()? {
            return Ok(Word::Stopped);
        }
        let part = self.way.progress.part(&self.inferior, &Place::here(&self.inferior, None)?);
        let took = self.computed().saturating_sub(self.behind_events);
        match part.filter(|part| (LEAST_PART..MOST_PART).contains(part)) {
            // A copy that began to look so early has hardly missed the end, so this counter is
            // none.
            Some(part) if part > 1.0 && self.way.blind > LESS_BLIND => return Ok(Word::Lost),
            Some(part) if part < NEAR && took < self.way.ran * SLOWEST => {
                self.look_at = self.behind_events + took.mul_f64(AIM / part);
            }
            _ => self.look()?,
        }
        self.set_off()?;
        Ok(Word::NotYet)
    }

    fn judge(&mut self, stop: Stop) -> Result<Word> {
        if self.leg == Leg::ToEvents {
            // A thread that returns from a call to a breakpoint has reached that breakpoint, too.
            return Ok(match stop {
                Stop::Step if self.way.place.is_here(&self.inferior)? => Word::Through,
                Stop::Step if !self.way.is_at_event && !self.inferior.is_at_breakpoint()? => {
                    Word::NotYet
                }
                _ => Word::Stopped,
            });
        }
        if self.inferior.context().event_count > self.way.place.mark.events {
            return Ok(Word::Lost);
        }
        let inferior = &mut self.inferior;
        if stop != Stop::Breakpoint || inferior.process.stopped_at_probe != Some(Why::Place) {
            return Ok(Word::Stopped);
        }
        // The comparison has changed the flags, which are dead at this place.
        let registers = inferior.process.registers(inferior.current)?;
        ptrace::set_registers(
            inferior.current,
            &Registers { eflags: self.way.place.flags(), ..registers },
        )?;
        if self.way.place.is_here(inferior)? {
            return Ok(Word::Through);
        }
        inferior.planting.passes_place = true;
        Ok(Word::NotYet)
    }
}

/// Makes a copy that is to go from one checkpoint to another. Returns `None` if no copy can run
/// beside the process, or it could not find the end of its way.
///
/// # Errors
/// The copy cannot be made.
pub(crate) fn between(
    replay: &mut Replay,
    start: &Checkpoint,
    end: &Checkpoint,
    way: Way,
) -> Result<Option<Scout>> {
    let inferior = &mut replay.inferior;
    let others = inferior.stops.places(&inferior.text);
    let is_found = way.is_at_event || inferior.probing(way.place.address(), &others).is_some();
    if !is_for_scouts(inferior, start, end) || !is_found {
        return Ok(None);
    }
    let Some(running) = &replay.running else { return Ok(None) };
    let Some(slots) = running.slots_for_copy(start.snapshot.threads.count()) else {
        return Ok(None);
    };
    let copy = start.snapshot.revive_beside(running.header(), slots.indices())?;
    Ok(Some(Scout::new(inferior.beside(copy), slots, (start, end), way)))
}

fn is_for_scouts(inferior: &Inferior, start: &Checkpoint, end: &Checkpoint) -> bool {
    let is_in_program = start.place.announces.is_none() && end.place.announces.is_none();
    let stands_at = inferior.text.shown(start.place.address());
    let stops = &inferior.stops;
    let is_watched = stops.watchpoints.iter().next().is_some()
        || start.has_events_before(end) && !stops.catches.is_empty();
    start.snapshot.threads.can_run_beside()
        && is_in_program
        && !is_watched
        && !stops.breakpoints.contains(&stands_at)
}
