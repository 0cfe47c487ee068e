//! Checkpoints along the way, and how to get from one of them to an exact place.

use crate::checkpoint::Snapshot;
use crate::debuggee::{Fate, GiveUp, Stop};
use crate::error::Result;
use crate::place::{Mark, Place};
use crate::session::Session;
use crate::trail::Trail;
use crate::writes::Writes;
use std::rc::Rc;
use std::time::{Duration, Instant};

/// Between two checkpoints, at first: as much is executed again at most to go back a little.
const INTERVAL: Duration = Duration::from_millis(100);
/// With more, some are given up.
const MOST_CHECKPOINTS: usize = 64;
/// Until there are so many.
const FEW_CHECKPOINTS: usize = 48;
/// Of them, so many of the latest stay as they are.
const LATEST: usize = 16;

/// A place that can be gone back to.
#[derive(Debug, Clone)]
pub(crate) struct Checkpoint {
    pub place: Place,
    snapshot: Rc<Snapshot>,
    /// Whether the stop there was for a signal.
    signal: Option<i32>,
    fate: Fate,
    /// What happened since the one before it.
    pub since: Past,
}

/// What is known of a stretch of the program's way.
#[derive(Debug, Clone, Default)]
pub(crate) struct Past {
    /// What it wrote to; `None`: not known.
    pub writes: Option<Writes>,
    /// It may have got a signal.
    pub signals: bool,
    /// How long it ran, as far as that is known.
    pub ran: Duration,
}

impl Past {
    fn nothing() -> Self {
        Self { writes: Some(Writes::default()), ..Self::default() }
    }

    fn and(&self, other: &Self) -> Self {
        let writes = self.writes.clone().zip(other.writes.as_ref()).map(|(one, other)| one.and(other));
        Self { writes, signals: self.signals || other.signals, ran: self.ran + other.ran }
    }
}

/// The checkpoints, in order, and where among them the process is.
#[derive(Debug, Default)]
pub(crate) struct Timeline {
    pub checkpoints: Vec<Checkpoint>,
    /// The last that is certainly not behind us.
    pub base: usize,
    /// What happened since then, up to the last copy.
    pub since_base: Past,
    /// Counts every change of where the process is.
    pub moves: u64,
    /// The last way that was known step by step.
    pub trail: Option<Trail>,
    /// The user's, by number.
    pub kept: Vec<(u64, Checkpoint)>,
    pub last_signal: Option<i32>,
}

impl Checkpoint {
    /// Whether the program got a signal there.
    pub fn is_at_signal(&self) -> bool {
        self.signal.is_some()
    }
}

impl Timeline {
    /// The last checkpoint that is certainly before a place.
    pub fn base_of(&self, place: &Place) -> usize {
        self.checkpoints.iter().rposition(|one| one.place.mark < place.mark).unwrap_or(0)
    }
}

impl Session {
    // ---- forwards ----

    /// Goes on until something stops the program, leaving checkpoints behind.
    pub(crate) fn forward(&mut self, give_up: GiveUp) -> Result<Stop> {
        self.moved();
        self.begin_timeline()?;
        loop {
            let since = Instant::now();
            let mut is_asked = false;
            let stop = self.resume(&mut || {
                is_asked |= give_up();
                is_asked || since.elapsed() > INTERVAL
            })?;
            self.console.collect()?;
            self.timeline.last_signal = None;
            self.timeline.since_base.ran += since.elapsed();
            self.advance_base();
            match stop {
                Stop::Interrupted if !is_asked => self.add_checkpoint()?,
                Stop::Signal(number) => {
                    self.timeline.last_signal = Some(number);
                    self.timeline.since_base.signals = true;
                    return Ok(stop);
                }
                stop => return Ok(stop),
            }
        }
    }

    /// One instruction forwards.
    pub(crate) fn forward_step(&mut self, tid: Option<i32>, give_up: GiveUp) -> Result<Stop> {
        self.begin_timeline()?;
        let trail = self.take_trail();
        let is_same_thread = tid.is_none_or(|tid| tid == self.debuggee.current);
        let stop = self.step(tid, give_up)?;
        self.moved();
        self.timeline.last_signal = match stop {
            Stop::Signal(number) => Some(number),
            _ => None,
        };
        self.timeline.since_base.signals |= self.timeline.last_signal.is_some();
        if let (Stop::Step, true, Some(trail)) = (stop, is_same_thread, trail) {
            self.lengthen(trail);
        }
        self.advance_base();
        Ok(stop)
    }

    /// Makes the first checkpoint before the process moves. False: none can be made.
    pub(crate) fn begin_timeline(&mut self) -> Result<bool> {
        if self.timeline.checkpoints.is_empty() {
            self.add_checkpoint()?;
        }
        Ok(!self.timeline.checkpoints.is_empty())
    }

    pub(crate) fn moved(&mut self) {
        self.timeline.moves += 1;
    }

