//! Slots for copies of a process that run beside it. A copy that diverges is killed, and nothing
//! else happens: the thread that made the copy finds out.

use crate::windows::Windows;
use retake_kernel::shared::{self, Header};
use std::collections::HashSet;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Slots that stay free between those of programs, which are taken from the beginning, and those of
/// copies, which are taken from the end.
const KEPT_FREE: usize = 64;

/// The slots taken for copies.
#[derive(Debug, Default)]
pub(crate) struct Copies(Mutex<HashSet<usize>>);

impl Copies {
    fn taken(&self) -> MutexGuard<'_, HashSet<usize>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a slot belongs to a copy.
    pub fn has(&self, index: usize) -> bool {
        self.taken().contains(&index)
    }

    /// Takes free slots; `None` if there are too few.
    fn take(&self, header: &Header, count: usize) -> Option<Vec<usize>> {
        let lowest = header.slots_used.load(Acquire) as usize + KEPT_FREE;
        let mut taken = self.taken();
        let free: Vec<usize> = (lowest..header.slot_limit())
            .rev()
            .filter(|index| !taken.contains(index))
            .take(count)
            .collect();
        if free.len() < count {
            return None;
        }
        taken.extend(&free);
        Some(free)
    }
}

/// The slots of one copy, one for each thread. Dropping this frees them; the copy must have ended
/// before.
pub struct CopySlots {
    windows: Arc<Windows>,
    copies: Arc<Copies>,
    indices: Vec<usize>,
}

impl CopySlots {
    pub(crate) fn take(windows: &Arc<Windows>, copies: &Arc<Copies>, count: usize) -> Option<Self> {
        let indices = copies.take(windows.session.header(), count)?;
        Some(Self { windows: Arc::clone(windows), copies: Arc::clone(copies), indices })
    }

    /// The indices of the slots in the header.
    pub fn indices(&self) -> &[usize] {
        &self.indices
    }
}

impl Drop for CopySlots {
    fn drop(&mut self) {
        let mut taken = self.copies.taken();
        for &index in &self.indices {
            let slot = &self.windows.session.header().slots[index];
            slot.pid.store(0, Relaxed);
            slot.state.store(shared::SLOT_UNUSED, Release);
            taken.remove(&index);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use retake_kernel::shared::{HeaderSegment, MAX_SLOTS};

    #[test]
    fn copies_take_what_the_program_is_far_from() {
        let segment = HeaderSegment::create(shared::MODE_REPLAY, 0).unwrap();
        let (header, copies) = (segment.get(), Copies::default());
        header.slots_used.store(3, Release);
        assert_eq!(copies.take(header, 2).unwrap(), [MAX_SLOTS - 1, MAX_SLOTS - 2]);
        assert_eq!(copies.take(header, 1).unwrap(), [MAX_SLOTS - 3]);
        assert!(copies.has(MAX_SLOTS - 2) && !copies.has(MAX_SLOTS - 4));
        header.slots_used.store((MAX_SLOTS - KEPT_FREE - 4) as u32, Release);
        assert!(copies.take(header, 2).is_none());
        assert_eq!(copies.take(header, 1).unwrap(), [MAX_SLOTS - 4]);
    }
}
