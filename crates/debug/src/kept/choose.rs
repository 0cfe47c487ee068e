//! Chooses the kept checkpoint to start from for a place, and goes to it.

use super::past::Twin;
use super::printed;
use super::{Kept, SMALL_BYTES, Summary, begin, mark, of_stream, of_target};
use crate::checkpoint::{Checkpoint, ran_to};
use crate::destination::Destination;
use crate::error::{DebugError, Result};
use crate::history::History;
use crate::history::strangers::{Begun, stranger};
use crate::inferior::{Ending, Fate, Stop};
use crate::place::{Mark, Place};
use crate::program::Program;
use crate::replay::Replay;
use crate::stretch::Past;
use crate::timeline::Timeline;
use retake_recording::KeptCheckpoint;
use retake_snapshot::Process;
use retake_snapshot::image::{Surroundings, restore, summary};
use std::time::Duration;

/// The cost of using a kept checkpoint, as a duration of replay: this much for reading it and for
/// one more process, and a second for this many bytes.
const WORTH: Duration = Duration::from_millis(100);
const BYTES_A_SECOND: u64 = 128 << 20;

/// The place that a user wants to go to, in one form for all users.
pub(super) fn arrival(replay: &Replay, destination: Destination) -> Option<String> {
    Some(match destination {
        Destination::Event(thread, events) => Destination::Event(
            Some(thread.unwrap_or_else(|| replay.inferior.context().tid)),
            events,
        )
        .to_string(),
        Destination::End | Destination::Crash => Destination::End.to_string(),
        Destination::Time(_) | Destination::Begin | Destination::Checkpoint(_) => return None,
    })
}

impl Kept {
    fn of_program(&mut self, replay: &Replay) -> &[(KeptCheckpoint, Summary)] {
        if !self.keeping.uses || replay.history.target.begins_late {
            return &[];
        }
        let (history, places) = (&replay.history, &self.places);
        self.known.get_or_insert_with(|| {
            let mut all = of_target(&history.recording, places, &history.target);
            // What is alone has no children. So what holds of an image holds of all later ones.
            let mut has_no_stranger = false;
            all.retain(|(_, one)| one.group.is_none());
            all.retain(|(_, one)| {
                let is_sought = one.shares_turns && replay.is_alone() && !has_no_stranger;
                let begun = Begun { images: &[one], has_start: false };
                has_no_stranger |=
                    is_sought && matches!(stranger(&history.recording, &begun), Ok(None));
                !one.shares_turns || has_no_stranger
            });
            all
        })
    }

    /// The checkpoint that a user had kept for a place.
    pub(super) fn at(
        &mut self,
        replay: &Replay,
        arrival: Option<&str>,
    ) -> Option<(KeptCheckpoint, Summary)> {
        self.of_program(replay)
            .iter()
            .find(|one| {
                arrival.is_some() && one.1.arrival.as_deref() == arrival && !one.1.is_automatic
            })
            .cloned()
    }

    /// The last kept checkpoint after `lower` that is wanted, if there is one.
    fn best(
        &mut self,
        replay: &Replay,
        lower: Option<Mark>,
        is_wanted: impl Fn(&Self, &KeptCheckpoint, &Summary) -> bool,
    ) -> Option<(KeptCheckpoint, Summary)> {
        let all = self.of_program(replay).to_vec();
        let is_behind = |one: &Summary| lower.is_none_or(|lower| mark(one) > lower);
        let fresh = all.into_iter().filter(|(kept, one)| {
            !self.done.contains(&kept.number) && is_behind(one) && is_wanted(self, kept, one)
        });
        fresh.max_by_key(|(_, one)| (mark(one), one.after_ms))
    }

