//! Where the checkpoints of a recording are kept: in its folder, or in the store's cache if that
//! folder cannot be written to or the recording is packed.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::checkpoint_file::{CheckpointReader, CheckpointWriter, Owner};
use crate::error::{Error, Result};
use crate::kept_checkpoint::{CHECKPOINTS_NAME, KeptCheckpoint, list_in, number_of};
use crate::location::Location;
use crate::packed_images;
use crate::recording::Recording;
use crate::store::CACHE_NAME;
use crate::store::temporary::make_private_directories;
use crate::writer::RecordingWriter;

/// The extension of the file with a checkpoint's past.
const PAST_EXTENSION: &str = "past";

/// The folders with the checkpoints of one recording.
#[derive(Debug, Clone)]
pub struct Checkpoints {
    owner: Option<Owner>,
    /// The recording's own folder.
    own: Option<PathBuf>,
    /// The folder for checkpoints that the recording's own folder cannot take.
    elsewhere: Option<PathBuf>,
    /// In names there, what tells apart the copies that were packed while the recording was made.
    copy: String,
}

impl Checkpoints {
    /// Returns the folders of a recording. Without a location, only its own folder is used. The
    /// images that a packed recording holds become files there.
    pub fn of(recording: &Recording, location: Option<&Location>) -> Self {
        let own = (!recording.is_packed()).then(|| recording.path().join(CHECKPOINTS_NAME));
        let elsewhere =
            location.map(|location| location.store.join(CACHE_NAME).join(CHECKPOINTS_NAME));
        let copy = packed_images::mark(recording);
        let this = Self { owner: Owner::of(recording), own, elsewhere, copy };
        for (folder, prefix) in this.folders() {
            // An image that cannot be laid out is not there.
            let _ = packed_images::lay_out(recording, folder, &prefix);
        }
        this
    }

    /// Returns the folder of a recording that is being made.
    ///
    /// # Errors
    /// `Finished`.
    pub fn of_writer(writer: &RecordingWriter) -> Result<Self> {
        let own = Some(writer.directory().join(CHECKPOINTS_NAME));
        let owner = Owner::of_metadata(&writer.metadata()?);
        Ok(Self { owner, own, elsewhere: None, copy: String::new() })
    }

    /// Lists all checkpoints by number. Ignores files with other names.
    ///
    /// # Errors
    /// A folder cannot be listed.
    pub fn list(&self) -> Result<Vec<KeptCheckpoint>> {
        let mut all = Vec::new();
        for (folder, prefix) in self.folders() {
            all.extend(list_in(folder, &prefix)?);
        }
        all.sort_unstable_by_key(|kept| kept.number);
        Ok(all)
    }

    /// Opens a checkpoint.
    ///
    /// # Errors
    /// `BadCheckpoint` if it is damaged, or belongs to another recording or build; `Io`.
    pub fn open(&self, kept: &KeptCheckpoint) -> Result<CheckpointReader> {
        CheckpointReader::open(&kept.path, self.owner(&kept.path)?)
    }

    /// Begins a new checkpoint.
    ///
    /// # Errors
    /// `NoSpace`, or an error if no folder can be written to.
    pub fn create(&self) -> Result<CheckpointWriter> {
        let mut failure = None;
        for (folder, _) in self.folders() {
            let made = make_private_directories(folder)
                .and_then(|()| CheckpointWriter::create_in(folder, self.owner(folder)?));
            match made {
                Err(error @ Error::Io { .. }) => failure = failure.or(Some(error)),
                made => return made,
            }
        }
        Err(failure.unwrap_or(Error::NoLocation))
    }

