//! Recordings that are kept in memory (`retake record --in-memory`): where they are, and how they
//! are saved. docs/IMAGES.md describes them.
//!
//! Each has a folder of its own below `/dev/shm/retake-UID`, named by its recorder's process ID.
//! The folder has the usual layout: the recording, and a store with the files that it needs.

use std::ffi::{OsStr, OsString};
use std::fs::{self, DirBuilder};
use std::io::ErrorKind;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, symlink};
use std::path::{Path, PathBuf};

use retake_kernel::process;
use retake_recording::{
    Error, Listing, Location, Recording, list, name_of_program, numbered_packed, pack, set_latest,
};

use crate::failure::{Failure, Result};
use crate::text;

/// In the folder of a recording, a link to the folder in which it is saved.
const SAVED_IN: &str = "saved-in";
/// The file system in memory that Linux systems have.
const MEMORY: &str = "/dev/shm";
/// The magic number of tmpfs in `statfs`.
const TMPFS: i64 = 0x0102_1994;
/// While a recording is rewritten, its events are there twice.
const NEEDED_TIMES: u64 = 2;
/// How many parents of a process are looked at to find its recorder.
const MOST_PARENTS: usize = 64;

/// A recording in memory.
#[derive(Debug, Clone)]
pub struct InMemory {
    root: PathBuf,
    /// The directory of the recording.
    pub recording: PathBuf,
}

impl InMemory {
    /// Makes the folder for a new recording of `program`, which may take `bytes`.
    ///
    /// # Errors
    /// There is no memory file system, or it has too little room.
    pub fn create(program: &OsStr, bytes: u64, saved_in: &Location) -> Result<Self> {
        check_room(bytes)?;
        let user = folder_of_user();
        make_private(&user)?;
        let own = std::process::id();
        let root = user.join(own.to_string());
        // A recorder with the same number is gone, or is in another PID namespace.
        if root.exists() && is_unused(&root) {
            let _ = fs::remove_dir_all(&root);
        }
        make_private(&root)?;
        let _ = symlink(&saved_in.recordings, root.join(SAVED_IN));
        let name = format!("{}-{own}", name_of_program(program));
        let location = Location::within(&root);
        location.prepare()?;
        Ok(Self { recording: location.recordings.join(name), root })
    }

    /// The folders of the recording and of its store.
    pub fn location(&self) -> Location {
        Location::within(&self.root)
    }

    /// Whether it would be saved in this location.
    pub fn is_for(&self, location: &Location) -> bool {
        fs::read_link(self.root.join(SAVED_IN)).is_ok_and(|link| link == location.recordings)
    }

    /// All recordings in memory.
    pub fn all() -> Vec<Self> {
        let roots = fs::read_dir(folder_of_user()).into_iter().flatten().flatten();
        let all = roots.flat_map(|entry| {
            let root = entry.path();
            let listings = list(&Location::within(&root).recordings).unwrap_or_default();
            listings.into_iter().map(move |one| Self { root: root.clone(), recording: one.path })
        });
        all.collect()
    }

    /// The recording that a user means: by its name, by the recorder's process ID, or by that of a
    /// recorded process.
    pub fn find(name: &OsStr) -> Option<Self> {
        let all = Self::all();
        let is_named = |one: &&Self| one.recording.file_name() == Some(name);
        if let Some(found) = all.iter().find(is_named) {
            return Some(found.clone());
        }
        let mut pid: Option<i32> = name.to_str()?.parse().ok();
        for _ in 0..MOST_PARENTS {
            let number = OsString::from(pid?.to_string());
            if let Some(found) = all.iter().find(|one| one.root.file_name() == Some(&number)) {
                return Some(found.clone());
            }
            pid = process::parent(pid?).filter(|&parent| parent > 0);
        }
        None
    }

    /// How `retake ls` shows it.
    pub fn listing(&self) -> Option<Listing> {
        let recordings = Location::within(&self.root).recordings;
        list(&recordings).ok()?.into_iter().find(|one| one.path == self.recording)
    }

    /// Copies the recording, as far as it is made, to the next free name of `program` in the folder
    /// of recordings. Returns the path of the copy, a packed file.
    ///
    /// # Errors
    /// The recording cannot be read, or the copy cannot be written.
    pub fn save(&self, location: &Location, program: &OsStr) -> Result<PathBuf> {
        location.prepare()?;
        loop {
            let target = numbered_packed(&location.recordings, program)?;
            match pack(&Recording::open(&self.recording)?, &target, &mut |_| {}) {
                // Another process took the name first.
                Err(Error::AlreadyExists { .. }) => {}
                result => {
                    result?;
                    set_latest(&location.recordings, &target)?;
                    return Ok(target);
                }
            }
        }
    }

    /// Copies the recording to the new file `target`.
    ///
    /// # Errors
    /// As [`InMemory::save`]; `target` exists.
    pub fn save_as(&self, target: &Path) -> Result<()> {
        Ok(pack(&Recording::open(&self.recording)?, target, &mut |_| {})?)
    }

    /// Removes everything of this recording from memory.
    ///
    /// # Errors
    /// A file cannot be removed.
    pub fn remove(&self) -> Result<()> {
        fs::remove_dir_all(&self.root)
            .map_err(|error| Failure::system("remove", self.root.display(), &error))?;
        // The folder stays if another recording is in it.
        let _ = fs::remove_dir(folder_of_user());
        Ok(())
    }
}

/// Whether a path is that of a recording in memory.
pub fn holds(path: &Path) -> bool {
    path.starts_with(folder_of_user())
}

/// The folder of this user's recordings in memory.
fn folder_of_user() -> PathBuf {
    Path::new(MEMORY).join(format!("retake-{}", rustix::process::geteuid().as_raw()))
}

/// Whether no recorder writes in this folder.
fn is_unused(root: &Path) -> bool {
    let listings = list(&Location::within(root).recordings).unwrap_or_default();
    listings.is_empty()
}

/// Makes a folder for this user only. One that is there must be like that: everybody may make
/// folders in [`MEMORY`].
fn make_private(folder: &Path) -> Result<()> {
    let failed = |error| Failure::system("make", folder.display(), &error);
    match DirBuilder::new().mode(0o700).create(folder) {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
        result => return result.map_err(failed),
    }
    let metadata = fs::symlink_metadata(folder).map_err(failed)?;
    let is_own = metadata.uid() == rustix::process::geteuid().as_raw();
    if metadata.is_dir() && is_own && metadata.mode() & 0o077 == 0 {
        return Ok(());
    }
    Err(Failure::new(format!("{} is not a private folder of this user", folder.display()))
        .attempt("its removal, if you know what it is"))
}

fn check_room(bytes: u64) -> Result<()> {
    let failed = |error: rustix::io::Errno| Failure::system("use", MEMORY, &error.into());
    let kind = rustix::fs::statfs(MEMORY).map_err(failed)?.f_type;
    if kind != TMPFS {
        return Err(Failure::new(format!("{MEMORY} is not in memory: it is no tmpfs"))
            .attempt("--keep-last, which records on disk"));
    }
    let status = rustix::fs::statvfs(MEMORY).map_err(failed)?;
    let free = status.f_bavail.saturating_mul(status.f_frsize);
    let needed = bytes.saturating_mul(NEEDED_TIMES);
    if free >= needed {
        return Ok(());
    }
    let [free, needed] = [free, needed].map(text::bytes);
    Err(Failure::new(format!(
        "{MEMORY} has {free} left, and --in-memory takes up to twice its size: {needed}"
    ))
    .attempt("a smaller size; in a container, more of it (docker run --shm-size)"))
}
