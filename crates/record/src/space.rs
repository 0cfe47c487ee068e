//! A full disk stops the program, not the recording: whatever must be written waits until there is
//! room again, unless the user would have it otherwise, or asks us to end.

use retake_kernel::signals;
use std::io;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

/// How often it looks for room.
const PERIOD: Duration = Duration::from_millis(200);

/// What becomes of a program whose recording finds no room.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnFull {
    /// It stands still until there is.
    #[default]
    Stop,
    /// It is ended.
    End,
}

/// How a recording goes about a full disk.
#[derive(Debug, Default)]
pub(crate) struct Space {
    on_full: OnFull,
    /// Whether the user was told of the disk that is full now.
    told: AtomicBool,
    /// Nobody waits any more: the program is being ended.
    given_up: AtomicBool,
}

/// What can fail for want of space.
pub(crate) trait Fails: std::fmt::Display {
    /// Whether it may succeed once space has been made.
    fn for_want_of_space(&self) -> bool;
}

impl Fails for retake_recording::Error {
    fn for_want_of_space(&self) -> bool {
        self.is_no_space()
    }
}

impl Fails for io::Error {
    fn for_want_of_space(&self) -> bool {
        // Not by its kind: shared memory that is used up gives the same one.
        self.get_ref()
            .and_then(|inner| inner.downcast_ref::<retake_recording::Error>())
            .is_some_and(retake_recording::Error::is_no_space)
    }
}

impl Space {
    pub fn new(on_full: OnFull) -> Self {
        Self { on_full, ..Self::default() }
    }

    /// Whether something was not written because the program is to end rather than to wait.
    pub fn has_given_up(&self) -> bool {
        self.given_up.load(Relaxed)
    }

    /// Does something again and again until it fails for another reason than a full disk, or
    /// succeeds, or waiting is over. It must leave nothing behind when it fails.
    ///
    /// # Errors
    /// Those of the action; want of space only if waiting is over.
    pub fn wait<T, E: Fails>(&self, mut action: impl FnMut() -> Result<T, E>) -> Result<T, E> {
        loop {
            match action() {
                Err(error) if error.for_want_of_space() => {
                    if self.gives_up(&error) {
                        return Err(error);
                    }
                    std::thread::sleep(PERIOD);
                }
                result => {
                    if result.is_ok() && !self.has_given_up() && self.told.swap(false, Relaxed) {
                        retake_kernel::tell!("retake: there is space again: the program goes on");
                    }
                    return result;
                }
            }
        }
    }

    fn gives_up(&self, error: &impl Fails) -> bool {
        let gives_up = self.on_full == OnFull::End || signals::asked_to_end().is_some();
        if gives_up && !self.given_up.swap(true, Relaxed) {
            retake_kernel::tell!(
                "retake: {error}: the program is ended; what was recorded until now is kept"
            );
        } else if !gives_up && !self.told.swap(true, Relaxed) {
            retake_kernel::tell!(
                "retake: {error}: the program is stopped until there is space (Ctrl-C or SIGTERM \
                ends it)"
            );
        }
        gives_up
    }
}
