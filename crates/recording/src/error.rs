//! What can go wrong with a recording or the store, each with the place it went wrong at.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use retake_model::event::EventError;

use crate::ContentId;
use crate::stream_info::StreamId;

/// The result of every fallible function of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// Where a frame lies: what an error or a warning about damage points at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FramePlace {
    /// Byte offset of the frame's header in the file.
    pub file_offset: u64,
    /// The stream it belongs to, where that is known.
    pub stream: Option<StreamId>,
    /// Its number within the stream, where that is known.
    pub sequence: Option<u32>,
}

impl FramePlace {
    /// A place of which nothing but the offset is known.
    pub(crate) fn at(file_offset: u64) -> Self {
        Self { file_offset, stream: None, sequence: None }
    }
}

impl fmt::Display for FramePlace {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.stream, self.sequence) {
            (Some(stream), Some(sequence)) => write!(
                formatter,
                "chunk {sequence} of stream {stream} (file offset {:#x})",
                self.file_offset
            ),
            (Some(stream), None) => {
                write!(formatter, "stream {stream} (file offset {:#x})", self.file_offset)
            }
            _ => write!(formatter, "frame at file offset {:#x}", self.file_offset),
        }
    }
}

/// Every error of this crate.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The operating system refused something.
    #[error("cannot {action} {}: {source}", path.display())]
    Io {
        /// A verb phrase: "open", "write to".
        action: &'static str,
        /// The file it was about.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },

    /// A file is as large as the process, or the file system, allows files to be. Waiting does not
    /// help.
    #[error("{} is as large as files may be ({source}; see ulimit -f, and the limits of its file \
    system); what was recorded so far is intact", path.display())]
    FileLimit {
        /// The file that could not grow.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },

    /// No room (disk full or quota). Nothing of what failed was kept, so the same call can be made
    /// again once there is room.
    #[error("no space left to write to {} ({source}); what was recorded so far is intact",
        path.display())]
    NoSpace {
        /// The file that could not grow.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },

    /// This is not a recording.
    #[error("{} is not a recording: {reason}", path.display())]
    NotARecording {
        /// What was to be opened.
        path: PathBuf,
        /// Why it is not one.
        reason: String,
    },

    /// A recording of a format this version does not read.
    #[error(
        "{} has recording format {found}, this version of retake reads format {supported}; \
         replay it with the version that made it, or record again", path.display()
    )]
    UnsupportedVersion {
        /// The recording.
        path: PathBuf,
        /// The format version it states.
        found: u16,
        /// The only one read here.
        supported: u16,
    },

    /// A frame is damaged: its checksum, or something it says, is wrong.
    #[error("{}: {place} is damaged: {reason}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// Which frame.
        place: FramePlace,
        /// What is wrong with it.
        reason: String,
    },

    /// A kept checkpoint is damaged, or of something else.
    #[error("the checkpoint {} cannot be used: {reason}", path.display())]
    BadCheckpoint {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },

    /// The metadata cannot be understood.
    #[error("the metadata of {} is damaged: {reason}", path.display())]
    BadMetadata {
        /// The file it was read from.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },

    /// A chunk larger than the format allows.
    #[error("a chunk of {bytes} bytes is larger than the {limit} bytes a chunk may have")]
    ChunkTooLarge {
        /// Its size.
        bytes: usize,
        /// The largest allowed.
        limit: usize,
    },

    /// The event counts given with a chunk contradict its size.
    #[error(
        "a chunk of {bytes} bytes cannot have {count} events of which the first is at {first:?}"
    )]
    BadChunkEvents {
        /// Size of the chunk.
        bytes: usize,
        /// Claimed offset of the first event.
        first: Option<u32>,
        /// Claimed number of events.
        count: u32,
    },

    /// An event that is none.
    #[error("event {index} of stream {stream} is malformed: {error}")]
    Malformed {
        /// The stream it is in.
        stream: StreamId,
        /// Its number there.
        index: u64,
        /// What is wrong with it.
        error: EventError,
    },

    /// A stream that was never declared, or does not exist.
    #[error("there is no stream {stream} in {}", path.display())]
    UnknownStream {
        /// The recording.
        path: PathBuf,
        /// The stream asked for.
        stream: StreamId,
    },

    /// A stream declared twice.
    #[error("stream {stream} of {} exists already", path.display())]
    DuplicateStream {
        /// The recording.
        path: PathBuf,
        /// The stream.
        stream: StreamId,
    },

    /// A chunk number past the end of a stream.
    #[error("stream {stream} has {count} chunks, there is no number {index}")]
    NoSuchChunk {
        /// The stream.
        stream: StreamId,
        /// The number asked for.
        index: usize,
        /// How many there are.
        count: usize,
    },

    /// Something was appended after events that could not be written.
    #[error("nothing can be added to the recording {}: what came before could not be written",
        path.display())]
    Cut {
        /// The recording.
        path: PathBuf,
    },

    /// Something was appended to a recording after `finish`.
    #[error("the recording {} is finished, nothing can be added", path.display())]
    Finished {
        /// The recording.
        path: PathBuf,
    },

    /// A content the recording or the store does not have.
    #[error("{} has no file with content {id}", path.display())]
    NoContent {
        /// The recording or the store.
        path: PathBuf,
        /// The content asked for.
        id: ContentId,
    },

    /// Stored bytes are not what their name says.
    #[error("the file {} should have content {id}: {reason}", path.display())]
    BadContent {
        /// The file.
        path: PathBuf,
        /// What it is called.
        id: ContentId,
        /// What is wrong.
        reason: String,
    },

    /// A file kept changing while it was copied.
    #[error("a file (device {device}, inode {inode}) kept changing while it was copied")]
    FileChanging {
        /// Its device number.
        device: u64,
        /// Its inode number.
        inode: u64,
    },

    /// A name that could lead out of its folder, or that means something else.
    #[error("{name:?} cannot be used as a name: {reason}")]
    BadName {
        /// The name.
        name: String,
        /// What is wrong with it.
        reason: &'static str,
    },

    /// The target of a creating operation exists.
    #[error("{} exists already", path.display())]
    AlreadyExists {
        /// The target.
        path: PathBuf,
    },

    /// A removal of something that holds files which are not part of a recording.
    #[error("{} is not removed: it holds {entry:?}, which is not part of a recording",
        path.display())]
    ForeignEntry {
        /// The directory.
        path: PathBuf,
        /// The entry that does not belong there.
        entry: String,
    },

    /// Somebody is writing this recording now.
    #[error("{} is being recorded at the moment", path.display())]
    BeingRecorded {
        /// The recording.
        path: PathBuf,
    },

    /// The store is in use, so nothing can be removed from it.
    #[error("the store {} is in use; try again when no recording is running", path.display())]
    StoreBusy {
        /// The store.
        path: PathBuf,
    },

    /// Neither RETAKE_DIR, XDG_DATA_HOME nor HOME says where recordings are kept.
    #[error(
        "nothing says where recordings are kept: set RETAKE_DIR, XDG_DATA_HOME or HOME to an \
        absolute path"
    )]
    NoLocation,
}

impl Error {
    /// Wraps what the system said, telling a lack of space from everything else.
    pub(crate) fn io(action: &'static str, path: &Path, source: io::Error) -> Self {
        let path = path.to_path_buf();
        match source.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                Self::NoSpace { path, source }
            }
            io::ErrorKind::FileTooLarge => Self::FileLimit { path, source },
            _ => Self::Io { action, path, source },
        }
    }

    /// True if the operation may succeed once space has been made.
    pub fn is_no_space(&self) -> bool {
        matches!(self, Self::NoSpace { .. })
    }
}

impl From<Error> for io::Error {
    fn from(error: Error) -> Self {
        let kind = match &error {
            Error::Io { source, .. }
            | Error::NoSpace { source, .. }
            | Error::FileLimit { source, .. } => source.kind(),
            Error::Damaged { .. }
            | Error::BadContent { .. }
            | Error::BadMetadata { .. }
            | Error::BadCheckpoint { .. } => io::ErrorKind::InvalidData,
            _ => io::ErrorKind::Other,
        };
        Self::new(kind, error)
    }
}
