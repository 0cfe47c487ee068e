//! Writes a recording.
//!
//! Several threads may append at once, but only one thread at a time to each stream. Compression
//! happens outside the lock.

use std::collections::HashMap;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::ContentId;
use crate::codec::{Codec, Encoder};
use crate::error::{Error, Result};
use crate::frame::{FORMAT_VERSION, FrameHeader, FrameKind, MAX_CHUNK_BYTES, events_fit};
use crate::frame_writer::FrameWriter;
use crate::metadata::{Metadata, Outcome};
use crate::storage::{ReservingFile, Storage};
use crate::store::Store;
use crate::stream_info::{StreamId, StreamInfo};

/// The events file of a recording's directory.
pub(crate) const EVENTS_NAME: &str = "events";
/// A new events file that is to replace the old one.
pub(crate) const NEW_EVENTS_NAME: &str = "events.new";
/// The metadata of a recording's directory, for people and for listings.
pub(crate) const METADATA_NAME: &str = "recording.json";
/// The temporary name of new metadata, until they replace the old ones.
pub(crate) const NEW_METADATA_NAME: &str = "recording.json.new";
/// The folder of files that a recording needs, named by content.
pub(crate) const FILES_NAME: &str = "files";

/// Where the events of a chunk start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ChunkEvents {
    /// The offset in the chunk of the first event that starts there; `None` if none does.
    pub first: Option<u32>,
    /// The number of events that start in the chunk.
    pub count: u32,
}

/// Writes a recording. `finish` completes it. If the writer is dropped before, the recording is
/// readable nevertheless.
#[derive(Debug)]
pub struct RecordingWriter {
    directory: PathBuf,
    pub(crate) state: Mutex<State>,
    /// The compression buffers that are not in use.
    encoders: Mutex<Vec<Encoder>>,
}

#[derive(Debug)]
pub(crate) struct State {
    pub frames: FrameWriter,
    pub streams: HashMap<StreamId, StreamEnd>,
    pub metadata: Metadata,
    events_finished: bool,
    /// Whether events were lost because they could not be written. Events after them would make no
    /// sense.
    is_cut: bool,
    /// Locked while the recording is made, so that no process removes it.
    pub held: Option<File>,
}

/// The end of a stream, and its size so far.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct StreamEnd {
    pub chunks: u32,
    pub bytes: u64,
    pub events: u64,
    /// The bytes that it takes in the file, with headers and declaration.
    pub stored_bytes: u64,
}

impl StreamEnd {
    /// Adds a chunk.
    pub(crate) fn add(&mut self, chunk: &FrameHeader) {
        self.chunks = self
            .chunks
            .checked_add(1)
            .expect("four thousand million chunks of one stream fit no disk");
        self.bytes += u64::from(chunk.uncompressed_bytes);
        self.events += u64::from(chunk.event_count);
        self.stored_bytes += chunk.frame_bytes();
    }
}

impl RecordingWriter {
    /// Creates `directory`, which must not exist, for its owner only, and starts a recording in it.
    /// The writer sets the format version and the recording's ID.
    ///
    /// # Errors
    /// `AlreadyExists` if the directory exists; otherwise errors of the operating system.
    pub fn create(directory: &Path, metadata: &Metadata) -> Result<Self> {
        make_directory(directory)?;
        let result = Self::create_in(directory, metadata);
        if result.is_err() {
            // Everything in the directory was created here.
            let _ = fs::remove_dir_all(directory);
        }
        result
    }

    fn create_in(directory: &Path, metadata: &Metadata) -> Result<Self> {
        make_directory(&directory.join(FILES_NAME))?;
        let path = directory.join(EVENTS_NAME);
        let file = create_private(&path)?;
        // No other process has the file. The lock fails only on a file system without locks, and
        // then the recording is less protected.
        let _ = file.try_lock();
        let lock = file.try_clone().map_err(|error| Error::io("open", &path, error))?;
        Self::start(directory, Box::new(ReservingFile::new(file)), metadata, Some(lock))
    }

    /// Starts a recording whose events go to `storage`. The directory must exist.
    pub(crate) fn start(
        directory: &Path,
        storage: Box<dyn Storage>,
        metadata: &Metadata,
        lock: Option<File>,
    ) -> Result<Self> {
        let recording = new_recording_number();
        let mut metadata = metadata.clone();
        metadata.format_version = FORMAT_VERSION;
        metadata.recording_id = format!("{recording:016x}");
        let mut frames = FrameWriter::new(storage, &directory.join(EVENTS_NAME), recording);
        let text = metadata_text(&metadata, directory)?;
        write_metadata(directory, &text)?;
        frames.put_raw(FrameHeader::new(FrameKind::Metadata), &text)?;
        let state = State::new(frames, HashMap::new(), metadata, lock);
        Ok(Self::with_state(directory, state))
    }

    pub(crate) fn with_state(directory: &Path, state: State) -> Self {
        let directory = directory.to_path_buf();
        Self { directory, state: Mutex::new(state), encoders: Mutex::default() }
    }

