//! A full disk stops the program, not the recording: whatever must be written waits until there is
//! room again.

use std::io;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

/// How often it looks for room.
const PERIOD: Duration = Duration::from_millis(200);

/// Whether the user was told of the disk that is full now.
static TOLD: AtomicBool = AtomicBool::new(false);

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

/// Does something again and again until it fails for another reason than a full disk, or succeeds.
/// It must leave nothing behind when it fails.
///
/// # Errors
/// All but want of space.
pub(crate) fn wait_for_space<T, E: Fails>(
    mut action: impl FnMut() -> Result<T, E>,
) -> Result<T, E> {
    loop {
        match action() {
            Err(error) if error.for_want_of_space() => {
                if !TOLD.swap(true, Relaxed) {
                    eprintln!("retake: {error}: the program is stopped until there is space");
                }
                std::thread::sleep(PERIOD);
            }
            result => {
                if result.is_ok() && TOLD.swap(false, Relaxed) {
                    eprintln!("retake: there is space again: the program goes on");
                }
                return result;
            }
        }
    }
}
