//! Temporary folders for one command.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use retake_kernel::memory;

use crate::failure::{Failure, Result};

/// The number of names that are tried. Earlier processes may have left some behind.
const ATTEMPTS: u32 = 1000;

/// A folder that only its owner may enter. Dropping it removes the folder and its content.
#[derive(Debug)]
pub struct Scratch {
    path: PathBuf,
}

impl Scratch {
    /// Creates a folder in `$TMPDIR`, else in /tmp. If files there cannot be mapped executable,
    /// uses /var/tmp or /dev/shm where that is possible.
    ///
    /// # Errors
    /// No folder can be created.
    pub fn create() -> Result<Self> {
        let mut parent = std::env::temp_dir();
        if memory::forbids_exec(&parent) {
            let others = [Path::new("/var/tmp"), Path::new("/dev/shm")];
            let fits = |place: &&Path| place.is_dir() && !memory::forbids_exec(place);
            parent = others.into_iter().find(fits).map_or(parent, Path::to_owned);
        }
        let parent = std::path::absolute(&parent).unwrap_or(parent);
        for attempt in 0..ATTEMPTS {
            let path = parent.join(format!("retake-{}-{attempt}", std::process::id()));
            match DirBuilder::new().mode(0o700).create(&path) {
                Ok(()) => return Ok(Self { path }),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => {
                    let failure = Failure::system("make a folder in", parent.display(), &error);
                    return Err(failure.attempt("TMPDIR set to a folder that can be written"));
                }
            }
        }
        Err(Failure::new(format!(
            "cannot make a folder in {}: too many are left there",
            parent.display()
        )))
    }

    /// The path of the folder.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // A folder that cannot be removed does no harm.
        let _ = fs::remove_dir_all(&self.path);
    }
}
