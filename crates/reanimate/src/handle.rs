//! An open file of the trace, as the workers share it.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, OnceLock};

use crate::verify::Listing;

/// An open file description: planned when the trace opened it, open once its worker did so, closed
/// with its last user.
#[derive(Debug, Default)]
pub struct Handle {
    file: OnceLock<OpenFile>,
    /// The directory listing in progress.
    pub listing: Mutex<Option<Listing>>,
    /// Of the end of a pipe that is written: the end that is read. By the times of a trace who
    /// reads may be gone before who writes: a process is leaving from its call on, and its
    /// descriptors stay open for a while. What was written meanwhile must not find nobody.
    reader: OnceLock<Arc<Handle>>,
}

#[derive(Debug)]
struct OpenFile {
    file: OwnedFd,
    is_direct: bool,
}

impl Handle {
    /// Gives it the file; `is_direct` if it was opened with `O_DIRECT`.
    pub fn open(&self, file: OwnedFd, is_direct: bool) {
        // A handle is opened by the one call that it was planned for.
        let _ = self.file.set(OpenFile { file, is_direct });
    }

    /// Keeps the end that is read open as long as this one, that is written.
    pub fn keep_reader(&self, reader: Arc<Self>) {
        // A pipe is made once.
        let _ = self.reader.set(reader);
    }

    /// The file, if opening succeeded.
    pub fn file(&self) -> Option<BorrowedFd<'_>> {
        self.file.get().map(|open| open.file.as_fd())
    }

    /// Whether buffers have to be aligned.
    pub fn is_direct(&self) -> bool {
        self.file.get().is_some_and(|open| open.is_direct)
    }
}