    /// Where the process is, in the order of events.
    pub(crate) fn mark(&self) -> Mark {
        let context = self.debuggee.context();
        Mark { turn: context.turn, events: context.event_count }
    }

    fn advance_base(&mut self) {
        let mark = self.mark();
        let timeline = &mut self.timeline;
        while timeline.checkpoints.get(timeline.base + 1).is_some_and(|next| next.place.mark < mark) {
            timeline.base += 1;
            timeline.since_base = Past::default();
        }
    }

    /// The checkpoint with this number is the last that is not behind us, and where we came from is not known.
    pub(crate) fn rebase(&mut self, index: usize) {
        self.timeline.base = index;
        self.timeline.since_base = Past::default();
    }

    /// A copy of here, if one can be made.
    pub(crate) fn checkpoint(&mut self) -> Result<Option<Checkpoint>> {
        let Some(running) = &self.running else { return Ok(None) };
        let current = self.debuggee.current;
        let writes = Writes::since_copy(self.debuggee.process.pid);
        let Some(snapshot) = Snapshot::take(&mut self.debuggee.process, running.header(), current)? else { return Ok(None) };
        let snapshot = Rc::new(snapshot);
        self.timeline.since_base = self.timeline.since_base.and(&Past { writes, ..Past::default() });
        let place = Place::here(&self.debuggee, Some(Rc::clone(&snapshot)))?;
        let since = self.timeline.since_base.clone();
        Ok(Some(Checkpoint { place, snapshot, signal: self.timeline.last_signal, fate: self.debuggee.fate, since }))
    }

    fn add_checkpoint(&mut self) -> Result<()> {
        let Some(fresh) = self.checkpoint()? else { return Ok(()) };
        let timeline = &mut self.timeline;
        let at = (timeline.base + 1).min(timeline.checkpoints.len());
        // Whether those of the same mark come before or after it, nobody knows.
        let same = timeline.checkpoints[at..].iter().take_while(|other| other.place.mark <= fresh.place.mark).count();
        let gone: Vec<Checkpoint> = timeline.checkpoints.splice(at..at + same, [fresh]).collect();
        if let Some(next) = timeline.checkpoints.get_mut(at + 1) {
            next.since = gone.iter().fold(next.since.clone(), |since, one| since.and(&one.since));
        }
        timeline.base = at;
        timeline.since_base = Past::nothing();
        self.limit_checkpoints();
        Ok(())
    }

    /// Adds one that is known to come right after the base and not after the place that the process is to go to.
    pub(crate) fn insert_checkpoint(&mut self, fresh: &Checkpoint) {
        let timeline = &mut self.timeline;
        let at = (timeline.base + 1).min(timeline.checkpoints.len());
        timeline.checkpoints.insert(at, fresh.clone());
        timeline.base = at;
        timeline.since_base = Past::nothing();
        self.limit_checkpoints();
    }

    fn limit_checkpoints(&mut self) {
        if self.timeline.checkpoints.len() > MOST_CHECKPOINTS {
            self.thin_out();
        }
    }

    /// The first one stays, and so do the latest. Of the others those go that leave the shortest stretch behind, so that all are about as long.
    fn thin_out(&mut self) {
        let timeline = &mut self.timeline;
        while timeline.checkpoints.len() > FEW_CHECKPOINTS {
            let all = &timeline.checkpoints;
            let stretch = |index: &usize| all[*index].since.ran + all[index + 1].since.ran;
            let Some(gone) = (1..all.len() - LATEST).filter(|index| *index != timeline.base).min_by_key(stretch) else { break };
            let since = timeline.checkpoints.remove(gone).since;
            timeline.checkpoints[gone].since = since.and(&timeline.checkpoints[gone].since);
            timeline.base -= usize::from(gone < timeline.base);
        }
    }

    // ---- going to a checkpoint ----

    /// Puts the process where a checkpoint was made. Which of the time line's is the last before it, the caller knows.
    pub(crate) fn revive(&mut self, checkpoint: &Checkpoint) -> Result<()> {
        let Some(running) = &self.running else { return Ok(()) };
        let (process, current) = checkpoint.snapshot.revive(running.header(), &mut self.debuggee.process)?;
        self.debuggee.process = process;
        self.debuggee.current = current;
        self.debuggee.fate = checkpoint.fate;
        self.debuggee.end_told = true;
        self.debuggee.text.refresh(self.debuggee.process.pid);
        self.timeline.last_signal = checkpoint.signal;
        self.timeline.since_base = Past::default();
        self.moved();
        Ok(())
    }

    pub(crate) fn revive_number(&mut self, index: usize) -> Result<Place> {
        let checkpoint = self.timeline.checkpoints[index].clone();
        self.revive(&checkpoint)?;
        self.timeline.base = index;
        self.timeline.since_base = Past::nothing();
        Ok(checkpoint.place)
    }
}
