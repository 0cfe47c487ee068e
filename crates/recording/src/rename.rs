//! Renames a recording.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, RenameFlags, renameat_with};
use rustix::io::Errno;

use crate::error::{Error, Result};
use crate::library::{LATEST_NAME, PACKED_EXTENSION, set_latest};
use crate::removal::check_recording;

/// Renames the recording at `path` to `name` within its folder, and returns its new path. A packed
/// recording keeps its extension. If `latest` in that folder pointed to it, it still does.
///
/// # Errors
/// `BadName`; `NotARecording`; `AlreadyExists`; `BeingRecorded`, because the recorder knows only
/// the old name; `Io`.
pub fn rename(path: &Path, name: &OsStr) -> Result<PathBuf> {
    check_name(name)?;
    let path = fs::canonicalize(path).map_err(|error| Error::io("find", path, error))?;
    check_recording(&path)?;
    let folder = path.parent().unwrap_or(Path::new("/"));
    let mut packed = OsString::from(name);
    if Path::new(name).extension() != Some(OsStr::new(PACKED_EXTENSION)) {
        packed.push(".");
        packed.push(PACKED_EXTENSION);
    }
    let new = if path.is_dir() { folder.join(name) } else { folder.join(&packed) };
    // A recording of either name would hide the other.
    for taken in [folder.join(name), folder.join(&packed)] {
        if taken != path && fs::symlink_metadata(&taken).is_ok() {
            return Err(Error::AlreadyExists { path: taken });
        }
    }
    let is_latest = fs::read_link(folder.join(LATEST_NAME))
        .is_ok_and(|target| target.file_name() == path.file_name());
    move_to(&path, &new)?;
    if is_latest {
        set_latest(folder, &new)?;
    }
    Ok(new)
}

/// Refuses names that other commands would take for something else.
fn check_name(name: &OsStr) -> Result<()> {
    let bad = |reason| Error::BadName { name: name.to_string_lossy().into_owned(), reason };
    let is_plain = Path::new(name).file_name() == Some(name);
    if !is_plain {
        return Err(bad("it must be a name without a folder"));
    }
    if name == LATEST_NAME {
        return Err(bad("that stands for the recording that was made last"));
    }
    match name.as_encoded_bytes().first() {
        Some(b'.') => Err(bad("names that begin with a dot are hidden")),
        Some(b'-') => Err(bad("commands would take it for an option")),
        _ => Ok(()),
    }
}

fn move_to(path: &Path, new: &Path) -> Result<()> {
    if path == new {
        return Ok(());
    }
    let moved = match renameat_with(CWD, path, CWD, new, RenameFlags::NOREPLACE) {
        // The file system cannot exclude replacing a file. The check above found none.
        Err(Errno::INVAL | Errno::NOSYS) => fs::rename(path, new),
        moved => moved.map_err(io::Error::from),
    };
    moved.map_err(|error| match error.kind() {
        io::ErrorKind::AlreadyExists => Error::AlreadyExists { path: new.to_path_buf() },
        _ => Error::io("rename", path, error),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_checked() {
        for good in ["make-1", "before the fix", "a.b"] {
            assert!(check_name(OsStr::new(good)).is_ok(), "{good}");
        }
        for bad in ["", "latest", ".hidden", "-x", "a/b", "..", "/"] {
            assert!(matches!(check_name(OsStr::new(bad)), Err(Error::BadName { .. })), "{bad}");
        }
    }
}
