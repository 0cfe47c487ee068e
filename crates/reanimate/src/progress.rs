//! The progress of each worker, for threads that wait for one of its calls. A waiting thread spins
//! for a short time and then sleeps.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};

/// Checks before a waiting thread goes to sleep. Handing over often takes less time than going to
/// sleep.
const LOOKS: u32 = 30;

/// The number of calls a worker has done.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct Progress {
    done: AtomicU64,
    waiters: AtomicU32,
    lock: Mutex<()>,
    changed: Condvar,
}

impl Progress {
    /// Marks the worker's call of that number as done.
    pub fn advance(&self, sequence: u64) {
        // `advance` and `wait` both store before they load, so that one of them sees the other's
        // store.
        self.done.store(sequence, Ordering::SeqCst);
        if self.waiters.load(Ordering::SeqCst) > 0 {
            drop(self.lock.lock().unwrap_or_else(PoisonError::into_inner));
            self.changed.notify_all();
        }
    }

    /// Waits until the worker is done with its call of that number.
    pub fn wait(&self, sequence: u64) {
        for _ in 0..LOOKS {
            if self.done.load(Ordering::Acquire) >= sequence {
                return;
            }
            std::hint::spin_loop();
        }
        let mut guard = self.lock.lock().unwrap_or_else(PoisonError::into_inner);
        self.waiters.fetch_add(1, Ordering::SeqCst);
        while self.done.load(Ordering::SeqCst) < sequence {
            guard = self.changed.wait(guard).unwrap_or_else(PoisonError::into_inner);
        }
        self.waiters.fetch_sub(1, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_sleeps_through_a_hand_over() {
        const CALLS: u64 = 20_000;
        let (left, right) = (Progress::default(), Progress::default());
        std::thread::scope(|scope| {
            scope.spawn(|| {
                (1..=CALLS).for_each(|sequence| {
                    left.advance(sequence);
                    right.wait(sequence);
                });
            });
            (1..=CALLS).for_each(|sequence| {
                left.wait(sequence);
                right.advance(sequence);
            });
        });
    }
}
