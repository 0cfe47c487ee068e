//! An open file of the trace, shared by the workers.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, OnceLock};

use crate::verify::Listing;

/// An open file description. It is planned when the trace opens it, opened by the worker of that
/// call, and closed with its last user.
#[derive(Debug, Default)]
pub struct Handle {
    file: OnceLock<OpenFile>,
    /// The directory listing in progress.
    pub listing: Mutex<Option<Listing>>,
    /// For the write end of a pipe: the read end, which stays open as long. A process leaves the
    /// trace with its exit call, but its descriptors stay open for a while. By the times of the
    /// trace, the reader can therefore be gone before the writer, and a write must not fail with
    /// `EPIPE` for that.
    reader: OnceLock<Arc<Handle>>,
}

#[derive(Debug)]
struct OpenFile {
    file: OwnedFd,
    is_direct: bool,
}

impl Handle {
    /// Sets the file. `is_direct` says that it was opened with `O_DIRECT`.
    pub fn open(&self, file: OwnedFd, is_direct: bool) {
        // Only one call opens a handle.
        let _ = self.file.set(OpenFile { file, is_direct });
    }

    /// Keeps the read end of a pipe open as long as this write end.
    pub fn keep_reader(&self, reader: Arc<Self>) {
        // A pipe is made only once.
        let _ = self.reader.set(reader);
    }

    /// Returns the file if opening succeeded.
    pub fn file(&self) -> Option<BorrowedFd<'_>> {
        self.file.get().map(|open| open.file.as_fd())
    }

    /// Whether buffers have to be aligned.
    pub fn is_direct(&self) -> bool {
        self.file.get().is_some_and(|open| open.is_direct)
    }
}
