//! Images of all processes that share memory, as one group. They take turns in one order, so replay
//! needs all of them.
//!
//! A thread of one process has the baton, and none of the others runs. They are read from outside,
//! as a thread that waits in a call could not copy its process. Then the thread goes on to make the
//! image of its own process.

use crate::copies::Sharers;
use crate::images::content_of;
use crate::shared_state::Recorder;
use retake_kernel::maps::Mapping;
use retake_kernel::shared::{SLOT_CLAIMED, SLOT_LIVE, TIE_MEMORY};
use retake_snapshot::image::recorded::{ProcessImage, image_of_sharer};
use retake_snapshot::image::{Known, Result, SharedMemory};
use retake_supervisor::parallel;
use std::collections::BTreeSet;
use std::sync::atomic::Ordering::{Acquire, Relaxed};

/// Reads all processes that share memory with process `taker`, whose thread has the baton; `None`
/// if one is not at rest.
///
/// # Errors
/// `Refused` if no replay could begin there. A process is gone.
pub(crate) fn read(recorder: &Recorder, taker: u32) -> Result<Option<Sharers>> {
    let header = recorder.header();
    let Some(others) = others(recorder, taker) else { return Ok(None) };
    let all: Vec<i32> = [taker].iter().chain(&others).map(|pid| *pid as i32).collect();
    let shared = SharedMemory::of(&all, header, &recorder.files.changed(header))?;
    let image = |pid: u32| {
        let pid = pid as i32;
        let content = |mapping: &Mapping| content_of(recorder, pid, mapping);
        let known = Known { content: &content, shared: &shared, goes_on: true };
        image_of_sharer(pid, header, &known)
    };
    let images = parallel::map(others.into_iter().collect(), image);
    let Some(images) = images.into_iter().collect::<Result<Option<Vec<ProcessImage>>>>()? else {
        return Ok(None);
    };
    let number = header.images_wanted.load(Relaxed);
    Ok(Some(Sharers { taker, number, images, shared }))
}

/// The processes that share memory, without `taker`; `None` if one may be about to begin.
fn others(recorder: &Recorder, taker: u32) -> Option<BTreeSet<u32>> {
    let mut found = BTreeSet::new();
    for slot in recorder.header().used_slots() {
        let pid = slot.pid.load(Relaxed);
        match slot.state.load(Acquire) {
            SLOT_CLAIMED if pid != taker => return None,
            SLOT_LIVE if pid != taker && slot.ties.load(Relaxed) & TIE_MEMORY != 0 => {
                found.insert(pid);
            }
            _ => {}
        }
    }
    Some(found)
}
