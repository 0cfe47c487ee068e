//! Opens a recording, a directory or a packed file, and finds out what it holds.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::ContentId;
use crate::catalogue::LeftOut;
use crate::error::{Error, Result};
use crate::frame::{FORMAT_VERSION, HEADER_BYTES, MAGIC, PlacedFrame, stated_version};
use crate::held_images::{HeldImage, hold};
use crate::metadata::{MAX_METADATA_BYTES, Metadata};
use crate::opened::{Shared, StreamSummary, catalogue_of, summarise};
use crate::source::{Source, open_regular};
use crate::stream_info::{StreamId, StreamInfo, StreamKind};
use crate::stream_reader::StreamReader;
use crate::warning::{Warning, Warnings};
use crate::writer::{EVENTS_NAME, METADATA_NAME};

/// How often a recording that is being made is opened again, if the recorder replaced its events
/// meanwhile.
const TRIES_TO_HOLD: usize = 20;

/// An open recording. Nothing in it is trusted.
#[derive(Debug, Clone)]
pub struct Recording {
    pub(crate) shared: Arc<Shared>,
}

impl Recording {
    /// Opens the recording at `path`: a directory, or a packed file. The time depends on the size
    /// of the index. If the index is missing or damaged, the whole file is searched, and
    /// [`Recording::warnings`] says what was lost.
    ///
    /// # Errors
    /// `NotARecording`, `UnsupportedVersion`, `BadMetadata` if no copy of the metadata is left,
    /// `Io`.
    pub fn open(path: &Path) -> Result<Self> {
        let path = &fs::canonicalize(path).map_err(|error| Error::io("open", path, error))?;
        let is_directory = path.is_dir();
        let events = if is_directory { path.join(EVENTS_NAME) } else { path.clone() };
        let open = || {
            Source::open(&events).map_err(|error| match error {
                Error::Io { source, .. }
                    if is_directory && source.kind() == std::io::ErrorKind::NotFound =>
                {
                    let reason = "it is a directory without an events file".to_owned();
                    Error::NotARecording { path: path.clone(), reason }
                }
                error => error,
            })
        };
        let mut source = open()?;
        let mut held_images = Vec::new();
        for _ in 0..TRIES_TO_HOLD {
            if !is_directory || !source.is_being_recorded() {
                break;
            }
            if let Some(held) = hold(path, &source) {
                held_images = held;
                break;
            }
            source = open()?;
        }
        Self::from_source(source, is_directory.then(|| path.clone()), held_images)
    }

    /// Opens a packed recording, or an events file, held in memory.
    pub fn from_bytes(bytes: Vec<u8>) -> Result<Self> {
        Self::from_source(Source::from_bytes(bytes, Path::new("(memory)")), None, Vec::new())
    }

    fn from_source(
        source: Source,
        directory: Option<PathBuf>,
        held_images: Vec<HeldImage>,
    ) -> Result<Self> {
        check_beginning(&source)?;
        let mut catalogue = catalogue_of(&source)?;
        let mut warnings = std::mem::take(&mut catalogue.warnings);
        let metadata =
            find_metadata(&source, &catalogue.metadata, directory.as_deref(), &mut warnings)?;
        let warnings = warnings.into_list();
        let shared = Shared { source, catalogue, directory, metadata, held_images, warnings };
        Ok(Self { shared: Arc::new(shared) })
    }

    /// Returns the metadata of the recording.
    pub fn metadata(&self) -> &Metadata {
        &self.shared.metadata
    }

    /// Returns what was lost or damaged, as far as opening showed it. Damage in single chunks shows
    /// when they are read, or in [`Recording::check`].
    pub fn warnings(&self) -> &[Warning] {
        &self.shared.warnings
    }

    /// Returns the path of the recording: its directory, or the packed file.
    pub fn path(&self) -> &Path {
        self.shared.directory.as_deref().unwrap_or_else(|| self.shared.source.path())
    }

    /// Whether the recording is one self-contained file.
    pub fn is_packed(&self) -> bool {
        self.shared.directory.is_none()
    }

    /// Returns the size of the events file, or of the packed file.
    pub fn file_bytes(&self) -> u64 {
        self.shared.source.length()
    }

