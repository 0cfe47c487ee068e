//! Threads of the supervisor that work until they are told to end.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::{Acquire, Release};
use std::thread::JoinHandle;

/// A flag at which a worker looks from time to time.
#[derive(Debug, Clone, Default)]
pub struct Stop(Arc<AtomicBool>);

impl Stop {
    /// Whether the worker must end.
    pub fn is_told(&self) -> bool {
        self.0.load(Acquire)
    }
}

/// A worker thread. It goes on if this is dropped.
pub struct Worker<T = ()> {
    stop: Stop,
    /// Wakes the thread when it waits.
    bell: Box<dyn Fn() + Send + Sync>,
    thread: JoinHandle<T>,
}

impl<T> std::fmt::Debug for Worker<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Worker").field("thread", &self.thread.thread()).finish_non_exhaustive()
    }
}

impl<T: Send + 'static> Worker<T> {
    /// Starts a thread that runs `work`. `bell` must wake the thread, so that it looks at its flag.
    pub fn start(
        bell: impl Fn() + Send + Sync + 'static,
        work: impl FnOnce(&Stop) -> T + Send + 'static,
    ) -> Self {
        let stop = Stop::default();
        let for_thread = stop.clone();
        let thread = std::thread::spawn(move || work(&for_thread));
        Self { stop, bell: Box::new(bell), thread }
    }

    /// Tells the thread to end.
    pub fn tell(&self) {
        self.stop.0.store(true, Release);
        (self.bell)();
    }

    /// Whether the thread has ended.
    pub fn has_ended(&self) -> bool {
        self.thread.is_finished()
    }

    /// Tells the thread to end, and waits for that. Returns the result of its work.
    ///
    /// # Errors
    /// The thread panicked.
    pub fn end(self) -> std::thread::Result<T> {
        self.tell();
        self.thread.join()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;
    use std::time::Duration;

    #[test]
    fn a_worker_ends_when_it_is_told() {
        let (bell, rung) = mpsc::channel();
        let worker = Worker::start(
            move || bell.send(()).expect("somebody listens"),
            move |stop| {
                let mut looks = 0;
                while !stop.is_told() {
                    let _ = rung.recv_timeout(Duration::from_secs(60));
                    looks += 1;
                }
                looks
            },
        );
        assert!(!worker.has_ended());
        // The thread may not have looked even once.
        assert!(worker.end().expect("it does not panic") <= 1);
    }
}
