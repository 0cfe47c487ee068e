//! The signal that stops a thread between two events: asking for it, and sending it when it may
//! come. Modules above decide when: [`crate::forced`], [`crate::slices`] and [`crate::chaos`].

use retake_kernel::process;
use retake_kernel::shared::{self, Slot};
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed};

/// Stops the thread of a slot wherever it is, unless somebody does already.
pub(crate) fn stop(slot: &Slot) {
    if change(slot, shared::FORCE_IDLE, shared::FORCE_WANTED) {
        slot.forcing.sequence.fetch_add(1, Relaxed);
        send(slot);
    }
}

/// Stops the thread of a slot that wants it. The state keeps the thread from leaving user code
/// behind the signal's back.
pub(crate) fn send(slot: &Slot) {
    if !change(slot, shared::FORCE_WANTED, shared::FORCE_SENDING) {
        return;
    }
    let sent = process::force(slot.pid.load(Relaxed) as i32, slot.tid.load(Relaxed) as i32);
    let next = if sent { shared::FORCE_SENT } else { shared::FORCE_WANTED };
    // It may have arrived already, and then the runtime has moved on.
    change(slot, shared::FORCE_SENDING, next);
}

/// Changes the state from one to another; whether it was the first.
fn change(slot: &Slot, from: u32, to: u32) -> bool {
    slot.forcing.state.compare_exchange(from, to, AcqRel, Acquire).is_ok()
}
