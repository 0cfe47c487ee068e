//! Tells the processes of a replay from all others: they execute a file that no other process has.

use retake_kernel::process;
use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;

/// The file that every process of a replay executes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Host {
    device: u64,
    inode: u64,
}

impl Host {
    /// # Errors
    /// An open file causes none.
    pub fn of(file: &File) -> io::Result<Self> {
        let about = file.metadata()?;
        Ok(Self { device: about.dev(), inode: about.ino() })
    }

    /// Whether a process belongs to the replay and has executed its file.
    pub fn is_executed_by(self, pid: i32) -> bool {
        pid > 0 && process::executed(pid) == Some((self.device, self.inode))
    }

    /// Whether a process belongs to the replay, or is a child of ours that may come to do so.
    pub fn has(self, pid: i32) -> bool {
        self.is_executed_by(pid)
            || pid > 0 && process::parent(pid) == Some(std::process::id() as i32)
    }
}