    /// Turns the process into its first image if what it did before is left out. It must have
    /// executed nothing yet.
    ///
    /// # Errors
    /// There is no image, or it cannot be restored.
    pub fn begin_late(&self, replay: &mut Replay) -> Result<()> {
        if replay.history.target.is_made_late && self.begins_at_makers(replay)? {
            return Ok(());
        }
        let History { recording, target, .. } = &replay.history;
        if !(target.begins_late || target.is_made_late) {
            return Ok(());
        }
        let images = of_stream(recording, &self.places, target.stream);
        let first =
            images.into_iter().filter(|one| one.1.is_image()).min_by_key(|one| mark(&one.1));
        let Some((kept, _)) = first else {
            return Err(DebugError::NoPlace(format!(
                "process {} has no image, and --keep-last left out how it began",
                target.pid
            )));
        };
        replay.history.target.begins_late = true;
        if self.restore(replay, &kept)? {
            replay.program = Program::of_new(&replay.inferior, &replay.history.path);
            return Ok(());
        }
        Err(DebugError::NoPlace(format!("image {} is not where it should be", kept.number)))
    }

    /// Replays the makers of the process from the last image from which they make it. Returns false
    /// if there is none.
    fn begins_at_makers(&self, replay: &mut Replay) -> Result<bool> {
        let History { recording, target, .. } = &replay.history;
        let found = begin::before_process(recording, &self.places, target.stream)?;
        let (Some(found), Some(running)) = (found, &replay.running) else { return Ok(false) };
        let mut images = Vec::new();
        for (kept, _) in &found {
            let mut image = self.places.open(kept)?;
            summary::read(&mut image)?;
            images.push(image);
        }
        let first = &mut replay.inferior.process;
        let others = retake_replay::restore_all(running, recording, first, &mut images)?;
        replay.follow_makers(others)?;
        Ok(true)
    }

    /// Goes directly to a place if a checkpoint was kept exactly there. Returns the stop at the
    /// place.
    ///
    /// # Errors
    /// The process cannot be controlled.
    pub fn arrive_at(
        &mut self,
        timeline: &mut Timeline,
        destination: Destination,
    ) -> Result<Option<Stop>> {
        let Some(arrival) = arrival(&timeline.replay, destination) else { return Ok(None) };
        let spared = replayed(timeline, timeline.checkpoints.len());
        let is_there = |_: &Self, _: &KeptCheckpoint, one: &Summary| {
            one.arrival.as_ref() == Some(&arrival) && Duration::from_millis(one.after_ms) >= spared
        };
        let Some((kept, summary)) = self.best(&timeline.replay, None, is_there) else {
            return Ok(None);
        };
        if !self.turn_into(timeline, &kept, &summary)? {
            return Ok(None);
        }
        timeline.rebase_before(mark(&summary));
        if !summary.is_end() {
            self.put_on_time_line(timeline, &kept, &summary)?;
        }
        Ok(Some(timeline.replay.inferior.ending.stop_at_fate().unwrap_or(Stop::Step)))
    }

    /// Adds the last kept checkpoint before some place to the time line, if that saves more than it
    /// costs. `base` is the last checkpoint of the time line that is certainly before the place.
    ///
    /// # Errors
    /// The process cannot be controlled.
    pub fn bring_in(
        &mut self,
        timeline: &mut Timeline,
        base: usize,
        is_before: impl Fn(&Self, &KeptCheckpoint, &Summary) -> bool,
    ) -> Result<Option<usize>> {
        let lower = timeline.checkpoints.get(base).map(|base| base.place.mark);
        let spared = replayed(timeline, base);
        let is_first = timeline.checkpoints.len() <= 1 && timeline.replay.moves == 0;
        let cost = |kept: &KeptCheckpoint| {
            WORTH + Duration::from_millis(kept.bytes.saturating_mul(1000) / BYTES_A_SECOND)
        };
        let is_worth = |kept: &KeptCheckpoint, one: &Summary| {
            is_first || Duration::from_millis(one.after_ms) >= spared + cost(kept)
        };
        let is_wanted = |this: &Self, kept: &KeptCheckpoint, one: &Summary| {
            !one.is_end() && is_worth(kept, one) && is_before(this, kept, one)
        };
        let Some((kept, summary)) = self.best(&timeline.replay, lower, is_wanted) else {
            return Ok(None);
        };
        if !self.turn_into(timeline, &kept, &summary)? {
            return Ok(None);
        }
        self.put_on_time_line(timeline, &kept, &summary)
    }

