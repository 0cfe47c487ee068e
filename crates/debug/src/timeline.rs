//! Checkpoints along the way, and how to get from one of them to an exact place.

use crate::debuggee::{Fate, GiveUp, Stop};
use crate::error::Result;
use crate::follower::Follower;
use crate::place::{Mark, Place};
use crate::session::Session;
use crate::stretch::Past;
use crate::trail::Trail;
use retake_snapshot::Snapshot;
use retake_snapshot::in_runtime;
use retake_snapshot::writes;
use std::rc::Rc;
use std::time::{Duration, Instant};

/// Between two checkpoints, at first: as much is executed again at most to go back a little.
const INTERVAL: Duration = Duration::from_millis(100);
/// Later this part of the whole way.
const PART_OF_WAY: u32 = 40;
/// A thread that is on its way to where it will wait gets there within this time, also where the
/// machine has much else to do.
const PATIENCE: Duration = Duration::from_secs(1);
/// Going on is worth more than one more checkpoint.
const LITTLE_PATIENCE: Duration = Duration::from_millis(20);
/// A place for a probe is not far.
const MOST_STEPS_TO_PROBE: usize = 40;
/// Nor is one where it costs little.
const MOST_STEPS_TO_QUICK_PROBE: usize = 12;
/// So often threads may have something to tell before they all wait.
const MOST_NEWS: usize = 100;
/// Without an event for so long, a checkpoint is made anywhere.
const LONGEST_WAY_TO_EVENT: Duration = Duration::from_secs(1);
/// One that comes sooner is where it is made, wherever the program is.
const SHORT_WAY_TO_EVENT: Duration = Duration::from_millis(40);
/// With more, some are given up.
const MOST_CHECKPOINTS: usize = 64;
/// Until there are so many.
const FEW_CHECKPOINTS: usize = 48;
/// Of them, so many of the latest stay as they are.
const LATEST: usize = 16;
/// What stops so soon is not made to wait for the follower.
const UNDISTURBED: Duration = Duration::from_millis(1);

/// A place that can be gone back to.
#[derive(Debug, Clone)]
pub(crate) struct Checkpoint {
    pub place: Place,
    pub snapshot: Rc<Snapshot>,
    /// It is where its thread comes from its last event.
    pub is_at_event: bool,
    /// The stop there was for something that the runtime announced.
    announced: Option<Stop>,
    fate: Fate,
    /// Of each thread that there is: its number, and how many events it has consumed.
    pub counts: Vec<(u32, u64)>,
    /// What happened since the one before it.
    pub since: Past,
}

/// The checkpoints, in order, and where among them the process is.
#[derive(Default)]
pub(crate) struct Timeline {
    pub checkpoints: Vec<Checkpoint>,
    /// What goes through the stretches between them while the process goes on.
    pub follower: Follower,
    /// The last that is certainly not behind us.
    pub base: usize,
    /// What happened since then, up to the last copy.
    pub since_base: Past,
    /// How long it has gone on since it was time for a checkpoint, with whatever stopped it on the
    /// way.
    went_on: Duration,
    /// Counts every change of where the process is.
    pub moves: u64,
    /// The last way that was known step by step.
    pub trail: Option<Trail>,
    /// The user's, by number.
    pub kept: Vec<(u64, Checkpoint)>,
    /// The last stop, if it was for something that the runtime announced.
    pub announced: Option<Stop>,
}

impl Checkpoint {
    /// What the runtime announced there.
    pub fn announced(&self) -> Option<Stop> {
        self.announced
    }

    /// How the process ends, if that is known there.
    pub fn fate(&self) -> Fate {
        self.fate
    }

    /// How many events a thread has consumed there; `None`: there is no such thread.
    pub fn count(&self, thread: u32) -> Option<u64> {
        count_of(&self.counts, thread)
    }
}

/// How long the ways to these checkpoints took, one after the other.
pub(crate) fn ran_to(ends: &[Checkpoint]) -> Duration {
    ends.iter().map(|one| one.since.ran).sum()
}

