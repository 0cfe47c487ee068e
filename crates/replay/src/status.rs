//! The progress of a replay, and its costs so far.

use crate::windows::Windows;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

/// The state of a replay at one moment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Status {
    /// Bytes of all streams together.
    pub total_bytes: u64,
    /// Bytes handed to the replayed threads.
    pub done_bytes: u64,
    /// Forced points that were found.
    pub forced_found: u64,
    /// How often a thread came to a forced point's address too early and had to be examined.
    pub forced_misses: u64,
    /// Time from the beginning of each search to its end, summed over all threads.
    pub forced_search: Duration,
}

impl Status {
    pub(crate) fn of(windows: &Windows) -> Self {
        let mut status = Self {
            total_bytes: windows.total_bytes(),
            done_bytes: windows.done_bytes(),
            ..Self::default()
        };
        // Threads that reuse a slot continue its counts.
        for slot in windows.session.header().used_slots() {
            status.forced_found += slot.forcing.found.load(Relaxed);
            status.forced_misses += slot.forcing.misses.load(Relaxed);
            status.forced_search += Duration::from_nanos(slot.forcing.search_ns.load(Relaxed));
        }
        status
    }
}
