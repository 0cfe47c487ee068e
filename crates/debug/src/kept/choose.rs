//! Which kept checkpoint serves to go to a place, and going to one.

use super::image::Summary;
use super::leave::SMALL_BYTES;
use super::of_target;
use super::past::Twin;
use super::restore::{Surroundings, restore, summary_of};
use crate::debuggee::{Fate, Stop};
use crate::destination::Destination;
use crate::error::{DebugError, Result};
use crate::place::{Mark, Place};
use crate::session::Session;
use crate::stretch::Past;
use crate::timeline::ran_to;
use retake_recording::KeptCheckpoint;
use std::time::Duration;

/// To read one and to have one more process is worth so much replay, and a second for so many
/// bytes.
const WORTH: Duration = Duration::from_millis(100);
const BYTES_A_SECOND: u64 = 128 << 20;

impl Session {
    /// A place that somebody wants to go to, in the same words whoever asks.
    pub(super) fn arrival(&self, destination: Destination) -> Option<String> {
        Some(match destination {
            Destination::Event(thread, events) => Destination::Event(
                Some(thread.unwrap_or_else(|| self.debuggee.context().tid)),
                events,
            )
            .to_string(),
            Destination::End | Destination::Crash => Destination::End.to_string(),
            Destination::Time(_) | Destination::Begin | Destination::Checkpoint(_) => return None,
        })
    }

    fn kept_here(&mut self) -> &[(KeptCheckpoint, Summary)] {
        if !self.kept.keeping.uses {
            return &[];
        }
        let (recording, target, places) = (&self.recording, &self.target, &self.kept.places);
        self.kept.known.get_or_insert_with(|| of_target(recording, places, target))
    }

    /// The one that was kept for a place because somebody asked for it.
    pub(super) fn kept_at(&mut self, arrival: Option<&str>) -> Option<(KeptCheckpoint, Summary)> {
        self.kept_here()
            .iter()
            .find(|one| {
                arrival.is_some() && one.1.arrival.as_deref() == arrival && !one.1.is_automatic
            })
            .cloned()
    }

    /// The last of them behind `lower`, if there is one that is wanted.
    fn best(
        &mut self,
        lower: Option<Mark>,
        is_wanted: impl Fn(&Self, &KeptCheckpoint, &Summary) -> bool,
    ) -> Option<(KeptCheckpoint, Summary)> {
        let all = self.kept_here().to_vec();
        let is_behind = |one: &Summary| lower.is_none_or(|lower| one.mark() > lower);
        let fresh = all.into_iter().filter(|(kept, one)| {
            !self.kept.done.contains(&kept.number) && is_behind(one) && is_wanted(self, kept, one)
        });
        fresh.max_by_key(|(_, one)| (one.mark(), one.after_ms))
    }

    /// Goes to a place at once if a checkpoint was kept exactly there. What stops the program
    /// there.
    pub(crate) fn arrive_at_kept(&mut self, destination: Destination) -> Result<Option<Stop>> {
        let Some(arrival) = self.arrival(destination) else { return Ok(None) };
        let spared = self.replayed(self.timeline.checkpoints.len());
        let is_there = |_: &Self, _: &KeptCheckpoint, one: &Summary| {
            one.arrival.as_ref() == Some(&arrival) && Duration::from_millis(one.after_ms) >= spared
        };
        let Some((kept, summary)) = self.best(None, is_there) else { return Ok(None) };
        if !self.become_kept(&kept, &summary)? {
            return Ok(None);
        }
        self.find_base(summary.mark());
        if !summary.is_end() {
            self.put_on_time_line(&kept, &summary)?;
        }
        Ok(Some(self.debuggee.stop_at_fate().unwrap_or(Stop::Step)))
    }

    /// Puts the kept checkpoint on the time line that is the last before some place, if that spares
    /// more than it costs. `base`: the time line's last that certainly is before it.
    pub(crate) fn bring_in(
        &mut self,
        base: usize,
        is_before: impl Fn(&Self, &KeptCheckpoint, &Summary) -> bool,
    ) -> Result<Option<usize>> {
        let lower = self.timeline.checkpoints.get(base).map(|base| base.place.mark);
        let (spared, is_first) =
            (self.replayed(base), self.timeline.checkpoints.len() <= 1 && self.timeline.moves == 0);
        let cost = |kept: &KeptCheckpoint| {
            WORTH + Duration::from_millis(kept.bytes.saturating_mul(1000) / BYTES_A_SECOND)
        };
        let is_worth = |kept: &KeptCheckpoint, one: &Summary| {
            is_first || Duration::from_millis(one.after_ms) >= spared + cost(kept)
        };
        let is_wanted = |this: &Self, kept: &KeptCheckpoint, one: &Summary| {
            !one.is_end() && is_worth(kept, one) && is_before(this, kept, one)
        };
        let Some((kept, summary)) = self.best(lower, is_wanted) else { return Ok(None) };
        if !self.become_kept(&kept, &summary)? {
            return Ok(None);
        }
        self.put_on_time_line(&kept, &summary)
    }

