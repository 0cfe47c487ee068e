//! Removes a recording, and nothing else.

use std::fs::{self, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

use crate::ContentId;
use crate::checkpoints;
use crate::contents::{files_folder, folder_in};
use crate::error::{Error, Result};
use crate::frame::MAGIC;
use crate::kept_checkpoint::CHECKPOINTS_NAME;
use crate::library::{LATEST_NAME, latest, set_latest};
use crate::source::open_regular;
use crate::store::temporary::TEMPORARY_PREFIX;
use crate::writer::{EVENTS_NAME, FILES_NAME, METADATA_NAME, NEW_EVENTS_NAME, NEW_METADATA_NAME};

/// Removes the recording at `path`: a directory, a packed file, or the target of a symbolic link.
/// If `latest` in the same folder pointed to it, `latest` then points to the latest of the others.
/// Files in the store stay until a collection.
///
/// # Errors
/// `NotARecording`; `ForeignEntry` if it holds a file that is not part of a recording, and then
/// nothing is removed; `BeingRecorded`; `Io`.
pub fn remove(path: &Path) -> Result<()> {
    let path = fs::canonicalize(path).map_err(|error| Error::io("find", path, error))?;
    if path.is_dir() {
        remove_directory(&path)?;
    } else {
        check_events(&path, &path)?;
        fs::remove_file(&path).map_err(|error| Error::io("remove", &path, error))?;
    }
    path.parent().map_or(Ok(()), repair_latest)
}

fn remove_directory(path: &Path) -> Result<()> {
    check_events(&path.join(EVENTS_NAME), path)?;
    let entries = own_entries(path)?;
    let files = files_folder(path);
    let contents = files.as_deref().map_or(Ok(Vec::new()), content_entries)?;
    let checkpoints = folder_in(path, CHECKPOINTS_NAME);
    let kept = checkpoints.as_deref().map_or(Ok(Vec::new()), checkpoint_entries)?;
    let is_folder =
        |entry: &PathBuf| Some(entry) == files.as_ref() || Some(entry) == checkpoints.as_ref();
    for file in contents.iter().chain(&kept).chain(entries.iter().filter(|entry| !is_folder(entry)))
    {
        fs::remove_file(file).map_err(|error| Error::io("remove", file, error))?;
    }
    for folder in files.as_deref().into_iter().chain(checkpoints.as_deref()).chain([path]) {
        fs::remove_dir(folder).map_err(|error| Error::io("remove", folder, error))?;
    }
    Ok(())
}

/// Checks that `path` is a recording that no recorder is writing.
pub(crate) fn check_recording(path: &Path) -> Result<()> {
    if path.is_dir() {
        check_events(&path.join(EVENTS_NAME), path)
    } else {
        check_events(path, path)
    }
}

/// Checks that `events` is the events file of a recording that no recorder is writing.
fn check_events(events: &Path, recording: &Path) -> Result<()> {
    let not_one = |reason: &str| Error::NotARecording {
        path: recording.to_path_buf(),
        reason: reason.to_owned(),
    };
    let mut file = match open_regular(events) {
        Ok(file) => file,
        Err(Error::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
            return Err(not_one("it has no events file"));
        }
        Err(error) => return Err(error),
    };
    let mut beginning = Vec::new();
    let read =
        io::Read::read_to_end(&mut io::Read::take(&mut file, MAGIC.len() as u64), &mut beginning);
    read.map_err(|error| Error::io("read", events, error))?;
    // An events file may be empty if the recorder found the disk full.
    let is_empty_events = beginning.is_empty() && events != recording;
    if beginning != MAGIC && !is_empty_events {
        return Err(not_one("it does not begin like one"));
    }
    match file.try_lock() {
        Err(TryLockError::WouldBlock) => {
            Err(Error::BeingRecorded { path: recording.to_path_buf() })
        }
        _ => Ok(()),
    }
}

/// Returns the entries of a recording's directory, if all of them are part of a recording.
fn own_entries(path: &Path) -> Result<Vec<PathBuf>> {
    entries_if(path, |name| {
        [
            EVENTS_NAME,
            NEW_EVENTS_NAME,
            METADATA_NAME,
            NEW_METADATA_NAME,
            FILES_NAME,
            CHECKPOINTS_NAME,
        ]
        .contains(&name)
    })
}

fn checkpoint_entries(folder: &Path) -> Result<Vec<PathBuf>> {
    entries_if(folder, |name| checkpoints::is_name(name) || name.starts_with(TEMPORARY_PREFIX))
}

fn content_entries(files: &Path) -> Result<Vec<PathBuf>> {
    entries_if(files, |name| {
        name.parse::<ContentId>().is_ok() || name.starts_with(TEMPORARY_PREFIX)
    })
}

fn entries_if(folder: &Path, belongs: impl Fn(&str) -> bool) -> Result<Vec<PathBuf>> {
    let fail = |error| Error::io("list", folder, error);
    let mut paths = Vec::new();
    for entry in fs::read_dir(folder).map_err(fail)? {
        let entry = entry.map_err(fail)?;
        if !entry.file_name().to_str().is_some_and(&belongs) {
            let entry = entry.file_name().to_string_lossy().into_owned();
            return Err(Error::ForeignEntry { path: folder.to_path_buf(), entry });
        }
        paths.push(entry.path());
    }
    Ok(paths)
}

/// If `latest` points to nothing, makes it point to the latest recording, or removes it.
fn repair_latest(recordings: &Path) -> Result<()> {
    let link = recordings.join(LATEST_NAME);
    let dangles = link.is_symlink() && !link.exists();
    if !dangles {
        return Ok(());
    }
    match latest(recordings)? {
        Some(path) => set_latest(recordings, &path),
        None => fs::remove_file(&link).map_err(|error| Error::io("remove", &link, error)),
    }
}