    /// Returns the directory of the recording.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Returns the metadata so far.
    pub(crate) fn metadata(&self) -> Result<Metadata> {
        Ok(self.unfinished_state()?.metadata.clone())
    }

    /// Declares a stream. Must precede its first chunk.
    ///
    /// # Errors
    /// `DuplicateStream`; `NoSpace`, after which the call can be repeated.
    pub fn declare_stream(&self, info: &StreamInfo) -> Result<()> {
        let mut state = self.unfinished_state()?;
        if state.streams.contains_key(&info.id) {
            return Err(Error::DuplicateStream { path: self.directory.clone(), stream: info.id });
        }
        let header = FrameHeader { stream: info.id.0, ..FrameHeader::new(FrameKind::Stream) };
        let before = state.frames.end();
        state.frames.put_raw(header, &info.encode())?;
        let stored_bytes = state.frames.end() - before;
        state.streams.insert(info.id, StreamEnd { stored_bytes, ..StreamEnd::default() });
        Ok(())
    }

    /// Appends `bytes`, at most [`MAX_CHUNK_BYTES`], to a stream. Events may cross chunks; `events`
    /// says where in `bytes` the first one starts. Appending nothing has no effect.
    ///
    /// # Errors
    /// `NoSpace`, after which the call can be repeated: nothing of it was kept. Other errors of the
    /// operating system, after which nothing can be appended (`Cut`). `UnknownStream`,
    /// `ChunkTooLarge` and `BadChunkEvents` for wrong arguments.
    pub fn append(
        &self,
        stream: StreamId,
        bytes: &[u8],
        events: ChunkEvents,
        codec: Codec,
    ) -> Result<()> {
        if bytes.len() > MAX_CHUNK_BYTES {
            return Err(Error::ChunkTooLarge { bytes: bytes.len(), limit: MAX_CHUNK_BYTES });
        }
        if !events_fit(bytes.len(), events.first, events.count) {
            let ChunkEvents { first, count } = events;
            return Err(Error::BadChunkEvents { bytes: bytes.len(), first, count });
        }
        if bytes.is_empty() {
            return Ok(());
        }
        let mut encoder = lock(&self.encoders).pop().unwrap_or_else(Encoder::new);
        let (stored_as, stored) = encoder.encode(bytes, codec);
        let mut header = FrameHeader {
            stream: stream.0,
            first_event: events.first,
            event_count: events.count,
            ..FrameHeader::new(FrameKind::Chunk)
        };
        header.describe_payload(stored_as, bytes.len(), stored);
        let result = self.put_chunk(stream, header, stored);
        lock(&self.encoders).push(encoder);
        result
    }

    fn put_chunk(&self, stream: StreamId, mut header: FrameHeader, stored: &[u8]) -> Result<()> {
        let mut state = self.unfinished_state()?;
        let unknown = || Error::UnknownStream { path: self.directory.clone(), stream };
        let State { frames, streams, is_cut, .. } = &mut *state;
        if *is_cut {
            return Err(Error::Cut { path: self.directory.clone() });
        }
        let end = streams.get_mut(&stream).ok_or_else(unknown)?;
        header.sequence = end.chunks;
        header.offset = end.bytes;
        let put = frames.put(header, stored);
        *is_cut = put.as_ref().is_err_and(|error| !error.is_no_space());
        put?;
        end.add(&header);
        Ok(())
    }

    /// Adds a file from the store to the recording: a hard link if possible, else a copy. So
    /// removing either file leaves the other one intact. Adding a file twice is harmless.
    pub fn link_content(&self, store: &Store, id: ContentId) -> Result<()> {
        store.link_into(id, &self.directory.join(FILES_NAME))
    }

    /// Adds the runtime that makes the recording, the content `id` with these bytes. Usually the
    /// store has it already, and this takes a single call.
    ///
    /// # Errors
    /// As [`RecordingWriter::link_content`].
    pub fn add_runtime(&self, store: &Store, id: ContentId, bytes: &[u8]) -> Result<()> {
        store.link_bytes(id, bytes, &self.directory.join(FILES_NAME))
    }

    /// Removes a file to which no event refers. A file that cannot be removed only takes space.
    pub fn unlink_content(&self, id: ContentId) {
        let _ = std::fs::remove_file(self.directory.join(FILES_NAME).join(id.to_string()));
    }

    /// Returns the size of the events file so far.
    pub fn file_bytes(&self) -> u64 {
        lock(&self.state).frames.end()
    }

    /// Changes the metadata during recording. `format_version`, `recording_id` and `outcome` belong
    /// to the writer and stay.
    pub fn update_metadata(&self, change: impl FnOnce(&mut Metadata)) -> Result<()> {
        let mut state = self.unfinished_state()?;
        let mut changed = state.metadata.clone();
        change(&mut changed);
        changed.format_version = state.metadata.format_version;
        changed.recording_id.clone_from(&state.metadata.recording_id);
        changed.outcome = None;
        let text = metadata_text(&changed, &self.directory)?;
        state.frames.put_raw(FrameHeader::new(FrameKind::Metadata), &text)?;
        state.metadata = changed;
        write_metadata(&self.directory, &text)
    }