/// How many events a thread has consumed; `None`: there is no such thread.
pub(crate) fn count_of(counts: &[(u32, u64)], thread: u32) -> Option<u64> {
    counts.iter().find(|(known, _)| *known == thread).map(|(_, count)| *count)
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
            if let Some(stop) = self.forward_with_follower(give_up)? {
                return Ok(stop);
            }
            let stop = self.forward_to_event(give_up)?;
            let is_at_event = stop == Some(Stop::Step);
            let stop = if stop.is_none() {
                self.forward_to_probe(give_up)?
            } else {
                stop.filter(|_| !is_at_event)
            };
            if let Some(stop) = stop {
                return Ok(stop);
            }
            self.add_checkpoint(is_at_event)?;
        }
    }

    /// Goes on until something stops the program; `None`: it is time for a checkpoint.
    fn forward_with_follower(&mut self, give_up: GiveUp) -> Result<Option<Stop>> {
        let whole = ran_to(&self.timeline.checkpoints);
        let interval = INTERVAL.max(whole / PART_OF_WAY);
        loop {
            let since = Instant::now();
            self.go_after();
            let stop = self.forward_for(interval.saturating_sub(self.timeline.went_on), give_up)?;
            self.timeline.went_on += since.elapsed();
            if stop.is_some() {
                return Ok(stop);
            }
            if self.timeline.went_on >= interval {
                self.timeline.went_on = Duration::ZERO;
                return Ok(None);
            }
        }
    }

    /// Goes on until something stops the program; `None`: nothing has for so long, or the follower
    /// wants to be sent on.
    fn forward_for(&mut self, limit: Duration, give_up: GiveUp) -> Result<Option<Stop>> {
        let (since, before) = (Instant::now(), self.computed());
        let mut is_asked = false;
        let mut follower = std::mem::take(&mut self.timeline.follower);
        let stop = self.resume(&mut || {
            if since.elapsed() > UNDISTURBED {
                follower.tend(&mut || false);
            }
            is_asked |= give_up();
            is_asked || since.elapsed() > limit || follower.is_back()
        });
        self.timeline.follower = follower;
        let stop = stop?;
        self.console.collect()?;
        self.timeline.announced = stop.if_announced();
        self.timeline.since_base.ran += self.computed().saturating_sub(before);
        self.advance_base();
        Ok((stop != Stop::Interrupted || is_asked).then_some(stop))
    }

    /// To where the thread comes from its next event, if it has one soon, which `Stop::Step` says:
    /// such a place is found again without being looked for. Code that the program writes it may
    /// also move, and a trap with it: so there an event is worth a longer way.
    fn forward_to_event(&mut self, give_up: GiveUp) -> Result<Option<Stop>> {
        let longest = if self.debuggee.is_in_writable_code()? {
            LONGEST_WAY_TO_EVENT
        } else {
            SHORT_WAY_TO_EVENT
        };
        let context = self.debuggee.context();
        self.debuggee.pause = Some((context.tid, context.event_count + 1));
        let stop = self.forward_for(longest, give_up);
        self.debuggee.pause = None;
        stop
    }

    /// A few instructions further, to where the place can be looked for without stopping at each
    /// visit.
    fn forward_to_probe(&mut self, give_up: GiveUp) -> Result<Option<Stop>> {
        let others = self.debuggee.breakpoint_places();
        for steps in 0..MOST_STEPS_TO_PROBE {
            let address = self.debuggee.process.registers(self.debuggee.current)?.rip;
            let is_quick = steps < MOST_STEPS_TO_QUICK_PROBE;
            let is_fit = if is_quick {
                self.debuggee.can_probe_quickly(address, &others)
            } else {
                self.debuggee.can_probe(address, &others)
            };
            if in_runtime(address) || is_fit && !self.debuggee.is_at_repeated()? {
                break;
            }
            let stop = self.step(None, give_up)?;
            self.timeline.announced = stop.if_announced();
            self.advance_base();
            if stop != Stop::Step {
                return Ok(self.debuggee.wants(stop).then_some(stop));
            }
            if self.debuggee.is_at_breakpoint()? {
                return Ok(Some(Stop::Breakpoint));
            }
        }
        Ok(None)
    }

    /// One instruction forwards.
    pub(crate) fn forward_step(&mut self, tid: Option<i32>, give_up: GiveUp) -> Result<Stop> {
        self.begin_timeline()?;
        let trail = self.take_trail();
        let is_same_thread = tid.is_none_or(|tid| tid == self.debuggee.current);
        let stop = self.step(tid, give_up)?;
        self.moved();
        self.timeline.announced = stop.if_announced();
        if let (Stop::Step, true, Some(trail)) = (stop, is_same_thread, trail) {
            self.lengthen(trail);
        }
        self.advance_base();
        Ok(stop)
    }

    /// Makes the first checkpoint before the process moves. False: none can be made.
    pub(crate) fn begin_timeline(&mut self) -> Result<bool> {
        if self.timeline.checkpoints.is_empty() {
            self.add_checkpoint(false)?;
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

    fn computed(&self) -> Duration {
        retake_kernel::process::computed(self.debuggee.process.pid)
    }

    fn advance_base(&mut self) {
        let mark = self.mark();
        let timeline = &mut self.timeline;
        while let Some(next) =
            timeline.checkpoints.get_mut(timeline.base + 1).filter(|next| next.place.mark < mark)
        {
            // What was not come to on the way to here, was not on the way to there, nor from there.
            let unhit = std::mem::take(&mut timeline.since_base).unhit;
            next.since.unhit.or(&unhit);
            timeline.base += 1;
            timeline.since_base = Past { unhit, ..Past::default() };
        }
    }

    /// The checkpoint with this number is the last that is not behind us, and where we came from is
    /// not known.
    pub(crate) fn rebase(&mut self, index: usize) {
        self.timeline.base = index;
        self.timeline.since_base = Past::default();
    }

    /// A copy of here, if one can be made.
    pub(crate) fn checkpoint(&mut self) -> Result<Option<Checkpoint>> {
        self.checkpoint_within(PATIENCE)
    }

    fn checkpoint_within(&mut self, patience: Duration) -> Result<Option<Checkpoint>> {
        let writes = writes::since_copy(self.debuggee.process.pid);
        let Some(snapshot) = self.snapshot(patience)? else { return Ok(None) };
        let snapshot = Rc::new(snapshot);
        self.timeline.since_base =
            self.timeline.since_base.and(&Past { writes, ..Past::nothing() });
        let place = Place::here(&self.debuggee, Some(Rc::clone(&snapshot)))?;
        let since = self.timeline.since_base.clone();
        let (announced, fate, counts) =
            (self.timeline.announced, self.debuggee.fate, self.debuggee.counts());
        Ok(Some(Checkpoint { place, snapshot, is_at_event: false, announced, fate, counts, since }))
    }

    fn snapshot(&mut self, patience: Duration) -> Result<Option<Snapshot>> {
        let Some(running) = &self.running else { return Ok(None) };
        for _ in 0..MOST_NEWS {
            let current = self.debuggee.current;
            let taken =
                Snapshot::take(&mut self.debuggee.process, running.header(), current, patience)?;
            if taken.is_some() || !self.debuggee.process.has_news() {
                return Ok(taken);
            }
            self.debuggee.hear_others()?;
        }
        Ok(None)
    }

    fn add_checkpoint(&mut self, is_at_event: bool) -> Result<()> {
        // Without the first there is no way back at all.
        let patience =
            if self.timeline.checkpoints.is_empty() { PATIENCE } else { LITTLE_PATIENCE };
        let Some(fresh) = self.checkpoint_within(patience)? else { return Ok(()) };
        let fresh = Checkpoint { is_at_event, ..fresh };
        let timeline = &mut self.timeline;
        let at = (timeline.base + 1).min(timeline.checkpoints.len());
        // Whether those of the same mark come before or after it, nobody knows.
        let same = timeline.checkpoints[at..]
            .iter()
            .take_while(|other| other.place.mark <= fresh.place.mark)
            .count();
        let gone: Vec<Checkpoint> = timeline.checkpoints.splice(at..at + same, [fresh]).collect();
        if let Some(next) = timeline.checkpoints.get_mut(at + 1) {
            next.since = gone.iter().fold(next.since.clone(), |since, one| since.and(&one.since));
        }
        timeline.base = at;
        timeline.since_base = Past::nothing();
        self.limit_checkpoints();
        Ok(())
    }

    /// Adds one that is known to come right after the base and not after the place that the process
    /// is to go to.
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

    /// The first one stays, and so do the latest. Of the others those go that leave the shortest
    /// stretch behind, so that all are about as long.
    fn thin_out(&mut self) {
        let timeline = &mut self.timeline;
        while timeline.checkpoints.len() > FEW_CHECKPOINTS {
            let all = &timeline.checkpoints;
            let is_free =
                |index: &usize| *index != timeline.base && !timeline.follower.needs(&all[*index]);
            let stretch = |index: &usize| all[*index].since.ran + all[index + 1].since.ran;
            let Some(gone) = (1..all.len() - LATEST).filter(is_free).min_by_key(stretch) else {
                break;
            };
            let since = timeline.checkpoints.remove(gone).since;
            timeline.checkpoints[gone].since = since.and(&timeline.checkpoints[gone].since);
            timeline.base -= usize::from(gone < timeline.base);
        }
    }

    // ---- going to a checkpoint ----

    /// Puts the process where a checkpoint was made. Which of the time line's is the last before
    /// it, the caller knows.
    pub(crate) fn revive(&mut self, checkpoint: &Checkpoint) -> Result<()> {
        let Some(running) = &self.running else { return Ok(()) };
        let (process, current) =
            checkpoint.snapshot.revive(running.header(), &mut self.debuggee.process)?;
        self.debuggee.process = process;
        self.debuggee.current = current;
        self.debuggee.fate = checkpoint.fate;
        self.debuggee.end_told = true;
        self.debuggee.text.refresh(self.debuggee.process.pid);
        self.timeline.announced = checkpoint.announced;
        self.timeline.since_base = Past::default();
        self.timeline.went_on = Duration::ZERO;
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
