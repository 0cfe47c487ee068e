//! The queue of process copies, from the threads that receive them to the thread that writes them.

use retake_kernel::maps::{self, Mapping};
use retake_kernel::shared::{HEADER_ADDRESS, Header, OPTION_ATTACHED};
use retake_kernel::{clock, process};
use retake_snapshot::image::SharedMemory;
use retake_snapshot::image::recorded::ProcessImage;
use std::fmt;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

/// How many milliseconds a killed copy may take to end.
const REAPS: u32 = 1000;

/// Whether a process is a copy that we may read and end. Its number comes from memory that the
/// program can write to, so it must be our child. The copy of a program that ran already is
/// nobody's child; it has our header in its memory, which no other program can be made to have.
pub(crate) fn is_our_copy(pid: i32, header: &Header) -> bool {
    if header.options.load(Relaxed) & OPTION_ATTACHED == 0 {
        return process::parent(pid) == Some(std::process::id() as i32);
    }
    let id = header.header_id.load(Relaxed) as u64;
    let has_header = |one: &Mapping| {
        one.start == HEADER_ADDRESS && one.inode == id && one.name.starts_with("/SYSV")
    };
    maps::of_process(pid).is_ok_and(|all| all.iter().any(has_header))
}

/// A copy of a process that waits to be written.
#[derive(Debug)]
pub(crate) struct Copy {
    /// Its process ID.
    pub pid: i32,
    /// Where its program began: a stream, and the number of events before that point.
    pub program: (u32, u64),
    /// When it was made, on the monotonic clock.
    pub made_ns: u64,
    /// What the process shares with others, as it was then.
    pub shared: retake_snapshot::image::Result<SharedMemory>,
    /// The others that share it, and that were read at the same time.
    pub sharers: Option<Sharers>,
}

/// The processes that share memory with one whose copy was made, as they were at that moment.
pub(crate) struct Sharers {
    /// The process whose copy was made.
    pub taker: u32,
    /// The number of the request for images.
    pub number: u32,
    pub images: Vec<ProcessImage>,
    pub shared: SharedMemory,
}

impl fmt::Debug for Sharers {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "image {} of {} others", self.number, self.images.len())
    }
}

/// The sending end. A recording without images has none.
#[derive(Debug)]
pub(crate) struct Inbox(Sender<Copy>);

/// The receiving end.
#[derive(Debug)]
pub(crate) struct Outbox(Receiver<Copy>);

pub(crate) fn boxes() -> (Inbox, Outbox) {
    let (sender, receiver) = channel();
    (Inbox(sender), Outbox(receiver))
}

impl Inbox {
    pub fn put(&self, copy: Copy, header: &Header) {
        if let Err(error) = self.0.send(copy) {
            // The writer has ended.
            error.0.end(header);
        }
    }
}

impl Outbox {
    pub fn take_within(&self, time: Duration) -> Result<Copy, RecvTimeoutError> {
        self.0.recv_timeout(time)
    }
}

impl Copy {
    /// Describes a copy made now. `program` is a stream and the number of events before the
    /// program.
    pub fn made_now(
        pid: i32,
        program: (u32, u64),
        shared: retake_snapshot::image::Result<SharedMemory>,
        sharers: Option<Sharers>,
    ) -> Self {
        Self { pid, program, made_ns: clock::monotonic_ns(), shared, sharers }
    }

    /// Kills and reaps the copy if it is our child. Any other process ends by itself: the number
    /// comes from memory that the program can write to, so it must not be trusted.
    pub fn end(&self, header: &Header) {
        if !is_our_copy(self.pid, header) {
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
