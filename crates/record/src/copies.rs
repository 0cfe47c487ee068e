//! Copies of recorded processes, on their way from those who made them to who writes them down.

use retake_kernel::{clock, process};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

/// So many milliseconds a copy that was killed may take to end.
const REAPS: u32 = 1000;

/// A copy that waits to be written down.
#[derive(Debug)]
pub(crate) struct Copy {
    /// Its number.
    pub pid: i32,
    /// The stream with which its program began, and events of it before.
    pub program: (u32, u64),
    /// When it was made, on the monotonic clock.
    pub made_ns: u64,
}

/// Where copies go. A recording without images has none.
#[derive(Debug)]
pub(crate) struct Inbox(Sender<Copy>);

/// The other end.
#[derive(Debug)]
pub(crate) struct Outbox(Receiver<Copy>);

pub(crate) fn boxes() -> (Inbox, Outbox) {
    let (sender, receiver) = channel();
    (Inbox(sender), Outbox(receiver))
}

impl Inbox {
    pub fn put(&self, copy: Copy) {
        if let Err(error) = self.0.send(copy) {
            error.0.end(); // nobody writes any more
        }
    }
}

impl Outbox {
    pub fn take_within(&self, time: Duration) -> Result<Copy, RecvTimeoutError> {
        self.0.recv_timeout(time)
    }
}

impl Copy {
    /// Of a program that began in a stream behind so many events.
    pub fn made_now(pid: i32, program: (u32, u64)) -> Self {
        Self { pid, program, made_ns: clock::monotonic_ns() }
    }

    /// Ends it. One that is no child of ours ends by itself: the number comes from memory that the
    /// program can write to.
    pub fn end(&self) {
        if process::parent(self.pid) != Some(std::process::id() as i32) {
            return;
        }
        process::kill(self.pid, libc::SIGKILL);
        for _ in 0..REAPS {
            if process::reap(self.pid).is_some() || process::is_gone(self.pid) {
                return;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}
