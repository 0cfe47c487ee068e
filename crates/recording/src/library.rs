//! The folder of recordings: their names, their list, and the latest one.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use crate::error::{Error, Result};
use crate::folder::entries_of;
use crate::metadata::Metadata;
use crate::recording::{Recording, read_metadata_file};
use crate::writer::{EVENTS_NAME, RecordingWriter};

/// The symbolic link to the latest recording.
pub(crate) const LATEST_NAME: &str = "latest";
/// The extension of packed recordings.
pub(crate) const PACKED_EXTENSION: &str = "retake";
const NEW_LATEST_NAME: &str = ".latest.new";
const MAX_PROGRAM_BYTES: usize = 64;

/// An entry of a listing.
#[derive(Debug)]
pub struct Listing {
    /// The name in the folder.
    pub name: String,
    /// The path.
    pub path: PathBuf,
    /// Whether it is a packed file.
    pub is_packed: bool,
    /// The recording's metadata, or why they cannot be read.
    pub metadata: Result<Metadata>,
    /// The size of the events file, or of the packed file.
    pub file_bytes: u64,
}

/// Creates a recording of `program` in the folder `recordings`. Its name is `<program>-<n>`, with a
/// number above all others there.
///
/// # Errors
/// As [`RecordingWriter::create`].
pub fn create_numbered(
    recordings: &Path,
    program: &OsStr,
    metadata: &Metadata,
) -> Result<RecordingWriter> {
    let prefix = name_of_program(program);
    let mut number = highest_number(recordings, &prefix)? + 1;
    loop {
        match RecordingWriter::create(&recordings.join(format!("{prefix}-{number}")), metadata) {
            // Another process took the name first.
            Err(Error::AlreadyExists { .. }) => number += 1,
            result => return result,
        }
    }
}

/// Returns the path for a packed recording of `program` in the folder `recordings`, with a number
/// above all others there.
///
/// # Errors
/// The folder cannot be listed.
pub fn numbered_packed(recordings: &Path, program: &OsStr) -> Result<PathBuf> {
    let prefix = name_of_program(program);
    let number = highest_number(recordings, &prefix)? + 1;
    Ok(recordings.join(format!("{prefix}-{number}.{PACKED_EXTENSION}")))
}

/// Returns the last component of a program's path, with characters replaced that are awkward in a
/// name.
pub fn name_of_program(program: &OsStr) -> String {
    let base = Path::new(program).file_name().unwrap_or_default();
    let replace = |byte: &u8| {
        if byte.is_ascii_alphanumeric() || b"._+".contains(byte) { *byte as char } else { '_' }
    };
    let name: String = base.as_bytes().iter().take(MAX_PROGRAM_BYTES).map(replace).collect();
    let name = name.trim_start_matches('.');
    if name.is_empty() { "program".to_owned() } else { name.to_owned() }
}

fn highest_number(recordings: &Path, prefix: &str) -> Result<u64> {
    let number_of = |name: &str| {
        let rest = name.strip_prefix(prefix)?.strip_prefix('-')?;
        rest.strip_suffix(".retake").unwrap_or(rest).parse::<u64>().ok()
    };
    let numbers = names_in(recordings)?.into_iter().filter_map(|name| number_of(name.to_str()?));
    Ok(numbers.filter(|&number| number < u64::MAX / 2).max().unwrap_or(0))
}

fn names_in(folder: &Path) -> Result<Vec<std::ffi::OsString>> {
    Ok(entries_of(folder)?.iter().map(fs::DirEntry::file_name).collect())
}

/// Makes `latest` point to `recording`, an entry of the folder, in one step.
pub fn set_latest(recordings: &Path, recording: &Path) -> Result<()> {
    let name = recording.file_name().filter(|name| recordings.join(name).exists());
    let name = name.ok_or_else(|| Error::BadName {
        name: recording.to_string_lossy().into_owned(),
        reason: "it is not in the folder of recordings",
    })?;
    let (new, link) = (recordings.join(NEW_LATEST_NAME), recordings.join(LATEST_NAME));
    // Two recorders may do this at once. The link of either is fine.
    let _ = fs::remove_file(&new);
    match symlink(name, &new) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
            return Err(Error::io("link", &new, error));
        }
        _ => {}
    }
    match fs::rename(&new, &link) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(Error::io("replace", &link, error))
        }
        _ => Ok(()),
    }
}