    /// Completes a checkpoint and gives it its name.
    ///
    /// # Errors
    /// `NoSpace`, `Io`.
    pub fn finish(&self, mut writer: CheckpointWriter) -> Result<KeptCheckpoint> {
        writer.complete()?;
        let bytes = writer.bytes();
        let written = writer.temporary.path().to_path_buf();
        let folder = written.parent().unwrap_or(Path::new("."));
        let prefix = self
            .folders()
            .find(|(known, _)| *known == folder)
            .map_or_else(String::new, |(_, prefix)| prefix);
        let mut number = self.list()?.last().map_or(1, |kept| kept.number.saturating_add(1));
        loop {
            let path = folder.join(format!("{prefix}{number}"));
            match fs::hard_link(&written, &path) {
                Ok(()) => return Ok(KeptCheckpoint { number, path, bytes }),
                // Another process took the number first.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                    number = number.saturating_add(1)
                }
                // The file system has no hard links.
                Err(_) => {
                    writer.temporary.replace(&path)?;
                    return Ok(KeptCheckpoint { number, path, bytes });
                }
            }
        }
    }

    /// Begins a file with the past of a checkpoint: what is known of the way to it. The file has
    /// the same layout and lies beside the checkpoint.
    ///
    /// # Errors
    /// `NoSpace`, or an error if the folder cannot be written to.
    pub fn begin_past(&self, kept: &KeptCheckpoint) -> Result<CheckpointWriter> {
        CheckpointWriter::create_in(
            kept.path.parent().unwrap_or(Path::new(".")),
            self.owner(&kept.path)?,
        )
    }

    /// Completes the past of a checkpoint. It replaces an older one.
    ///
    /// # Errors
    /// `NoSpace`, `Io`.
    pub fn finish_past(&self, kept: &KeptCheckpoint, mut writer: CheckpointWriter) -> Result<()> {
        writer.complete()?;
        writer.temporary.replace(&past_of(&kept.path))
    }

    /// Opens the past of a checkpoint; `None` if there is none.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub fn open_past(&self, kept: &KeptCheckpoint) -> Result<Option<CheckpointReader>> {
        let path = past_of(&kept.path);
        if path.exists() {
            CheckpointReader::open(&path, self.owner(&path)?).map(Some)
        } else {
            Ok(None)
        }
    }

    /// Removes a checkpoint and its past.
    ///
    /// # Errors
    /// `Io`. A checkpoint that is already gone is not an error.
    pub fn remove(&self, kept: &KeptCheckpoint) -> Result<()> {
        for path in [&past_of(&kept.path), &kept.path] {
            match fs::remove_file(path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    return Err(Error::io("remove", path, error));
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Removes the checkpoints outside the recording's own folder, which is removed with the
    /// recording.
    ///
    /// # Errors
    /// `Io`.
    pub fn remove_elsewhere(&self) -> Result<()> {
        let own = self.own.as_deref();
        let elsewhere = self
            .list()?
            .into_iter()
            .filter(|kept| own.is_none_or(|own| !kept.path.starts_with(own)));
        elsewhere.into_iter().try_for_each(|kept| self.remove(&kept))
    }

    fn owner(&self, path: &Path) -> Result<Owner> {
        let reason = || "the recording has no number, so no checkpoint can belong to it".to_owned();
        self.owner
            .ok_or_else(|| Error::BadCheckpoint { path: path.to_path_buf(), reason: reason() })
    }

    /// Returns each folder, with the prefix of this recording's file names in it.
    fn folders(&self) -> impl Iterator<Item = (&Path, String)> {
        let own = self.own.as_deref().map(|folder| (folder, String::new()));
        let prefix = self.owner.map(|owner| format!("{}-{}", owner.number(), self.copy));
        own.into_iter().chain(self.elsewhere.as_deref().zip(prefix))
    }
}

/// Returns the path of the file with a checkpoint's past.
fn past_of(path: &Path) -> PathBuf {
    path.with_extension(PAST_EXTENSION)
}

/// Whether a file of this name belongs in the folder.
pub(crate) fn is_name(name: &str) -> bool {
    let number =
        name.strip_suffix(PAST_EXTENSION).and_then(|name| name.strip_suffix('.')).unwrap_or(name);
    number_of(number).is_some()
}
