//! Ending a tree that runs too long: politely first, so that its recording says how each process
//! ended.

use retake_kernel::process;
use retake_kernel::shared::{self, Header};
use std::cell::Cell;
use std::collections::BTreeSet;
use std::sync::atomic::Ordering::{Acquire, Relaxed};
use std::time::{Duration, Instant};

/// Between SIGTERM and SIGKILL.
const GRACE: Duration = Duration::from_secs(2);

/// When a tree must have ended.
#[derive(Debug)]
pub(crate) struct Deadline {
    at: Cell<Option<Instant>>,
    /// Whether it is the user's, and not one that somebody set who asked us to end.
    is_timeout: Cell<bool>,
    passed: Cell<bool>,
}

impl Deadline {
    pub fn new(timeout: Option<Duration>) -> Self {
        let at = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        let is_timeout = Cell::new(at.is_some());
        Self { at: Cell::new(at), is_timeout, passed: Cell::new(false) }
    }

    /// Whether somebody was ended because the time was up.
    pub fn has_passed(&self) -> bool {
        self.passed.get() && self.is_timeout.get()
    }

    /// The time is up now, if it was not before.
    pub fn end_now(&self) {
        if !self.is_over() {
            self.at.set(Some(Instant::now()));
            self.is_timeout.set(false);
        }
    }

    /// How long to wait for something until the next look, `most` at most.
    pub fn wait_ms(&self, most: i32) -> i32 {
        let Some(at) = self.at.get().filter(|_| !self.passed.get()) else { return most };
        let left = at.saturating_duration_since(Instant::now()).as_millis();
        i32::try_from(left).unwrap_or(most).clamp(1, most)
    }

    /// Whether the time is up.
    pub fn is_over(&self) -> bool {
        self.at.get().is_some_and(|at| Instant::now() >= at)
    }

    /// Ends all that lives if it is time to.
    pub fn enforce(&self, header: &Header) {
        let Some(at) = self.at.get() else { return };
        let now = Instant::now();
        if now < at {
            return;
        }
        if !self.passed.replace(true) {
            end_all(header, libc::SIGTERM);
        } else if now >= at + GRACE {
            end_all(header, libc::SIGKILL);
        }
    }
}

fn end_all(header: &Header, signal: i32) {
    for pid in live_processes(header) {
        process::kill(pid, signal);
    }
}

/// The recorded processes that have not ended.
pub(crate) fn live_processes(header: &Header) -> BTreeSet<i32> {
    let live =
        header.used_slots().iter().filter(|slot| slot.state.load(Acquire) == shared::SLOT_LIVE);
    live.map(|slot| slot.pid.load(Relaxed) as i32).collect()
}
