//! The supervisor's operations on the header segment. The contract has its layout.
//!
//! Every field is an atomic: the runtimes of many processes may change it at any time, and that
//! must not be undefined behaviour.

use crate::inheritance;
use crate::segment::Segment;
use std::io;
use std::sync::atomic::{AtomicU8, Ordering};

pub use retake_contract::addresses::*;
pub use retake_contract::header::*;

/// A header segment of this supervisor.
#[derive(Debug)]
pub struct HeaderSegment {
    segment: Segment,
}

impl HeaderSegment {
    /// Creates a header of zeros, with its magic number and its own ID.
    ///
    /// # Errors
    /// As [`Segment::create`].
    pub fn create(mode: u32, options: u32) -> io::Result<Self> {
        let this = Self { segment: Segment::create(std::mem::size_of::<Header>())? };
        let header = this.get();
        header.magic.store(HEADER_MAGIC, Ordering::Relaxed);
        header.mode.store(mode, Ordering::Relaxed);
        header.options.store(options, Ordering::Relaxed);
        header.header_id.store(this.segment.id(), Ordering::Relaxed);
        header.supervisor_pid.store(std::process::id() as i32, Ordering::Relaxed);
        header.slot_limit.store(MAX_SLOTS as u32, Ordering::Relaxed);
        if inheritance::is_short_of_addresses() {
            this.forget_slots(MAX_SLOTS / 8);
        }
        Ok(this)
    }

    /// Returns the shared structure.
    pub fn get(&self) -> &Header {
        // SAFETY: the segment is as large as the structure, page-aligned, and every bit pattern is
        // a valid value of atomics.
        unsafe { &*self.segment.address().cast::<Header>() }
    }

    /// Reduces the number of slots, for processes with a small address space. All code respects the
    /// limit.
    fn forget_slots(&self, limit: usize) {
        self.get().slot_limit.store(limit as u32, Ordering::Relaxed);
        let slot = std::mem::size_of::<Slot>();
        let first = std::mem::offset_of!(Header, slots);
        self.segment.forget(first + limit * slot..first + MAX_SLOTS * slot);
    }

    /// Returns the segment itself.
    pub fn segment(&self) -> &Segment {
        &self.segment
    }
}

/// Stores bytes into an array of atomics. Drops bytes beyond its end.
pub fn store_bytes(target: &[AtomicU8], bytes: &[u8]) {
    for (to, from) in target.iter().zip(bytes) {
        to.store(*from, Ordering::Relaxed);
    }
}

/// Returns the hash of a content that [`store_bytes`] stored.
pub fn load_content(source: &[AtomicU8; 32]) -> [u8; 32] {
    std::array::from_fn(|at| source[at].load(Ordering::Relaxed))
}

/// Takes the next request from the queue; `None` if it is empty. Several threads may call it.
pub fn take_request(header: &Header) -> Option<usize> {
    loop {
        let taken = header.request_taken.load(Ordering::Acquire);
        if taken == header.request_doorbell.load(Ordering::Acquire) {
            return None;
        }
        let entry = &header.request_queue[taken as usize % MAX_SLOTS];
        let value = entry.load(Ordering::Acquire);
        if value == 0 {
            std::hint::spin_loop(); // counted, but not yet written
            continue;
        }
        if header
            .request_taken
            .compare_exchange(taken, taken.wrapping_add(1), Ordering::AcqRel, Ordering::Acquire)
            .is_ok()
        {
            entry.store(0, Ordering::Release);
            return Some(value as usize - 1).filter(|&index| index < header.slot_limit());
        }
    }
}

/// Removes slots from the list of ready ones. For a moment the list is empty; threads that look for
/// a slot then try again.
pub fn withdraw_ready(header: &Header, withdrawn: &[usize]) {
    let taken = header
        .ready_top
        .fetch_update(Ordering::AcqRel, Ordering::Acquire, |top| Some(((top >> 32) + 1) << 32));
    let mut next = taken.unwrap_or_else(|top| top) as u32;
    while let Some(index) = (next as usize).checked_sub(1) {
        next = header.slots[index].next_ready.load(Ordering::Relaxed);
        if !withdrawn.contains(&index) {
            push_ready(header, index);
        }
    }
}

/// Adds a slot to the list of ready ones.
pub fn push_ready(header: &Header, index: usize) {
    let slot = &header.slots[index];
    slot.state.store(SLOT_READY, Ordering::Release);
    let mut top = header.ready_top.load(Ordering::Acquire);
    loop {
        slot.next_ready.store(top as u32, Ordering::Relaxed);
        let fresh = ((top >> 32) + 1) << 32 | (index as u64 + 1);
        match header.ready_top.compare_exchange(top, fresh, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => return,
            Err(now) => top = now,
        }
    }
}
