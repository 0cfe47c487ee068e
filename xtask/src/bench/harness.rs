//! The common part of all workloads: the measured program, its scratch folder, and the programs
//! that it is compared with.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::Result;
use super::machine::is_present;
use super::scratch::Scratch;

/// The common part of all workloads.
#[derive(Debug)]
pub struct Bench {
    repository: PathBuf,
    scratch: Scratch,
    /// A copy of the program. A build during the measurements must neither change the program nor
    /// cause recordings by another build.
    retake: PathBuf,
    has_strace: bool,
    has_rr: bool,
}

impl Bench {
    /// Makes the scratch folder and copies `retake` into it.
    ///
    /// # Errors
    /// One of these steps fails.
    pub fn prepare(repository: &Path, scratch: &Path, retake: &Path, keep: bool) -> Result<Self> {
        let scratch = Scratch::create(scratch, keep)?;
        let copy = scratch.path().join("retake");
        fs::copy(retake, &copy).map_err(|error| format!("{}: {error}", retake.display()))?;
        let has_rr = rr_works(&scratch);
        Ok(Self {
            repository: repository.to_path_buf(),
            scratch,
            retake: copy,
            has_strace: is_present("strace"),
            has_rr,
        })
    }

    /// Returns whether strace can be measured.
    pub fn has_strace(&self) -> bool {
        self.has_strace
    }

    /// Returns whether rr can be measured.
    pub fn has_rr(&self) -> bool {
        self.has_rr
    }

    pub fn repository(&self) -> &Path {
        &self.repository
    }

    pub fn scratch(&self) -> &Scratch {
        &self.scratch
    }

    /// Returns the measured program.
    pub fn retake(&self) -> &Path {
        &self.retake
    }

    /// Returns a scratch folder in memory, if there is room for `needed_mb`.
    pub fn memory_scratch(&self, needed_mb: u64) -> Option<Scratch> {
        let path = format!("/dev/shm/retake-bench-{}", std::process::id());
        let scratch = Scratch::create(Path::new(&path), self.scratch.keeps()).ok()?;
        let has_room = scratch.free_mb().is_some_and(|free| free >= needed_mb);
        has_room.then_some(scratch)
    }
}

/// Returns whether rr is installed and can record. It needs a processor that counts branches.
fn rr_works(scratch: &Scratch) -> bool {
    let recording = scratch.path().join("rr_trial");
    let mut command = Command::new("rr");
    command
        .args(["record", "-o"])
        .arg(recording)
        .arg("true")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    is_present("rr") && command.status().is_ok_and(|status| status.success())
}
