//! The slots of threads in the shared header.

use crate::process::Process;
use retake_kernel::shared::{self, Header, Slot};
use serde::{Deserialize, Serialize};
use std::mem::{offset_of, size_of};
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};

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

/// Claims these slots for the threads of process `pid`. In place of one that another process has,
/// claims a new one: the processes may begin at images of different times. Returns the claimed
/// slots, in the same order; `None` if there is no room.
pub(crate) fn claim(header: &Header, wanted: &[usize], pid: i32) -> Option<Vec<usize>> {
    let most = wanted.iter().map(|index| index + 1).max().unwrap_or(0) as u32;
    if most as usize > header.slot_limit() {
        return None;
    }
    let before = header.slots_used.fetch_max(most, AcqRel);
    for index in before..most {
        // These slots were never used. Others may take those that are not ours.
        shared::push_ready(header, index as usize);
    }
    shared::withdraw_ready(header, wanted);
    let is_taken = |slot: &Slot| {
        matches!(slot.state.load(Acquire), shared::SLOT_CLAIMED | shared::SLOT_LIVE)
            && slot.pid.load(Relaxed) as i32 != pid
    };
    let claimed = wanted.iter().map(|&index| {
        let is_free = !is_taken(&header.slots[index]);
        let index = if is_free { index } else { never_used(header)? };
        let slot = &header.slots[index];
        // A thread in search of a slot may take one whose thread has ended. The claim keeps it from
        // taking this one.
        slot.pid.store(pid as u32, Relaxed);
        slot.state.store(shared::SLOT_CLAIMED, Release);
        slot.request.kind.store(0, Relaxed);
        slot.request.reply.store(1, Relaxed);
        slot.console.waiting.store(0, Relaxed);
        slot.affinity.home.store(0, Relaxed);
        slot.affinity.core_count.store(0, Relaxed);
        slot.exec_pending.store(0, Relaxed);
        Some(index)
    });
    claimed.collect()
}

/// Takes a slot that was never used; `None` if there is none.
fn never_used(header: &Header) -> Option<usize> {
    let limit = header.slot_limit() as u32;
    let next = |used: u32| (used < limit).then_some(used + 1);
    header.slots_used.fetch_update(AcqRel, Acquire, next).ok().map(|index| index as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The slots that are ready, the last one first.
    fn ready(header: &Header) -> Vec<usize> {
        let mut next = header.ready_top.load(Relaxed) as u32;
        let mut all = Vec::new();
        while let Some(index) = (next as usize).checked_sub(1) {
            all.push(index);
            next = header.slots[index].next_ready.load(Relaxed);
        }
        all
    }

    #[test]
    fn slots_are_claimed_below_the_limit_and_not_from_others() {
        let shared = shared::HeaderSegment::create(shared::MODE_REPLAY, 0).unwrap();
        let header = shared.get();
        let claimed = |wanted: &[usize], pid: i32| claim(header, wanted, pid);
        header.slot_limit.store(8, Relaxed);
        assert_eq!(claimed(&[1, 8], 70), None, "beyond the limit");
        assert_eq!((header.slots_used.load(Relaxed), ready(header)), (0, vec![]));

        assert_eq!(claimed(&[1, 4], 70), Some(vec![1, 4]));
        assert_eq!(header.slots_used.load(Relaxed), 5);
        let mut others = ready(header);
        others.sort_unstable();
        assert_eq!(others, [0, 2, 3], "slots that were never used are for others");
        for index in [1, 4] {
            let slot = &header.slots[index];
            assert_eq!(
                (slot.pid.load(Relaxed), slot.state.load(Relaxed)),
                (70, shared::SLOT_CLAIMED)
            );
        }

        assert_eq!(claimed(&[4, 3], 71), Some(vec![5, 3]), "another process has the first one");
        assert_eq!(claimed(&[7], 72), Some(vec![7]), "the last one below the limit");
        assert_eq!(header.slots_used.load(Relaxed), 8);
        assert_eq!(claimed(&[1, 4], 70), Some(vec![1, 4]), "its own");
        assert_eq!(claimed(&[4], 73), None, "there is no room");
    }
}
