//! Goes to places that the user names.

use crate::error::Result;
use crate::inferior::{Fate, GiveUp, Stop};
use crate::kept::{self, Kept, Summary};
use crate::replay::{Replay, Runs};
use crate::timeline::Timeline;

/// Goes to where a thread has consumed this many events and is about to go on.
///
/// # Errors
/// The replay diverged, or the process cannot be controlled.
pub(super) fn to_event(
    timeline: &mut Timeline,
    kept: &mut Kept,
    (thread, events): (u32, u64),
    give_up: GiveUp,
) -> Result<Stop> {
    if !timeline.begin()? {
        return Ok(Stop::Interrupted);
    }
    let Some(start) = timeline.replay.checkpoint()? else { return Ok(Stop::Interrupted) };
    let is_before = |count: Option<u64>| count.is_some_and(|count| count < events);
    let checkpoints = &timeline.checkpoints;
    let before = checkpoints.iter().rposition(|one| is_before(one.count(thread)));
    let context = timeline.replay.inferior.context();
    let is_near = |index: usize| {
        checkpoints[index].count(thread).is_some_and(|count| count <= context.event_count)
    };
    let is_on_the_way =
        context.tid == thread && context.event_count < events && before.is_none_or(is_near);
    let is_behind = |one: &Summary| !is_on_the_way || one.count(thread) > Some(context.event_count);
    let brought = kept.bring_in(timeline, before.unwrap_or(0), |_, _, one| {
        one.count(thread).is_some_and(|count| count < events) && is_behind(one)
    })?;
    if brought.is_none() && !is_on_the_way {
        timeline.revive_number(before.unwrap_or(0))?;
    }
    let replay = &mut timeline.replay;
    replay.moved();
    let stop = replay.quietly(|replay| run_to_pause(replay, (thread, events), give_up))?;
    if stop == Stop::Interrupted {
        replay.revive(&start)?;
    }
    timeline.rebase_before(timeline.replay.mark());
    Ok(stop)
}

/// Runs until a thread has consumed this many events. Signals on the way do not stop it.
pub(super) fn run_to_pause(
    replay: &mut Replay,
    (thread, events): (u32, u64),
    give_up: GiveUp,
) -> Result<Stop> {
    replay.inferior.pause = Some((thread, events));
    let stop = loop {
        match replay.resume(give_up) {
            Ok(Stop::Signal(_) | Stop::Caught(_)) if replay.inferior.ending.fate == Fate::Open => {}
            stop => break stop,
        }
    };
    replay.inferior.pause = None;
    stop
}

/// Goes to where the process is about to exit or to die.
///
/// # Errors
/// The replay diverged, or the process cannot be controlled.
pub(super) fn to_end(timeline: &mut Timeline, kept: &mut Kept, give_up: GiveUp) -> Result<Stop> {
    // The last checkpoint is not after the end.
    let last = timeline.checkpoints.len().saturating_sub(1);
    let here = timeline.replay.mark();
    let brought = kept.bring_in(timeline, last, |_, _, one| kept::mark(one) > here)?;
    if brought.is_none() && timeline.base < last {
        timeline.revive_number(last)?;
    }
    timeline.quietly(|timeline| {
        loop {
            let stop = timeline.forward(give_up)?;
            if timeline.replay.inferior.ending.fate != Fate::Open || stop.if_announced().is_none() {
                return Ok(stop);
            }
        }
    })
}
