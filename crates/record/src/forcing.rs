//! The signal that stops a thread between two events: requesting it, and sending it when it may be
//! delivered. [`crate::forced`], [`crate::slices`] and [`crate::chaos`] decide when.

use crate::shared_state::Recorder;
use retake_kernel::process;
use retake_kernel::shared::{self, Slot};
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed};

/// Stops the thread of a slot wherever it is, unless a stop is already under way.
pub(crate) fn stop(recorder: &Recorder, slot: &Slot) {
    if change(slot, shared::FORCE_IDLE, shared::FORCE_WANTED) {
        slot.forcing.sequence.fetch_add(1, Relaxed);
        send(recorder, slot);
    }
}

/// Sends the signal to the thread of a slot if a stop is wanted. The state keeps the thread from
/// leaving user code while the signal is on its way.
pub(crate) fn send(recorder: &Recorder, slot: &Slot) {
    if recorder.lets_go(slot.pid.load(Relaxed) as i32) {
        return; // it could not handle the signal
    }
    if !change(slot, shared::FORCE_WANTED, shared::FORCE_SENDING) {
        return;
    }
    let sent = process::force(slot.pid.load(Relaxed) as i32, slot.tid.load(Relaxed) as i32);
    let next = if sent { shared::FORCE_SENT } else { shared::FORCE_WANTED };
    // The signal may have arrived already, and the runtime has changed the state since.
    change(slot, shared::FORCE_SENDING, next);
}

/// Changes the state if it is `from`. Returns whether it was.
fn change(slot: &Slot, from: u32, to: u32) -> bool {
    slot.forcing.state.compare_exchange(from, to, AcqRel, Acquire).is_ok()
}