    /// Adds the small kept checkpoints between the checkpoint with this number and the one before
    /// it to the time line. Returns how many there are. Unknown ways between them can then be
    /// scouted on all cores.
    ///
    /// # Errors
    /// The process cannot be controlled.
    pub fn bring_in_small(&mut self, timeline: &mut Timeline, before: usize) -> Result<usize> {
        let Some(base) = before.checked_sub(1) else { return Ok(0) };
        let end = timeline.checkpoints[before].clone();
        let is_wanted = |this: &Self, kept: &KeptCheckpoint, one: &Summary| {
            kept.bytes < SMALL_BYTES && this.is_before(one, &end)
        };
        let mut brought = 0;
        while self.bring_in(timeline, base, is_wanted)?.is_some() {
            brought += 1;
        }
        Ok(brought)
    }

    /// Adds a remark about the checkpoint at which the session began, if it did.
    pub fn remark_begin(&mut self, replay: &mut Replay) {
        if let Some((number, summary)) = self.used.take() {
            let (events, thread) = (summary.events, summary.thread);
            replay.remarks += &format!(
                "retake: begins at checkpoint {number}: event {events} of thread {thread}\n"
            );
        }
    }

    /// Turns the process into the kept one. Returns false if that fails; the process is then at the
    /// beginning of the program.
    fn turn_into(
        &mut self,
        timeline: &mut Timeline,
        kept: &KeptCheckpoint,
        summary: &Summary,
    ) -> Result<bool> {
        self.done.insert(kept.number);
        if !timeline.begin()? {
            return Ok(false);
        }
        timeline.revive_number(0)?;
        let replay = &mut timeline.replay;
        match self.restore(replay, kept) {
            Ok(true) => {
                self.spared = self.spared.max(Duration::from_millis(summary.after_ms));
                self.used = Some((kept.number, summary.clone()));
                return Ok(true);
            }
            Ok(false) => {
                remark(replay, format!("checkpoint {} is not where it should be", kept.number))
            }
            Err(DebugError::Recording(error)) => remark(replay, error.to_string()),
            Err(error) => {
                remark(replay, format!("checkpoint {} cannot be used: {error}", kept.number))
            }
        }
        // The checkpoint is useless.
        let known = self.known.iter_mut();
        known.for_each(|known| known.retain(|one| one.0.number != kept.number));
        timeline.revive_number(0)?;
        Ok(false)
    }

    /// The kept processes that share memory with that of an image, and this one. The first of them
    /// has the memory that all share.
    fn with_others(
        &self,
        replay: &Replay,
        kept: &KeptCheckpoint,
        summary: &Summary,
    ) -> Result<Vec<KeptCheckpoint>> {
        if summary.group.is_none() {
            return Ok(vec![kept.clone()]);
        }
        let all = begin::images(&replay.history.recording, &self.places)?;
        Ok(begin::together(summary, &all).into_iter().map(|(kept, _)| kept).collect())
    }

