//! The time line of a replay: its checkpoints, and where among them the process is.

use crate::checkpoint::{Checkpoint, ran_to};
use crate::coverage::Coverage;
use crate::error::Result;
use crate::inferior::{GiveUp, Inferior, Probing, Stop};
use crate::place::{Mark, Place};
use crate::replay::{PATIENCE, Replay, Runs};
use crate::stretch::Past;
use retake_snapshot::in_runtime;
use std::time::{Duration, Instant};

/// The first interval between checkpoints. Going back a little runs at most this much again.
const INTERVAL: Duration = Duration::from_millis(100);
/// Later, the interval is this part of the whole way.
const PART_OF_WAY: u32 = 40;
/// How long to wait for threads when a checkpoint is made. Going on matters more.
const LITTLE_PATIENCE: Duration = Duration::from_millis(20);
/// The most steps to a place where a probe fits.
const MOST_STEPS_TO_PROBE: usize = 40;
/// The most steps to a place where a probe is cheap.
const MOST_STEPS_TO_QUICK_PROBE: usize = 12;
/// In writable code, how long to run on to an event before a checkpoint is made anywhere.
const LONGEST_WAY_TO_EVENT: Duration = Duration::from_secs(1);
/// In other code, the same: an event that comes within this time is where the checkpoint is made.
const SHORT_WAY_TO_EVENT: Duration = Duration::from_millis(40);
/// The number of checkpoints above which some are given up.
const MOST_CHECKPOINTS: usize = 64;
/// The number of checkpoints that are left then.
const FEW_CHECKPOINTS: usize = 48;
/// The number of latest checkpoints that are never given up.
const LATEST: usize = 16;
/// A run that stops within this time does not wait for the handling of a copy.
const UNDISTURBED: Duration = Duration::from_millis(1);

/// The checkpoints in order, and the replay that they belong to.
pub(crate) struct Timeline {
    pub checkpoints: Vec<Checkpoint>,
    /// The last checkpoint that is certainly not after the process's place.
    pub base: usize,
    /// The search for the executed instructions of the stretches, while the process goes on.
    coverage: Coverage,
    pub replay: Replay,
}

impl Runs for Timeline {
    fn inferior_mut(&mut self) -> &mut Inferior {
        &mut self.replay.inferior
    }
}

impl Timeline {
    /// Makes the time line of a replay that is at its beginning.
    pub fn new(replay: Replay) -> Self {
        Self { checkpoints: Vec::new(), base: 0, coverage: Coverage::default(), replay }
    }

    /// Gives up all checkpoints, with their copies of the process.
    pub fn clear(&mut self) {
        self.checkpoints.clear();
        self.base = 0;
        self.coverage = Coverage::default();
    }

    // ---- forwards ----

