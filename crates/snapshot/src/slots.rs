//! The slots of threads in the shared header.

use crate::process::Process;
use retake_kernel::shared::{self, Header, Slot};
use serde::{Deserialize, Serialize};
use std::mem::{offset_of, size_of};
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

/// The address of the domain of all processes that share memory.
pub(crate) fn address_of_shared_domain() -> u64 {
    shared::HEADER_ADDRESS + offset_of!(Header, shared_domain) as u64
}

/// The index of a thread's slot in the header.
pub fn slot_of(process: &Process, tid: i32) -> Option<usize> {
    slot_at(process.context(tid)?.slot)
}

/// The index of the slot at an address, which is the same in every process.
pub(crate) fn slot_at(address: u64) -> Option<usize> {
    let first = shared::HEADER_ADDRESS + offset_of!(Header, slots) as u64;
    let offset = address.checked_sub(first)?;
    let index = (offset / size_of::<Slot>() as u64) as usize;
    (index < shared::MAX_SLOTS).then_some(index)
}

/// The address of a slot, which is the same in every process.
pub(crate) fn address_of_slot(index: usize) -> u64 {
    shared::HEADER_ADDRESS + (offset_of!(Header, slots) + index * size_of::<Slot>()) as u64
}

/// The part of a slot that changes while its thread lives.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(crate) struct SlotState {
    pub index: usize,
    pub state: u32,
    pub stream: u32,
    pub baton_state: u32,
    pub event_count: u64,
    /// The IDs of its process and thread in the recording.
    pub recorded: (u32, u32),
    pub filter: u32,
}

impl SlotState {
    pub fn of(header: &Header, index: usize) -> Self {
        let slot = &header.slots[index];
        Self {
            index,
            state: slot.state.load(Acquire),
            stream: slot.stream.load(Relaxed),
            baton_state: slot.baton.state.load(Relaxed),
            event_count: slot.event_count.load(Relaxed),
            recorded: (slot.recorded_pid.load(Relaxed), slot.recorded_tid.load(Relaxed)),
            filter: slot.filter.load(Relaxed),
        }
    }

    pub fn put_back(&self, header: &Header, pid: i32, tid: i32) {
        let slot = &header.slots[self.index];
        slot.stream.store(self.stream, Relaxed);
        slot.pid.store(pid as u32, Relaxed);
        slot.tid.store(tid as u32, Relaxed);
        slot.baton.state.store(self.baton_state, Relaxed);
        slot.event_count.store(self.event_count, Relaxed);
        slot.recorded_pid.store(self.recorded.0, Relaxed);
        slot.recorded_tid.store(self.recorded.1, Relaxed);
        slot.filter.store(self.filter, Relaxed);
        slot.state.store(self.state, Release);
    }
}
