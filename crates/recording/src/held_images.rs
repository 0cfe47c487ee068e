//! Holds the images of a recording that is being made. The recorder may remove them at any time.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::error::Result;
use crate::kept_checkpoint::{CHECKPOINTS_NAME, KeptCheckpoint, list_in};
use crate::source::{Source, open_regular};

/// An image whose file is open, so that its bytes stay even if it is removed.
#[derive(Debug, Clone)]
pub(crate) struct HeldImage {
    pub file: Arc<File>,
    pub path: PathBuf,
}

/// Opens all images in the directory of a recording, in the order of their numbers.
pub(crate) fn hold_all(directory: &Path) -> Result<Vec<HeldImage>> {
    let kept = list_in(&directory.join(CHECKPOINTS_NAME), "")?.into_iter();
    let open = |kept: KeptCheckpoint| {
        let file = Arc::new(open_regular(&kept.path)?);
        Ok(HeldImage { file, path: kept.path })
    };
    kept.map(open).collect()
}

/// Opens all images on which the events in `source` depend; `None` if some of them may be gone. An
/// image is removed only after the events file has been replaced by one that does not need it.
pub(crate) fn hold(directory: &Path, source: &Source) -> Option<Vec<HeldImage>> {
    let held = hold_all(directory).ok()?;
    source.is_still_there().then_some(held)
}