    /// Goes on until something stops the program, and leaves checkpoints behind.
    ///
    /// # Errors
    /// As [`Replay::resume`].
    pub fn forward(&mut self, give_up: GiveUp) -> Result<Stop> {
        self.replay.moved();
        self.begin()?;
        loop {
            if let Some(stop) = self.forward_with_coverage(give_up)? {
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

    /// Goes on until something stops the program; `None` if a checkpoint is due.
    fn forward_with_coverage(&mut self, give_up: GiveUp) -> Result<Option<Stop>> {
        let whole = ran_to(&self.checkpoints);
        let interval = INTERVAL.max(whole / PART_OF_WAY);
        loop {
            let since = Instant::now();
            self.coverage.go_on(&mut self.replay, &mut self.checkpoints);
            let left = interval.saturating_sub(self.replay.went_on);
            let stop = self.forward_for(left, give_up)?;
            self.replay.went_on += since.elapsed();
            if stop.is_some() {
                return Ok(stop);
            }
            if self.replay.went_on >= interval {
                self.replay.went_on = Duration::ZERO;
                return Ok(None);
            }
        }
    }

    /// Goes on until something stops the program; `None` if nothing has within `limit`, or a copy
    /// has come to its end.
    fn forward_for(&mut self, limit: Duration, give_up: GiveUp) -> Result<Option<Stop>> {
        let (since, before) = (Instant::now(), self.replay.computed());
        let mut is_asked = false;
        let coverage = &mut self.coverage;
        let stop = self.replay.resume(&mut || {
            if since.elapsed() > UNDISTURBED {
                coverage.tend(&mut || false);
            }
            is_asked |= give_up();
            is_asked || since.elapsed() > limit || coverage.is_back()
        })?;
        self.replay.console.collect()?;
        self.replay.announced = stop.if_announced();
        self.replay.since.ran += self.replay.computed().saturating_sub(before);
        self.advance_base();
        Ok((stop != Stop::Interrupted || is_asked).then_some(stop))
    }

    /// Goes on to where the thread returns from its next event, if it soon has one; the result is
    /// then `Stop::Step`. Such a place is found again without a search. The program may also move
    /// code that it writes, and a trap with it. So an event is worth a longer way there.
    fn forward_to_event(&mut self, give_up: GiveUp) -> Result<Option<Stop>> {
        let longest = if self.replay.inferior.is_in_writable_code()? {
            LONGEST_WAY_TO_EVENT
        } else {
            SHORT_WAY_TO_EVENT
        };
        let context = self.replay.inferior.context();
        self.replay.inferior.pause = Some((context.tid, context.event_count + 1));
        let stop = self.forward_for(longest, give_up);
        self.replay.inferior.pause = None;
        stop
    }

    /// Goes on by a few instructions, to a place that can be searched for without stopping at each
    /// visit.
    fn forward_to_probe(&mut self, give_up: GiveUp) -> Result<Option<Stop>> {
        let inferior = &self.replay.inferior;
        let others = inferior.stops.places(&inferior.text);
        for steps in 0..MOST_STEPS_TO_PROBE {
            let inferior = &mut self.replay.inferior;
            let address = inferior.process.registers(inferior.current)?.rip;
            let is_fit = match inferior.probing(address, &others) {
                Some(Probing::Quick) => true,
                Some(Probing::Slow) => steps >= MOST_STEPS_TO_QUICK_PROBE,
                None => false,
            };
            if in_runtime(address) || is_fit && !inferior.is_at_repeated()? {
                break;
            }
            let stop = self.replay.step(None, give_up)?;
            self.replay.announced = stop.if_announced();
            self.advance_base();
            let inferior = &self.replay.inferior;
            if stop != Stop::Step {
                return Ok(inferior.wants(stop).then_some(stop));
            }
            if inferior.is_at_breakpoint()? {
                return Ok(Some(Stop::Breakpoint));
            }
        }
        Ok(None)
    }

    /// Goes one instruction forwards.
    ///
    /// # Errors
    /// As [`Replay::step`].
    pub fn forward_step(&mut self, tid: Option<i32>, give_up: GiveUp) -> Result<Stop> {
        let stop = self.replay.step(tid, give_up)?;
        self.replay.moved();
        self.replay.announced = stop.if_announced();
        self.advance_base();
        Ok(stop)
    }

    // ---- the base ----

    fn advance_base(&mut self) {
        let mark = self.replay.mark();
        while let Some(next) =
            self.checkpoints.get_mut(self.base + 1).filter(|next| next.place.mark < mark)
        {
            // A breakpoint that was not reached on the whole way was reached on neither part of it.
            let unhit = std::mem::take(&mut self.replay.since).unhit;
            next.since.unhit.or(&unhit);
            self.base += 1;
            self.replay.since = Past { unhit, ..Past::default() };
        }
    }

    /// Makes this checkpoint the base. How the process came here from it is unknown.
    pub fn rebase(&mut self, index: usize) {
        self.base = index;
        self.replay.since = Past::default();
    }

    /// Makes the last checkpoint that is certainly before a mark the base.
    pub fn rebase_before(&mut self, mark: Mark) {
        self.rebase(self.last_before(mark));
    }

    /// The last checkpoint that is certainly before a mark.
    pub fn last_before(&self, mark: Mark) -> usize {
        self.checkpoints.iter().rposition(|one| one.place.mark < mark).unwrap_or(0)
    }

    /// Returns the last checkpoint that is not `end` itself. Afterwards the process is at `end` or
    /// before it.
    ///
    /// # Errors
    /// The process cannot be examined.
    pub fn index_before(&mut self, end: &Place) -> Result<Option<usize>> {
        for index in (0..=self.base).rev() {
            let Some(checkpoint) = self.checkpoints.get(index) else { continue };
            if checkpoint.place.mark != end.mark {
                return Ok(Some(index));
            }
            self.replay.revive(checkpoint)?;
            if !end.is_here(&self.replay.inferior)? {
                return Ok(Some(index));
            }
        }
        Ok(None)
    }

    // ---- making checkpoints ----

    /// Makes the first checkpoint before the process moves. Returns false if none can be made.
    ///
    /// # Errors
    /// The process cannot be controlled.
    pub fn begin(&mut self) -> Result<bool> {
        if self.checkpoints.is_empty() {
            self.add_checkpoint(false)?;
        }
        Ok(!self.checkpoints.is_empty())
    }

    fn add_checkpoint(&mut self, is_at_event: bool) -> Result<()> {
        // The first checkpoint is worth waiting for: without it there is no way back at all.
        let patience = if self.checkpoints.is_empty() { PATIENCE } else { LITTLE_PATIENCE };
        let Some(fresh) = self.replay.checkpoint_within(patience)? else { return Ok(()) };
        let fresh = Checkpoint { is_at_event, ..fresh };
        let at = (self.base + 1).min(self.checkpoints.len());
        // It is unknown whether checkpoints with the same mark come before or after this one.
        let same = self.checkpoints[at..]
            .iter()
            .take_while(|other| other.place.mark <= fresh.place.mark)
            .count();
        let gone: Vec<Checkpoint> = self.checkpoints.splice(at..at + same, [fresh]).collect();
        if let Some(next) = self.checkpoints.get_mut(at + 1) {
            next.since = gone.iter().fold(next.since.clone(), |since, one| since.and(&one.since));
        }
        self.stand_at(at);
        self.limit_checkpoints();
        Ok(())
    }

    /// Adds a checkpoint that is known to come right after the base and not after the place where
    /// the process is to go.
    pub fn insert_checkpoint(&mut self, fresh: &Checkpoint) {
        let at = (self.base + 1).min(self.checkpoints.len());
        self.checkpoints.insert(at, fresh.clone());
        self.stand_at(at);
        self.limit_checkpoints();
    }

    /// Records that the process is at this checkpoint.
    pub fn stand_at(&mut self, index: usize) {
        self.base = index;
        self.replay.since = Past::nothing();
    }

    fn limit_checkpoints(&mut self) {
        if self.checkpoints.len() > MOST_CHECKPOINTS {
            self.thin_out();
        }
    }

    /// Gives up checkpoints, but not the first and the latest ones. The ones that leave the
    /// shortest stretches go first, so that all stretches become about equally long.
    fn thin_out(&mut self) {
        while self.checkpoints.len() > FEW_CHECKPOINTS {
            let all = &self.checkpoints;
            let is_free = |index: &usize| *index != self.base && !self.coverage.needs(&all[*index]);
            let stretch = |index: &usize| all[*index].since.ran + all[index + 1].since.ran;
            let Some(gone) = (1..all.len() - LATEST).filter(is_free).min_by_key(stretch) else {
                break;
            };
            let since = self.checkpoints.remove(gone).since;
            self.checkpoints[gone].since = since.and(&self.checkpoints[gone].since);
            self.base -= usize::from(gone < self.base);
        }
    }

    // ---- going to a checkpoint ----

    /// Puts the process where the checkpoint with this number was made.
    ///
    /// # Errors
    /// The process cannot be made.
    pub fn revive_number(&mut self, index: usize) -> Result<Place> {
        self.replay.revive(&self.checkpoints[index])?;
        self.stand_at(index);
        Ok(self.checkpoints[index].place.clone())
    }

    /// Goes to where the debugged program begins.
    ///
    /// # Errors
    /// The process cannot be made.
    pub fn go_to_begin(&mut self) -> Result<Stop> {
        if !self.checkpoints.is_empty() {
            self.revive_number(0)?;
        }
        Ok(Stop::Begin)
    }

    /// Whether the debugged program has executed nothing yet, as far as checkpoints tell.
    ///
    /// # Errors
    /// The process cannot be examined.
    pub fn is_at_begin(&self) -> Result<bool> {
        let first = self.checkpoints.first();
        first.map_or(Ok(true), |first| first.place.is_here(&self.replay.inferior))
    }

    // ---- what was executed on the way ----

    /// Finds out more about executed instructions while there is nothing else to do. Returns
    /// whether there is more to find out.
    pub fn follow_for_a_moment(&mut self, is_wanted_elsewhere: GiveUp) -> bool {
        self.coverage.go_on_for_a_moment(
            &mut self.replay,
            &mut self.checkpoints,
            is_wanted_elsewhere,
        )
    }

    /// Tells of how many stretches the executed instructions are known.
    pub fn followed(&self) -> String {
        let stretches = self.checkpoints.iter().skip(1);
        let known = stretches.clone().filter(|one| one.since.executed.is_known()).count();
        format!("{known} of {} stretches between checkpoints", stretches.count())
    }
}
