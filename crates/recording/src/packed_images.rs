//! Images in a copy of a recording that begins at them. Without its images nobody could replay it,
//! so a packed file holds them as contents, and the metadata name these.

use std::fs;
use std::path::Path;

use crate::ContentId;
use crate::contents;
use crate::error::Result;
use crate::recording::Recording;
use crate::store::temporary::make_private_directories;

/// The most images of a recording that are read from its metadata.
const MOST_IMAGES: usize = 4096;

/// The contents that the metadata name.
pub(crate) fn named(recording: &Recording) -> Vec<ContentId> {
    let names = recording.metadata().images.iter().take(MOST_IMAGES);
    names.filter_map(|name| name.parse().ok()).collect()
}

/// Returns a part of file names that tells apart packed copies with different images. Copies that
/// were made at different times of one recording have the same number.
pub(crate) fn mark(recording: &Recording) -> String {
    let images = &recording.metadata().images;
    if images.is_empty() || !recording.is_packed() {
        return String::new();
    }
    let hash = blake3::hash(images.join(",").as_bytes()).to_hex();
    format!("{}-", &hash[..16])
}

/// Makes the images of a packed recording files of `folder`, named by this prefix and a number.
/// Files that are there stay.
pub(crate) fn lay_out(recording: &Recording, folder: &Path, prefix: &str) -> Result<()> {
    if !recording.is_packed() {
        return Ok(());
    }
    for (number, id) in (1..).zip(named(recording)) {
        let target = folder.join(format!("{prefix}{number}"));
        if fs::symlink_metadata(&target).is_err() {
            make_private_directories(folder)?;
            contents::extract(&recording.shared, id, folder)?.publish_if_absent(&target)?;
        }
    }
    Ok(())
}
