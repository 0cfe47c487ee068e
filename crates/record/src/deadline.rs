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
    at: Option<Instant>,
    passed: Cell<bool>,
}

impl Deadline {
    pub fn new(timeout: Option<Duration>) -> Self {
        let at = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        Self { at, passed: Cell::new(false) }
    }

    /// Whether somebody was ended because the time was up.
    pub fn has_passed(&self) -> bool {
        self.passed.get()
    }

    /// How long to wait for something until the next look, `most` at most.
    pub fn wait_ms(&self, most: i32) -> i32 {
        let Some(at) = self.at.filter(|_| !self.passed.get()) else { return most };
        let left = at.saturating_duration_since(Instant::now()).as_millis();
        i32::try_from(left).unwrap_or(most).clamp(1, most)
    }

    /// Ends all that lives if it is time to.
    pub fn enforce(&self, header: &Header) {
        let Some(at) = self.at else { return };
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
    let used = (header.slots_used.load(Acquire) as usize).min(shared::MAX_SLOTS);
    let live =
        header.slots[..used].iter().filter(|slot| slot.state.load(Acquire) == shared::SLOT_LIVE);
    let processes: BTreeSet<i32> = live.map(|slot| slot.pid.load(Relaxed) as i32).collect();
    for pid in processes {
        process::kill(pid, signal);
    }
}
