//! A folder for the time of a command.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use retake_kernel::memory;

use crate::failure::{Failure, Result};

/// How many names are tried: others may have left some behind.
const ATTEMPTS: u32 = 1000;

/// A folder that only its owner may enter, removed with all that is in it when this is dropped.
#[derive(Debug)]
pub struct Scratch {
    path: PathBuf,
}

impl Scratch {
    /// Makes one in `$TMPDIR`, else in /tmp; or in /var/tmp or /dev/shm, if only there files can be
    /// mapped to be executed.
    ///
    /// # Errors
    /// If none can be made.
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

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // Nothing is lost with what cannot be removed.
        let _ = fs::remove_dir_all(&self.path);
    }
}
