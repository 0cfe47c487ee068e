//! How far a replay is, and what it has cost so far.

use crate::windows::Windows;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

/// A moment of a replay.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Status {
    /// Bytes of all streams together.
    pub total_bytes: u64,
    /// Bytes that the replayed threads were given.
    pub done_bytes: u64,
    /// Places between events that were found again.
    pub forced_found: u64,
    /// How often a thread was at one of those places too early, and had to be looked at.
    pub forced_misses: u64,
    /// Time from the beginning of each search until the place was found, of all threads together.
    pub forced_search: Duration,
}

impl Status {
    pub(crate) fn of(windows: &Windows) -> Self {
        let mut status = Self {
            total_bytes: windows.total_bytes(),
            done_bytes: windows.done_bytes(),
            ..Self::default()
        };
        // Slots are used again by other threads; their counts go on.
        for slot in windows.session.header().used_slots() {
            status.forced_found += slot.forcing.found.load(Relaxed);
            status.forced_misses += slot.forcing.misses.load(Relaxed);
            status.forced_search += Duration::from_nanos(slot.forcing.search_ns.load(Relaxed));
        }
        status
    }
}
