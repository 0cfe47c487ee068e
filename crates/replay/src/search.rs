//! Notices that a thread searches in vain for the place where the recording stopped it.
//!
//! The thread executes the program's code between visits of the place, so it does not notice that
//! itself. It cannot compute for longer than the recording took, except for what the visits cost.

use crate::windows::Windows;
use retake_kernel::process;
use retake_kernel::shared::{self, Slot};
use std::collections::HashMap;
use std::sync::atomic::Ordering::{Acquire, Relaxed};
use std::time::Duration;

/// A visit that a planted jump handles makes a short loop slower by this factor at most.
const SLOWEST: u32 = 20;
/// In addition, for short recordings.
const LEAST: Duration = Duration::from_secs(8);
/// The most time that a visit costs if the runtime handles it: two signals, and changes of the
/// code's protection.
const VISIT: Duration = Duration::from_micros(50);
/// Visits get no more time than this, so that each search ends.
const MOST_FOR_VISITS: Duration = Duration::from_secs(1800);
/// For a recording that was cut off, whose duration is not known.
const UNKNOWN: Duration = Duration::from_secs(60);

/// A search as it was first seen.
#[derive(Debug, Clone, Copy)]
struct Begun {
    /// The search's mark in its slot, and the thread's ID.
    known_by: (u64, i32),
    computed: Duration,
    misses: u64,
}

/// The searches that are under way, by their slots' indices.
#[derive(Debug, Default)]
pub(crate) struct Searches(HashMap<usize, Begun>);

impl Searches {
    /// Returns the slot of a thread that searches in vain, and how long it has computed. To be
    /// called now and then.
    pub fn look(&mut self, windows: &Windows) -> Option<(usize, Duration)> {
        let header = windows.session.header();
        // Users of a debugger see how far it is, and interrupt it if they like.
        if header.options.load(Relaxed) & shared::OPTION_DEBUG != 0 {
            return None;
        }
        let outcome = windows.recording().metadata().outcome.as_ref();
        let took = outcome.map_or(UNKNOWN, |outcome| Duration::from_millis(outcome.duration_ms));
        let mut searching = header.used_slots().iter().enumerate();
        searching.find_map(|(index, slot)| Some((index, self.in_vain(index, slot, took)?)))
    }

    fn in_vain(&mut self, index: usize, slot: &Slot, took: Duration) -> Option<Duration> {
        let mark = slot.forcing.armed_ns.load(Acquire);
        if mark == 0 || slot.state.load(Acquire) != shared::SLOT_LIVE {
            self.0.remove(&index);
            return None;
        }
        let tid = slot.tid.load(Relaxed) as i32;
        let computed = process::computed_by_thread(tid)
            .unwrap_or_else(|| process::computed(slot.pid.load(Relaxed) as i32));
        let misses = slot.forcing.misses.load(Relaxed);
        let now = Begun { known_by: (mark, tid), computed, misses };
        let begun = *self.0.entry(index).or_insert(now);
        if begun.known_by != now.known_by {
            self.0.insert(index, now);
            return None;
        }
        let elapsed = computed.saturating_sub(begun.computed);
        let visits = u32::try_from(misses.saturating_sub(begun.misses)).unwrap_or(u32::MAX);
        let for_visits = VISIT.saturating_mul(visits).min(MOST_FOR_VISITS);
        let bound = took.saturating_mul(SLOWEST).saturating_add(LEAST + for_visits);
        (elapsed > bound).then_some(elapsed)
    }
}