    /// Returns all streams, ordered by number.
    pub fn streams(&self) -> impl Iterator<Item = StreamSummary> + '_ {
        self.shared.catalogue.streams.values().map(summarise)
    }

    /// Whether what processes did before their images is left out, or was never recorded. Then
    /// replay must begin at one.
    pub fn begins_late(&self) -> bool {
        self.metadata().attached || self.left_out().bytes > 0
    }

    /// Returns the streams of threads that begin late: the thread's process ran before it was
    /// recorded, or something is left out of this stream, or of a later one of the process. A first
    /// thread may have done too little for a part of it to be left out.
    pub fn late_streams(&self) -> HashSet<StreamId> {
        let mut last_cut: HashMap<i32, StreamId> = HashMap::new();
        let threads = || self.streams().filter(|one| one.info.kind != StreamKind::Supervisor);
        for stream in threads().filter(|one| one.left_out.bytes > 0) {
            last_cut.insert(stream.info.pid, stream.info.id);
        }
        let is_cut = |one: &StreamInfo| last_cut.get(&one.pid).is_some_and(|last| one.id <= *last);
        let infos = threads().map(|one| one.info);
        infos.filter(|one| self.ran_before(one) || is_cut(one)).map(|one| one.id).collect()
    }

    /// Whether this is the stream of a thread that ran before it was recorded.
    pub fn ran_before(&self, stream: &StreamInfo) -> bool {
        let is_thread = stream.kind != StreamKind::Supervisor;
        self.metadata().attached && is_thread && stream.parent.is_none()
    }

    /// Returns what is left out of all streams together.
    pub fn left_out(&self) -> LeftOut {
        let streams = self.shared.catalogue.streams.values();
        streams.fold(LeftOut::default(), |sum, stream| LeftOut {
            events: sum.events.saturating_add(stream.left_out.events),
            bytes: sum.bytes.saturating_add(stream.left_out.bytes),
        })
    }

    /// Returns a reader at the beginning of a stream. The reader keeps what it needs of the
    /// recording open.
    ///
    /// # Errors
    /// `UnknownStream`.
    pub fn stream(&self, stream: StreamId) -> Result<StreamReader> {
        StreamReader::new(Arc::clone(&self.shared), stream)
    }

    /// Returns the files in the recording, with their sizes in bytes.
    pub fn contents(&self) -> Result<Vec<(ContentId, u64)>> {
        crate::contents::list(&self.shared)
    }

    /// Whether the recording holds a file with this content.
    pub fn has_content(&self, id: ContentId) -> bool {
        crate::contents::has(&self.shared, id)
    }

    /// Returns the path of a file with this content. For a packed recording, the file is extracted
    /// into `cache_directory` and checked, unless it is there already. The directory is created if
    /// needed.
    ///
    /// # Errors
    /// `NoContent`, `BadContent`, `Damaged`, `NoSpace`.
    pub fn content_path(&self, id: ContentId, cache_directory: &Path) -> Result<PathBuf> {
        crate::contents::path(&self.shared, id, cache_directory)
    }

    /// Copies a file of the recording to `output` and checks its hash. Returns its size.
    ///
    /// # Errors
    /// As [`Recording::content_path`]. Part of the bytes may already be in `output`.
    pub fn copy_content(&self, id: ContentId, output: &mut dyn Write) -> Result<u64> {
        let write = |error| Error::io("copy a file from", self.path(), error);
        crate::contents::for_each_block(&self.shared, id, &mut |block| {
            output.write_all(block).map_err(write)
        })
    }
}

/// Refuses a file that does not begin like a recording, or has another version.
fn check_beginning(source: &Source) -> Result<()> {
    let not_a_recording = |reason: &str| Error::NotARecording {
        path: source.path().to_path_buf(),
        reason: reason.to_owned(),
    };
    let mut bytes = [0; HEADER_BYTES];
    if source.read_at(0, &mut bytes)? < HEADER_BYTES {
        return Err(not_a_recording("the file is too short"));
    }
    if bytes[..4] != MAGIC {
        return Err(not_a_recording("the file does not begin like one"));
    }
    let found = stated_version(&bytes);
    if found != FORMAT_VERSION {
        let path = source.path().to_path_buf();
        return Err(Error::UnsupportedVersion { path, found, supported: FORMAT_VERSION });
    }
    Ok(())
}

/// Returns the newest readable metadata: from the last metadata frame, from an earlier one, or from
/// `recording.json`.
fn find_metadata(
    source: &Source,
    frames: &[PlacedFrame],
    directory: Option<&Path>,
    warnings: &mut Warnings,
) -> Result<Metadata> {
    let mut first_reason = None;
    for frame in frames.iter().rev() {
        match read_metadata_frame(source, frame) {
            Ok(metadata) => {
                first_reason
                    .into_iter()
                    .for_each(|reason| warnings.push(Warning::OldMetadata { reason }));
                return Ok(metadata);
            }
            Err(Error::Damaged { reason, .. } | Error::BadMetadata { reason, .. }) => {
                first_reason.get_or_insert(reason);
            }
            Err(error) => return Err(error),
        }
    }
    let reason = first_reason.unwrap_or_else(|| "there is no frame with them".to_owned());
    match directory.map(read_metadata_file) {
        Some(Ok(metadata)) => {
            warnings.push(Warning::OldMetadata { reason });
            Ok(metadata)
        }
        _ => Err(Error::BadMetadata { path: source.path().to_path_buf(), reason }),
    }
}

pub(crate) fn read_metadata_frame(
    source: &Source,
    (offset, header): &PlacedFrame,
) -> Result<Metadata> {
    let bad = |reason| Error::BadMetadata { path: source.path().to_path_buf(), reason };
    if header.uncompressed_bytes as usize > MAX_METADATA_BYTES {
        return Err(bad("they are too large".to_owned()));
    }
    let mut text = Vec::new();
    source.read_frame(*offset, header, &mut Vec::new(), &mut text)?;
    Metadata::from_json(&text).map_err(bad)
}

/// Reads `recording.json` in a recording's directory.
pub(crate) fn read_metadata_file(directory: &Path) -> Result<Metadata> {
    let path = directory.join(METADATA_NAME);
    let file = open_regular(&path)?;
    let mut text = Vec::new();
    let limit = MAX_METADATA_BYTES as u64;
    file.take(limit).read_to_end(&mut text).map_err(|error| Error::io("read", &path, error))?;
    Metadata::from_json(&text).map_err(|reason| Error::BadMetadata { path, reason })
}
