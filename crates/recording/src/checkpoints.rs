//! Where the checkpoints of a recording are kept: in its folder, or in the store's cache if that
//! cannot be written to, or the recording is packed.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::checkpoint_file::{CheckpointReader, CheckpointWriter, Owner};
use crate::error::{Error, Result};
use crate::library::entries_of;
use crate::location::Location;
use crate::recording::Recording;
use crate::store::CACHE_NAME;
use crate::store::temporary::make_private_directories;
use crate::writer::RecordingWriter;

/// The folder in a recording's directory.
pub(crate) const CHECKPOINTS_NAME: &str = "checkpoints";

/// Of the file beside a checkpoint.
const PAST_EXTENSION: &str = "past";

/// A kept checkpoint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeptCheckpoint {
    /// By which users know it.
    pub number: u64,
    /// The file.
    pub path: PathBuf,
    /// Its size.
    pub bytes: u64,
}

/// The places where those of one recording are.
#[derive(Debug, Clone)]
pub struct Checkpoints {
    owner: Option<Owner>,
    /// In the recording's own folder,
    own: Option<PathBuf>,
    /// and for what cannot be kept there.
    elsewhere: Option<PathBuf>,
}

impl Checkpoints {
    /// Those of a recording. Without a location only its own folder is one.
    pub fn of(recording: &Recording, location: Option<&Location>) -> Self {
        let own = (!recording.is_packed()).then(|| recording.path().join(CHECKPOINTS_NAME));
        let elsewhere =
            location.map(|location| location.store.join(CACHE_NAME).join(CHECKPOINTS_NAME));
        Self { owner: Owner::of(recording), own, elsewhere }
    }

    /// Those of a recording that is being made.
    ///
    /// # Errors
    /// It is finished.
    pub fn of_writer(writer: &RecordingWriter) -> Result<Self> {
        let own = Some(writer.directory().join(CHECKPOINTS_NAME));
        Ok(Self { owner: Owner::of_metadata(&writer.metadata()?), own, elsewhere: None })
    }

    /// All there are, by number. What has another name is left alone.
    ///
    /// # Errors
    /// A folder cannot be listed.
    pub fn list(&self) -> Result<Vec<KeptCheckpoint>> {
        let mut all = Vec::new();
        for (folder, prefix) in self.folders() {
            for entry in entries_of(folder)? {
                let name = entry.file_name();
                let number =
                    name.to_str().and_then(|name| name.strip_prefix(&*prefix)).and_then(number_of);
                let metadata = entry.metadata().ok().filter(fs::Metadata::is_file);
                if let Some((number, metadata)) = number.zip(metadata) {
                    all.push(KeptCheckpoint { number, path: entry.path(), bytes: metadata.len() });
                }
            }
        }
        all.sort_unstable_by_key(|kept| kept.number);
        Ok(all)
    }

    /// Opens one of them.
    ///
    /// # Errors
    /// `BadCheckpoint` if it is damaged, of another recording or build; `Io`.
    pub fn open(&self, kept: &KeptCheckpoint) -> Result<CheckpointReader> {
        CheckpointReader::open(&kept.path, self.owner(&kept.path)?)
    }

    /// Begins another one.
    ///
    /// # Errors
    /// No folder can be written to; `NoSpace`.
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

    /// Gives a checkpoint its name.
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
                // Somebody else was faster.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                    number = number.saturating_add(1)
                }
                // A file system without hard links.
                Err(_) => {
                    writer.temporary.replace(&path)?;
                    return Ok(KeptCheckpoint { number, path, bytes });
                }
            }
        }
    }

    /// Begins what is known of the way to one of them, in a file of the same layout beside it.
    ///
    /// # Errors
    /// The folder cannot be written to; `NoSpace`.
    pub fn begin_past(&self, kept: &KeptCheckpoint) -> Result<CheckpointWriter> {
        CheckpointWriter::create_in(
            kept.path.parent().unwrap_or(Path::new(".")),
            self.owner(&kept.path)?,
        )
    }

    /// Puts that in the place of what was known before.
    ///
    /// # Errors
    /// `NoSpace`, `Io`.
    pub fn finish_past(&self, kept: &KeptCheckpoint, mut writer: CheckpointWriter) -> Result<()> {
        writer.complete()?;
        writer.temporary.replace(&past_of(&kept.path))
    }

    /// Opens it; `None`: nothing is known.
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

    /// Removes one.
    ///
    /// # Errors
    /// `Io`. That it is gone already is none.
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

    /// Removes those that are not in the recording's own folder, which goes with it.
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
        let reason = || "the recording has no number that it could belong to".to_owned();
        self.owner
            .ok_or_else(|| Error::BadCheckpoint { path: path.to_path_buf(), reason: reason() })
    }

    /// Each with how the names in it begin that are this recording's.
    fn folders(&self) -> impl Iterator<Item = (&Path, String)> {
        let own = self.own.as_deref().map(|folder| (folder, String::new()));
        let prefix = self.owner.map(|owner| format!("{}-", owner.number()));
        own.into_iter().chain(self.elsewhere.as_deref().zip(prefix))
    }
}

/// As they are written, and not otherwise.
fn number_of(name: &str) -> Option<u64> {
    name.parse().ok().filter(|number: &u64| number.to_string() == name)
}

/// Where what is known of the way to a checkpoint is.
fn past_of(path: &Path) -> PathBuf {
    path.with_extension(PAST_EXTENSION)
}

/// Whether a file of this name belongs into the folder.
pub(crate) fn is_name(name: &str) -> bool {
    let number =
        name.strip_suffix(PAST_EXTENSION).and_then(|name| name.strip_suffix('.')).unwrap_or(name);
    number_of(number).is_some()
}
