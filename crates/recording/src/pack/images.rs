//! Adds images to a copy of a recording that begins at them.

use std::fs;
use std::io::Write;
use std::path::Path;

use crate::ContentId;
use crate::contents;
use crate::error::{Error, Result};
use crate::held_images::{HeldImage, hold_all};
use crate::kept_checkpoint::CHECKPOINTS_NAME;
use crate::packed_images::named;
use crate::recording::Recording;
use crate::store::copy::hash_file;
use crate::store::temporary::make_private_directories;
use crate::writer::create_private;

/// An image in the folder of a recording.
#[derive(Debug)]
pub(super) struct OwnImage {
    pub id: ContentId,
    pub image: HeldImage,
    pub bytes: u64,
}

/// Returns the images that a packed copy must hold besides the recording's files. A packed
/// recording holds them already.
pub(super) fn to_add(recording: &Recording) -> Result<Vec<OwnImage>> {
    if recording.is_packed() || !recording.begins_late() {
        return Ok(Vec::new());
    }
    let images = match &*recording.shared.held_images {
        [] => hold_all(recording.path())?,
        held => held.to_vec(),
    };
    let described = images.into_iter().map(|image| {
        let (id, bytes) = hash_file(&image.file, &image.path)?;
        Ok(OwnImage { id, image, bytes })
    });
    described.collect()
}

/// The contents of a copy's images, in order: those that are added, or those that it has already.
pub(super) fn ids(recording: &Recording, added: &[OwnImage]) -> Vec<ContentId> {
    match added {
        [] => named(recording),
        added => added.iter().map(|image| image.id).collect(),
    }
}

/// In the folder of an unpacked recording: makes its images checkpoints again. They are among its
/// files already, except those that are added.
pub(super) fn link(
    recording: &Recording,
    added: &[OwnImage],
    directory: &Path,
    files: &Path,
) -> Result<()> {
    for OwnImage { id, image, .. } in added {
        let to = files.join(id.to_string());
        let mut file = create_private(&to)?;
        contents::blocks_of(&image.file, &image.path, *id, &mut |block| {
            file.write_all(block).map_err(|error| Error::io("write to", &to, error))
        })?;
    }
    let folder = directory.join(CHECKPOINTS_NAME);
    for (number, id) in (1..).zip(ids(recording, added)) {
        make_private_directories(&folder)?;
        let (from, to) = (files.join(id.to_string()), folder.join(format!("{number}")));
        let linked = fs::hard_link(&from, &to).or_else(|_| fs::copy(&from, &to).map(drop));
        linked.map_err(|error| Error::io("create", &to, error))?;
    }
    Ok(())
}
