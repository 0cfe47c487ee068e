//! The slots of threads in the shared header.

use crate::process::Process;
use retake_kernel::shared::{self, Header, Slot};
use std::mem::{offset_of, size_of};

/// The place of a thread's slot in the header.
pub fn slot_of(process: &Process, tid: i32) -> Option<usize> {
    let first = shared::HEADER_ADDRESS + offset_of!(Header, slots) as u64;
    let offset = process.context(tid)?.slot.checked_sub(first)?;
    let index = (offset / size_of::<Slot>() as u64) as usize;
    (index < shared::MAX_SLOTS).then_some(index)
}

/// Where all processes have a slot.
pub(crate) fn address_of_slot(index: usize) -> u64 {
    shared::HEADER_ADDRESS + (offset_of!(Header, slots) + index * size_of::<Slot>()) as u64
}
