//! Time: when a call is due, and whether the replay still makes progress.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// How long a waiting thread sleeps before it checks again.
pub const SLICE: Duration = Duration::from_millis(20);

/// How long a thread waits for data while no call is done, before it gives up. The time halves with
/// each wait that was given up, because a trace can have any number of such waits.
const MAXIMUM_SILENCE: Duration = Duration::from_secs(5);

/// The progress of the whole replay, for threads that wait.
#[derive(Debug, Default)]
pub struct Pulse {
    /// Calls done so far.
    done: AtomicU64,
    /// Threads that sleep until the time of their next call.
    sleeping: AtomicU32,
    stopped: AtomicBool,
    /// Waits that were given up.
    disappointed: AtomicU32,
}

impl Pulse {
    /// Counts a call that is done.
    pub fn beat(&self) {
        self.done.fetch_add(1, Ordering::Relaxed);
    }

    /// Calls done so far.
    pub fn done(&self) -> u64 {
        self.done.load(Ordering::Relaxed)
    }

    /// Stops the replay: no more calls are executed.
    pub fn stop(&self) {
        self.stopped.store(true, Ordering::Release);
    }

    /// Whether the replay was stopped.
    pub fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Acquire)
    }

    /// Sleeps until `due`, or until the replay stops.
    pub fn sleep_until(&self, due: Instant) {
        const LONGEST_NAP: Duration = Duration::from_millis(200);
        self.sleeping.fetch_add(1, Ordering::Relaxed);
        while !self.is_stopped() {
            let left = due.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            std::thread::sleep(left.min(LONGEST_NAP));
        }
        self.sleeping.fetch_sub(1, Ordering::Relaxed);
    }

    /// Begins a wait.
    pub fn patience(&self) -> Patience<'_> {
        Patience { pulse: self, seen: self.done(), since: None }
    }
}

/// One wait for data that another call has to supply.
#[derive(Debug)]
pub struct Patience<'run> {
    pulse: &'run Pulse,
    seen: u64,
    /// The beginning of the present time without progress.
    since: Option<Instant>,
}

impl Patience<'_> {
    /// Whether to give up: the replay was stopped, or made no progress for too long.
    pub fn is_over(&mut self) -> bool {
        let done = self.pulse.done();
        let is_alive = done != self.seen || self.pulse.sleeping.load(Ordering::Relaxed) > 0;
        self.seen = done;
        if is_alive {
            self.since = None;
        }
        let silence = self.since.get_or_insert_with(Instant::now).elapsed();
        let disappointed = &self.pulse.disappointed;
        let is_silent =
            silence > MAXIMUM_SILENCE / 2_u32.saturating_pow(disappointed.load(Ordering::Relaxed));
        if is_silent {
            disappointed.fetch_add(1, Ordering::Relaxed);
        }
        self.pulse.is_stopped() || is_silent
    }

    /// Sleeps a slice. Returns false if the wait is to be given up.
    pub fn wait(&mut self) -> bool {
        std::thread::sleep(SLICE);
        !self.is_over()
    }
}