    /// Restores a kept process. Returns whether it is at the very place that the checkpoint names.
    fn restore(&self, replay: &mut Replay, kept: &KeptCheckpoint) -> Result<bool> {
        let mut reader = self.places.open(kept)?;
        let summary = summary::read(&mut reader)?;
        let group = self.with_others(replay, kept, &summary)?;
        let Some(running) = &replay.running else { return Ok(false) };
        let (recording, inferior) = (&replay.history.recording, &mut replay.inferior);
        let mut others = retake_replay::copies(&inferior.process, group.len() - 1)?;
        let mut next = others.iter_mut();
        let mut announced = None;
        for one in group {
            if one.number != kept.number {
                let (mut reader, process) = (self.places.open(&one)?, next.next());
                summary::read(&mut reader)?;
                let process = process.expect("there is one for each other image");
                retake_replay::restore_other(running, recording, &mut reader, process)?;
                continue;
            }
            let console = &mut replay.console;
            let around = Surroundings {
                header: running.header(),
                scratch: running.scratch().to_owned(),
                recording,
                other: &mut |name, bytes| printed::take(console, name, bytes),
            };
            announced = restore(&mut reader, &mut inferior.process, around)?;
        }
        others.iter_mut().try_for_each(Process::let_all_go)?;
        inferior.current = inferior.process.pid;
        let is_told = !matches!(summary.fate, Fate::Dying(_));
        inferior.ending = Ending { fate: summary.fate, is_told };
        inferior.text.refresh(inferior.process.pid);
        replay.announced = announced.map(Stop::Signal);
        replay.moved();
        let here = Place::here(&replay.inferior, None)?;
        // A process from an image is in the runtime if the program had been in the runtime.
        let is_there = summary.is_image() || here.address() == summary.address;
        // In a group, the turn may be that of another process.
        let turn = if summary.group.is_some() { here.mark.turn } else { summary.turn };
        let there = Mark { turn, events: summary.events };
        Ok(is_there && (here.thread, here.mark) == (summary.thread, there))
    }

    /// Fills in what is known about the stretches before and after a kept checkpoint, which has
    /// this number on the time line.
    fn put_past(
        &mut self,
        all: &mut [Checkpoint],
        at: usize,
        kept: &KeptCheckpoint,
        summary: &Summary,
    ) {
        let pid = all[at].snapshot.pid;
        self.brought.push(Twin { kept: kept.clone(), summary: summary.clone(), pid });
        for end in [at, at + 1] {
            if let Some(past) = self.past_to(all, end) {
                let since = &mut all[end].since;
                *since = Past { ran: since.ran, unhit: since.unhit.clone(), ..past };
            }
        }
    }

    /// Makes the process, which is the kept one, a checkpoint of the time line. Returns its number
    /// there.
    fn put_on_time_line(
        &mut self,
        timeline: &mut Timeline,
        kept: &KeptCheckpoint,
        summary: &Summary,
    ) -> Result<Option<usize>> {
        let Some(mut fresh) = timeline.replay.checkpoint()? else {
            let what = format!("the threads of checkpoint {} do not come to rest", kept.number);
            remark(&mut timeline.replay, what);
            timeline.revive_number(0)?;
            return Ok(None);
        };
        let checkpoints = &mut timeline.checkpoints;
        let at = checkpoints
            .partition_point(|one| one.place.mark < fresh.place.mark)
            .max(1)
            .min(checkpoints.len());
        let before = ran_to(&checkpoints[..at]);
        let ran = Duration::from_millis(summary.after_ms).saturating_sub(before);
        // Knowledge about the whole stretch holds for its parts.
        fresh.since = checkpoints.get(at).map(|next| next.since.clone()).unwrap_or_default();
        fresh.since.ran = ran;
        if let Some(next) = checkpoints.get_mut(at) {
            next.since.ran = next.since.ran.saturating_sub(ran);
        }
        checkpoints.insert(at, fresh);
        self.put_past(checkpoints, at, kept, summary);
        timeline.stand_at(at);
        Ok(Some(at))
    }
}

/// How long replay from the program's start to a checkpoint of the time line took, as far as that
/// is known.
fn replayed(timeline: &Timeline, index: usize) -> Duration {
    let checkpoints = &timeline.checkpoints;
    ran_to(&checkpoints[..checkpoints.len().min(index + 1)])
}

fn remark(replay: &mut Replay, what: String) {
    replay.remarks += &format!("retake: {what}; the program is replayed instead\n");
}
