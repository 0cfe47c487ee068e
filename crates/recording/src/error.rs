//! The errors of recordings and the store. Each says where it happened.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use retake_model::event::EventError;

use crate::ContentId;
use crate::stream_info::StreamId;

/// The result of every fallible function of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// The place of a frame, for errors and warnings about damage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FramePlace {
    /// Byte offset of the frame's header in the file.
    pub file_offset: u64,
    /// The stream of the frame, if known.
    pub stream: Option<StreamId>,
    /// The number of the frame within the stream, if known.
    pub sequence: Option<u32>,
}

impl FramePlace {
    /// A place of which only the offset is known.
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
        /// The file concerned.
        path: PathBuf,
        /// The error from the operating system.
        source: io::Error,
    },

    /// A file has reached the size limit of the process or of the file system. Waiting does not
    /// help.
    #[error("{} has reached the largest size of files ({source}; see ulimit -f, and the limits of \
    its file system); what was recorded so far is intact", path.display())]
    FileLimit {
        /// The file that could not grow.
        path: PathBuf,
        /// The error from the operating system.
        source: io::Error,
    },

    /// The disk or a quota is full. Nothing of the failed call was kept, so the call can be
    /// repeated once there is room.
    #[error("no space left to write to {} ({source}); what was recorded so far is intact",
        path.display())]
    NoSpace {
        /// The file that could not grow.
        path: PathBuf,
        /// The error from the operating system.
        source: io::Error,
    },

    /// The file or directory is not a recording.
    #[error("{} is not a recording: {reason}", path.display())]
    NotARecording {
        /// The path that was to be opened.
        path: PathBuf,
        /// The reason.
        reason: String,
    },

    /// The recording has a format version that this build cannot read.
    #[error(
        "{} has recording format {found}, this version of retake reads format {supported}; \
         replay it with the version that made it, or record again", path.display()
    )]
    UnsupportedVersion {
        /// The recording.
        path: PathBuf,
        /// The recording's format version.
        found: u16,
        /// The only version that this build reads.
        supported: u16,
    },

    /// A frame is damaged: its checksum or one of its fields is wrong.
    #[error("{}: {place} is damaged: {reason}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// Which frame.
        place: FramePlace,
        /// What is wrong with it.
        reason: String,
    },

    /// The bytes of a chunk are left out, because `--keep-last` dropped them.
    #[error("{}: {place} is not kept (record --keep-last); replay can begin at an image, see \
        retake checkpoint --list", path.display())]
    LeftOut {
        /// The file.
        path: PathBuf,
        /// Which chunk.
        place: FramePlace,
    },

    /// A kept checkpoint is damaged, or belongs to something else.
    #[error("the checkpoint {} cannot be used: {reason}", path.display())]
    BadCheckpoint {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },

    /// The metadata are damaged.
    #[error("the metadata of {} is damaged: {reason}", path.display())]
    BadMetadata {
        /// The file with the metadata.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },

    /// A chunk is larger than the format allows.
    #[error("a chunk of {bytes} bytes is larger than the {limit} bytes a chunk may have")]
    ChunkTooLarge {
        /// The size of the chunk.
        bytes: usize,
        /// The largest allowed size.
        limit: usize,
    },

    /// The events given with a chunk do not fit its size.
    #[error(
        "a chunk of {bytes} bytes cannot have {count} events of which the first is at {first:?}"
    )]
    BadChunkEvents {
        /// The size of the chunk.
        bytes: usize,
        /// The claimed offset of the first event.
        first: Option<u32>,
        /// The claimed number of events.
        count: u32,
    },

    /// An event is malformed.
    #[error("event {index} of stream {stream} is malformed: {error}")]
    Malformed {
        /// The stream of the event.
        stream: StreamId,
        /// The number of the event in the stream.
        index: u64,
        /// What is wrong with it.
        error: EventError,
    },

    /// The stream was never declared, or does not exist.
    #[error("there is no stream {stream} in {}", path.display())]
    UnknownStream {
        /// The recording.
        path: PathBuf,
        /// The stream asked for.
        stream: StreamId,
    },

    /// The stream is declared already.
    #[error("stream {stream} of {} exists already", path.display())]
    DuplicateStream {
        /// The recording.
        path: PathBuf,
        /// The stream.
        stream: StreamId,
    },

    /// The stream has no chunk of this number.
    #[error("stream {stream} has {count} chunks, there is no number {index}")]
    NoSuchChunk {
        /// The stream.
        stream: StreamId,
        /// The number of the chunk.
        index: usize,
        /// The number of chunks in the stream.
        count: usize,
    },

    /// An earlier write failed and lost events, so nothing can be appended any more.
    #[error("nothing can be added to the recording {}: what came before could not be written",
        path.display())]
    Cut {
        /// The recording.
        path: PathBuf,
    },

    /// The recording is finished, so nothing can be appended.
    #[error("the recording {} is finished, nothing can be added", path.display())]
    Finished {
        /// The recording.
        path: PathBuf,
    },

    /// The recording or the store does not have this content.
    #[error("{} has no file with content {id}", path.display())]
    NoContent {
        /// The recording or the store.
        path: PathBuf,
        /// The content asked for.
        id: ContentId,
    },

    /// The stored bytes do not match their name.
    #[error("the file {} should have content {id}: {reason}", path.display())]
    BadContent {
        /// The file.
        path: PathBuf,
        /// The content that its name promises.
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

    /// The name could lead out of its folder, or has another meaning.
    #[error("{name:?} cannot be used as a name: {reason}")]
    BadName {
        /// The name.
        name: String,
        /// What is wrong with it.
        reason: &'static str,
    },

    /// The target exists already.
    #[error("{} exists already", path.display())]
    AlreadyExists {
        /// The target.
        path: PathBuf,
    },

    /// The directory holds files that are not part of a recording, so it is not removed.
    #[error("{} is not removed: it holds {entry:?}, which is not part of a recording",
        path.display())]
    ForeignEntry {
        /// The directory.
        path: PathBuf,
        /// The entry that does not belong there.
        entry: String,
    },

    /// A recorder is writing this recording.
    #[error("{} is being recorded at the moment", path.display())]
    BeingRecorded {
        /// The recording.
        path: PathBuf,
    },

    /// The store is in use, so nothing can be collected.
    #[error("the store {} is in use; try again when no recording is running", path.display())]
    StoreBusy {
        /// The store.
        path: PathBuf,
    },

    /// None of RETAKE_DIR, XDG_DATA_HOME and HOME says where recordings are kept.
    #[error(
        "nothing says where recordings are kept: set RETAKE_DIR, XDG_DATA_HOME or HOME to an \
        absolute path"
    )]
    NoLocation,
}

impl Error {
    /// Wraps an error of the operating system. Distinguishes a full disk from other errors.
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

    /// Whether the operation may succeed once there is room.
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
