//! The files of kept checkpoints in a folder.

use std::fs;
use std::path::{Path, PathBuf};

use crate::error::Result;
use crate::folder::entries_of;

/// The name of the checkpoint folder in a recording's directory.
pub(crate) const CHECKPOINTS_NAME: &str = "checkpoints";

/// A kept checkpoint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeptCheckpoint {
    /// The number by which users know it.
    pub number: u64,
    /// The path of the file.
    pub path: PathBuf,
    /// Its size.
    pub bytes: u64,
}

/// Lists the checkpoints in a folder whose names begin with `prefix`, by number.
pub(crate) fn list_in(folder: &Path, prefix: &str) -> Result<Vec<KeptCheckpoint>> {
    let mut all = Vec::new();
    for entry in entries_of(folder)? {
        let name = entry.file_name();
        let number = name.to_str().and_then(|name| name.strip_prefix(prefix)).and_then(number_of);
        let metadata = entry.metadata().ok().filter(fs::Metadata::is_file);
        if let Some((number, metadata)) = number.zip(metadata) {
            all.push(KeptCheckpoint { number, path: entry.path(), bytes: metadata.len() });
        }
    }
    all.sort_unstable_by_key(|kept| kept.number);
    Ok(all)
}

/// Parses a checkpoint's number. Accepts only the form in which numbers are written.
pub(crate) fn number_of(name: &str) -> Option<u64> {
    name.parse().ok().filter(|number: &u64| number.to_string() == name)
}