    /// Waits until everything appended would survive a power loss.
    pub fn sync(&self) -> Result<()> {
        lock(&self.state).frames.sync()
    }

    /// Completes the recording: writes the outcome, the index and `recording.json`.
    ///
    /// # Errors
    /// `NoSpace`, after which the call can be repeated. The recording is readable in any case.
    pub fn finish(&self, outcome: &Outcome) -> Result<()> {
        let mut state = lock(&self.state);
        if !state.events_finished {
            let mut metadata = state.metadata.clone();
            metadata.outcome = Some(state.complete_outcome(outcome));
            state.frames.put_ending(&metadata_text(&metadata, &self.directory)?)?;
            state.metadata = metadata;
            state.events_finished = true;
        }
        write_metadata(&self.directory, &metadata_text(&state.metadata, &self.directory)?)
    }

    /// Removes files from the recording to which nothing refers any more. The store keeps its
    /// copies.
    ///
    /// # Errors
    /// Those of the operating system.
    pub fn unlink_contents(&self, ids: &[ContentId]) -> Result<()> {
        let files = self.directory.join(FILES_NAME);
        remove_files(ids.iter().map(|id| files.join(id.to_string())))
    }

    pub(crate) fn unfinished_state(&self) -> Result<MutexGuard<'_, State>> {
        let state = lock(&self.state);
        if state.events_finished {
            Err(Error::Finished { path: self.directory.clone() })
        } else {
            Ok(state)
        }
    }
}

impl State {
    pub(crate) fn new(
        frames: FrameWriter,
        streams: HashMap<StreamId, StreamEnd>,
        metadata: Metadata,
        held: Option<File>,
    ) -> Self {
        Self { frames, streams, metadata, events_finished: false, is_cut: false, held }
    }

    fn complete_outcome(&self, outcome: &Outcome) -> Outcome {
        let mut outcome = outcome.clone();
        let sum = |of: fn(&StreamEnd) -> u64| self.streams.values().map(of).sum();
        let own = [
            ("streams", self.streams.len() as u64),
            ("chunks", sum(|end| u64::from(end.chunks))),
            ("events", sum(|end| end.events)),
            ("stream_bytes", sum(|end| end.bytes)),
            ("file_bytes", self.frames.end()),
        ];
        outcome.counters.extend(own.map(|(name, value)| (name.to_owned(), value)));
        outcome
    }
}

/// Locks even after a panic of another thread: the guarded data change only in whole steps.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns a number that no other recording is likely to have.
pub(crate) fn new_recording_number() -> u64 {
    use std::hash::{BuildHasher, RandomState};
    // The standard library seeds this with random numbers from the system. Two are used, because
    // the seeds within a thread are related.
    let time = std::time::SystemTime::now();
    RandomState::new().hash_one((std::process::id(), time))
}

/// Creates a directory that only its owner may enter.
pub(crate) fn make_directory(path: &Path) -> Result<()> {
    DirBuilder::new().mode(0o700).create(path).map_err(|error| match error.kind() {
        std::io::ErrorKind::AlreadyExists => Error::AlreadyExists { path: path.to_path_buf() },
        _ => Error::io("create directory", path, error),
    })
}

/// Creates a new file that only its owner may read and write.
pub(crate) fn create_private(path: &Path) -> Result<File> {
    let options = OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(path);
    options.map_err(|error| match error.kind() {
        std::io::ErrorKind::AlreadyExists => Error::AlreadyExists { path: path.to_path_buf() },
        _ => Error::io("create", path, error),
    })
}

/// Returns the text of the metadata. Errors name the recording `path`.
pub(crate) fn metadata_text(metadata: &Metadata, path: &Path) -> Result<Vec<u8>> {
    metadata.to_json().map_err(|reason| Error::BadMetadata { path: path.to_path_buf(), reason })
}

/// Replaces `recording.json` in one step.
pub(crate) fn write_metadata(directory: &Path, text: &[u8]) -> Result<()> {
    let new = directory.join(NEW_METADATA_NAME);
    let fail = |error| Error::io("write", &new, error);
    let mut file = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(&new)
        .map_err(fail)?;
    file.write_all(text).map_err(fail)?;
    let target = directory.join(METADATA_NAME);
    fs::rename(&new, &target).map_err(|error| Error::io("replace", &target, error))
}

/// Removes files that a recording in progress no longer refers to. Missing files are not an error.
fn remove_files(paths: impl Iterator<Item = PathBuf>) -> Result<()> {
    for path in paths {
        match fs::remove_file(&path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(Error::io("remove", &path, error));
            }
            _ => {}
        }
    }
    Ok(())
}

#[cfg(test)]
#[path = "writer_tests.rs"]
mod tests;
