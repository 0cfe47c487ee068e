//! Time: when a call is due, and whether anything still happens.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// How long a wait sleeps before it looks around.
pub const SLICE: Duration = Duration::from_millis(20);

/// How long nothing at all may happen until a thread that waits for data gives up. It is half as
/// long after each that did: a trace can wait for any amount of data that never come.
const MAXIMUM_SILENCE: Duration = Duration::from_secs(5);

/// What happens in the whole replay, for threads that wait.
#[derive(Debug, Default)]
pub struct Pulse {
    /// Calls done so far.
    done: AtomicU64,
    /// Threads that wait for the time of their next call.
    sleeping: AtomicU32,
    stopped: AtomicBool,
    /// How many have given up.
    disappointed: AtomicU32,
}

impl Pulse {
    /// A call is done.
    pub fn beat(&self) {
        self.done.fetch_add(1, Ordering::Relaxed);
    }

    /// Calls done so far.
    pub fn done(&self) -> u64 {
        self.done.load(Ordering::Relaxed)
    }

    /// Nothing more is to be executed.
    pub fn stop(&self) {
        self.stopped.store(true, Ordering::Release);
    }

    /// Whether somebody said so.
    pub fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Acquire)
    }

    /// Sleeps until then, or until the replay stops.
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

    /// For a wait that begins now.
    pub fn patience(&self) -> Patience<'_> {
        Patience { pulse: self, seen: self.done(), since: None }
    }
}

/// One wait for data that another call has to supply.
#[derive(Debug)]
pub struct Patience<'run> {
    pulse: &'run Pulse,
    seen: u64,
    /// Since when nothing happened.
    since: Option<Instant>,
}

impl Patience<'_> {
    /// Whether there is no more hope: nothing happened for long, and nothing is about to.
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

    /// Sleeps a slice; false if there is no more hope.
    pub fn wait(&mut self) -> bool {
        std::thread::sleep(SLICE);
        !self.is_over()
    }
}