    /// Puts the small ones on the time line that are before its checkpoint with this number and
    /// behind the one before: how many. So what is not known of the ways between them can be gone
    /// through on all cores.
    pub(crate) fn bring_in_small(&mut self, before: usize) -> Result<usize> {
        let Some(base) = before.checked_sub(1) else { return Ok(0) };
        let end = self.timeline.checkpoints[before].clone();
        let is_wanted = |this: &Self, kept: &KeptCheckpoint, one: &Summary| {
            kept.bytes < SMALL_BYTES && this.is_kept_before(one, &end)
        };
        let mut brought = 0;
        while self.bring_in(base, is_wanted)?.is_some() {
            brought += 1;
        }
        Ok(brought)
    }

    /// Says at which checkpoint the session began, if it did.
    pub(crate) fn remark_begin(&mut self) {
        if let Some((number, summary)) = self.kept.used.take() {
            let (events, thread) = (summary.events, summary.thread);
            self.remarks += &format!(
                "retake: begins at checkpoint {number}: event {events} of thread {thread}\n"
            );
        }
    }

    /// How long replay from the program's start to a checkpoint of the time line took, as far as
    /// that is known.
    fn replayed(&self, index: usize) -> Duration {
        let checkpoints = &self.timeline.checkpoints;
        ran_to(&checkpoints[..checkpoints.len().min(index + 1)])
    }

    /// Makes the process what was kept. False: it is where the program begins, for that was not
    /// possible.
    fn become_kept(&mut self, kept: &KeptCheckpoint, summary: &Summary) -> Result<bool> {
        self.kept.done.insert(kept.number);
        if !self.begin_timeline()? {
            return Ok(false);
        }
        self.revive_number(0)?;
        match self.make_kept(kept) {
            Ok(true) => {
                self.kept.spared = self.kept.spared.max(Duration::from_millis(summary.after_ms));
                self.kept.used = Some((kept.number, summary.clone()));
                return Ok(true);
            }
            Ok(false) => {
                self.remark(format!("checkpoint {} is not where it should be", kept.number))
            }
            Err(DebugError::Recording(error)) => self.remark(error.to_string()),
            Err(error) => {
                self.remark(format!("checkpoint {} cannot be used: {error}", kept.number))
            }
        }
        // It does for nothing.
        self.kept
            .known
            .iter_mut()
            .for_each(|known| known.retain(|one| one.0.number != kept.number));
        self.revive_number(0)?;
        Ok(false)
    }

    fn remark(&mut self, what: String) {
        self.remarks += &format!("retake: {what}; the program is replayed instead\n");
    }

    /// Whether the process is now what was kept: at the very place that is said.
    fn make_kept(&mut self, kept: &KeptCheckpoint) -> Result<bool> {
        let Some(running) = &self.running else { return Ok(false) };
        let mut reader = self.kept.places.open(kept)?;
        let summary = summary_of(&mut reader)?;
        let around = Surroundings {
            header: running.header(),
            scratch: running.scratch().to_owned(),
            recording: &self.recording,
            console: &mut self.console,
        };
        let announced = restore(&mut reader, &mut self.debuggee.process, around)?;
        self.debuggee.current = self.debuggee.process.pid;
        self.debuggee.fate = summary.fate;
        self.debuggee.end_told = !matches!(summary.fate, Fate::Dying(_));
        self.debuggee.text.refresh(self.debuggee.process.pid);
        self.timeline.announced = announced.map(Stop::Signal);
        self.moved();
        let here = Place::here(&self.debuggee, None)?;
        Ok((here.thread, here.mark, here.address())
            == (summary.thread, summary.mark(), summary.address))
    }

    /// What is known of the stretches before and behind the checkpoint with this number, which was
    /// kept.
    fn put_past(&mut self, at: usize, kept: &KeptCheckpoint, summary: &Summary) {
        let pid = self.timeline.checkpoints[at].snapshot.pid;
        self.kept.brought.push(Twin { kept: kept.clone(), summary: summary.clone(), pid });
        for end in [at, at + 1] {
            if let Some(past) = self.past_to(end) {
                let since = &mut self.timeline.checkpoints[end].since;
                *since = Past { ran: since.ran, unhit: since.unhit.clone(), ..past };
            }
        }
    }

    /// The process, which is what was kept, becomes a checkpoint of the time line: its number
    /// there.
    fn put_on_time_line(
        &mut self,
        kept: &KeptCheckpoint,
        summary: &Summary,
    ) -> Result<Option<usize>> {
        let Some(mut fresh) = self.checkpoint()? else {
            self.remark(format!("the threads of checkpoint {} do not come to rest", kept.number));
            self.revive_number(0)?;
            return Ok(None);
        };
        let checkpoints = &mut self.timeline.checkpoints;
        let at = checkpoints
            .partition_point(|one| one.place.mark < fresh.place.mark)
            .max(1)
            .min(checkpoints.len());
        let before = ran_to(&checkpoints[..at]);
        let ran = Duration::from_millis(summary.after_ms).saturating_sub(before);
        // What is known of the whole stretch holds for its parts.
        fresh.since = checkpoints.get(at).map(|next| next.since.clone()).unwrap_or_default();
        fresh.since.ran = ran;
        if let Some(next) = checkpoints.get_mut(at) {
            next.since.ran = next.since.ran.saturating_sub(ran);
        }
        checkpoints.insert(at, fresh);
        self.put_past(at, kept, summary);
        self.rebase(at);
        self.timeline.since_base = Past::nothing();
        Ok(Some(at))
    }
}
