//! What is known about the ways between kept checkpoints, in a file beside each. It lets later
//! sessions go back over a way without running through it to learn what did not happen there. The
//! file is written when a session ends, because executed instructions are found out after the
//! checkpoints were left.

use super::{Kept, Summary, mark};
use crate::checkpoint::Checkpoint;
use crate::error::Result;
use crate::stretch::Past;
use crate::timeline::Timeline;
use retake_recording::KeptCheckpoint;
use retake_snapshot::image::pieces::{kind, put_json, read_json};
use retake_snapshot::image::summary::Identity;
use serde::{Deserialize, Serialize};
use std::time::{Duration, Instant};

/// What is known about the way to a kept checkpoint.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct KnownPast {
    /// The identity of the checkpoint, since numbers are reused.
    of: Identity,
    /// The way from the program's start.
    from_begin: Past,
    /// The way from another kept checkpoint.
    from_kept: Option<(Identity, Past)>,
}

/// A checkpoint of the time line, and its kept copy.
#[derive(Debug, Clone)]
pub(super) struct Twin {
    pub kept: KeptCheckpoint,
    pub summary: Summary,
    /// The process ID of the time line's copy.
    pub pid: i32,
}

impl Kept {
    /// Writes what is known about the ways to the checkpoints that this session has left.
    ///
    /// # Errors
    /// There is no space.
    pub fn keep_past(&mut self, timeline: &mut Timeline) -> Result<()> {
        let left = std::mem::take(&mut self.left);
        if !left.is_empty() {
            follow_patiently(timeline, self.patience);
        }
        let all = &timeline.checkpoints;
        let place_of = |twin: &Twin| all.iter().position(|one| one.snapshot.pid == twin.pid);
        let mut placed: Vec<(usize, &Twin)> =
            left.iter().filter_map(|twin| Some((place_of(twin)?, twin))).collect();
        placed.sort_unstable_by_key(|(at, _)| *at);
        let mut before: Option<(usize, Identity)> = None;
        for (at, twin) in placed {
            let from_begin = over(&all[1..=at]);
            let from_kept = before.map(|(start, identity)| (identity, over(&all[start + 1..=at])));
            let mut writer = self.places.begin_past(&twin.kept)?;
            put_json(
                &mut writer,
                kind::PAST,
                &KnownPast { of: twin.summary.identity(), from_begin, from_kept },
            )?;
            self.places.finish_past(&twin.kept, writer)?;
            before = Some((at, twin.summary.identity()));
        }
        Ok(())
    }

    /// What another session knew about the way to a kept checkpoint; `None` if that cannot be read.
    fn known_past(&self, twin: &Twin) -> Option<KnownPast> {
        let mut reader = self.places.open_past(&twin.kept).ok()??;
        let known: Option<KnownPast> = read_json(&mut reader, kind::PAST).ok();
        known.filter(|known| known.of == twin.summary.identity())
    }

    /// What another session knew about the way from one checkpoint of the time line to the next.
    pub(super) fn past_to(&self, all: &[Checkpoint], end: usize) -> Option<Past> {
        let twin_at = |index: usize| {
            let pid = all.get(index).map(|one| one.snapshot.pid);
            self.brought.iter().find(|twin| Some(twin.pid) == pid)
        };
        let known = self.known_past(twin_at(end)?)?;
        match known.from_kept {
            Some((start, past))
                if twin_at(end - 1).is_some_and(|twin| twin.summary.identity() == start) =>
            {
                Some(past)
            }
            _ if end == 1 => Some(known.from_begin),
            _ => None,
        }
    }

    /// Whether a kept checkpoint is certainly before one of the time line. In a long computation
    /// without events, the times tell if one session left both.
    pub fn is_before(&self, one: &Summary, end: &Checkpoint) -> bool {
        let twin =
            self.brought.iter().find(|twin| twin.pid == end.snapshot.pid).map(|twin| &twin.summary);
        let is_earlier = |twin: &Summary| {
            one.session == twin.session && mark(one) == mark(twin) && one.after_ms < twin.after_ms
        };
        mark(one) < end.place.mark || twin.is_some_and(is_earlier)
    }
}

/// Goes on finding out which instructions were executed, for this long.
fn follow_patiently(timeline: &mut Timeline, patience: Duration) {
    let since = Instant::now();
    while since.elapsed() < patience && timeline.follow_for_a_moment(&mut || false) {}
}

/// Joins consecutive stretches.
fn over(stretches: &[Checkpoint]) -> Past {
    stretches.iter().fold(Past::nothing(), |past, one| past.and(&one.since))
}
