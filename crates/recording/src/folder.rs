//! Lists folders.

use std::fs;
use std::io;
use std::path::Path;

use crate::error::{Error, Result};

/// Returns the entries of a folder; none if the folder does not exist.
pub(crate) fn entries_of(folder: &Path) -> Result<Vec<fs::DirEntry>> {
    let fail = |error| Error::io("list", folder, error);
    match fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        entries => entries.map_err(fail)?.collect::<io::Result<_>>().map_err(fail),
    }
}
