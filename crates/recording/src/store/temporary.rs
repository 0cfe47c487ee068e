//! Files that appear whole or not at all: they are written under a temporary name and then renamed.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use crate::error::{Error, Result};

/// The prefix of temporary names. No other name here has it.
pub(crate) const TEMPORARY_PREFIX: &str = ".new-";

/// A file without its final name. Dropping it removes it.
#[derive(Debug)]
pub(crate) struct TemporaryFile {
    file: File,
    path: PathBuf,
}

impl TemporaryFile {
    /// Creates an empty file with mode 0600 in `directory`, which should be on the same file system
    /// as its final place.
    pub(crate) fn create_in(directory: &Path) -> Result<Self> {
        static COUNTER: AtomicU64 = AtomicU64::new(0);
        loop {
            let number = COUNTER.fetch_add(1, Ordering::Relaxed);
            let name = format!("{TEMPORARY_PREFIX}{}-{number}", std::process::id());
            let path = directory.join(name);
            match OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(&path)
            {
                Ok(file) => return Ok(Self { file, path }),
                // The name is left over from a process that had our ID.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(Error::io("create", &path, error)),
            }
        }
    }

    pub(crate) fn file(&mut self) -> &mut File {
        &mut self.file
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Waits until the bytes would survive a power loss.
    pub(crate) fn sync(&self) -> Result<()> {
        self.file.sync_data().map_err(|error| Error::io("sync", &self.path, error))
    }

    /// Gives the file its final name, unless a file has that name already: then that one stays.
    /// Returns whether this file got the name.
    pub(crate) fn publish_if_absent(self, target: &Path) -> Result<bool> {
        match fs::hard_link(&self.path, target) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(false),
            // The file system has no hard links. A file replaced here has the same bytes.
            Err(_) => self.replace(target).map(|()| true),
        }
    }

    /// Gives the file its final name, in place of any file with that name.
    pub(crate) fn replace(self, target: &Path) -> Result<()> {
        fs::rename(&self.path, target).map_err(|error| Error::io("create", target, error))
    }
}

impl Drop for TemporaryFile {
    fn drop(&mut self) {
        // After a renaming this name is gone. A file that is left is removed by the next
        // collection.
        let _ = fs::remove_file(&self.path);
    }
}

/// Creates a directory and its missing parents, for the owner only.
pub(crate) fn make_private_directories(path: &Path) -> Result<()> {
    let made = DirBuilder::new().recursive(true).mode(0o700).create(path);
    made.map_err(|error| Error::io("create directory", path, error))
}