/// Returns the latest recording of the folder, if there is one: the target of `latest`, or else the
/// one that started last.
pub fn latest(recordings: &Path) -> Result<Option<PathBuf>> {
    // The link may be hostile, so it may only name an entry of the folder.
    let target = fs::read_link(recordings.join(LATEST_NAME)).ok();
    let linked = target.and_then(|target| Some(recordings.join(target.file_name()?)));
    if let Some(path) = linked.filter(|path| path.exists()) {
        return Ok(Some(path));
    }
    let started =
        |entry: &Listing| entry.metadata.as_ref().map_or(0, |metadata| metadata.started_unix_ms);
    Ok(list(recordings)?.into_iter().max_by_key(started).map(|entry| entry.path))
}

/// Finds the recording that a user means by `name`: `latest`, an entry of the folder (a packed one
/// with or without `.retake`), or a path.
///
/// # Errors
/// `NotARecording` if there is none.
pub fn resolve(recordings: &Path, name: &OsStr) -> Result<PathBuf> {
    let none = |reason: &str| Error::NotARecording {
        path: PathBuf::from(name),
        reason: reason.to_owned(),
    };
    if name == LATEST_NAME {
        return latest(recordings)?.ok_or_else(|| none("nothing has been recorded yet"));
    }
    let is_plain =
        Path::new(name).components().count() == 1 && Path::new(name).file_name() == Some(name);
    if is_plain {
        let mut packed_name = name.to_owned();
        packed_name.push(".retake");
        let candidates = [recordings.join(name), recordings.join(packed_name)];
        if let Some(path) = candidates.into_iter().find(|path| path.exists()) {
            return Ok(path);
        }
    }
    let path = PathBuf::from(name);
    if path.exists() {
        Ok(path)
    } else {
        Err(none("there is no such file, nor a recording of that name"))
    }
}

/// Lists all recordings of a folder by name, with the numbers in names in numerical order. Leaves
/// out everything else.
///
/// # Errors
/// Only if the folder cannot be read. An unreadable recording is listed with its error.
pub fn list(recordings: &Path) -> Result<Vec<Listing>> {
    let mut listings: Vec<Listing> =
        names_in(recordings)?.iter().filter_map(|name| listing_of(recordings, name)).collect();
    listings.sort_by_cached_key(|listing| sort_key(&listing.name));
    Ok(listings)
}

fn sort_key(name: &str) -> (String, u64) {
    let split =
        name.rsplit_once('-').and_then(|(prefix, number)| Some((prefix, number.parse().ok()?)));
    split.map_or((name.to_owned(), 0), |(prefix, number)| (prefix.to_owned(), number))
}

fn listing_of(recordings: &Path, name: &OsStr) -> Option<Listing> {
    let path = recordings.join(name);
    let kind = fs::symlink_metadata(&path).ok()?;
    let name = name.to_string_lossy().into_owned();
    if kind.is_dir() {
        let events =
            fs::symlink_metadata(path.join(EVENTS_NAME)).ok().filter(fs::Metadata::is_file)?;
        // This is by far the cheapest way. If the file is damaged, the events file has another
        // copy.
        let metadata = read_metadata_file(&path).or_else(|_| metadata_of(&path));
        return Some(Listing { name, path, is_packed: false, metadata, file_bytes: events.len() });
    }
    if !kind.is_file() {
        return None;
    }
    let metadata = match metadata_of(&path) {
        Err(Error::NotARecording { .. }) => return None,
        metadata => metadata,
    };
    Some(Listing { name, path, is_packed: true, metadata, file_bytes: kind.len() })
}

fn metadata_of(path: &Path) -> Result<Metadata> {
    Recording::open(path).map(|recording| recording.metadata().clone())
}
